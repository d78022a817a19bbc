// What a node or a pod uses, as two small charts, with what is requested or there is.
import { ask, html, useMemo } from "../lib.js";
import { bytes, cpu } from "../format.js";
import { Chart, useEvery } from "../chart.js";

const amount = (value) => bytes(Math.round(value));

export default function Usage({ kind, namespace = "", name, cpu: cpuBound, memory: memoryBound }) {
  const { answer, error } = useEvery(`/api/usage?${new URLSearchParams({ kind, namespace, name })}`, ask);
  const label = kind === "Node" ? "allocatable" : "requested", problem = error || answer?.missing;
  const lines = useMemo(() => ({ cpu: series(answer?.cpu, label, cpuBound), memory: series(answer?.memory, label, memoryBound) }), [answer, cpuBound, memoryBound]);
  return html`<h2>Usage</h2>${problem && html`<p class="quiet">Usage cannot be shown: ${problem}.</p>`}
    ${answer && !problem && answer.at.length === 0 && html`<p class="quiet">There is no reading yet.</p>`}
    ${answer?.at.length > 0 && html`<div class="charts small"><${Chart} title="CPU" times=${answer.at} series=${lines.cpu} format=${(value) => cpu(Math.round(value))} />
      <${Chart} title="Memory" times=${answer.at} series=${lines.memory} format=${amount} /></div>`}`;
}

const series = (values = [], label, bound) => [{ label: "used", values, tone: "accent" }, ...(bound ? [{ label, values: values.map(() => bound), tone: "ink-3", dash: true }] : [])];
