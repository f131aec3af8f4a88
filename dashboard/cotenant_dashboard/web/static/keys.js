// One stop of the Tab key for all jobs on GPUs; arrow keys move between them.

import { byId } from "./dom.js";

const JOB = "button.tenant";

export class Keys {
  #place = byId("nodes");
  #stop = null;

  constructor() {
    this.#place.addEventListener("keydown", (event) => this.#move(event));
    this.#place.addEventListener("focusin", (event) => {
      if (event.target.matches(JOB)) this.#let(event.target);
    });
    addEventListener("keydown", (event) => {
      const typing = event.target.matches?.("input, select, textarea");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      byId("words").focus();
    });
  }

  /** After drawing: the stop may be gone, or hidden. */
  settle() {
    if (this.#stop?.isConnected && this.#stop.closest("[hidden]") === null) return;
    const first = this.#place.querySelector(`.node:not([hidden]) tr:not([hidden]) ${JOB}`);
    if (first === null) this.#stop = null;
    else this.#let(first);
  }

  #let(button) {
    this.#stop?.setAttribute("tabindex", "-1");
    this.#stop = button;
    button.setAttribute("tabindex", "0");
  }

  #move(event) {
    const here = event.target;
    if (!here.matches(JOB) || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = this.#target(event.key, here);
    if (next === undefined) return;
    event.preventDefault();
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  /** Where a key leads: null is nowhere, undefined is not our key. */
  #target(key, here) {
    const row = here.closest("tr");
    if (key === "ArrowLeft") return here.previousElementSibling;
    if (key === "ArrowRight") return here.nextElementSibling;
    if (key === "Home") return row.querySelector(JOB);
    if (key === "End") return here.parentElement.lastElementChild;
    if (key !== "ArrowDown" && key !== "ArrowUp") return undefined;
    const rows = [...this.#place.querySelectorAll(`.node:not([hidden]) tr:not([hidden]):has(${JOB})`)];
    const next = rows[rows.indexOf(row) + (key === "ArrowDown" ? 1 : -1)];
    if (next === undefined) return null;
    const column = [...here.parentElement.children].indexOf(here);
    const jobs = next.querySelectorAll(JOB);
    return jobs[Math.min(column, jobs.length - 1)];
  }
}
