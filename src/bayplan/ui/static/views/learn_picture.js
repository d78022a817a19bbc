// A small cluster as boxes: nodes with their pods, pods that wait, and the objects above them.
import { html } from "../lib.js";
import { byName } from "../format.js";

const SIGNS = { waiting: "waits", starting: "starts", running: "runs", ready: "ready", leaving: "ends", ended: "ended" };
const of = (objects, kind) => [...objects.values()].filter((one) => one.kind === kind).sort((one, other) => byName(one.name, other.name));

export function LessonPicture({ objects, now }) {
  const pods = of(objects, "Pod"), workloads = [...of(objects, "Deployment"), ...of(objects, "ReplicaSet")];
  const waiting = pods.filter((one) => !one.state.node), isNow = (one) => now !== null && now.kind === one.kind && now.name === one.name;
  return html`<div class="little">${workloads.length > 0 && html`<ul class="owners" aria-label="Workloads">${workloads.map((one) => html`<li key=${one.kind + one.name} class=${isNow(one) ? "now" : ""}><small>${one.kind}</small> <b>${one.name}</b> <span>${one.state.ready} of ${one.state.wanted} ready</span></li>`)}</ul>`}
    <div class="boxes">${of(objects, "Node").map((one) => html`<${NodeBox} key=${one.name} node=${one} isNow=${isNow} pods=${pods.filter((pod) => pod.state.node === one.name)} />`)}
      ${waiting.length > 0 && html`<section class="box outside" aria-label="Pods without a node"><h3>without a node</h3><${Pods} pods=${waiting} isNow=${isNow} /></section>`}</div></div>`;
}

function NodeBox({ node, pods, isNow }) {
  const { ready, cordoned, taints, zone, cpu } = node.state;
  return html`<section class=${["box", !ready && "down", isNow(node) && "now"].filter(Boolean).join(" ")} aria-label=${`Node ${node.name}`}><h3>${node.name} <small>${zone}, ${cpu} cpu</small></h3>
    ${!ready && html`<p class="sign bad">not ready</p>`}${cordoned && html`<p class="sign">cordoned</p>`}${taints.map((one) => html`<p key=${one} class="sign taint">${one}</p>`)}
    <${Pods} pods=${pods} isNow=${isNow} /></section>`;
}

function Pods({ pods, isNow }) {
  return html`<ul>${pods.map((one) => html`<li key=${one.name} class=${`pod ${one.state.place}${isNow(one) ? " now" : ""}`} title=${one.name}><b>${short(one)}</b> <span>${SIGNS[one.state.place]}</span>
    ${one.state.nominated && !one.state.node && html`<small>meant for ${one.state.nominated}</small>`}</li>`)}</ul>`;
}

/** The application, what tells its pods apart, and its image's version if it has one. */
const short = ({ name, state }) => [name.includes("-") ? `${state.app}-${name.slice(-5)}` : name, state.image.split(":")[1]].filter(Boolean).join(" :");
