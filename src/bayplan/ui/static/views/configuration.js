// Another scheduler configuration: pasted or chosen, its errors by field, and what the two make of the same.
import { html, useMemo } from "../lib.js";
import { count } from "../format.js";
import { Replay, movesOf, seconds } from "./replay.js";

export function Configuration({ text, fields, put }) {
  const choose = async (event) => { const [file] = event.currentTarget.files; if (file) put(await file.text()); };
  return html`<div class="wide-field configuration"><label><span>Another scheduler configuration</span><textarea class="field mono" rows=${text ? 9 : 3} spellcheck="false" placeholder="apiVersion: kubescheduler.config.k8s.io/v1 …" value=${text}
      aria-invalid=${fields.length > 0} aria-describedby="configuration-errors" onInput=${(event) => put(event.currentTarget.value)}></textarea></label>
    <label class="file"><span>or choose a file</span><input type="file" accept=".yaml,.yml,.json" onChange=${choose} /></label>
    <p class="quiet">What you choose is played with the present configuration and with this one. If you choose nothing else, the pods of all workloads are placed anew.</p>
    <div id="configuration-errors" role="status">${fields.length > 0 && html`<dl class="field-errors">${fields.map((one) => html`<dt key=${one.field}>${one.field}</dt><dd>${one.problem}</dd>`)}</dl>`}</div></div>`;
}

const FIGURES = [
  ["pods that wait", ({ outcome }) => outcome.pending.length, true],
  ["pods placed", ({ outcome }) => outcome.placements.length],
  ["pods that leave their nodes", ({ outcome }) => outcome.departures.filter((one) => one.reason !== "Finished").length],
  ["preempted", ({ outcome }) => outcome.departures.filter((one) => one.reason === "PreemptionByScheduler").length, true],
  ["nodes with pods", ({ outcome }) => Object.values(outcome.after).filter(Boolean).length],
  ["most pods on one node", ({ outcome }) => Math.max(0, ...Object.values(outcome.after))],
  ["longest wait for a node", ({ outcome }) => Math.max(0, ...outcome.placements.map((one) => one.waited)), true, seconds],
  ["until all is at rest", ({ outcome }) => outcome.seconds, true, seconds],
];

export function Comparison({ store, one, other }) {
  const runs = useMemo(() => [["The present configuration", one], ["The other one", other]].map(([title, { outcome, report }]) => ({ title, outcome, report, moves: movesOf(outcome) })), [one]);
  return html`<h2>${one.outcome.actions.join(", ")}</h2><${Replay} store=${store} runs=${runs} />
    <table class="comparison"><thead><tr><th scope="col">What</th>${runs.map((run) => html`<th key=${run.title} scope="col" class="n">${run.title}</th>`)}</tr></thead>
      <tbody>${FIGURES.map(([title, figure, isWorse, format = count]) => { const values = runs.map(figure), differs = values[0] !== values[1];
        return html`<tr key=${title}><th scope="row">${title}</th>${values.map((value, at) => html`<td key=${at} class=${`n${differs && isWorse && value === Math.max(...values) ? " worse" : ""}`}>${format(value)}</td>`)}</tr>`; })}</tbody></table>
    ${runs.map((run) => html`<${Problems} key=${run.title} run=${run} />`)}
    <p>${runs.map((run) => html`<a key=${run.report} class="button" href=${`/api/report/${run.report}`} download="what-if.html">Save the report: ${run.title.toLowerCase()}</a> `)}</p>`;
}

function Problems({ run }) {
  const { problems, pending } = run.outcome;
  if (!problems.length && !pending.length) return null;
  return html`<h2>${run.title}: who waits</h2>${problems.map((one) => html`<p key=${one} class="notice bad">${one}</p>`)}<ul class="waits">${pending.slice(0, 100).map((one) => html`<li key=${one.pod}><span class="mono">${one.pod}</span> <span class="quiet">${one.reason}</span></li>`)}</ul>`;
}
