// A run in virtual time, or two at the same moment: maps of pods per node, played, stepped, and moved along.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { count } from "../format.js";
import { ClusterMap } from "../map/view.js";

export const seconds = (value) => (value < 120 ? `${Math.round(value)} s` : value < 7200 ? `${Math.round(value / 60)} min` : `${(value / 3600).toFixed(1)} h`);

/** Who leaves and who is placed, in order of time. */
export const movesOf = (outcome) => [...outcome.departures.map((one) => ({ ...one, what: `leaves: ${one.reason}` })), ...outcome.placements.map((one) => ({ ...one, what: "is placed" }))].sort((one, other) => one.at - other.at);

/** Pods per node at a moment of the run: what there was, less who has left, and more who has come. */
function countsAt({ outcome, moves }, at) {
  const counts = new Map(Object.entries(outcome.before));
  for (const one of moves) {
    if (one.at > at) break;
    counts.set(one.node, (counts.get(one.node) || 0) + (one.what === "is placed" ? 1 : -1));
  }
  return counts;
}

function verdictsOf(store, counts, before) {
  const most = Math.max(1, ...counts.values(), ...before.values()), found = new Map();
  for (const name of store.tables.nodes.keys()) {
    const pods = counts.get(name) || 0, change = pods - (before.get(name) || 0), share = pods / most;
    const colour = change < 0 ? `rgb(181 72 58 / ${0.35 + 0.6 * Math.min(1, -change / 8)})` : change > 0 ? `rgb(28 107 67 / ${0.35 + 0.6 * Math.min(1, change / 8)})` : `rgb(80 130 185 / ${0.15 + 0.5 * share})`;
    found.set(name, { colour, words: `${pods} pods${change ? ` (${change > 0 ? "+" : "−"}${Math.abs(change)})` : ""}` });
  }
  return found;
}

/** runs: one, which is shown beside what there was before, or two, which are shown beside each other: [{outcome, moves, title}]. */
export function Replay({ store, runs }) {
  const end = Math.max(1, ...runs.map(({ outcome, moves }) => Math.max(outcome.seconds, ...moves.slice(-1).map((one) => one.at))));
  const [at, setAt] = useState(end), [speed, setSpeed] = useState(0);
  useEffect(() => {
    if (!speed) return undefined;
    let frame = 0, last = performance.now();
    const step = (now) => {
      const passed = ((now - last) / 1000) * speed;
      last = now;
      setAt((value) => Math.min(end, value + passed));
      frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [speed, end]);
  useEffect(() => { if (at >= end && speed) setSpeed(0); }, [at, end, speed]);
  const next = () => setAt(Math.min(end, ...runs.map(({ moves }) => moves.find((one) => one.at > at)?.at ?? end)));
  const play = () => { if (at >= end) setAt(0); setSpeed(speed ? 0 : end / 10); };
  const moment = at >= end ? "After" : `After ${seconds(at)}`;
  return html`<div class="bar replay"><button class="button main" onClick=${play}>${speed ? "Pause" : "Play"}</button><button class="button" onClick=${next} disabled=${at >= end}>Step</button>
      <input type="range" min="0" max=${end} step="any" value=${at} aria-label="Virtual time" aria-valuetext=${`${seconds(at)} of ${seconds(end)}`} onInput=${(event) => { setSpeed(0); setAt(Number(event.currentTarget.value)); }} />
      <span>${seconds(at)} of ${seconds(end)}</span>${runs.length === 1 && html`<${Sampled} outcome=${runs[0].outcome} at=${at} />`}</div>
    <div class="split tight">${runs.length === 1 && html`<${Moment} store=${store} run=${runs[0]} at=${-1} title="Before" />`}
      ${runs.map((run) => html`<${Moment} key=${run.title} store=${store} run=${run} at=${at} title=${run.title ? `${run.title}: ${moment.toLowerCase()}` : moment} sampled=${runs.length > 1} />`)}</div>`;
}

function Moment({ store, run, at, title, sampled }) {
  const before = useMemo(() => new Map(Object.entries(run.outcome.before)), [run.outcome]);
  const verdicts = useMemo(() => verdictsOf(store, countsAt(run, at), before), [run.outcome, at]);
  return html`<figure><figcaption>${title} ${sampled && html`<${Sampled} outcome=${run.outcome} at=${at} />`}</figcaption><${ClusterMap} store=${store} resource="pods" search="" verdicts=${verdicts} pods=${false} height=${300} /></figure>`;
}

function Sampled({ outcome, at }) {
  const sample = outcome.samples.filter((one) => one.at <= at).pop();
  return sample && html`<span class="quiet">${count(sample.running)} on nodes, ${count(sample.pending)} waiting</span>`;
}
