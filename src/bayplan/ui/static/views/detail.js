// One object: a pod, a node, or any other, with tabs.
import { html, later, useMemo, useTables } from "../lib.js";
import { EVENT, NODE, POD, WORKLOAD } from "../store.js";
import { age, amount, bytes, cpu, percent } from "../format.js";
import { to } from "../route.js";
import { EVENT_TABLE, POD_TABLE, State, nodeState } from "./tables.js";
import { Yaml } from "./yaml.js";

const Usage = later(() => import("./usage.js"));
const Logs = later(() => import("./logs.js"));
const Terminal = later(() => import("./terminal.js"));

export function Tabs({ base, tabs, chosen }) {
  return html`<nav class="tabs" aria-label="Views of this object">${tabs.map(([name, title]) => html`<a key=${name} href=${name ? `${base}/${name}` : base} aria-current=${name === chosen ? "page" : null}>${title}</a>`)}</nav>`;
}

export function Small({ columns, rows, empty }) {
  if (!rows.length) return html`<p class="quiet">${empty}</p>`;
  return html`<div class="scrolls" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${columns.map((one) => html`<th key=${one.title} class=${one.number ? "n" : ""} scope="col">${one.title}</th>`)}</tr></thead>
    <tbody>${rows.map(([key, row]) => html`<tr key=${key}>${columns.map((one) => html`<td key=${one.title} class=${[one.number && "n", one.name && "name"].filter(Boolean).join(" ")}>${one.cell(row, key)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function EventsOf({ store, kind, namespace, name }) {
  const version = useTables(store, "events");
  const rows = useMemo(() => [...store.tables.events].filter(([, row]) => row[EVENT.kind] === kind && row[EVENT.about] === name && (!namespace || row[EVENT.namespace] === namespace))
    .sort(([, one], [, other]) => Date.parse(other[EVENT.last]) - Date.parse(one[EVENT.last])), [version, kind, namespace, name]);
  if (store.status.refused?.Event) return html`<p class="quiet">Events cannot be shown: ${store.status.refused.Event}</p>`;
  return html`<${Small} columns=${EVENT_COLUMNS} rows=${rows} empty="No events." />`;
}
const EVENT_COLUMNS = [EVENT_TABLE[0], EVENT_TABLE[2], EVENT_TABLE[4], EVENT_TABLE[6]];

const Gone = ({ kind, name }) => html`<div class="empty"><h1>${kind} ${name}</h1><p>There is no such object in the cluster, or none any more.</p></div>`;

export function PodView({ store, namespace, name, tab = "", views }) {
  useTables(store, "pods", "status");
  const row = store.tables.pods.get(`${namespace}/${name}`);
  const base = to("pod", namespace, name);
  const tabs = [["", "Overview"], ...views.map(({ name: each, title }) => [each, title]), ["yaml", "YAML"], ["logs", "Logs"], ...(store.status.changes && store.status.streams ? [["terminal", "Terminal"]] : [])];
  const view = views.find((one) => one.name === tab);
  return html`<div class="detail"><p class="kind">Pod in <a href=${`#/pods?namespace=${encodeURIComponent(namespace)}`}>${namespace}</a></p><h1>${name}</h1>
    <${Tabs} base=${base} tabs=${tabs} chosen=${tab} />
    ${tab === "yaml" ? html`<${Yaml} key=${name} kind="Pod" namespace=${namespace} name=${name} version=${row && `${row[POD.status]}${row[POD.node]}`} />`
      : tab === "logs" ? html`<${Logs} key=${name} namespace=${namespace} name=${name} store=${store} />`
      : tab === "terminal" && tabs.some(([one]) => one === tab) ? html`<${Terminal} key=${`${namespace}/${name}`} namespace=${namespace} name=${name} />`
      : view ? html`<${view.show} key=${`${namespace}/${name}`} store=${store} namespace=${namespace} name=${name} />`
      : row ? html`<${PodOverview} store=${store} row=${row} />` : html`<${Gone} kind="Pod" name=${name} />`}</div>`;
}

function PodOverview({ store, row }) {
  const namespace = row[POD.namespace], name = row[POD.name], [kind, owner] = row[POD.owner].split("/");
  return html`<dl class="facts"><dt>Status</dt><dd><${State} status=${row[POD.status]} /></dd>
      <dt>Node</dt><dd class="mono">${row[POD.node] ? html`<a href=${to("node", row[POD.node])}>${row[POD.node]}</a>` : html`none, <a href=${to("pod", namespace, name, "why")}>why?</a>`}</dd>
      <dt>Containers</dt><dd>${row[POD.ready]} of ${row[POD.containers]} ready, ${row[POD.restarts]} restarts</dd>
      <dt>Requests</dt><dd>${cpu(row[POD.cpu])} cpu, ${bytes(row[POD.memory])} memory${Object.entries(row[POD.extended] || {}).map(([each, value]) => `, ${value} ${each}`)}</dd>
      <dt>Priority</dt><dd>${row[POD.priority]}</dd>
      ${owner && html`<dt>Owner</dt><dd class="mono"><a href=${to("object", kind, namespace, owner)}>${row[POD.owner]}</a></dd>`}
      <dt>Created</dt><dd>${row[POD.created]} (${age(row[POD.created])} ago)</dd></dl>
    ${!store.status.copy && html`<${Usage} key=${`${namespace}/${name}`} kind="Pod" namespace=${namespace} name=${name} cpu=${row[POD.cpu]} memory=${row[POD.memory]} />`}
    <h2>Events</h2><${EventsOf} store=${store} kind="Pod" namespace=${namespace} name=${name} />`;
}

export function NodeView({ store, name, tab = "" }) {
  const version = useTables(store, "nodes", "pods");
  const row = store.tables.nodes.get(name);
  const pods = useMemo(() => [...store.used.get(name)?.keys || []].map((key) => [key, store.tables.pods.get(key)]).filter(([, pod]) => pod), [version, name]);
  return html`<div class="detail"><p class="kind">Node${row?.[NODE.zone] ? ` in ${row[NODE.zone]}` : ""}</p><h1>${name}</h1>
    <${Tabs} base=${to("node", name)} tabs=${[["", "Overview"], ["yaml", "YAML"]]} chosen=${tab} />
    ${tab === "yaml" ? html`<${Yaml} kind="Node" namespace="" name=${name} />` : row ? html`<${NodeOverview} store=${store} row=${row} pods=${pods} />` : html`<${Gone} kind="Node" name=${name} />`}</div>`;
}

function NodeOverview({ store, row, pods }) {
  const name = row[NODE.name], resources = ["cpu", "memory", "pods", ...Object.keys(row[NODE.extended] || {})];
  return html`<dl class="facts"><dt>State</dt><dd>${nodeState(row)}</dd>${row[NODE.pool] && html`<dt>Pool</dt><dd>${row[NODE.pool]}</dd>`}
      ${resources.map((one) => { const [used, all] = store.share(name, one); return html`<dt>${one}</dt><dd>${amount(one, used)} of ${amount(one, all)} requested, ${percent(used, all)}</dd>`; })}
      <dt>Taints</dt><dd class="mono">${row[NODE.taints].join(", ") || "none"}</dd><dt>Version</dt><dd>${row[NODE.version]}</dd><dt>Created</dt><dd>${row[NODE.created]} (${age(row[NODE.created])} ago)</dd></dl>
    ${!store.status.copy && html`<${Usage} key=${name} kind="Node" name=${name} cpu=${row[NODE.cpu]} memory=${row[NODE.memory]} />`}
    <h2>Pods</h2><${Small} columns=${POD_TABLE.slice(0, 5).concat(POD_TABLE.slice(6))} rows=${pods} empty="No pods." />
    <h2>Events</h2><${EventsOf} store=${store} kind="Node" name=${name} />`;
}

export function ObjectView({ store, kind, namespace, name }) {
  useTables(store, "workloads");
  const space = namespace === "-" ? "" : namespace, row = store.tables.workloads.get(`${kind}/${space}/${name}`);
  return html`<div class="detail"><p class="kind">${kind}${space && ` in ${space}`}</p><h1>${name}</h1>
    ${row && html`<dl class="facts"><dt>Ready</dt><dd>${row[WORKLOAD.ready]} of ${row[WORKLOAD.desired]}</dd></dl>`}
    <h2>Events</h2><${EventsOf} store=${store} kind=${kind} namespace=${space} name=${name} /><h2>YAML</h2><${Yaml} kind=${kind} namespace=${space} name=${name} version=${row && row.join()} /></div>`;
}
