// What is known of the page, and what has to be drawn: a little in each frame, so that nothing holds the browser up.

import { order } from "./dom.js";

const BUDGET = 5; // milliseconds of a frame, for scripts
const SLOW = 20; // milliseconds of a frame with layout and paint: then the next one draws less
const QUICK = 10; // then it draws more
const MOST = 8; // parts in a frame
const FEW = 2; // in the first one, when all is drawn again

/** Parts by key. A view is told of the keys that begin with its prefix: view.update(key, part), view.remove(key). */
export class Store {
  parts = new Map();
  #views = [];
  #dirty = new Set();
  #unseen = null;
  #asked = false;
  #drawn = [];
  #parts = 4;
  #frame = new MessageChannel();
  #began = 0;

  constructor() {
    // A message that is sent while a frame is made comes when it has been laid out and painted.
    this.#frame.port1.onmessage = () => {
      const took = performance.now() - this.#began;
      if (took > SLOW) this.#parts = Math.max(Math.floor(this.#parts / 2), 1);
      else if (took < QUICK) this.#parts = Math.min(this.#parts + 1, MOST);
    };
  }

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
    this.#parts = Math.min(this.#parts, FEW);
    // From the end: what is out of sight costs little, and comes into sight as it should be.
    for (const key of [...this.parts.keys()].sort(order).reverse()) if (key.startsWith(prefix)) this.mark(key);
  }

  #draw() {
    this.#began = performance.now();
    this.#frame.port2.postMessage(null);
    const end = this.#began + BUDGET;
    let left = this.#parts;
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
