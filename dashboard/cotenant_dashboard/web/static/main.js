// Puts the page together.

import { Accuracy } from "./accuracy.js";
import { Detail } from "./detail.js";
import { byId, say } from "./dom.js";
import { Filter } from "./filters.js";
import { GPUs, legend } from "./gpus.js";
import { Keys } from "./keys.js";
import { Queue } from "./queue.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { Cluster, Namespaces, Policy } from "./summary.js";

const store = new Store();
const stream = new Stream({
  page: () => store.page(),
  change: (news) => store.change(news),
  whole: () => {
    store.whole();
    detail.refresh();
  },
  line: (state, words) => {
    document.documentElement.dataset.line = state;
    say(byId("line-words"), words);
    if (state === "on") byId("sign-in").hidden = true;
  },
  refused: (problem) => {
    byId("sign-in").hidden = false;
    say(byId("sign-in-problem"), byId("token").value === "" ? "" : problem);
    byId("token").value = "";
    byId("token").focus();
  },
});
const detail = new Detail(() => stream.headers());
const open = (namespace, name, from) => detail.open(namespace, name, from);
const filter = new Filter(() => {
  store.markAll("node/");
  queue.refresh();
});
const gpus = new GPUs(filter, open);
const queue = new Queue(filter, open);
const namespaces = new Namespaces();
const keys = new Keys();
const cluster = new Cluster();
let offered = -1;

store.show("node/", gpus);
store.show("waiting/", queue);
store.show("cluster", cluster);
store.show("accuracy", cluster);
store.show("accuracy", new Accuracy(open));
store.show("namespaces", namespaces);
store.show("policy", new Policy());
store.afterDrawing(() => {
  const counts = gpus.counts();
  queue.settle();
  keys.settle();
  filter.offer("namespace", new Set([...namespaces.names, ...queue.namespaces()]));
  if (offered !== gpus.version) {
    offered = gpus.version;
    filter.offer("node", gpus.names());
  }
  filter.tell(counts);
});

byId("legend").append(...legend());
byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  stream.signIn(byId("token").value.trim());
});
detail.fromAddress();
stream.run();
