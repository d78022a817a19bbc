// A table of many rows, of which only those in view are in the document. Columns say what a cell shows and how rows are sorted by it.
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { byName, count } from "../format.js";

const ROW = 26, MORE = 12;

/** columns: [{title, cell(row, key), value(row, key), number, wide, name}], rows: [[key, row]]. */
export function Table({ columns, rows, sorted = [0, 1], empty, label }) {
  const frame = useRef();
  const [sort, setSort] = useState(sorted);
  const [top, setTop] = useState(0);
  const [high, setHigh] = useState(600);
  useEffect(() => {
    const sized = new ResizeObserver(([entry]) => setHigh(entry.contentRect.height));
    sized.observe(frame.current);
    return () => sized.disconnect();
  }, []);
  const ordered = useMemo(() => {
    const { value } = columns[sort[0]], sign = sort[1];
    const keyed = rows.map((one) => [value(one[1], one[0]), one]);
    keyed.sort(([one], [other]) => sign * (typeof one === "string" ? byName(one, other) : one - other));
    return keyed.map((one) => one[1]);
  }, [rows, sort, columns]);
  const first = Math.max(0, Math.floor(top / ROW) - MORE), last = Math.min(ordered.length, Math.ceil((top + high) / ROW) + MORE);
  const sortBy = (at) => setSort(at === sort[0] ? [at, -sort[1]] : [at, columns[at].number ? -1 : 1]);
  return html`<div class="rows" ref=${frame} tabindex="0" role="region" aria-label=${label} onScroll=${(event) => setTop(event.currentTarget.scrollTop)}>
    <table aria-rowcount=${ordered.length + 1}><thead><tr>${columns.map((column, at) => html`<th key=${column.title} scope="col" class=${look(column)}
      aria-sort=${at === sort[0] ? (sort[1] > 0 ? "ascending" : "descending") : "none"}><button onClick=${() => sortBy(at)}>${column.title}</button></th>`)}</tr></thead>
    <tbody>${first > 0 && html`<tr class="gap" key="above" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${first * ROW}px` }}></td></tr>`}
    ${ordered.slice(first, last).map(([key, row], at) => html`<tr key=${key} aria-rowindex=${first + at + 2}>${columns.map((column) => html`<td key=${column.title} class=${look(column)}>${column.cell(row, key)}</td>`)}</tr>`)}
    ${last < ordered.length && html`<tr class="gap" key="below" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(ordered.length - last) * ROW}px` }}></td></tr>`}
    </tbody></table>${ordered.length === 0 && html`<p class="empty">${empty}</p>`}</div>`;
}

const look = (column) => [column.number && "n", column.wide && "wide", column.name && "name", column.text && "text"].filter(Boolean).join(" ");

export const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

/** A bar of how much of something is used. */
export function Meter({ used, all, words }) {
  const share = all ? Math.min(1, used / all) : 0;
  return html`<span class="meter">${words}<svg viewBox="0 0 56 6" aria-hidden="true"><rect width="56" height="6" fill="var(--line)" /><rect width=${56 * share} height="6" fill=${share > 0.95 ? "var(--bad)" : "var(--accent)"} /></svg></span>`;
}
