// Nodes, their GPUs as bars of jobs: booked is the width, predicted is filled, observed is a line below.

import { byId, make, order, say, set, style, unseen } from "./dom.js";
import { most, tint, whole } from "./words.js";

const FULL = 100;

/** All nodes. `filter` says what matches; `open(namespace, job)` explains a job. */
export class GPUs {
  #views = new Map();
  #names = [];
  #place = byId("nodes");
  #filter;
  #open;
  /** Goes up when there are other nodes. */
  version = 0;

  constructor(filter, open) {
    this.#filter = filter;
    this.#open = open;
  }

  update(key, part) {
    let view = this.#views.get(key);
    if (view === undefined) {
      view = new NodeView(part.name, this.#open);
      this.#views.set(key, view);
      this.#insert(part.name, view);
    }
    view.update(part, this.#filter);
  }

  remove(key) {
    const view = this.#views.get(key);
    if (view === undefined) return;
    this.#views.delete(key);
    this.#names.splice(this.#names.indexOf(view), 1);
    this.version += 1;
    view.root.remove();
  }

  /** Matching GPUs, of how many. */
  counts() {
    let shown = 0;
    let all = 0;
    for (const view of this.#views.values()) {
      shown += view.shown;
      all += view.size;
    }
    return { shown, all };
  }

  names() {
    return this.#names.map((view) => view.name);
  }

  #insert(name, view) {
    let low = 0;
    let high = this.#names.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (order(this.#names[middle].name, name) < 0) low = middle + 1;
      else high = middle;
    }
    this.#place.insertBefore(view.root, this.#names[low]?.root ?? null);
    this.#names.splice(low, 0, view);
    this.version += 1;
  }
}

class NodeView {
  shown = 0;
  size = 0;
  #rows = new Map();
  #open;

  constructor(name, open) {
    this.name = name;
    this.#open = open;
    this.heading = make("h3", {}, name);
    this.about = make("p", { class: "about" });
    this.body = make("tbody");
    const head = make("thead", {}, make("tr", {},
      make("th", { scope: "col", class: "index" }, unseen("GPU")),
      make("th", { scope: "col" }, unseen("Jobs")),
      make("th", { scope: "col", class: "figure", title: "hundredths of the GPU that are booked" }, "booked"),
      make("th", { scope: "col", class: "figure", title: "sum of the predicted utilizations" }, "pred."),
      make("th", { scope: "col", class: "figure", title: "utilization of the whole GPU, as its node agent saw it" }, "obs."),
    ));
    this.problem = make("p", { class: "problem", hidden: "" });
    const top = make("div", { class: "node-top" }, this.heading, this.about);
    const table = make("table", { class: "bars", "aria-label": `GPUs of ${name}` }, head, this.body);
    this.root = make("section", { class: "node" }, top, this.problem, table);
  }

  update(part, filter) {
    const models = [...new Set(part.gpus.map((gpu) => gpu.model))].join(", ");
    say(this.about, part.simulated ? `${models} · simulated` : models);
    const problem = part.ready ? "" : `Not ready: ${part.reason}`;
    say(this.problem, problem);
    this.problem.hidden = problem === "";
    set(this.root, "data-ready", String(part.ready));
    const left = new Set(this.#rows.keys());
    this.shown = 0;
    this.size = part.gpus.length;
    for (const gpu of part.gpus) {
      left.delete(gpu.uuid);
      let row = this.#rows.get(gpu.uuid);
      if (row === undefined) {
        row = new GPURow(this.#open);
        this.#rows.set(gpu.uuid, row);
        this.body.append(row.root);
      }
      row.update(gpu);
      const matches = filter.matches(part.name, gpu);
      row.root.hidden = !matches;
      this.shown += Number(matches);
    }
    for (const uuid of left) {
      this.#rows.get(uuid).root.remove();
      this.#rows.delete(uuid);
    }
    const none = this.shown === 0 && (this.size > 0 || !filter.matchesNode(part.name));
    if (this.root.hidden !== none) this.root.hidden = none;
    style(this.root, "--rows", String(Math.max(this.shown, 1)));
  }
}

class GPURow {
  #tenants = new Map();
  #known = "";
  #open;

  constructor(open) {
    this.#open = open;
    this.index = make("th", { scope: "row", class: "index" });
    this.bar = make("div", { class: "bar" });
    this.lane = make("div", { class: "lane" });
    this.state = make("p", { class: "state", hidden: "" });
    this.figures = [0, 1, 2].map(() => make("td", { class: "figure" }));
    const lanes = make("td", {}, this.bar, this.lane, this.state);
    this.root = make("tr", {}, this.index, lanes, ...this.figures);
  }

  update(gpu) {
    const text = JSON.stringify(gpu);
    if (text === this.#known) return;
    this.#known = text;
    say(this.index, String(gpu.index));
    const more = gpu.unknownTenants > 0 ? "+" : "";
    say(this.figures[0], `${gpu.bookedShare}${more}`);
    const expected = `${whole(gpu.predictedPercent)}${gpu.unpredictedTenants > 0 ? "+" : ""}`;
    say(this.figures[1], gpu.tenantCount > 0 ? expected : "0");
    say(this.figures[2], whole(gpu.utilizationPercent));
    style(this.lane, "--seen", `${gpu.utilizationPercent ?? 0}%`);
    const state = stateOf(gpu);
    say(this.state, state);
    this.state.hidden = state === "";
    set(this.root, "data-free", gpu.tenantCount === 0 ? "" : null);
    set(this.root, "data-bad", gpu.health === "Healthy" ? null : "");
    this.#patch(gpu);
  }

  #patch(gpu) {
    const scale = FULL / Math.max(gpu.bookedShare, FULL);
    const left = new Set(this.#tenants.keys());
    let before = null;
    for (const tenant of gpu.tenants) {
      const key = `${tenant.namespace}/${tenant.pod}`;
      left.delete(key);
      let block = this.#tenants.get(key);
      if (block === undefined) {
        block = new Block(tenant, this.#open);
        this.#tenants.set(key, block);
      }
      block.update(tenant, scale);
      const next = before === null ? this.bar.firstChild : before.nextSibling;
      if (next !== block.root) this.bar.insertBefore(block.root, next);
      before = block.root;
    }
    for (const key of left) {
      const { root } = this.#tenants.get(key);
      const focused = root === document.activeElement;
      root.remove();
      this.#tenants.delete(key);
      if (focused) byId("gpus").focus({ preventScroll: true });
    }
  }
}

/** One job on a GPU. */
class Block {
  constructor(tenant, open) {
    const job = tenant.dljob ?? tenant.pod;
    this.root = make("button", { type: "button", class: "tenant", tabindex: "-1", "data-tint": tint(tenant.namespace) }, job);
    this.root.addEventListener("click", () => open(tenant.namespace, job, this.root));
  }

  update(tenant, scale) {
    const { booked, predicted, observed } = tenant;
    const share = booked?.share ?? 0;
    if (booked !== undefined) style(this.root, "--share", `${share * scale}%`);
    set(this.root, "data-unknown", booked === undefined ? "" : null);
    const filled = predicted === undefined || share === 0 ? 0 : Math.min(predicted.utilizationPercent / share, 1);
    style(this.root, "--fill", `${filled * FULL}%`);
    const alone = observed?.aloneUtilizationPercent;
    if (alone !== undefined && share > 0) style(this.root, "--alone", `${Math.min(alone / share, 1) * FULL}%`);
    const words = [
      booked === undefined ? "not booked any more" : `booked ${share} %`,
      predicted === undefined ? "not predicted" : `predicted ${whole(predicted.utilizationPercent)} %, at most ${most(predicted.upperPercent)} %`,
      alone === undefined ? "not observed alone" : `observed alone ${alone} %`,
    ].join("; ");
    const label = `${tenant.namespace}/${tenant.dljob ?? tenant.pod}: ${words}`;
    set(this.root, "aria-label", label);
    set(this.root, "title", tenant.dljob === undefined ? label : `${label} (pod ${tenant.pod})`);
  }
}

function stateOf(gpu) {
  const said = [];
  if (gpu.health !== "Healthy") said.push(gpu.health);
  if (gpu.mode === "MIG" || gpu.mode === "Excluded") said.push(gpu.mode);
  if (gpu.mps === "Fault" || gpu.mps === "Starting") said.push(`MPS ${gpu.mps}`);
  if (gpu.foreignProcesses > 0) said.push(`${gpu.foreignProcesses} foreign processes`);
  if (said.length > 0 && gpu.reason) said.push(gpu.reason);
  return said.join(" · ");
}

/** What the marks mean. */
export function legend() {
  const entries = [["booked", "booked"], ["fill-mark", "predicted"], ["seen-mark", "observed, GPU"], ["tick-mark", "observed, job alone"]];
  return entries.map(([mark, words]) => make("span", {}, make("span", { class: `mark ${mark}`, "aria-hidden": "true" }), words));
}

