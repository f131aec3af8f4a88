// What is known of the page, and what has to be drawn: a little in each frame, so that nothing holds the browser up.

const BUDGET = 5; // milliseconds of a frame, for scripts
const PARTS = 6; // in a frame at most: what they cost the browser to lay out and paint comes after

/** Parts by key. A view is told of the keys that begin with its prefix: view.update(key, part), view.remove(key). */
export class Store {
  parts = new Map();
  #views = [];
  #dirty = new Set();
  #unseen = null;
  #asked = false;
  #drawn = [];

  /** Let a view draw what begins with a prefix. */
  show(prefix, view) {
    this.#views.push([prefix, view]);
  }

  /** Call this when all that was to be drawn is. */
  afterDrawing(call) {
    this.#drawn.push(call);
  }

  /** All is told anew: what is not, when it is whole, is gone. */
  page() {
    this.#unseen = new Set(this.parts.keys());
  }

  change({ set, gone }) {
    for (const [key, part] of Object.entries(set)) {
      this.parts.set(key, part);
      this.#unseen?.delete(key);
      this.mark(key);
    }
    for (const key of gone) this.#forget(key);
  }

  whole() {
    for (const key of this.#unseen ?? []) this.#forget(key);
    this.#unseen = null;
  }

  #forget(key) {
    this.parts.delete(key);
    this.mark(key);
  }

  /** Draw it again. */
  mark(key) {
    this.#dirty.add(key);
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => this.#draw());
  }

  /** Draw all that begins with it again. */
  markAll(prefix) {
    for (const key of this.parts.keys()) if (key.startsWith(prefix)) this.mark(key);
  }

  #draw() {
    const end = performance.now() + BUDGET;
    let left = PARTS;
    for (const key of this.#dirty) {
      this.#dirty.delete(key);
      const part = this.parts.get(key);
      for (const [prefix, view] of this.#views) {
        if (!key.startsWith(prefix)) continue;
        if (part === undefined) view.remove(key);
        else view.update(key, part);
      }
      left -= 1;
      if (left === 0 || performance.now() > end) break;
    }
    this.#asked = this.#dirty.size > 0;
    if (this.#asked) requestAnimationFrame(() => this.#draw());
    else for (const call of this.#drawn) call();
  }
}
