// What if: choose what is done to the cluster, in thought, and see who moves and who waits, before, after, and at any moment between.
import { html, send, useEffect, useMemo, useRef, useState, useTables } from "../lib.js";
import { NODE, WORKLOAD } from "../store.js";
import { byName, count } from "../format.js";
import { Small } from "./detail.js";
import { Comparison, Configuration } from "./configuration.js";
import { Replay, movesOf, seconds } from "./replay.js";

export function WhatIf({ store }) {
  useTables(store, "nodes", "workloads");
  const [plan, setPlan] = useState({ drain: [], failZones: [], deleteNodes: [], scale: [], addNodes: 0, apply: "", placeAnew: false, schedulerConfig: "" });
  const [state, setState] = useState({});
  const abort = useRef();
  useEffect(() => () => abort.current?.abort(), []);
  const nodes = useMemo(() => [...store.tables.nodes.keys()].sort(byName), [store.tables.nodes.size]);
  const zones = useMemo(() => [...new Set([...store.tables.nodes.values()].map((row) => row[NODE.zone]))].filter(Boolean).sort(byName), [store.tables.nodes.size]);
  const change = (values) => setPlan((before) => ({ ...before, ...values }));
  const chosen = plan.drain.length + plan.failZones.length + plan.deleteNodes.length + plan.scale.length + plan.addNodes + plan.apply.trim().length + (plan.placeAnew ? 1 : 0) + plan.schedulerConfig.trim().length;
  const run = () => {
    abort.current?.abort();
    abort.current = new AbortController();
    setState({ running: true });
    send("/api/what-if", plan, { signal: abort.current.signal }).then((answer) => setState({ answer }), (error) => setState(error.name === "AbortError" ? {} : { error: error.message, fields: error.fields }));
  };
  return html`<div class="detail"><h1 class="sans">What if</h1><p class="quiet">The cluster is copied and what you choose is done to the copy, in virtual time. Nothing happens to the cluster itself.</p>
    <form class="plan" onSubmit=${(event) => { event.preventDefault(); run(); }}>
      <${Chosen} label="Drain nodes" all=${nodes} chosen=${plan.drain} put=${(drain) => change({ drain })} />
      <${Chosen} label="Delete nodes" all=${nodes} chosen=${plan.deleteNodes} put=${(deleteNodes) => change({ deleteNodes })} />
      <${Chosen} label="Fail zones" all=${zones} chosen=${plan.failZones} put=${(failZones) => change({ failZones })} />
      <${Scale} store=${store} chosen=${plan.scale} put=${(scale) => change({ scale })} />
      <label><span>Add nodes</span><input class="field" type="number" min="0" max="10000" value=${plan.addNodes} onInput=${(event) => change({ addNodes: Number(event.currentTarget.value) || 0 })} /></label>
      <label class="wide-field"><span>Apply a manifest</span><textarea class="field mono" rows="3" spellcheck="false" placeholder="apiVersion: apps/v1 …" value=${plan.apply} onInput=${(event) => change({ apply: event.currentTarget.value })}></textarea></label>
      <${Configuration} text=${plan.schedulerConfig} fields=${state.fields || []} put=${(schedulerConfig) => change({ schedulerConfig })} />
      <label class="check"><input type="checkbox" checked=${plan.placeAnew} onChange=${(event) => change({ placeAnew: event.currentTarget.checked })} /> Place the pods of all workloads anew</label>
      <p><button class="button main" disabled=${!chosen || state.running}>See what happens</button> ${state.running && html`<button class="button" type="button" onClick=${() => abort.current.abort()}>Stop</button> <span class="quiet" role="status">Playing it through …</span>`}</p></form>
    ${state.error && html`<p class="notice bad" role="alert">${state.error}${state.fields?.length > 0 && ": see below the configuration"}</p>`}
    ${state.answer?.other ? html`<${Comparison} key=${state.answer.report} store=${store} one=${state.answer} other=${state.answer.other} />`
      : state.answer && html`<${Outcome} key=${state.answer.report} store=${store} outcome=${state.answer.outcome} report=${state.answer.report} />`}</div>`;
}

function Chosen({ label, all, chosen, put }) {
  const id = `choose-${label.replace(" ", "-").toLowerCase()}`;
  const add = (event) => { const { value } = event.currentTarget; if (all.includes(value) && !chosen.includes(value)) put([...chosen, value]); event.currentTarget.value = ""; };
  return html`<label><span>${label}</span><span class="chips">${chosen.map((one) => html`<button key=${one} type="button" class="chip" aria-label=${`Not ${one}`} onClick=${() => put(chosen.filter((other) => other !== one))}>${one} ×</button>`)}
    <input class="field" list=${id} aria-label=${label} placeholder=${all.length ? `of ${count(all.length)}` : "none"} onChange=${add} /><datalist id=${id}>${all.slice(0, 500).map((one) => html`<option key=${one} value=${one} />`)}</datalist></span></label>`;
}

const SCALED = ["Deployment", "StatefulSet"];

function Scale({ store, chosen, put }) {
  const [replicas, setReplicas] = useState(10);
  const all = [...store.tables.workloads.values()].filter((row) => SCALED.includes(row[WORKLOAD.kind])).map((row) => `${row[WORKLOAD.kind].toLowerCase()}/${row[WORKLOAD.namespace]}/${row[WORKLOAD.name]}`).sort(byName);
  return html`<label><span>Scale</span><span class="chips">${chosen.map((one) => html`<button key=${one} type="button" class="chip" aria-label=${`Not ${one}`} onClick=${() => put(chosen.filter((other) => other !== one))}>${one} ×</button>`)}
    <select class="field" aria-label="Workload to scale" value="" onChange=${(event) => { const { value } = event.currentTarget; if (value) put([...chosen.filter((one) => !one.startsWith(`${value}=`)), `${value}=${replicas}`]); event.currentTarget.value = ""; }}><option value="">choose a workload</option>${all.map((one) => html`<option key=${one}>${one}</option>`)}</select>
    to <input class="field short" type="number" min="0" aria-label="Replicas" value=${replicas} onInput=${(event) => setReplicas(Number(event.currentTarget.value) || 0)} /></span></label>`;
}

const REASONS = [{ title: "Pod", name: true, cell: (row) => row.pod }, { title: "Because of this", cell: (row) => (row.new ? "yes" : "no") }, { title: "Reason", cell: (row) => row.reason }];
const MOVES = [{ title: "After", number: true, cell: (row) => seconds(row.at) }, { title: "Pod", name: true, cell: (row) => row.pod }, { title: "What", cell: (row) => row.what }, { title: "Node", name: true, cell: (row) => row.node }];

function Outcome({ store, outcome, report }) {
  const fresh = outcome.pending.filter((one) => one.new).length, moved = outcome.departures.filter((one) => one.reason !== "Finished").length;
  const moves = useMemo(() => movesOf(outcome), [outcome]);
  return html`<h2>${outcome.actions.join(", ")}</h2><dl class="figures big"><div class=${fresh ? "bad" : ""}><dt>wait because of this</dt><dd>${count(fresh)}</dd></div><div><dt>pods leave their nodes</dt><dd>${count(moved)}</dd></div>
      <div><dt>are placed</dt><dd>${count(outcome.placements.length)}</dd></div><div><dt>until all is at rest</dt><dd>${seconds(outcome.seconds)}</dd></div></dl>
    ${outcome.problems.map((one) => html`<p class="notice bad">${one}</p>`)}
    <${Replay} store=${store} runs=${[{ outcome, moves }]} />
    <p><a class="button" href=${`/api/report/${report}`} download="what-if.html">Save the report</a></p>
    ${outcome.pending.length > 0 && html`<h2>Who waits</h2><${Small} columns=${REASONS} rows=${outcome.pending.slice(0, 300).map((one) => [one.pod, one])} />`}
    ${moves.length > 0 && html`<h2>Who moves</h2><${Small} columns=${MOVES} rows=${moves.slice(0, 500).map((one, at) => [at, one])} />${moves.length > 500 && html`<p class="quiet">and ${count(moves.length - 500)} more, in the report</p>`}`}`;
}
