// Jobs that wait, with the words of `cotenant why`.

import { byId, make, say, set } from "./dom.js";
import { age, count, tint } from "./words.js";

const STEP = 50;

export class Queue {
  #jobs = new Map();
  #views = new Map();
  #limit = STEP;
  #filter;
  #open;
  #changed = false;

  constructor(filter, open) {
    this.#filter = filter;
    this.#open = open;
    byId("queue-more").addEventListener("click", () => {
      this.#limit += STEP;
      this.refresh();
    });
    setInterval(() => {
      for (const view of this.#views.values()) view.tick();
    }, 1000);
  }

  update(key, job) {
    this.#jobs.set(key, job);
    this.#changed = true;
  }

  remove(key) {
    this.#jobs.delete(key);
    this.#changed = true;
  }

  namespaces() {
    return [...this.#jobs.values()].map((job) => job.namespace);
  }

  /** After drawing. */
  settle() {
    if (this.#changed) this.refresh();
  }

  refresh() {
    this.#changed = false;
    const shown = [...this.#jobs].filter(([, job]) => this.#filter.matchesJob(job)).sort(([, one], [, other]) => before(one, other));
    const place = byId("queue");
    const left = new Set(this.#views.keys());
    let last = null;
    for (const [key, job] of shown.slice(0, this.#limit)) {
      left.delete(key);
      let view = this.#views.get(key);
      if (view === undefined) {
        view = new Waiting(job, this.#open);
        this.#views.set(key, view);
      }
      view.update(job);
      const next = last === null ? place.firstChild : last.nextSibling;
      if (next !== view.root) place.insertBefore(view.root, next);
      last = view.root;
    }
    for (const key of left) {
      this.#views.get(key).root.remove();
      this.#views.delete(key);
    }
    say(byId("queue-title"), shown.length > 0 ? `Queue (${shown.length})` : "Queue");
    const none = byId("no-queue");
    none.hidden = shown.length > 0;
    say(none, this.#jobs.size > 0 ? "No waiting job matches." : "Nothing waits.");
    const more = byId("queue-more");
    more.hidden = shown.length <= this.#limit;
    say(more, `Show more (${shown.length - this.#limit})`);
  }
}

class Waiting {
  #since = "";

  constructor(job, open) {
    this.position = make("span", { class: "position" });
    this.name = make("button", { type: "button", class: "job", "data-tint": tint(job.namespace) }, `${job.namespace}/${job.name}`);
    this.asked = make("span", { class: "asked" });
    this.reason = make("strong");
    this.message = make("span");
    this.root = make("li", {}, this.position, make("div", {},
      make("p", { class: "waits" }, this.name, this.asked),
      make("p", { class: "why" }, this.reason, " ", this.message)));
    this.name.addEventListener("click", () => open(job.namespace, job.name, this.name));
  }

  update(job) {
    this.#since = job.since;
    say(this.position, job.position === null ? "·" : String(job.position));
    set(this.position, "title", job.position === null ? "has no place in the queue yet" : `place ${job.position} in the queue`);
    this.share = job.share === null ? "" : `${job.share} %${job.pods > 1 ? ` × ${count(job.pods, "pod")}` : ""}`;
    say(this.reason, job.reason || "Nothing said yet");
    say(this.message, job.message);
    this.tick();
  }

  tick() {
    say(this.asked, [this.share, age(this.#since)].filter((word) => word !== "").join(" · "));
  }
}

/** By place in the queue; who has none is behind, the oldest first. */
function before(one, other) {
  const places = (one.position ?? Infinity) - (other.position ?? Infinity);
  if (places !== 0 && !Number.isNaN(places)) return places;
  return one.since < other.since ? -1 : Number(one.since > other.since);
}
