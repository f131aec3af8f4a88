// One job, explained in the words of `cotenant why`, as long as it is open.

import { byId, make, say } from "./dom.js";
import { NONE, most, tint, whole } from "./words.js";

const PAUSE = 1000;
const WIDE = matchMedia("(min-width: 60rem)");

export class Detail {
  #dialog = byId("detail");
  #job = null;
  #from = null;
  #asked = 0;
  #waiting = false;
  #known = "";
  #headers;

  /** `headers()`: of whoever signed in. */
  constructor(headers) {
    this.#headers = headers;
    byId("detail-close").addEventListener("click", () => this.close());
    this.#dialog.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.preventDefault();
        this.close();
      }
    });
    this.#dialog.addEventListener("close", () => this.#closed());
    addEventListener("hashchange", () => this.fromAddress());
  }

  /** Show a job; `from` has the focus again when it is closed. */
  open(namespace, name, from) {
    this.#from = from ?? this.#from;
    const address = `#job=${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
    if (location.hash !== address) history.replaceState(null, "", address);
    this.#job = { namespace, name };
    this.#known = "";
    say(byId("detail-title"), `${namespace}/${name}`);
    byId("detail-title").dataset.tint = tint(namespace);
    byId("detail-body").replaceChildren(make("p", { class: "empty" }, "Asking"));
    if (!this.#dialog.open) {
      // Beside the page where there is room for it, else over it.
      if (WIDE.matches) this.#dialog.show();
      else this.#dialog.showModal();
    }
    byId("detail-title").focus();
    this.#ask();
  }

  /** The job that the address names. */
  fromAddress() {
    const found = /^#job=([^/]+)\/([^/]+)$/.exec(location.hash);
    const [namespace, name] = (found ?? []).slice(1).map(decoded);
    if (namespace && name) this.open(namespace, name, null);
  }

  close() {
    this.#dialog.close();
    // Its event comes later: by then the focus may be elsewhere, and must stay there.
    this.#closed();
  }

  #closed() {
    if (this.#job === null || this.#dialog.open) return;
    this.#job = null;
    history.replaceState(null, "", location.pathname + location.search);
    const back = this.#from?.isConnected ? this.#from : byId("gpus");
    this.#from = null;
    back.focus();
  }

  /** Something has changed in the cluster. */
  refresh() {
    if (this.#job === null || this.#waiting) return;
    this.#waiting = true;
    setTimeout(() => {
      this.#waiting = false;
      if (this.#job !== null) this.#ask();
    }, PAUSE);
  }

  async #ask() {
    const { namespace, name } = this.#job;
    const asked = ++this.#asked;
    let found;
    try {
      const answer = await fetch(`api/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, { headers: this.#headers(), cache: "no-store" });
      found = await answer.json();
    } catch {
      return; // the line says so, and it is asked again with the next news
    }
    if (asked !== this.#asked || this.#job === null) return;
    const { taken: _taken, ...said } = found;
    const text = JSON.stringify(said);
    if (text === this.#known) return;
    this.#known = text;
    byId("detail-body").replaceChildren(...("problem" in found ? [make("p", { class: "problem" }, found.problem)] : shown(found)));
  }
}

/** What a part of an address says; null: it is cut short, or was never one. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function shown(found) {
  const facts = found.facts.map(({ title, words, tone }) => [make("dt", {}, title), make("dd", { "data-tone": tone }, words)]);
  const command = `cotenant why ${found.namespace}/${found.name}`;
  return [
    make("dl", { class: "facts" }, ...facts.flat()),
    ...pods(found.replicas),
    ...expected(found.expected),
    ...table("Conditions", ["Condition", "Status", "Reason", "Message"],
      found.conditions.map((one) => [one.type, one.status, one.reason, one.message])),
    ...(found.notes.length === 0 ? [] : [make("h3", {}, "Notes"), make("ul", {}, ...found.notes.map((note) => make("li", {}, note)))]),
    make("p", { class: "hint" }, "In a terminal: ", make("code", {}, command)),
  ];
}

function pods(replicas) {
  const rows = replicas.flatMap((one) => {
    const first = [one.pod, one.reason, one.node ?? NONE];
    if (one.gpus.length === 0) return [[...first, NONE, NONE, NONE, NONE]];
    return one.gpus.map((part) => [...first, part.index === null ? NONE : String(part.index), String(part.share), String(part.activeThreadPercentage),
      part.neighbours.map((other) => `${other.namespace}/${other.pod} (${other.share ?? "?"})`).join(", ") || "nobody"]);
  });
  return table("Pods", ["Pod", "Reason", "Node", "GPU", "Booked %", "SM %", "Beside"], rows, [3, 4, 5]);
}

function expected(rows) {
  return table("Predicted by GPU model", ["GPU model", "Predicted %", "At most %", "MiB", "Bound by", "Source"], rows.map((one) => [
    one.gpuModel, whole(one.utilizationPercent), most(one.upperPercent), whole(one.memoryMiB), one.regime,
    one.outOfDomain ? `${one.source}, outside of what the model knows well` : one.source]), [1, 2, 3]);
}

function table(title, titles, rows, figures = []) {
  if (rows.length === 0) return [];
  const kind = (place) => (figures.includes(place) ? "figure" : null);
  const head = make("thead", {}, make("tr", {}, ...titles.map((words, place) => make("th", { scope: "col", class: kind(place) }, words))));
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((words, place) =>
    (place === 0 ? make("th", { scope: "row" }, words) : make("td", { class: kind(place) }, words))))));
  return [make("h3", {}, title), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, make("table", { class: "plain" }, head, body))];
}
