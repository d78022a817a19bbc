// What the page knows: the tables as the server sends them, and which pods are on which node. Rows are arrays in the order of COLUMNS.

export const COLUMNS = {
  nodes: ["name", "zone", "pool", "ready", "cordoned", "taints", "troubles", "cpu", "memory", "pods", "extended", "version", "created"],
  pods: ["namespace", "name", "node", "status", "ended", "ready", "containers", "restarts", "cpu", "memory", "extended", "owner", "priority",
    "nominated", "waits", "created"],
  workloads: ["kind", "namespace", "name", "desired", "ready", "updated", "available", "created"],
  events: ["namespace", "name", "type", "reason", "kind", "about", "count", "last", "source", "message"],
};

const places = (names) => Object.freeze(Object.fromEntries(names.map((name, place) => [name, place])));
export const NODE = places(COLUMNS.nodes);
export const POD = places(COLUMNS.pods);
export const WORKLOAD = places(COLUMNS.workloads);
export const EVENT = places(COLUMNS.events);

/** Cells of a column, which may have been sent as places in a list of values. */
const cells = (column) => (Array.isArray(column) ? column : column.at.map((place) => column.of[place]));

export class Store {
  constructor() {
    this.tables = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, new Map()]));
    this.used = new Map();      // node -> {cpu, memory, pods, extended, keys: Set of pods}
    this.status = {};
    this.loaded = false;
    this.followers = new Set();
  }

  /** Call a function when one of the tables (or "status") has changed. Returns what ends that. */
  follow(names, told) {
    const one = { names: new Set(names), told };
    this.followers.add(one);
    return () => this.followers.delete(one);
  }

  /** Everything anew. */
  replace(snapshot) {
    for (const table of Object.values(this.tables)) table.clear();
    this.used.clear();
    this.loaded = true;
    this.apply(snapshot, true);
  }

  /** Take in a snapshot or a frame. */
  apply(frame, all = false) {
    const changed = new Set(all ? [...Object.keys(this.tables), "status"] : []);
    for (const [name, part] of Object.entries(frame.tables)) {
      if (!this.tables[name]) continue;
      this.takeIn(name, part);
      changed.add(name);
    }
    if (frame.status) { this.status = frame.status; changed.add("status"); }
    for (const one of this.followers) {
      for (const name of one.names) if (changed.has(name)) { one.told(); break; }
    }
  }

  takeIn(name, part) {
    const table = this.tables[name];
    const columns = COLUMNS[name].map((column) => (part.columns[column] ? cells(part.columns[column]) : null));
    part.keys.forEach((key, at) => {
      const row = columns.map((column) => column && column[at]);
      if (name === "pods") this.move(key, table.get(key), row);
      table.set(key, row);
    });
    for (const key of part.gone || []) {
      if (name === "pods") this.move(key, table.get(key), undefined);
      table.delete(key);
    }
  }

  /** Keep count of what pods use of their nodes. */
  move(key, before, after) {
    if (before) this.count(key, before, -1);
    if (after) this.count(key, after, 1);
  }

  count(key, row, sign) {
    const node = row[POD.node];
    if (!node || row[POD.ended]) return;
    let used = this.used.get(node);
    if (!used) this.used.set(node, used = { cpu: 0, memory: 0, pods: 0, extended: {}, keys: new Set() });
    used.cpu += sign * row[POD.cpu];
    used.memory += sign * row[POD.memory];
    used.pods += sign;
    if (row[POD.extended]) {
      for (const [name, amount] of Object.entries(row[POD.extended])) used.extended[name] = (used.extended[name] || 0) + sign * amount;
    }
    if (sign > 0) used.keys.add(key); else used.keys.delete(key);
  }

  /** What is used of a resource of a node, and what there is: [used, all]. */
  share(name, resource) {
    const row = this.tables.nodes.get(name), used = this.used.get(name);
    if (!row) return [0, 0];
    if (resource in NODE && resource !== "extended") return [used ? used[resource] : 0, row[NODE[resource]]];
    return [used?.extended[resource] || 0, row[NODE.extended]?.[resource] || 0];
  }

  /** The resources that nodes offer. */
  resources() {
    const found = new Set(["cpu", "memory", "pods"]);
    for (const row of this.tables.nodes.values()) for (const name of Object.keys(row[NODE.extended] || {})) found.add(name);
    return [...found];
  }
}
