// The page: top line, list of views, and the view that the URL names.
import { html, later, render, useEffect, useRef, useState, useTables } from "./lib.js";
import { POD, NODE, Store } from "./store.js";
import { Feed } from "./feed.js";
import { count } from "./format.js";
import { useRoute } from "./route.js";
import { MapView } from "./map/view.js";
import { Decisions, Queues } from "./views/scheduler.js";
import { Events, Nodes, Pods, Workloads } from "./views/tables.js";
import { Steps } from "./views/steps.js";
import { WhatIf } from "./views/whatif.js";
import { Why } from "./views/why.js";
import { NodeView, ObjectView, PodView } from "./views/detail.js";

const Charts = later(() => import("./views/charts.js"));
const Learn = later(() => import("./views/learn.js"));
const VIEWS = [
  ["map", "Map", MapView],
  ["pods", "Pods", Pods],
  ["workloads", "Workloads", Workloads],
  ["nodes", "Nodes", Nodes],
  ["events", "Events", Events],
  ["queues", "Queues", Queues],
  ["decisions", "Decisions", Decisions],
  ["charts", "Charts", Charts],
  ["what-if", "What if", WhatIf],
  ["learn", "Learn", Learn],
];
const POD_VIEWS = [{ name: "why", title: "Why", show: Why }, { name: "steps", title: "Timeline", show: Steps }];
const KEYS = [["/", "search"], ["?", "these keys"], ["g then a letter", "go: m map, p pods, w workloads, n nodes, e events, q queues, d decisions, c charts, i what if, l learn"], ["t", "dark or light"], ["Esc", "close, clear"],
  ["← → ↑ ↓", "choose a node on the map"], ["+ − 0", "zoom the map, show all of it"], ["Enter", "open the chosen node"]];

function App({ store }) {
  const route = useRoute();
  const [search, setSearch] = useState("");
  const [broken, setBroken] = useState("");
  const [help, setHelp] = useState(false);
  const box = useRef();
  useEffect(() => { store.feed = new Feed(store, setBroken); }, [store]);
  useTables(store, "status");
  useKeys(box, setHelp, setSearch);
  const { learn } = store.status, [view = learn ? "learn" : "map", ...rest] = route.parts;
  return html`<div class="shell"><a class="skip" href="#main">Skip to the content</a>
    <header class="top"><a class="brand" href="#/map">Bayplan<span>${store.status.title || ""}</span></a>${!learn && html`<${Figures} store=${store} />`}<span class="grow"></span>
      <input class="search" hidden=${learn} ref=${box} type="search" aria-label="Search by name" placeholder="Search by name" value=${search} onInput=${(event) => setSearch(event.currentTarget.value)} spellcheck="false" />
      <button class="plain" onClick=${turnTheme} aria-label="Dark or light">◐</button><button class="plain wide" onClick=${() => setHelp(true)} aria-label="Keys">?</button></header>
    <${Side} store=${store} view=${view} />
    <main id="main" tabindex="-1">${broken && html`<p class="notice bad" role="status">${broken}</p>`}<${Notices} store=${store} />
      ${store.loaded ? html`<${View} store=${store} view=${view} rest=${rest} query=${route.query} search=${search} />` : html`<p class="loading">Reading the cluster …</p>`}</main>
    ${help && html`<${Help} close=${() => setHelp(false)} />`}</div>`;
}

function View({ store, view, rest, query, search }) {
  if (view === "pod") return html`<${PodView} store=${store} namespace=${rest[0]} name=${rest[1]} tab=${rest[2]} views=${POD_VIEWS} />`;
  if (view === "node") return html`<${NodeView} store=${store} name=${rest[0]} tab=${rest[1]} />`;
  if (view === "object") return html`<${ObjectView} store=${store} kind=${rest[0]} namespace=${rest[1]} name=${rest[2]} />`;
  const found = VIEWS.find(([name]) => name === view);
  if (!found) return html`<div class="empty"><h1>There is no such view</h1><p><a href="#/map">To the map</a></p></div>`;
  return html`<${found[2]} key=${view} store=${store} rest=${rest} query=${query} search=${search} />`;
}

function Figures({ store }) {
  useTables(store, "nodes", "pods");
  let running = 0, waiting = 0, unready = 0;
  for (const row of store.tables.pods.values()) { if (row[POD.waits]) waiting += 1; else if (row[POD.status] === "Running") running += 1; }
  for (const row of store.tables.nodes.values()) if (!row[NODE.ready]) unready += 1;
  return html`<dl class="figures"><div><dt>nodes</dt><dd>${count(store.tables.nodes.size)}</dd></div>${unready > 0 && html`<div class="bad"><dt>not ready</dt><dd>${count(unready)}</dd></div>`}
    <div><dt>pods</dt><dd>${count(store.tables.pods.size)}</dd></div><div><dt>running</dt><dd>${count(running)}</dd></div><div class=${waiting ? "warn" : ""}><dt>waiting</dt><dd>${count(waiting)}</dd></div></dl>`;
}

function Side({ store, view }) {
  useTables(store, "nodes", "pods", "workloads", "events");
  const { learn } = store.status, shown = learn ? VIEWS.filter(([name]) => name === "learn") : VIEWS;
  return html`<nav class="side" aria-label="Views">${shown.map(([name, title]) => html`<a key=${name} href=${`#/${name}`} aria-current=${name === view ? "page" : null}>${title}
      ${store.tables[name] && html`<span class="count">${count(store.tables[name].size)}</span>`}</a>`)}
    <span class="foot">bayplan ${store.status.version}<br />${learn ? "no cluster" : store.status.copy ? "a copy" : store.status.changes ? "changes allowed" : "read only"}</span></nav>`;
}

function Notices({ store }) {
  const { unreachable, copy, taken_at: taken } = store.status;
  return html`${unreachable && html`<p class="notice bad" role="status">The cluster does not answer; what is shown may be old. ${unreachable}</p>`}
    ${copy && html`<p class="notice calm">This is ${copy}${taken ? `, taken ${taken}` : ""}. Nothing in it changes.</p>`}`;
}

function Help({ close }) {
  const box = useRef();
  useEffect(() => box.current.focus(), []);
  return html`<div class="help" onClick=${close}><div role="dialog" aria-modal="true" aria-label="Keys" tabindex="-1" ref=${box}><dl class="facts">${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
    <p><button class="button" onClick=${close}>Close</button></p></div></div>`;
}

const INITIALS = { m: "map", p: "pods", w: "workloads", n: "nodes", e: "events", q: "queues", i: "what-if", d: "decisions", l: "learn", c: "charts" };

function useKeys(box, setHelp, setSearch) {
  useEffect(() => {
    let going = false;
    const pressed = (event) => {
      const writes = event.target.matches?.("input:not([type=checkbox]),textarea,select");
      if (event.key === "Escape") { setHelp(false); if (event.target === box.current) { setSearch(""); box.current.blur(); } return; }
      if (writes || event.ctrlKey || event.metaKey || event.altKey) return;
      if (going && INITIALS[event.key]) { location.hash = `#/${INITIALS[event.key]}`; going = false; return; }
      going = event.key === "g";
      if (event.key === "/") { event.preventDefault(); box.current.focus(); }
      else if (event.key === "?") setHelp(true);
      else if (event.key === "t") turnTheme();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function turnTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(dark ? "light" : "dark");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("bayplan-theme", theme); } catch { /* private windows may not keep it */ }
  dispatchEvent(new Event("bayplan-theme"));
}

try { const kept = localStorage.getItem("bayplan-theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* as above */ }
const store = new Store();
globalThis.bayplan = { store };
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} store=${store} />`, root);
