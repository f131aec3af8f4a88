// What is shown: by words, by namespace, by node.

import { byId, make, order, say } from "./dom.js";
import { count } from "./words.js";

const PAUSE = 120;

export class Filter {
  #words = [];
  #namespace = "";
  #node = "";
  #inputs = { words: byId("words"), namespace: byId("namespace"), node: byId("node") };

  /** `changed`: called when something else is asked for. */
  constructor(changed) {
    let timer = null;
    const read = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        this.#words = this.#inputs.words.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
        this.#namespace = this.#inputs.namespace.value;
        this.#node = this.#inputs.node.value;
        changed();
      }, PAUSE);
    };
    const form = byId("filters");
    form.addEventListener("input", read);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  get on() {
    return this.#words.length > 0 || this.#namespace !== "" || this.#node !== "";
  }

  /** Whether a GPU is shown: each word is in the name of its node, or of one job on it. */
  matches(node, gpu) {
    if (!this.on) return true;
    if (this.#node !== "" && this.#node !== node) return false;
    if (this.#namespace !== "" && !gpu.tenants.some((tenant) => tenant.namespace === this.#namespace)) return false;
    const names = [node, ...gpu.tenants.map((tenant) => `${tenant.namespace}/${tenant.dljob ?? tenant.pod} ${tenant.pod}`)];
    return this.#words.every((word) => names.some((name) => name.toLowerCase().includes(word)));
  }

  /** Whether a node without GPUs is shown. */
  matchesNode(node) {
    if (this.#namespace !== "" || (this.#node !== "" && this.#node !== node)) return false;
    return this.#words.every((word) => node.toLowerCase().includes(word));
  }

  /** Whether a waiting job is shown; it has no node. */
  matchesJob(job) {
    if (this.#namespace !== "" && this.#namespace !== job.namespace) return false;
    const name = `${job.namespace}/${job.name}`.toLowerCase();
    return this.#words.every((word) => name.includes(word));
  }

  /** Let these be there to choose from. */
  offer(which, names) {
    const select = this.#inputs[which];
    const wanted = [...names].sort(order);
    const there = [...select.options].slice(1).map((option) => option.value);
    if (wanted.length === there.length && wanted.every((name, place) => name === there[place])) return;
    const chosen = select.value;
    if (chosen !== "" && !wanted.includes(chosen)) wanted.unshift(chosen);
    select.replaceChildren(select.options[0], ...wanted.map((name) => make("option", { value: name }, name)));
    select.value = chosen;
  }

  /** Tell how many match. */
  tell({ shown, all }) {
    say(byId("found"), this.on ? `${shown} of ${count(all, "GPU")}` : "");
  }
}
