// Where each node is on the map: zones side by side, the pools of a zone one below the other, nodes as square cells. Pure; in pixels at zoom 1.
import { NODE } from "../store.js";
import { byName } from "../format.js";

const PAD = 18, ZONE_HEAD = 24, POOL_HEAD = 18, POOL_GAP = 8, NARROWEST = 150, LARGEST = 220;

/** {cell, width, height, zones: [{name, x, y, width}], pools: [{name, x, y, columns, nodes: [names]}], places: name -> [x, y]}. */
export function layout(nodes, width, height) {
  const zones = grouped(nodes);
  const most = Math.max(1, Math.min(zones.length, Math.floor((width - PAD) / NARROWEST)));
  let columns = most, cell = 0;
  for (let tried = most; tried > Math.max(0, most - 6); tried -= 1) {
    const size = largestCell(zones, width, height, tried);
    if (size > cell * 1.05) { columns = tried; cell = size; }
  }
  return arranged(zones, width, columns, cell >= 12 ? Math.floor(cell) : cell);
}

/** The size of cells with which all zones fit. */
function largestCell(zones, width, height, columns) {
  let low = 2, high = LARGEST;
  for (let turn = 0; turn < 10; turn += 1) {
    const middle = (low + high) / 2;
    if (arrangedHeight(zones, width, columns, middle) <= height) low = middle; else high = middle;
  }
  return low;
}

const wideAndAcross = (width, columns, cell) => {
  const wide = (width - PAD * (columns + 1)) / columns;
  return [wide, Math.max(1, Math.floor(wide / cell))];
};

/** What `arranged` would need, without the places. */
function arrangedHeight(zones, width, columns, cell) {
  const [wide, across] = wideAndAcross(width, columns, cell);
  if (wide < cell) return Infinity;
  let top = PAD;
  for (let first = 0; first < zones.length; first += columns) {
    const high = zones.slice(first, first + columns).map((zone) => zone.pools.reduce(
      (sum, pool) => sum + (pool.name ? POOL_HEAD : 0) + Math.ceil(pool.names.length / across) * cell + POOL_GAP, ZONE_HEAD));
    top += Math.max(...high) + PAD / 2;
  }
  return top;
}

function grouped(nodes) {
  const zones = new Map();
  for (const row of nodes) {
    const zone = row[NODE.zone], pool = row[NODE.pool];
    if (!zones.has(zone)) zones.set(zone, new Map());
    const pools = zones.get(zone);
    if (!pools.has(pool)) pools.set(pool, []);
    pools.get(pool).push(row[NODE.name]);
  }
  return [...zones].sort((one, other) => byName(one[0], other[0])).map(([name, pools]) => ({
    name,
    count: [...pools.values()].reduce((sum, names) => sum + names.length, 0),
    pools: [...pools].sort((one, other) => byName(one[0], other[0])).map(([pool, names]) => ({ name: pool, names: names.sort(byName) })),
  }));
}

function arranged(zones, width, columns, cell) {
  const [wide, across] = wideAndAcross(width, columns, cell);
  const found = { cell, width, zones: [], pools: [], places: new Map() };
  let top = PAD;
  for (let first = 0; first < zones.length; first += columns) {
    let lowest = top;
    zones.slice(first, first + columns).forEach((zone, at) => {
      const x = PAD + at * (wide + PAD);
      found.zones.push({ name: zone.name, count: zone.count, x, y: top, width: wide });
      let y = top + ZONE_HEAD;
      for (const pool of zone.pools) {
        if (pool.name) y += POOL_HEAD;
        found.pools.push({ name: pool.name, x, y, columns: across, nodes: pool.names });
        pool.names.forEach((name, place) => {
          found.places.set(name, [x + (place % across) * cell, y + Math.floor(place / across) * cell]);
        });
        y += Math.ceil(pool.names.length / across) * cell + POOL_GAP;
      }
      lowest = Math.max(lowest, y);
    });
    top = lowest + PAD / 2;
  }
  found.height = top;
  return found;
}

/** The node at a point, "" if there is none. */
export function nodeAt(plan, x, y) {
  for (const pool of plan.pools) {
    const column = Math.floor((x - pool.x) / plan.cell), row = Math.floor((y - pool.y) / plan.cell);
    if (column < 0 || column >= pool.columns || row < 0) continue;
    const place = row * pool.columns + column;
    if (place < pool.nodes.length) return pool.nodes[place];
  }
  return "";
}

/** The nearest node in a direction (dx, dy: -1, 0 or 1) from another one. */
export function neighbour(plan, name, dx, dy) {
  const from = plan.places.get(name);
  if (!from) return plan.pools[0]?.nodes[0] || "";
  let best = name, least = Infinity;
  for (const [other, [x, y]] of plan.places) {
    const along = (x - from[0]) * dx + (y - from[1]) * dy, aside = Math.abs((x - from[0]) * dy) + Math.abs((y - from[1]) * dx);
    if (along < plan.cell / 2) continue;
    const distance = along + 3 * aside;
    if (distance < least) { least = distance; best = other; }
  }
  return best;
}

/** Where the pods of a node are inside its cell: {side, columns}, side in the unit of `size`. */
export function podGrid(count, size, head) {
  const width = size - 8, height = size - head - 8;
  if (count === 0 || width <= 0 || height <= 0) return { side: 0, columns: 1 };
  let side = Math.min(14 * Math.max(1, size / 120), Math.sqrt((width * height) / count));
  while (side > 1 && Math.floor(width / side) * Math.floor(height / side) < count) side -= 0.25;
  return { side, columns: Math.max(1, Math.floor(width / side)) };
}
