// Pods, nodes, workloads, events and queues as tables, with the selectors of the API as filters.
import { ask, html, useEffect, useMemo, useState, useTables } from "../lib.js";
import { EVENT, NODE, POD, WORKLOAD } from "../store.js";
import { age, amount, bytes, cpu, tone } from "../format.js";
import { place, setQuery, to } from "../route.js";
import { Meter, Table, counted } from "./table.js";

const text = (title, at, more = {}) => ({ title, value: (row) => row[at] ?? "", cell: (row) => row[at], ...more });
const number = (title, at, more = {}) => text(title, at, { number: true, value: (row) => row[at] || 0, ...more });
const link = (title, at, where, more = {}) => text(title, at, { name: true, cell: (row, key) => html`<a href=${where(row, key)}>${row[at]}</a>`, ...more });
const since = (at) => ({ title: "Age", number: true, value: (row) => -Date.parse(row[at] || 0), cell: (row) => age(row[at]) });

export const State = ({ status }) => html`<span class=${`state ${tone(status)}`}>${status}</span>`;

export const POD_TABLE = [
  text("Namespace", POD.namespace, { wide: true }),
  link("Name", POD.name, (row) => to("pod", row[POD.namespace], row[POD.name])),
  { title: "Status", value: (row) => row[POD.status], cell: (row) => html`<${State} status=${row[POD.status]} />` },
  { title: "Ready", value: (row) => row[POD.ready] / row[POD.containers], cell: (row) => `${row[POD.ready]}/${row[POD.containers]}`, number: true, wide: true },
  number("Restarts", POD.restarts, { wide: true }),
  { ...text("Node", POD.node), name: true, cell: (row) => row[POD.node] && html`<a href=${to("node", row[POD.node])}>${row[POD.node]}</a>` },
  number("CPU", POD.cpu, { cell: (row) => row[POD.cpu] ? cpu(row[POD.cpu]) : "", wide: true }),
  number("Memory", POD.memory, { cell: (row) => row[POD.memory] ? bytes(row[POD.memory]) : "", wide: true }),
  text("Owner", POD.owner, { wide: true, name: true }),
  { ...since(POD.created), wide: true },
];

const nodeTable = (store) => [
  link("Name", NODE.name, (row) => to("node", row[NODE.name])),
  { title: "State", value: (row) => nodeState(row), cell: (row) => html`<span class=${`state ${row[NODE.ready] ? row[NODE.cordoned] || row[NODE.troubles].length ? "warn" : "good" : "bad"}`}>${nodeState(row)}</span>` },
  text("Zone", NODE.zone, { wide: true }),
  text("Pool", NODE.pool, { wide: true }),
  ...["cpu", "memory", "pods"].map((resource) => ({
    title: { cpu: "CPU", memory: "Memory", pods: "Pods" }[resource], number: true, wide: resource !== "cpu",
    value: (row) => { const [used, all] = store.share(row[NODE.name], resource); return all ? used / all : 0; },
    cell: (row) => { const [used, all] = store.share(row[NODE.name], resource); return html`<${Meter} used=${used} all=${all} words=${`${amount(resource, used)} / ${amount(resource, all)}`} />`; },
  })),
  { title: "Taints", value: (row) => row[NODE.taints].length, cell: (row) => row[NODE.taints].join(", "), wide: true },
  text("Version", NODE.version, { wide: true }),
  { ...since(NODE.created), wide: true },
];
export const nodeState = (row) => [row[NODE.ready] ? "Ready" : "NotReady", row[NODE.cordoned] && "SchedulingDisabled", ...row[NODE.troubles]].filter(Boolean).join(", ");

const WORKLOAD_TABLE = [
  text("Kind", WORKLOAD.kind),
  text("Namespace", WORKLOAD.namespace, { wide: true }),
  link("Name", WORKLOAD.name, (row) => to("object", row[WORKLOAD.kind], row[WORKLOAD.namespace], row[WORKLOAD.name])),
  { title: "Ready", number: true, value: (row) => row[WORKLOAD.ready] - row[WORKLOAD.desired],
    cell: (row) => html`<span class=${row[WORKLOAD.ready] < row[WORKLOAD.desired] && row[WORKLOAD.kind] !== "Job" ? "state warn" : ""}>${row[WORKLOAD.ready]}/${row[WORKLOAD.desired]}</span>` },
  number("Updated", WORKLOAD.updated, { wide: true }),
  number("Available", WORKLOAD.available, { wide: true }),
  since(WORKLOAD.created),
];

export const EVENT_TABLE = [
  { title: "Last", number: true, value: (row) => Date.parse(row[EVENT.last] || 0), cell: (row) => age(row[EVENT.last]) },
  { title: "Type", value: (row) => row[EVENT.type], cell: (row) => html`<span class=${row[EVENT.type] === "Warning" ? "state warn" : "quiet"}>${row[EVENT.type]}</span>`, wide: true },
  text("Reason", EVENT.reason),
  { title: "About", name: true, value: (row) => row[EVENT.about], cell: (row) => html`<a href=${place(row[EVENT.kind], row[EVENT.namespace], row[EVENT.about])}>${row[EVENT.kind].toLowerCase()}/${row[EVENT.about]}</a>` },
  number("Count", EVENT.count, { wide: true }),
  text("Source", EVENT.source, { wide: true }),
  text("Message", EVENT.message, { text: true, wide: true }),
];

/** Keys that selectors choose, asked of the server again as the table changes: {keys: Set or null, error}. */
function useSelected(table, labels, fields, version) {
  const [chosen, setChosen] = useState({ keys: null });
  const turn = labels || fields ? Math.floor(version / 5) : 0;
  useEffect(() => {
    if (!labels && !fields) { setChosen({ keys: null }); return undefined; }
    const abort = new AbortController();
    ask(`/api/select?${new URLSearchParams({ table, labelSelector: labels, fieldSelector: fields })}`, { signal: abort.signal })
      .then(({ keys }) => setChosen({ keys: new Set(keys) }), (error) => { if (error.name !== "AbortError") setChosen({ keys: null, error: error.message }); });
    return () => abort.abort();
  }, [table, labels, fields, turn]);
  return chosen;
}

const KIND_OF = { pods: "Pod", nodes: "Node", events: "Event" };

function Filtered({ store, table, title, columns, sorted, query, search, children, keep = null }) {
  const version = useTables(store, table, ...(table === "nodes" ? ["pods"] : []));
  const labels = query.get("labels") || "", fields = query.get("fields") || "", namespace = query.get("namespace") || "";
  const chosen = useSelected(table, labels, fields, version);
  const rows = useMemo(() => {
    const wanted = search.trim().toLowerCase();
    return [...store.tables[table]].filter(([key, row]) => (!chosen.keys || chosen.keys.has(key)) && (!wanted || key.toLowerCase().includes(wanted))
      && (!namespace || row[namespacePlace(table)] === namespace) && (!keep || keep(row)));
  }, [version, chosen, search, namespace, table, keep]);
  const refused = store.status.refused || {};
  const why = table === "workloads" ? Object.entries(refused).filter(([kind]) => !["Pod", "Node", "Event"].includes(kind)).map(([kind, words]) => `${kind}: ${words}`).join("; ") : refused[KIND_OF[table]];
  const spaces = useMemo(() => table === "nodes" ? [] : [...new Set([...store.tables[table].values()].map((row) => row[namespacePlace(table)]))].filter(Boolean).sort(), [version, table]);
  return html`<div class="bar"><h1>${title}</h1><span class="quiet">${counted(rows.length, table.slice(0, -1))}</span>
      ${table !== "nodes" && html`<label>Namespace <select value=${namespace} onChange=${(event) => setQuery({ namespace: event.currentTarget.value })}><option value="">all</option>${spaces.map((name) => html`<option key=${name}>${name}</option>`)}</select></label>`}
      <${Selector} label="Labels" hint="app=web,tier!=db" value=${labels} put=${(value) => setQuery({ labels: value })} />
      <${Selector} label="Fields" hint=${table === "pods" ? "status.phase=Pending" : table === "events" ? "reason=Failed" : "metadata.name=…"} value=${fields} put=${(value) => setQuery({ fields: value })} />
      ${chosen.error && html`<span class="error" role="alert">${chosen.error}</span>`}${children}</div>
    ${why && html`<p class="notice">Not all can be shown: ${why}</p>`}
    <${Table} key=${table} label=${title} columns=${columns} rows=${rows} sorted=${sorted} empty=${why ? "" : `No ${table} here.`} />`;
}

const namespacePlace = (table) => (table === "workloads" ? WORKLOAD.namespace : 0);

function Selector({ label, hint, value, put }) {
  return html`<label><span class="wide">${label}</span><input class="selector" aria-label=${`${label} selector`} placeholder=${hint} value=${value} spellcheck="false" autocomplete="off"
    onChange=${(event) => put(event.currentTarget.value.trim())} /></label>`;
}

export const Pods = (more) => html`<${Filtered} ...${more} table="pods" title="Pods" columns=${POD_TABLE} sorted=${[0, 1]} />`;
export const Workloads = (more) => html`<${Filtered} ...${more} table="workloads" title="Workloads" columns=${WORKLOAD_TABLE} sorted=${[2, 1]} />`;
export const Events = (more) => html`<${Filtered} ...${more} table="events" title="Events" columns=${EVENT_TABLE} sorted=${[0, -1]} />`;
export function Nodes(more) {
  const columns = useMemo(() => nodeTable(more.store), [more.store]);
  return html`<${Filtered} ...${more} table="nodes" title="Nodes" columns=${columns} sorted=${[0, 1]} />`;
}

const QUEUES = { new: "not tried yet", unschedulable: "unschedulable", gated: "gated" };
const waits = (row) => Boolean(row[POD.waits]);
const QUEUE_TABLE = [
  { title: "Waits as", value: (row) => row[POD.waits], cell: (row) => QUEUES[row[POD.waits]] },
  ...POD_TABLE.slice(0, 2),
  number("Priority", POD.priority, { wide: true }),
  ...POD_TABLE.slice(6, 9),
  { ...text("Nominated", POD.nominated), wide: true, name: true },
  { title: "Reason", value: (row, key) => key, cell: (row) => html`<a href=${to("pod", row[POD.namespace], row[POD.name], "why")}>why</a>` },
  since(POD.created),
];
/** Pods without a node, by what their conditions say of where they wait. */
export const Waiting = (more) => html`<${Filtered} ...${more} table="pods" title="Pods that wait" columns=${QUEUE_TABLE} sorted=${[0, -1]} keep=${waits} />`;
