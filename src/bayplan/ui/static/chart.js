// One small chart: uPlot draws lines over time; a legend of text has the values at the pointer, or the latest. Loaded when the first chart is shown.
import { html, useEffect, useRef, useState } from "./lib.js";
import uPlot from "./vendor/uplot.js";

const HEIGHT = 130;
const style = document.createElement("link");
Object.assign(style, { rel: "stylesheet", href: "/static/vendor/uplot.css" });
document.head.append(style);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** times: Unix seconds. series: [{label, values, tone, dash}], tone: a colour of the style sheet. format: a value as text. */
export function Chart({ title, times, series, format }) {
  const frame = useRef(), plot = useRef(), [at, setAt] = useState(null), [look, setLook] = useState(0);
  useEffect(() => {
    const turned = () => setLook((one) => one + 1), dark = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("bayplan-theme", turned);
    dark.addEventListener("change", turned);
    return () => { removeEventListener("bayplan-theme", turned); dark.removeEventListener("change", turned); };
  }, []);
  useEffect(() => {
    const made = plot.current = new uPlot(options(series, format, frame.current.clientWidth, setAt), data(times, series), frame.current);
    const sized = new ResizeObserver(([entry]) => made.setSize({ width: Math.floor(entry.contentRect.width), height: HEIGHT }));
    sized.observe(frame.current);
    return () => { sized.disconnect(); made.destroy(); plot.current = null; };
  }, [look, series.map((one) => one.label).join()]);
  useEffect(() => { plot.current?.setData(data(times, series)); }, [times]);
  const shown = at === null || at >= times.length ? times.length - 1 : at;
  return html`<figure class="chart"><figcaption><b>${title}</b> ${times.length > 0 && html`<time>${new Date(times[shown] * 1000).toLocaleTimeString("en-GB")}</time>`}</figcaption>
    <div class="plot" ref=${frame} aria-hidden="true"></div>
    <dl>${series.map((one) => html`<div key=${one.label} class=${one.dash ? "dash" : ""}><dt><i style=${{ borderColor: `var(--${one.tone})` }}></i>${one.label}</dt><dd>${told(one.values[shown], format)}</dd></div>`)}</dl></figure>`;
}

const told = (value, format) => (value === null || value === undefined ? "–" : format(value));
const data = (times, series) => [times, ...series.map((one) => one.values)];

function options(series, format, width, setAt) {
  const axis = { stroke: colour("ink-2"), font: "11px system-ui, sans-serif", grid: { stroke: colour("line-2"), width: 1 }, ticks: { show: false } };
  return {
    width: Math.max(width, 50), height: HEIGHT, legend: { show: false }, padding: [8, 8, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [{ ...axis, space: 90, size: 24, values: "{HH}:{mm}:{ss}" }, { ...axis, space: 30, size: 52, values: (_, all) => all.map(format) }],
    series: [{}, ...series.map((one) => ({ label: one.label, stroke: colour(one.tone), width: 1.5, dash: one.dash ? [5, 4] : undefined, points: { show: false }, spanGaps: true }))],
    hooks: { setCursor: [(made) => setAt(made.cursor.left >= 0 ? made.cursor.idx : null)] },
  };
}

/** What a path answers, asked again after so many seconds as it says; nothing without a path. */
export function useEvery(path, ask) {
  const [state, setState] = useState({});
  useEffect(() => {
    if (!path) return undefined;
    let timer = 0, ended = false;
    const look = () => ask(path).then((answer) => { setState({ answer }); return answer.seconds; }, (error) => { setState((before) => ({ ...before, error: error.message })); return 5; })
      .then((seconds) => { if (!ended) timer = setTimeout(look, seconds * 1000 * (document.hidden ? 10 : 1)); });
    look();
    return () => { ended = true; clearTimeout(timer); };
  }, [path]);
  return state;
}
