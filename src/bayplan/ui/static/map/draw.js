// Draws the map. Everything that is wide enough is drawn in screen pixels, so that text stays sharp at every zoom.
import { NODE, POD } from "../store.js";
import { amount, count, percent, tone } from "../format.js";
import { podGrid } from "./layout.js";

const STEPS = 24;

/** Colours of the page's theme, and the ramp from free to full. */
export function palette(element) {
  const style = getComputedStyle(element), read = (name) => style.getPropertyValue(name).trim();
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const [free, half, full] = dark
    ? [[38, 46, 56], [52, 98, 148], [158, 203, 247]]
    : [[226, 234, 243], [120, 163, 209], [22, 61, 110]];
  const ramp = Array.from({ length: STEPS + 1 }, (_, step) => {
    const at = step / STEPS, [from, to, part] = at < 0.5 ? [free, half, at * 2] : [half, full, at * 2 - 1];
    return `rgb(${from.map((one, index) => Math.round(one + (to[index] - one) * part)).join(" ")})`;
  });
  return {
    dark, ramp, page: read("--page"), raised: read("--raised"), ink: read("--ink"), ink2: read("--ink-2"), line: read("--line"), accent: read("--accent"),
    good: read("--good"), bad: read("--bad"), warn: read("--warn"), mono: read("--mono"), sans: read("--sans"),
  };
}

/** The ink that is read on a step of the ramp. */
const inkOn = (colours, share) => (colours.dark ? (share > 0.7 ? "#0c141d" : "#e8edf3") : share > 0.66 ? "#fff" : "#1b2530");

/** view: {x, y, zoom}; options: {store, plan, resource, focus, hover, found (Set or null), colours, verdicts}. */
export function draw(context, width, height, view, options) {
  const { plan, colours } = options;
  context.fillStyle = colours.page;
  context.fillRect(0, 0, width, height);
  const screen = (x, y) => [(x - view.x) * view.zoom, (y - view.y) * view.zoom];
  const size = plan.cell * view.zoom;
  drawHeads(context, screen, options);
  for (const pool of plan.pools) {
    const [left, top] = screen(pool.x, pool.y);
    const firstRow = Math.max(0, Math.floor(-top / size)), lastRow = Math.floor((height - top) / size);
    const firstColumn = Math.max(0, Math.floor(-left / size)), lastColumn = Math.min(pool.columns - 1, Math.floor((width - left) / size));
    for (let row = firstRow; row <= lastRow; row += 1) {
      if (row * pool.columns >= pool.nodes.length) break;
      for (let column = firstColumn; column <= lastColumn; column += 1) {
        const name = pool.nodes[row * pool.columns + column];
        if (name === undefined) break;
        drawCell(context, name, left + column * size, top + row * size, size, options);
      }
    }
  }
  for (const [name, look] of [[options.hover, colours.ink2], [options.focus, colours.accent]]) {
    const place = name && plan.places.get(name);
    if (!place) continue;
    const [x, y] = screen(...place);
    context.strokeStyle = look;
    context.lineWidth = 2;
    context.strokeRect(x, y, size - 1, size - 1);
  }
}

function drawHeads(context, screen, { plan, colours }) {
  context.textBaseline = "alphabetic";
  for (const zone of plan.zones) {
    const [x, y] = screen(zone.x, zone.y);
    context.fillStyle = colours.ink;
    context.font = `600 12px ${colours.sans}`;
    const name = zone.name || "no zone";
    context.fillText(name, x, y + 13);
    const wide = context.measureText(name).width;
    context.fillStyle = colours.ink2;
    context.font = `12px ${colours.sans}`;
    context.fillText(count(zone.count), x + wide + 7, y + 13);
  }
  context.fillStyle = colours.ink2;
  context.font = `11px ${colours.mono}`;
  for (const pool of plan.pools) {
    if (!pool.name) continue;
    const [x, y] = screen(pool.x, pool.y);
    context.fillText(pool.name, x, y - 5);
  }
}

function drawCell(context, name, x, y, size, options) {
  const { store, resource, colours, found, verdicts } = options;
  const node = store.tables.nodes.get(name);
  if (!node) return;
  const gap = size > 30 ? 3 : size > 8 ? 1.5 : 0.5, inner = size - gap;
  const [used, all] = store.share(name, resource);
  const share = all ? Math.min(1, Math.max(0, used / all)) : 0;
  const verdict = verdicts?.get(name);
  context.globalAlpha = found && !found.has(name) ? 0.16 : 1;
  context.fillStyle = verdicts ? verdict?.colour || colours.line : all ? colours.ramp[Math.round(share * STEPS)] : colours.line;
  context.fillRect(x, y, inner, inner);
  if (!node[NODE.ready]) hatch(context, x, y, inner, colours.bad, colours.page);
  else if (node[NODE.cordoned] && inner > 54) {
    context.strokeStyle = colours.warn;
    context.lineWidth = 3;
    context.strokeRect(x + 1.5, y + 1.5, inner - 3, inner - 3);
  } else if (node[NODE.cordoned] && inner > 5) hatch(context, x, y, inner, colours.warn, null);
  if (inner > 7 && node[NODE.taints].length) {
    const mark = Math.min(9, inner / 3);
    context.fillStyle = colours.warn;
    context.beginPath();
    context.moveTo(x + inner - mark, y);
    context.lineTo(x + inner, y);
    context.lineTo(x + inner, y + mark);
    context.fill();
  }
  if (inner > 7 && node[NODE.troubles].length) {
    context.fillStyle = colours.bad;
    context.fillRect(x, y + inner - Math.min(4, inner / 4), inner, Math.min(4, inner / 4));
  }
  if (inner > 54) drawInside(context, node, x, y, inner, share, used, all, options, verdict);
  context.globalAlpha = 1;
}

function hatch(context, x, y, size, colour, ground) {
  context.save();
  context.beginPath();
  context.rect(x, y, size, size);
  context.clip();
  if (ground) { context.fillStyle = ground; context.fillRect(x, y, size, size); }
  context.strokeStyle = colour;
  context.lineWidth = size > 30 ? 1.5 : 1;
  context.beginPath();
  const step = Math.max(4, size / 8);
  for (let at = -size; at < size; at += step) { context.moveTo(x + at, y + size); context.lineTo(x + at + size, y); }
  context.globalAlpha *= ground ? 0.9 : 0.55;
  context.stroke();
  context.restore();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  if (size > 6) context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
}

function drawInside(context, node, x, y, size, share, used, all, options, verdict) {
  const { colours, resource } = options;
  const ready = node[NODE.ready], name = node[NODE.name];
  const ink = verdict ? verdict.ink || colours.ink : !ready ? colours.ink : inkOn(colours, share);
  context.save();
  context.beginPath();
  context.rect(x, y, size, size);
  context.clip();
  context.fillStyle = ink;
  context.font = `600 ${size > 150 ? 13 : 11}px ${colours.mono}`;
  context.fillText(name, x + 5, y + 15, size > 90 ? undefined : size - 10);
  let head = 20;
  if (size > 90) {
    context.font = `11px ${colours.sans}`;
    const words = verdict ? verdict.words : ready ? (node[NODE.cordoned] ? "cordoned, " : "") + `${amount(resource, used)} of ${amount(resource, all)}, ${percent(used, all)}` : "not ready";
    context.fillText(words, x + 5, y + 30);
    head = 36;
  }
  if (size > 180 && node[NODE.taints].length) { context.fillText(node[NODE.taints].join("  "), x + 5, y + 44); head = 50; }
  drawPods(context, name, x, y, size, head, ink, options);
  context.restore();
}

function drawPods(context, name, x, y, size, head, ink, { store, colours, foundPods, pods = true }) {
  if (!pods) return;
  const keys = store.used.get(name)?.keys;
  if (!keys?.size) return;
  const { side, columns } = podGrid(keys.size, size, head);
  if (side < 2) return;
  const gap = side > 6 ? 1.5 : 0.5, labels = side > 60;
  let place = 0;
  for (const key of keys) {
    const row = store.tables.pods.get(key);
    const px = x + 5 + (place % columns) * side, py = y + head + 3 + Math.floor(place / columns) * side;
    place += 1;
    if (!row) continue;
    const state = tone(row[POD.status]);
    context.fillStyle = state === "bad" ? colours.bad : state === "warn" ? colours.warn : ink;
    const before = context.globalAlpha;
    context.globalAlpha = before * (foundPods && !foundPods.has(key) ? 0.12 : state === "bad" || foundPods ? 1 : row[POD.status] === "Running" ? 0.62 : 0.34);
    context.fillRect(px, py, side - gap, side - gap);
    context.globalAlpha = before;
    if (labels) {
      context.fillStyle = colours.page;
      context.font = `10px ${colours.mono}`;
      context.fillText(row[POD.name], px + 3, py + 12, side - gap - 6);
    }
  }
}

/** The pod at a point inside a cell whose corner is (x, y); "" if there is none. */
export function podAt(store, name, size, dx, dy) {
  const keys = store.used.get(name)?.keys, gap = size > 30 ? 3 : 1.5, inner = size - gap;
  if (!keys?.size || inner <= 54) return "";
  const taints = store.tables.nodes.get(name)?.[NODE.taints].length;
  const head = inner > 180 && taints ? 50 : inner > 90 ? 36 : 20;
  const { side, columns } = podGrid(keys.size, inner, head);
  const column = Math.floor((dx - 5) / side), row = Math.floor((dy - head - 3) / side);
  if (side < 2 || column < 0 || column >= columns || row < 0) return "";
  return [...keys][row * columns + column] || "";
}
