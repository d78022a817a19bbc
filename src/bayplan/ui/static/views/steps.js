// One pod's way from its workload to readiness, as a time line.
import { html, useAnswer, useTables } from "../lib.js";
import { POD } from "../store.js";

export function Steps({ store, namespace, name }) {
  useTables(store, "pods");
  const row = store.tables.pods.get(`${namespace}/${name}`);
  const { data, error } = useAnswer(`/api/steps?${new URLSearchParams({ namespace, name })}`, [namespace, name, row && row.join()]);
  if (error) return html`<p class="notice">${error}</p>`;
  if (!data) return html`<p class="quiet">Reading what was written …</p>`;
  const times = data.steps.map((step) => Date.parse(step.time)).filter(Boolean), first = Math.min(...times);
  let before = first, exact = false;
  return html`<ol class="steps">${data.steps.map((step, at) => {
    const time = Date.parse(step.time), since = time - before, fine = step.time.includes(".");
    const told = since >= 1000 || (since > 0 && fine && exact) ? `+${span(since)}` : "";
    if (time) { before = Math.max(before, time); exact = fine; }
    return html`<li key=${at} class=${step.trouble ? "bad" : step.time ? "done" : step.detail ? "quiet-step" : "open"}>
      <time datetime=${step.time || null}>${time ? `${step.time.slice(11, 23).replace("Z", "")}` : "–"}<small>${told}</small></time>
      <div><b>${step.title}</b> <span class="quiet">${step.who}</span>${step.detail && html`<p class="what">${step.detail}</p>`}<p class="quiet source">${step.source}</p>
      ${step.fields.length > 0 && html`<details><summary>${step.fields.length === 1 ? "1 field" : `${step.fields.length} fields`} written</summary><code>${step.fields.map((one) => html`${one}<br />`)}</code></details>`}</div></li>`;
  })}</ol><p class="quiet">${total(times, row)}</p>`;
}

const span = (milli) => (milli < 1000 ? `${Math.round(milli)} ms` : milli < 120000 ? `${(milli / 1000).toFixed(milli < 10000 ? 1 : 0)} s` : `${Math.round(milli / 60000)} min`);
const total = (times, row) => (row?.[POD.status] === "Running" && times.length > 1
  ? `From first to last: ${span(Math.max(...times) - Math.min(...times))}. Most times of the API have whole seconds, so that steps within one second may seem out of order.` : "");
