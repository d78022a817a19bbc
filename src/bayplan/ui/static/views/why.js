// Why a pod is where it is, or nowhere: the map by verdict, reasons in groups, scores of the two best nodes, attempts, and the smallest fixes.
import { html, send, useAnswer, useMemo, useState, useTables } from "../lib.js";
import { EVENT } from "../store.js";
import { age, byName, count } from "../format.js";
import { to } from "../route.js";
import { ClusterMap } from "../map/view.js";

const SHADES = ["#b5483a", "#b98022", "#7d6aa8", "#4f7f86", "#8a6f4d", "#7a7a72"];
const FITS = { colour: "#6fa786", ink: "#10231a" }, BEST = { colour: "#1c6b43", ink: "#ffffff" };

export function Why({ store, namespace, name }) {
  const [turn, setTurn] = useState(0);
  const query = new URLSearchParams({ namespace, name });
  const { data, error, loading } = useAnswer(`/api/why?${query}`, [namespace, name, turn]);
  if (error) return html`<p class="notice bad">${error}</p><p><button class="button" onClick=${() => setTurn(turn + 1)}>Ask again</button></p>`;
  if (!data) return html`<p class="quiet">Asking the scheduler about every node …</p>`;
  return html`<p class=${`verdict ${data.explanation.good ? "good" : "bad"}`}>${headline(data)} <button class="button" disabled=${loading} onClick=${() => setTurn(turn + 1)}>Ask again</button></p>
    ${data.explanation.because.map((one) => html`<p class="quiet">because ${one}</p>`)}${data.explanation.advice.map((one) => html`<p>to do: ${one}</p>`)}
    ${data.nodes && html`<${Verdicts} store=${store} data=${data} />`}
    ${!data.node && html`<${Fixes} store=${store} namespace=${namespace} name=${name} key=${turn} />`}
    <${Attempts} store=${store} namespace=${namespace} name=${name} />`;
}

function headline(data) {
  if (data.node) return `${data.explanation.answer[0].toUpperCase()}${data.explanation.answer.slice(1)}.`;
  if (data.message) return data.message;
  if (data.preEnqueue && data.preEnqueue.ok === false) return `Not queued: ${data.preEnqueue.plugin}: ${(data.preEnqueue.reasons || []).join(", ")}`;
  return data.best?.length ? `Would be placed now, on ${data.best[0]}.` : data.explanation.answer;
}

/** Nodes by what is said of them: [{words, plugin, nodes, colour}], largest first; and the verdict of each for the map. */
function sorted(data) {
  const groups = new Map(), best = new Set(data.node && data.nodes[data.node]?.filter.ok ? [data.node] : (data.best || []).slice(0, 1));
  for (const [node, { filter }] of Object.entries(data.nodes)) {
    if (filter.ok) continue;
    const words = (filter.reasons || []).join(", "), key = `${filter.plugin}\n${words}`;
    if (!groups.has(key)) groups.set(key, { words, plugin: filter.plugin, nodes: [] });
    groups.get(key).nodes.push(node);
  }
  const refused = [...groups.values()].sort((one, other) => other.nodes.length - one.nodes.length);
  const verdicts = new Map();
  refused.forEach((group, at) => {
    group.colour = SHADES[Math.min(at, SHADES.length - 1)];
    for (const node of group.nodes) verdicts.set(node, { colour: group.colour, ink: "#ffffff", words: group.words });
  });
  const fits = Object.entries(data.nodes).filter(([, { filter }]) => filter.ok).sort(([one, a], [other, b]) => (b.total ?? 0) - (a.total ?? 0) || byName(one, other));
  for (const [node, row] of fits) {
    const look = best.has(node) ? BEST : FITS;
    verdicts.set(node, { ...look, words: `${best.has(node) ? "best" : "fits"}${row.total === undefined ? "" : `, ${row.total} points`}` });
  }
  return { refused, fits, verdicts, best };
}

function Verdicts({ store, data }) {
  const { refused, fits, verdicts, best } = useMemo(() => sorted(data), [data]);
  const [chosen, setChosen] = useState(null);
  const only = useMemo(() => chosen && new Set(chosen), [chosen]);
  const group = (key, nodes, colour, words, more = null) => html`<li key=${key}><button class="group" aria-pressed=${chosen === nodes} onClick=${() => setChosen(chosen === nodes ? null : nodes)}>
    <i style=${{ background: colour }}></i><b>${count(nodes.length)}</b><span>${words}</span></button>${more}</li>`;
  const fitting = useMemo(() => fits.map(([node]) => node), [fits]);
  const high = Math.min(420, 150 + 40 * Math.sqrt(store.tables.nodes.size));
  return html`<div class="why"><div class="why-map"><${ClusterMap} store=${store} resource="cpu" search="" verdicts=${verdicts} height=${high} only=${only} /></div>
    <ul class="groups" aria-label="Nodes by verdict">
      ${fits.length > 0 && group("fits", fitting, FITS.colour, fitting.length === 1 ? "fits" : "fit")}
      ${refused.map((one) => group(one.plugin + one.words, one.nodes, one.colour, one.words, html`<small>${one.plugin}: ${one.nodes.slice(0, 4).map((node) => html`<a href=${to("node", node)}>${node}</a> `)}${one.nodes.length > 4 ? `and ${count(one.nodes.length - 4)} more` : ""}</small>`))}</ul></div>
    ${fits.length > 0 && fits[0][1].scores && html`<${Waterfall} data=${data} fits=${fits} best=${best} />`}`;
}

/** The points of the winner and the next best node, plugin after plugin. */
function Waterfall({ data, fits, best }) {
  const [chosen] = best.size ? best : [fits[0][0]], next = fits.find(([node]) => node !== chosen)?.[0];
  const nodes = [chosen, next].filter(Boolean), most = Math.max(1, ...nodes.map((node) => data.nodes[node].total || 0));
  const plugins = Object.keys(data.weights || {}).filter((plugin) => nodes.some((node) => data.nodes[node].scores?.[plugin]));
  const passed = nodes.map(() => 0);
  return html`<h2>Points, plugin by plugin</h2><table class="fall"><thead><tr><th scope="col">Plugin</th><th scope="col" class="n">Weight</th>${nodes.map((node, at) => html`<th scope="col" colspan="2">${at ? "next best: " : ""}${node}</th>`)}${next && html`<th scope="col" class="n">Difference</th>`}</tr></thead>
    <tbody>${plugins.map((plugin) => html`<tr><td>${plugin}</td><td class="n">${data.weights[plugin]}</td>
      ${nodes.map((node, at) => { const points = data.nodes[node].scores?.[plugin] || 0, from = passed[at]; passed[at] += points; return html`<td class="n">${points}</td><td class="bars"><${Bar} from=${from / most} to=${passed[at] / most} second=${at} /></td>`; })}
      ${next && html`<td class="n">${signed((data.nodes[chosen].scores?.[plugin] || 0) - (data.nodes[next].scores?.[plugin] || 0))}</td>`}</tr>`)}
    <tr class="sum"><td>Total</td><td></td>${nodes.map((node, at) => html`<td class="n">${data.nodes[node].total}</td><td class="bars"><${Bar} from=${0} to=${data.nodes[node].total / most} second=${at} /></td>`)}${next && html`<td class="n">${signed(data.nodes[chosen].total - data.nodes[next].total)}</td>`}</tr></tbody></table>`;
}
const signed = (number) => (number > 0 ? `+${number}` : String(number));
const Bar = ({ from, to: end, second }) => html`<svg viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true"><rect x=${200 * from} y="1" width=${Math.max(0.5, 200 * (end - from))} height="8" fill=${second ? "var(--ink-3)" : "var(--accent)"} /></svg>`;

function Attempts({ store, namespace, name }) {
  const version = useTables(store, "events");
  const rows = useMemo(() => [...store.tables.events.values()].filter((row) => row[EVENT.kind] === "Pod" && row[EVENT.about] === name && row[EVENT.namespace] === namespace
    && ["FailedScheduling", "Scheduled", "Preempted"].includes(row[EVENT.reason])).sort((one, other) => Date.parse(one[EVENT.last]) - Date.parse(other[EVENT.last])), [version, namespace, name]);
  return html`<h2>Attempts</h2>${rows.length ? html`<ol class="attempts">${rows.map((row) => html`<li key=${row[EVENT.name]}><span class="quiet">${age(row[EVENT.last])} ago${row[EVENT.count] > 1 ? `, ${row[EVENT.count]} times` : ""}</span> ${row[EVENT.reason]}: ${row[EVENT.message]}</li>`)}</ol>`
    : html`<p class="quiet">No event tells of one.</p>`}`;
}

function Fixes({ store, namespace, name }) {
  const [wanted, setWanted] = useState(false);
  const { data, error } = useAnswer(wanted ? `/api/fixes?${new URLSearchParams({ namespace, name })}` : "", [wanted, namespace, name]);
  return html`<h2>What would place it</h2>${!wanted ? html`<p><button class="button main" onClick=${() => setWanted(true)}>Find the smallest changes</button></p>`
    : error ? html`<p class="notice bad">${error}</p>` : !data ? html`<p class="quiet">Trying changes, each on the whole cluster …</p>`
    : data.placedOn ? html`<p>It would be placed now, on ${data.placedOn}.</p>`
    : data.fixes.length ? html`<ol class="fixes">${data.fixes.map((fix) => html`<${Fix} key=${fix.changes.map((one) => one.text).join()} fix=${fix} owner=${data.owner} changes=${store.status.changes} />`)}</ol><p class="quiet">${count(data.tried)} states of the cluster were tried.</p>`
    : html`<p>Nothing that was tried would place it (${count(data.tried)} states of the cluster).</p>`}`;
}

const PATCHED = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"];

function Fix({ fix, owner, changes }) {
  const [open, setOpen] = useState(false);
  const [state, setState] = useState("");
  const [kind, where = ""] = owner.split(" "), [space, workload] = where.split("/");
  const can = changes && PATCHED.includes(kind) && Object.keys(fix.patch).length > 0;
  const apply = () => { setState("…"); send("/api/patch", { kind, namespace: space, name: workload, patch: fix.patch }).then(({ done }) => setState(done), (error) => setState(error.message)); };
  return html`<li><button class="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${fix.changes.map((one) => one.text).join(", and ")}</button> <span class="quiet">then it fits ${fix.node}</span>
    ${open && html`<pre class="log" tabindex="0">${fix.commands.join("\n")}${Object.keys(fix.patch).length ? `\n\n# the patch of the pod's spec\n${JSON.stringify(fix.patch, null, 2)}` : ""}</pre>
      ${can ? html`<p><button class="button main" disabled=${Boolean(state)} onClick=${apply}>Apply to ${kind} ${workload}</button> <span role="status">${state}</span></p>` : changes ? html`<p class="quiet">This change cannot be made from here; the commands above make it.</p>` : null}`}</li>`;
}
