// The cluster in figures, what is wrong with it, and the other cards.

import { byId, draw, make, say } from "./dom.js";
import { count, NONE, span, tenths, tint, whole } from "./words.js";

const FULL = 100;
const TITLES = [
  ["gpus", "GPUs"],
  ["jobs", "On GPUs"],
  ["booked", "Booked"],
  ["predicted", "Predicted"],
  ["observed", "Observed"],
  ["error", "Prediction error"],
  ["waiting", "Waiting"],
];

/** One figure of the summary, in its place. */
class Figure {
  #figure = make("span", { class: "big" }, NONE);
  #about = make("span", { class: "about" });

  constructor(key, title) {
    byId("figures").append(make("div", { class: `figure-${key}` }, make("dt", {}, title), make("dd", {}, this.#figure, " ", this.#about)));
  }

  tell(figure, about) {
    say(this.#figure, figure);
    say(this.#about, about);
  }
}

/** Figures of the whole cluster, badges, problems. */
export class Cluster {
  #figures = new Map(TITLES.map(([key, title]) => [key, new Figure(key, title)]));
  #accuracy = null;

  update(key, part) {
    if (key === "accuracy") this.#accuracy = part.summary;
    else this.#show(part);
    this.#figures.get("error").tell(this.#accuracy === null ? NONE : `${tenths(this.#accuracy.medianAbsolutePoints)}`,
      this.#accuracy === null ? "no job measured alone yet" : `points, median of ${count(this.#accuracy.jobs, "job")}`);
  }

  remove() {
    // it is always told
  }

  #show(part) {
    const share = (sum) => (part.gpus > 0 ? `${whole(sum / part.gpus)} %` : NONE);
    this.#figures.get("gpus").tell(whole(part.gpus), `${whole(part.usableGPUs)} usable, ${whole(part.freeGPUs)} free`);
    this.#figures.get("jobs").tell(whole(part.tenants), `pods; ${count(part.sharedGPUs, "GPU")} shared`);
    this.#figures.get("booked").tell(share(part.bookedShare), "of all GPU time");
    this.#figures.get("predicted").tell(share(part.predictedPercent), "sum of medians");
    this.#figures.get("observed").tell(part.observedPercent === null ? NONE : `${whole(part.observedPercent / part.observedGPUs)} %`,
      `mean of ${count(part.observedGPUs, "GPU")}`);
    this.#figures.get("waiting").tell(whole(part.waiting), part.waiting === 1 ? "job" : "jobs");
    this.#badges(part);
    this.#problems(part);
    say(byId("foot"), `Cotenant ${part.release}. This page reads the cluster and changes nothing.`);
    const none = byId("no-gpus");
    none.hidden = part.gpus > 0;
    say(none, part.whole ? "No GPU is told of: no node agent serves one here." : "Reading the cluster");
  }

  #badges(part) {
    const words = part.simulatedNodes === 0 ? "" :
      part.simulatedNodes === part.nodes ? "Simulated GPUs" : `Simulated GPUs on ${count(part.simulatedNodes, "node")}`;
    badge("simulated", words, "These GPUs do not exist: what is observed on them is made up");
  }

  #problems(part) {
    const said = Object.entries(part.sources).filter(([, problem]) => problem !== null)
      .map(([kind, problem]) => (part.whole || problem !== "not read yet" ? `${kind} may be old: ${problem}` : null))
      .filter((words) => words !== null);
    const more = part.moreNotes > 0 ? [`${part.moreNotes} more notes are not shown`] : [];
    list(byId("problems"), [...said, ...part.notes, ...more]);
  }
}

function badge(name, words, title) {
  const place = byId("badges");
  let shown = place.querySelector(`[data-badge="${name}"]`);
  if (words === "") {
    shown?.remove();
    return;
  }
  if (shown === null) {
    shown = make("span", { class: "badge", "data-badge": name, title });
    place.append(shown);
  }
  say(shown, words);
}

function list(place, lines) {
  const text = lines.join("\n");
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  place.replaceChildren(...(lines.length === 0 ? [] : [make("ul", { class: "notice" }, ...lines.map((line) => make("li", {}, line)))]));
}

/** Predicted against observed: a picture, and the same as a table. */
export class Accuracy {
  #known = "";
  #place = byId("accuracy");
  #open;

  constructor(open) {
    this.#open = open;
    this.about = make("p");
    this.picture = make("div");
    this.body = make("tbody");
    const head = make("thead", {}, make("tr", {}, ...["Job", "Predicted", "At most", "Observed", "Error"].map((title, place) =>
      make("th", { scope: "col", class: place > 0 ? "figure" : null }, title))));
    this.table = make("details", {}, make("summary", {}, "As a table"),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Jobs observed alone" }, make("table", { class: "plain" }, head, this.body)));
    this.#place.append(this.about, this.picture, this.table);
  }

  update(_key, part) {
    const text = JSON.stringify(part);
    if (text === this.#known) return;
    this.#known = text;
    const { summary } = part;
    const alone = "NVML tells a job's own use while it has its GPU to itself, and only then";
    say(this.about, summary === null ? `No job has been alone on its GPU for ${part.leastSeconds} s: ${alone}.` :
      `Of ${count(summary.jobs, "job")} observed alone for ${part.leastSeconds} s and more, half were within ` +
      `${tenths(summary.medianAbsolutePoints)} points; ${whole(summary.withinUpper)} kept within the bound that is booked. ` +
      `Mean: ${tenths(Math.abs(summary.meanPoints))} points too ${summary.meanPoints < 0 ? "low" : "high"}.`);
    const none = part.rows.length === 0;
    this.table.hidden = none;
    this.picture.replaceChildren(...(none ? [] : [scatter(part.rows)]));
    this.body.replaceChildren(...part.rows.map((row) => this.#row(row)));
  }

  remove() {
    // it is always told
  }

  #row(row) {
    const name = make("button", { type: "button", class: "job", "data-tint": tint(row.namespace) }, `${row.namespace}/${row.job}`);
    name.addEventListener("click", () => this.#open(row.namespace, row.job, name));
    const error = row.predictedPercent - row.observedPercent;
    const signed = `${error < 0 ? "−" : "+"}${whole(Math.abs(error))}`;
    const figures = [whole(row.predictedPercent), whole(row.upperPercent), whole(row.observedPercent), row.enough ? signed : `${signed} (${row.aloneSeconds} s)`];
    return make("tr", {}, make("th", { scope: "row" }, name), ...figures.map((figure) => make("td", { class: "figure" }, figure)));
  }
}

/** Dots: within the bound. Triangles: above it. On the line: exact. */
function scatter(rows) {
  const across = (percent) => 26 + percent * 1.7;
  const up = (percent) => 178 - percent * 1.7;
  const picture = draw("svg", { viewBox: "0 0 204 208", class: "scatter", role: "img", "aria-label": `Predicted against observed utilization of ${rows.length} jobs; the table below has the figures` });
  for (const percent of [0, 25, 50, 75, FULL]) {
    picture.append(
      draw("line", { x1: across(0), x2: across(FULL), y1: up(percent), y2: up(percent), class: "grid" }),
      draw("line", { x1: across(percent), x2: across(percent), y1: up(0), y2: up(FULL), class: "grid" }),
      draw("text", { x: across(0) - 4, y: up(percent) + 3, "text-anchor": "end" }, String(percent)),
      draw("text", { x: across(percent), y: up(0) + 11, "text-anchor": "middle" }, String(percent)),
    );
  }
  picture.append(
    draw("line", { x1: across(0), y1: up(0), x2: across(FULL), y2: up(FULL), class: "exact" }),
    draw("text", { x: across(50), y: 205, "text-anchor": "middle" }, "predicted %"),
    draw("text", { x: 8, y: up(50), "text-anchor": "middle", transform: `rotate(-90 8 ${up(50)})` }, "observed %"),
  );
  for (const row of rows) picture.append(dot(row, across(Math.min(row.predictedPercent, FULL)), up(row.observedPercent)));
  return picture;
}

function dot(row, x, y) {
  const above = row.observedPercent > row.upperPercent;
  const kind = `dot${row.enough ? "" : " short"}${above ? " above" : ""}`;
  const title = draw("title", {}, `${row.namespace}/${row.job}: predicted ${whole(row.predictedPercent)} %, observed ${row.observedPercent} %`);
  return above ?
    draw("path", { d: `M${x - 4} ${y + 3.5}h8l-4 -7.5z`, class: kind }, title) :
    draw("circle", { cx: String(x), cy: String(y), r: "3.2", class: kind }, title);
}

/** What each namespace has, and had since the dashboard began. */
export class Namespaces {
  names = [];
  #rows = new Map();

  constructor() {
    this.about = make("p");
    this.body = make("tbody");
    const titles = ["Namespace", "Pods", "Booked %", "Allotted", "Used"];
    const head = make("thead", {}, make("tr", {}, ...titles.map((title, place) => make("th", { scope: "col", class: place > 0 ? "figure" : null }, title))));
    this.table = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Share-hours by namespace" }, make("table", { class: "plain" }, head, this.body));
    byId("namespaces").append(this.table, this.about);
  }

  update(_key, part) {
    this.names = part.rows.map((row) => row.namespace);
    this.table.hidden = part.rows.length === 0;
    const since = new Date(part.since).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
    say(this.about, `Allotted and used in share-hours (100 are one GPU for an hour), counted for ${span(part.countedSeconds)} ` +
      `since this dashboard began, ${since}. Used is known where one namespace alone has the GPU; the percentage says of how much.`);
    const left = new Set(this.#rows.keys());
    for (const row of part.rows) {
      left.delete(row.namespace);
      let cells = this.#rows.get(row.namespace);
      if (cells === undefined) {
        cells = Array.from({ length: 4 }, () => make("td", { class: "figure" }));
        const name = make("th", { scope: "row" }, make("span", { class: "swatch", "data-tint": tint(row.namespace), "aria-hidden": "true" }), row.namespace);
        cells.root = make("tr", {}, name, ...cells);
        this.#rows.set(row.namespace, cells);
        this.body.append(cells.root);
      }
      const used = row.usedShareHours === null ? NONE : tenths(row.usedShareHours);
      const known = row.usedShareHours === null || row.knownPercent === FULL ? "" : ` (${row.knownPercent} %)`;
      [whole(row.pods), whole(row.bookedShare), tenths(row.allottedShareHours), `${used}${known}`].forEach((words, place) => say(cells[place], words));
    }
    for (const name of left) {
      this.#rows.get(name).root.remove();
      this.#rows.delete(name);
    }
  }

  remove() {
    // it is always told
  }
}

/** The policy in force. */
export class Policy {
  #known = "";

  update(_key, part) {
    const text = JSON.stringify(part);
    if (text === this.#known) return;
    this.#known = text;
    const place = byId("policy");
    const problem = part.problem === null ? [] : [make("p", { class: "problem" }, part.problem)];
    const spec = part.spec ?? {};
    badge("paused", spec.paused ? "Paused" : "", "PackingPolicy.spec.paused is true: nothing is placed until it is false");
    badge("observe", spec.mode === "Observe" ? "Observe" : "", "The policy predicts and advises, and shares no GPU");
    const lines = part.generation === null ? [] : facts(part);
    place.replaceChildren(...problem, make("dl", { class: "facts" }, ...lines.flatMap(([title, words]) => [make("dt", {}, title), make("dd", {}, words)])));
  }

  remove() {
    // it is always told
  }
}

function facts({ generation, chosen, spec }) {
  const overrides = (spec.overrides ?? []).map(({ gpuModels, ...changed }) => [
    gpuModels.join(", "), Object.entries(changed).map(([name, value]) => `${name}: ${value}`).join(", ")]);
  return [
    ["Placement", `${spec.placement}: ${chosen}`],
    ["Queue", `${spec.queue.order}; GPUs are held for who waits longer than ${span(spec.queue.maxWaitSeconds)}`],
    ["On a GPU", `at most ${count(spec.maxTenantsPerGPU, "pod")}, tenancy ${spec.tenancy}${spec.tenancyLabel ? ` (${spec.tenancyLabel})` : ""}`],
    ["Books", `${spec.metric} up to ${spec.maxUtilizationPercent} %, ${spec.memoryHeadroomPercent} % of memory kept free`],
    ["Threads", spec.threadPartition],
    ["Not predicted", spec.queue.onMissingPrediction],
    ["Memory overuse", spec.memoryOveruse],
    ["Mode", `${spec.mode}${spec.paused ? ", paused" : ""}`],
    ["Generation", String(generation)],
    ...overrides,
  ];
}

