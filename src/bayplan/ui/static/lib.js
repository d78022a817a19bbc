// The three libraries in one place, and hooks that follow the store.
import { h, render, Fragment } from "./vendor/preact.js";
import { useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { h, render, Fragment, useState, useEffect, useRef, useMemo, useCallback, useLayoutEffect };

/** Render again when one of the tables has changed; at most once per animation frame. Returns a number that grows. */
export function useTables(store, ...names) {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    let frame = 0;
    const stop = store.follow(names, () => {
      frame ||= requestAnimationFrame(() => { frame = 0; setVersion((one) => one + 1); });
    });
    return () => { cancelAnimationFrame(frame); stop(); };
  }, [store, names.join()]);
  return version;
}

/** A component whose module is loaded when it is first shown. */
export function later(load) {
  let Loaded = null;
  return (props) => {
    const [, setReady] = useState(Boolean(Loaded));
    const [error, setError] = useState("");
    useEffect(() => { if (!Loaded) load().then((module) => { Loaded = module.default; setReady(true); }, () => setError("This part of the page cannot be loaded; bayplan may have been stopped.")); }, []);
    if (error) return html`<p class="notice bad" role="alert">${error}</p>`;
    return Loaded ? html`<${Loaded} ...${props} />` : html`<p class="loading">…</p>`;
  };
}

/** What a path answers: {data, error, loading}. Asked again when `parts` change. */
export function useAnswer(path, parts = [path], read = (response) => response.json()) {
  const [state, setState] = useState({ loading: true });
  useEffect(() => {
    if (!path) { setState({}); return undefined; }
    const abort = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    ask(path, { signal: abort.signal }, read)
      .then((data) => setState({ data }), (error) => { if (error.name !== "AbortError") setState({ error: error.message }); });
    return () => abort.abort();
  }, parts);
  return state;
}

/** A request to the page's own server. Throws an Error with the server's words. */
export async function ask(path, options = {}, read = (response) => response.json()) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("bayplan does not answer; it may have been stopped");
  }
  if (response.ok) return read(response);
  let said = {};
  try { said = await response.json(); } catch { /* no JSON: the status has to do */ }
  throw Object.assign(new Error(said.error || `status ${response.status}`), { fields: said.fields || [] });
}

export const asText = (response) => response.text();

/** A request with a body, which must be answered with JSON. */
export function send(path, body, options = {}) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });
}
