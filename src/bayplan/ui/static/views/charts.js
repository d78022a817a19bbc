// Charts of the cluster as a whole: pods by phase, pods that wait, placements per second, and how long they take.
import { ask, html, useMemo, useTables } from "../lib.js";
import { count } from "../format.js";
import { Chart, useEvery } from "../chart.js";

const wait = (value) => (value < 1 ? `${Math.round(value * 1000)} ms` : value < 120 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`);
const rate = (value) => (value >= 100 ? count(Math.round(value)) : String(Math.round(value * 10) / 10));
const CHARTS = [
  ["Pods by phase", count, [["running", "running", "good"], ["starting", "starting", "accent"], ["waiting for a node", "waiting", "warn"], ["succeeded", "succeeded", "ink-3"], ["failed", "failed", "bad"]]],
  ["Pods that wait for a node", count, [["not tried yet", "new", "accent"], ["unschedulable", "unschedulable", "bad"], ["gated", "gated", "ink-3"]]],
  ["Placed per second", rate, [["pods", "bound", "accent"]]],
  ["Time from creation to a node", wait, [["half are faster", "median", "accent"], ["99 of 100 are faster", "slowest", "warn"]]],
];

export default function Charts({ store }) {
  useTables(store, "status");
  const { answer, error } = useEvery(store.status.copy ? "" : "/api/figures", ask);
  const columns = useMemo(() => withWaiting(answer?.columns), [answer]), refused = store.status.refused?.Pod;
  if (store.status.copy) return html`<div class="detail"><h1 class="sans">Charts</h1><p class="quiet">A copy of a cluster does not change, so there is nothing to draw.</p></div>`;
  return html`<div class="detail"><h1 class="sans">Charts</h1><p class="quiet">Since bayplan began to follow the cluster, an hour at most; usage of single nodes and pods is on their own pages.</p>
    ${error && html`<p class="notice" role="alert">${error}</p>`}${refused && html`<p class="notice">Pods cannot be counted: ${refused}</p>`}
    ${answer && !(columns.at?.length > 1) && html`<p class="quiet" role="status">A sample is taken every ${answer.seconds} seconds; lines show from the second one on.</p>`}
    ${columns.at?.length > 1 && html`<div class="charts">${CHARTS.map(([title, format, lines]) => html`<${Chart} key=${title} title=${title} times=${columns.at} format=${format}
      series=${lines.map(([label, column, tone], at) => ({ label, values: columns[column], tone, dash: at > 0 && at % 2 === 1 }))} />`)}</div>`}</div>`;
}

function withWaiting(columns) {
  if (!columns?.at) return {};
  return { ...columns, waiting: columns.at.map((_, at) => columns.new[at] + columns.unschedulable[at] + columns.gated[at]) };
}
