// The scheduler's own queue and latest decisions, where it can be asked; else what conditions and events tell.
import { ask, html, useEffect, useMemo, useState, useTables } from "../lib.js";
import { EVENT } from "../store.js";
import { count } from "../format.js";
import { to } from "../route.js";
import { Waiting, EVENT_TABLE } from "./tables.js";
import { Table, counted } from "./table.js";

const EVERY = 1000;

/** The state of the scheduler, asked for once a second while the view is open. */
function useScheduler(store) {
  const [answer, setAnswer] = useState({});
  const known = store.status.scheduler;
  useEffect(() => {
    if (!known) return undefined;
    let timer = 0, ended = false;
    const look = () => ask("/api/scheduler").then((state) => setAnswer({ state }), (error) => setAnswer((before) => ({ ...before, error: error.message })))
      .finally(() => { if (!ended) timer = setTimeout(look, document.hidden ? EVERY * 10 : EVERY); });
    look();
    return () => { ended = true; clearTimeout(timer); };
  }, [known]);
  return answer;
}

const span = (seconds) => (seconds === null ? "" : seconds < 10 ? `${seconds.toFixed(1)}s` : seconds < 120 ? `${Math.round(seconds)}s` : `${Math.round(seconds / 60)}m`);
const pod = (row) => html`<a href=${to("pod", ...row.pod.split("/"), "why")}>${row.pod}</a>`;
const words = (title, name, more = {}) => ({ title, value: (row) => row[name] ?? "", cell: (row) => row[name], ...more });
const amount = (title, name, more = {}) => ({ title, number: true, value: (row) => row[name] ?? -1, cell: (row) => row[name], ...more });

const QUEUE = [
  words("Place", "place"), words("Pod", "pod", { name: true, cell: pod }), amount("Priority", "priority", { wide: true }), amount("Attempts", "attempts"),
  { title: "Rejected by", value: (row) => row.rejectedBy.join(), cell: (row) => row.rejectedBy.join(", "), wide: true },
  amount("Here for", "here", { cell: (row) => span(row.here), wide: true }), amount("Tried again in", "ready", { cell: (row) => span(row.ready), wide: true }), amount("Waited", "waited", { cell: (row) => span(row.waited) }),
];
const ATTEMPTS = [
  amount("Time", "at", { cell: (row) => new Date(row.at * 1000).toISOString().slice(11, 23) }), words("Pod", "pod", { name: true, cell: pod }), amount("Attempt", "number", { wide: true }),
  words("Node", "node", { name: true, cell: (row) => (row.node ? html`<a href=${to("node", row.node)}>${row.node}</a>` : html`<span class="state warn">none</span>`) }),
  amount("Fit", "feasible", { cell: (row) => `${count(row.feasible)} of ${count(row.nodes)}` }), amount("Took", "micros", { cell: (row) => `${count(row.micros)} µs`, wide: true }),
  words("Why", "message", { text: true, wide: true, cell: (row) => row.message || (row.nominated ? `evicts ${row.victims.join(", ")} on ${row.nominated}` : row.decidedBy || "most points") }),
];
const matching = (rows, search) => rows.filter((row) => !search || row.pod.includes(search.trim().toLowerCase()));

export function Queues(props) {
  const { store, search } = props;
  useTables(store, "status");
  const { state, error } = useScheduler(store);
  const rows = useMemo(() => matching(state?.queue || [], search).map((row) => [row.pod, row]), [state, search]);
  if (!store.status.scheduler) return html`<${Waiting} ...${props} />`;
  return html`<div class="bar"><h1>The scheduler's queue</h1>${state && Object.entries(state.sizes).map(([place, size]) => html`<span key=${place}><b>${count(size)}</b> <span class="quiet">${place}</span></span>`)}</div>
    ${error && html`<p class="notice">${error}</p>`}<${Table} label="The scheduler's queue" columns=${QUEUE} rows=${rows} sorted=${[7, -1]} empty=${state ? "No pod waits." : "Asking the scheduler …"} />`;
}

export function Decisions(props) {
  const { store, search } = props;
  useTables(store, "status");
  const { state, error } = useScheduler(store);
  const rows = useMemo(() => matching(state?.attempts || [], search).map((row) => [`${row.pod} ${row.at} ${row.number}`, row]), [state, search]);
  if (!store.status.scheduler) return html`<${Told} store=${store} search=${search} />`;
  return html`<div class="bar"><h1>Decisions</h1><span class="quiet">the latest ${count(rows.length)} of the scheduler, by the time at which each was made</span></div>
    ${error && html`<p class="notice">${error}</p>`}<${Table} label="Decisions" columns=${ATTEMPTS} rows=${rows} sorted=${[0, -1]} empty=${state ? "None yet." : "Asking the scheduler …"} />`;
}

/** Decisions as events tell of them. */
function Told({ store, search }) {
  const version = useTables(store, "events");
  const rows = useMemo(() => [...store.tables.events].filter(([key, row]) => row[EVENT.kind] === "Pod" && ["Scheduled", "FailedScheduling", "Preempted"].includes(row[EVENT.reason]) && key.includes(search.trim().toLowerCase())), [version, search]);
  return html`<div class="bar"><h1>Decisions</h1><span class="quiet">${counted(rows.length, "event")}: the scheduler of this cluster cannot be asked itself</span></div>
    ${store.status.refused?.Event && html`<p class="notice">Events cannot be shown: ${store.status.refused.Event}</p>`}<${Table} label="Decisions" columns=${EVENT_TABLE} rows=${rows} sorted=${[0, -1]} empty="No event tells of one." />`;
}
