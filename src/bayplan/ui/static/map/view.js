// The map as a part of the page: pointer, wheel, keyboard, tooltip, and a sentence for those who cannot see it.
import { html, useEffect, useMemo, useRef, useState, useTables } from "../lib.js";
import { NODE, POD } from "../store.js";
import { amount, count, percent } from "../format.js";
import { go, place } from "../route.js";
import { layout, neighbour, nodeAt } from "./layout.js";
import { draw, palette, podAt } from "./draw.js";

const CLOSEST = 900;   // pixels of a cell
const PAN = 60;

/** verdicts: node -> {colour, ink, words} in place of the free share; null for that. pods: whether those of the present are shown inside. only: nodes that stand out. */
export function ClusterMap({ store, resource, search, verdicts = null, height = null, pods = true, only = null }) {
  const canvas = useRef(), view = useRef({ x: 0, y: 0, zoom: 1 }), dirty = useRef(() => {}), plan = useRef(null), pointers = useRef(new Map());
  const [hover, setHover] = useState(null);
  const [focus, setFocus] = useState("");
  const found = useFound(store, search);
  const shape = useShape(store);
  const state = { store, resource, focus, hover: hover?.node, verdicts, pods, ...found, ...(only ? { found: only } : {}) };
  const latest = useRef(state);
  latest.current = state;

  useEffect(() => {
    const element = canvas.current, context = element.getContext("2d", { alpha: false });
    let frame = 0, colours = palette(element);
    const paint = () => {
      frame = 0;
      if (!plan.current) return;
      const ratio = devicePixelRatio || 1;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      draw(context, element.clientWidth, element.clientHeight, view.current, { ...latest.current, plan: plan.current, colours });
    };
    dirty.current = () => { frame ||= requestAnimationFrame(paint); };
    const fit = () => {
      const ratio = devicePixelRatio || 1;
      element.width = Math.round(element.clientWidth * ratio);
      element.height = Math.round(element.clientHeight * ratio);
      plan.current = layout(store.tables.nodes.values(), element.clientWidth, element.clientHeight);
      dirty.current();
    };
    element.fit = fit;
    const sized = new ResizeObserver(fit);
    sized.observe(element);
    const themed = () => { colours = palette(element); dirty.current(); };
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", themed);
    addEventListener("bayplan-theme", themed);
    const stop = store.follow(["nodes", "pods"], () => dirty.current());
    return () => { sized.disconnect(); stop(); cancelAnimationFrame(frame); media.removeEventListener("change", themed); removeEventListener("bayplan-theme", themed); };
  }, [store]);
  useEffect(() => canvas.current.fit(), [shape]);
  useEffect(() => dirty.current());

  const cell = () => plan.current.cell * view.current.zoom;
  const zoomAt = (factor, x, y) => {
    const at = view.current, zoom = Math.min(Math.max(1, at.zoom * factor), Math.max(1, CLOSEST / plan.current.cell));
    at.x += x / at.zoom - x / zoom;
    at.y += y / at.zoom - y / zoom;
    at.zoom = zoom;
    keepInside(at, canvas.current, plan.current);
    dirty.current();
  };
  const moveBy = (dx, dy) => {
    view.current.x -= dx / view.current.zoom;
    view.current.y -= dy / view.current.zoom;
    keepInside(view.current, canvas.current, plan.current);
    dirty.current();
  };
  const whatIsAt = (x, y) => {
    const at = view.current, node = nodeAt(plan.current, at.x + x / at.zoom, at.y + y / at.zoom);
    if (!node) return null;
    const [left, top] = plan.current.places.get(node);
    return { node, pod: pods && podAt(store, node, cell(), (at.x - left) * at.zoom + x, (at.y - top) * at.zoom + y), x, y };
  };
  const reveal = (name) => {
    const [x, y] = plan.current.places.get(name) || [0, 0], at = view.current, size = plan.current.cell;
    const wide = canvas.current.clientWidth / at.zoom, high = canvas.current.clientHeight / at.zoom;
    if (x < at.x || x + size > at.x + wide) at.x = x + size / 2 - wide / 2;
    if (y < at.y || y + size > at.y + high) at.y = y + size / 2 - high / 2;
    keepInside(at, canvas.current, plan.current);
  };

  const onPointerDown = (event) => {
    canvas.current.setPointerCapture(event.pointerId);
    pointers.current.set(event.pointerId, { x: event.offsetX, y: event.offsetY, moved: 0 });
  };
  const onPointerMove = (event) => {
    const held = pointers.current.get(event.pointerId), x = event.offsetX, y = event.offsetY;
    if (!held) { if (event.pointerType === "mouse") setHover(whatIsAt(x, y)); return; }
    if (pointers.current.size === 2) {
      const [one, other] = [...pointers.current.values()].map((p) => ({ ...p })), before = Math.hypot(one.x - other.x, one.y - other.y);
      held.x = x; held.y = y; held.moved = 99;
      const [now, then] = [...pointers.current.values()];
      zoomAt(Math.hypot(now.x - then.x, now.y - then.y) / Math.max(1, before), (now.x + then.x) / 2, (now.y + then.y) / 2);
      return;
    }
    held.moved += Math.abs(x - held.x) + Math.abs(y - held.y);
    moveBy(x - held.x, y - held.y);
    held.x = x; held.y = y;
    if (held.moved > 5) setHover(null);
  };
  const onPointerUp = (event) => {
    const held = pointers.current.get(event.pointerId);
    pointers.current.delete(event.pointerId);
    if (!held || held.moved > 5) return;
    const there = whatIsAt(event.offsetX, event.offsetY);
    if (!there) return;
    if (event.pointerType !== "mouse" && hover?.node !== there.node) { setHover(there); return; }
    open(there);
  };
  const open = ({ node, pod }) => { if (pod) go("pod", ...pod.split("/")); else go("node", node); };
  const onWheel = (event) => {
    event.preventDefault();
    zoomAt(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0018)), event.offsetX, event.offsetY);
    setHover(whatIsAt(event.offsetX, event.offsetY));
  };
  useEffect(() => {
    const element = canvas.current;
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  });
  const onKeyDown = (event) => {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const middle = [canvas.current.clientWidth / 2, canvas.current.clientHeight / 2];
    if (arrows && event.shiftKey) moveBy(-arrows[0] * PAN, -arrows[1] * PAN);
    else if (arrows) { const next = neighbour(plan.current, focus, ...arrows); setFocus(next); reveal(next); setHover(null); }
    else if (event.key === "Enter" && focus) go("node", focus);
    else if (event.key === "+" || event.key === "=") zoomAt(1.4, ...middle);
    else if (event.key === "-") zoomAt(1 / 1.4, ...middle);
    else if (event.key === "0") { view.current = { x: 0, y: 0, zoom: 1 }; dirty.current(); }
    else return;
    event.preventDefault();
  };

  return html`<div class="map" style=${height ? { flex: "none", height: `${height}px` } : null}>
    <canvas ref=${canvas} tabindex="0" role="application" aria-label=${`Map of ${count(store.tables.nodes.size)} nodes. Arrow keys choose a node, Enter opens it, plus and minus zoom, 0 shows all.`}
      aria-describedby="map-focus" onPointerDown=${onPointerDown} onPointerMove=${onPointerMove} onPointerUp=${onPointerUp}
      onPointerLeave=${() => setHover(null)} onPointerCancel=${(event) => pointers.current.delete(event.pointerId)} onKeyDown=${onKeyDown}></canvas>
    <p id="map-focus" class="visually-hidden" aria-live="polite">${focus ? sentence(store, focus, resource, verdicts) : ""}</p>
    ${hover && html`<${Tip} store=${store} there=${hover} resource=${resource} verdicts=${verdicts} frame=${canvas.current} />`}
  </div>`;
}

function keepInside(at, element, plan) {
  const wide = element.clientWidth / at.zoom, high = element.clientHeight / at.zoom;
  at.x = Math.min(Math.max(0, at.x), Math.max(0, plan.width - wide));
  at.y = Math.min(Math.max(0, at.y), Math.max(0, plan.height - high));
}

/** A value that changes when nodes come, go or change groups: then the map is laid out anew. */
function useShape(store) {
  const version = useTables(store, "nodes");
  return useMemo(() => {
    let text = "";
    for (const row of store.tables.nodes.values()) text += `${row[NODE.name]}|${row[NODE.zone]}|${row[NODE.pool]};`;
    return text;
  }, [version]);
}

/** Nodes and pods whose names a search finds; null for all. */
function useFound(store, search) {
  const version = useTables(store, ...(search ? ["nodes", "pods"] : ["none"]));
  return useMemo(() => {
    const text = search.trim().toLowerCase();
    if (!text) return { found: null, foundPods: null };
    const found = new Set(), foundPods = new Set();
    for (const name of store.tables.nodes.keys()) if (name.includes(text)) found.add(name);
    for (const [key, row] of store.tables.pods) if (key.includes(text)) { foundPods.add(key); if (row[POD.node]) found.add(row[POD.node]); }
    return { found, foundPods: foundPods.size ? foundPods : null };
  }, [search, version]);
}

function sentence(store, name, resource, verdicts) {
  const row = store.tables.nodes.get(name);
  if (!row) return "";
  const [used, all] = store.share(name, resource), keys = store.used.get(name)?.keys.size || 0;
  const verdict = verdicts?.get(name);
  return `Node ${name}, ${row[NODE.ready] ? "ready" : "not ready"}${row[NODE.cordoned] ? ", cordoned" : ""}, ${keys} pods, `
    + `${amount(resource, used)} of ${amount(resource, all)} ${resource} requested${verdict ? `; ${verdict.words}` : ""}`;
}

function Tip({ store, there, resource, verdicts, frame }) {
  useTables(store, "nodes", "pods");
  const row = store.tables.nodes.get(there.node);
  if (!row) return null;
  const right = there.x > frame.clientWidth / 2, low = there.y > frame.clientHeight / 2;
  const style = {
    [right ? "right" : "left"]: `${right ? frame.clientWidth - there.x + 12 : there.x + 14}px`,
    [low ? "bottom" : "top"]: `${low ? frame.clientHeight - there.y + 10 : there.y + 14}px`,
  };
  const pod = there.pod && store.tables.pods.get(there.pod);
  if (pod) {
    return html`<div class="tip" style=${style}><b>${there.pod}</b><dl>
      <dt>status</dt><dd>${pod[POD.status]}</dd><dt>requests</dt><dd>${amount("cpu", pod[POD.cpu])} cpu, ${amount("memory", pod[POD.memory])}</dd>
      ${pod[POD.owner] && html`<dt>owner</dt><dd>${pod[POD.owner]}</dd>`}<dt>node</dt><dd>${there.node}</dd></dl></div>`;
  }
  const verdict = verdicts?.get(there.node);
  const shown = new Set(["cpu", "memory", "pods", resource]);
  return html`<div class="tip" style=${style}><b>${there.node}</b>
    ${verdict && html`<div>${verdict.words}</div>`}
    <dl><dt>state</dt><dd>${[row[NODE.ready] ? "ready" : "not ready", row[NODE.cordoned] && "cordoned", ...row[NODE.troubles]].filter(Boolean).join(", ")}</dd>
    ${[...shown].map((name) => { const [used, all] = store.share(there.node, name); return html`<dt>${name}</dt><dd>${amount(name, used)} of ${amount(name, all)} (${percent(used, all)})</dd>`; })}
    ${row[NODE.taints].length > 0 && html`<dt>taints</dt><dd>${row[NODE.taints].join(", ")}</dd>`}</dl></div>`;
}

/** The ramp from free to full, with its words. */
export function Legend() {
  const canvas = useRef();
  useEffect(() => {
    const paint = () => {
      const element = canvas.current, context = element.getContext("2d"), { ramp } = palette(element);
      element.width = ramp.length;
      element.height = 1;
      ramp.forEach((colour, at) => { context.fillStyle = colour; context.fillRect(at, 0, 1, 1); });
    };
    paint();
    addEventListener("bayplan-theme", paint);
    return () => removeEventListener("bayplan-theme", paint);
  }, []);
  return html`<span class="legend">free <canvas ref=${canvas} aria-hidden="true"></canvas> full</span>`;
}

export function MapView({ store, search }) {
  useTables(store, "nodes");
  const [resource, setResource] = useState("cpu");
  if (!store.tables.nodes.size) return html`<${NoNodes} store=${store} />`;
  return html`<div class="bar"><h1>Nodes by free share of</h1>
      <div class="choice" role="group" aria-label="Resource">${store.resources().map((name) => html`<button key=${name} aria-pressed=${name === resource} onClick=${() => setResource(name)}>${name}</button>`)}</div>
      <${Legend} /><span class="grow"></span><span class="quiet wide">wheel zooms, drag moves, <kbd>/</kbd> searches, <kbd>?</kbd> shows keys</span></div>
    <${ClusterMap} store=${store} resource=${resource} search=${search} />`;
}

function NoNodes({ store }) {
  const refused = store.status.refused?.Node;
  return html`<div class="empty"><h1>${refused ? "Nodes cannot be shown" : "The cluster has no nodes"}</h1><p>${refused || "The map is drawn as soon as one joins. Everything else is in the tables."}</p>
    <p><a href="#/pods">Pods</a></p></div>`;
}
export { place };
