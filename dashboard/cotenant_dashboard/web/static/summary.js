// The cluster in figures, what is wrong with it, and the other cards.

import { byId, make, say } from "./dom.js";
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

