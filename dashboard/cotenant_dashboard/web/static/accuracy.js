// Predicted against observed: a picture, and the same as a table.

import { byId, draw, make, say, set } from "./dom.js";
import { count, most, tenths, tint, whole } from "./words.js";

const FULL = 100;

export class Accuracy {
  #part = null;
  #place = byId("accuracy");
  #open;
  #picture = new Scatter();

  constructor(open) {
    this.#open = open;
    this.about = make("p");
    this.body = make("tbody");
    const head = make("thead", {}, make("tr", {}, ...["Job", "Predicted", "At most", "Observed", "Error"].map((title, place) =>
      make("th", { scope: "col", class: place > 0 ? "figure" : null }, title))));
    this.table = make("details", {}, make("summary", {}, "As a table"),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Jobs observed alone" }, make("table", { class: "plain" }, head, this.body)));
    this.table.addEventListener("toggle", () => this.#list());
    this.#place.append(this.about, this.#picture.root, this.table);
  }

  update(_key, part) {
    this.#part = part;
    const { summary } = part;
    const alone = "NVML tells a job's own use while it has its GPU to itself, and only then";
    say(this.about, summary === null ? `No job has been alone on its GPU for ${part.leastSeconds} s: ${alone}.` :
      `Of ${count(summary.jobs, "job")} observed alone for ${part.leastSeconds} s and more, half were within ` +
      `${tenths(summary.medianAbsolutePoints)} points; ${whole(summary.withinUpper)} kept within the bound that is booked. ` +
      `Mean: ${tenths(Math.abs(summary.meanPoints))} points too ${summary.meanPoints < 0 ? "low" : "high"}.`);
    this.table.hidden = part.rows.length === 0;
    this.#picture.update(part.rows);
    this.#list();
  }

  remove() {
    // it is always told
  }

  /** Rows are made when somebody looks. */
  #list() {
    if (this.table.open && this.#part !== null && !this.body.contains(document.activeElement)) {
      this.body.replaceChildren(...this.#part.rows.map((row) => this.#row(row)));
    }
  }

  #row(row) {
    const name = make("button", { type: "button", class: "job", "data-tint": tint(row.namespace) }, `${row.namespace}/${row.job}`);
    name.addEventListener("click", () => this.#open(row.namespace, row.job, name));
    const error = row.predictedPercent - row.observedPercent;
    const signed = `${error < 0 ? "−" : "+"}${whole(Math.abs(error))}`;
    const figures = [whole(row.predictedPercent), most(row.upperPercent), whole(row.observedPercent), row.enough ? signed : `${signed} (${row.aloneSeconds} s)`];
    return make("tr", {}, make("th", { scope: "row" }, name), ...figures.map((figure) => make("td", { class: "figure" }, figure)));
  }
}

const across = (percent) => 26 + percent * 1.7;
const up = (percent) => 178 - percent * 1.7;

/** Dots: within the bound. Triangles: above it. On the line: exact. */
class Scatter {
  #dots = new Map();

  constructor() {
    this.root = draw("svg", { viewBox: "0 0 204 208", class: "scatter", role: "img" });
    for (const percent of [0, 25, 50, 75, FULL]) {
      this.root.append(
        draw("line", { x1: across(0), x2: across(FULL), y1: up(percent), y2: up(percent), class: "grid" }),
        draw("line", { x1: across(percent), x2: across(percent), y1: up(0), y2: up(FULL), class: "grid" }),
        draw("text", { x: across(0) - 4, y: up(percent) + 3, "text-anchor": "end" }, String(percent)),
        draw("text", { x: across(percent), y: up(0) + 11, "text-anchor": "middle" }, String(percent)),
      );
    }
    this.root.append(
      draw("line", { x1: across(0), y1: up(0), x2: across(FULL), y2: up(FULL), class: "exact" }),
      draw("text", { x: across(50), y: 205, "text-anchor": "middle" }, "predicted %"),
      draw("text", { x: 8, y: up(50), "text-anchor": "middle", transform: `rotate(-90 8 ${up(50)})` }, "observed %"),
    );
  }

  /** Only what is new, gone or elsewhere is touched. */
  update(rows) {
    set(this.root, "aria-label", `Predicted against observed utilization of ${count(rows.length, "job")}; the table below has the figures`);
    set(this.root, "hidden", rows.length === 0 ? "" : null);
    const left = new Set(this.#dots.keys());
    for (const row of rows) {
      const key = `${row.namespace}/${row.job}`;
      left.delete(key);
      const text = `${key}: predicted ${whole(row.predictedPercent)} %, at most ${most(row.upperPercent)} %, observed ${row.observedPercent} %, ${row.enough}`;
      const known = this.#dots.get(key);
      if (known?.text === text) continue;
      known?.dot.remove();
      const dot = mark(row, text);
      this.#dots.set(key, { dot, text });
      this.root.append(dot);
    }
    for (const key of left) {
      this.#dots.get(key).dot.remove();
      this.#dots.delete(key);
    }
  }
}

function mark(row, text) {
  const x = across(Math.min(row.predictedPercent, FULL));
  const y = up(row.observedPercent);
  const above = row.observedPercent > row.upperPercent;
  const kind = `dot${row.enough ? "" : " short"}${above ? " above" : ""}`;
  const title = draw("title", {}, text.slice(0, text.lastIndexOf(",")));
  return above ?
    draw("path", { d: `M${x - 4} ${y + 3.5}h8l-4 -7.5z`, class: kind }, title) :
    draw("circle", { cx: String(x), cy: String(y), r: "3.2", class: kind }, title);
}
