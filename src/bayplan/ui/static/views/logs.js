// The log of a container: its last lines, or followed as it is written.
import { asText, html, useAnswer, useEffect, useRef, useState } from "../lib.js";

const MOST = 5000;

export default function Logs({ namespace, name, store }) {
  const [turn, setTurn] = useState(0), [container, setContainer] = useState(""), [previous, setPrevious] = useState(false), [follow, setFollow] = useState(false);
  if (store.status.copy) return html`<p class="quiet">A copy of a cluster has no logs.</p>`;
  const key = [namespace, name, container, previous, turn].join();
  return html`<p class="bar"><label>Container <input class="selector" value=${container} placeholder="the only one" onChange=${(event) => setContainer(event.currentTarget.value.trim())} /></label>
      ${store.status.streams && html`<label><input type="checkbox" checked=${follow} onChange=${(event) => setFollow(event.currentTarget.checked)} /> follow</label>`}
      ${!follow && html`<label><input type="checkbox" checked=${previous} onChange=${(event) => setPrevious(event.currentTarget.checked)} /> of the container before</label>`}
      <button class="button" onClick=${() => setTurn(turn + 1)}>Read again</button></p>
    ${follow ? html`<${Followed} key=${key} namespace=${namespace} name=${name} container=${container} />` : html`<${Last} key=${key} namespace=${namespace} name=${name} container=${container} previous=${previous} />`}`;
}

function Last({ namespace, name, container, previous }) {
  const query = new URLSearchParams({ namespace, name, container, previous: String(previous), lines: "500" });
  const { data, error, loading } = useAnswer(`/api/logs?${query}`, [], asText);
  return error ? html`<p class="notice">${error}</p>` : html`<pre class="log" tabindex="0" aria-label="Log">${data || (loading ? "…" : "The log is empty.")}</pre>`;
}

function Followed({ namespace, name, container }) {
  const [lines, setLines] = useState([]), [state, setState] = useState("Following."), box = useRef(), end = useRef(true);
  useEffect(() => {
    const abort = new AbortController();
    read(`/api/logs/follow?${new URLSearchParams({ namespace, name, container })}`, abort.signal, (fresh) => setLines((before) => [...before, ...fresh].slice(-MOST)))
      .then(() => setState("The log has ended."), (error) => { if (error.name !== "AbortError") setState(error.message); });
    return () => abort.abort();
  }, []);
  useEffect(() => { if (end.current) box.current.scrollTop = box.current.scrollHeight; }, [lines]);
  return html`<p class="quiet" role="status">${state}</p><pre class="log" tabindex="0" aria-label="Log" ref=${box} onScroll=${({ currentTarget: one }) => { end.current = one.scrollHeight - one.scrollTop - one.clientHeight < 30; }}>${lines.join("\n")}</pre>`;
}

/** Read a text line by line, in portions of one animation frame. */
async function read(path, signal, told) {
  const response = await fetch(path, { credentials: "same-origin", signal });
  if (!response.ok) throw new Error((await response.json()).error);
  let rest = "", fresh = [], frame = 0;
  const flush = () => { frame = 0; const some = fresh; fresh = []; if (some.length) told(some); };
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const parts = (rest + piece.value).split("\n");
    rest = parts.pop();
    fresh.push(...parts);
    if (fresh.length > MOST) fresh = fresh.slice(-MOST);
    frame ||= requestAnimationFrame(flush);
  }
  cancelAnimationFrame(frame);
  if (rest) fresh.push(rest);
  flush();
}
