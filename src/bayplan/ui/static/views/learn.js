// Learn: scenarios in virtual time. The server sends a recording; what is shown at any moment is the beginning and the changes up to there.
import { html, useAnswer, useEffect, useMemo, useState } from "../lib.js";
import { to } from "../route.js";
import { useLessonPlayer, objectsAt } from "./learn_player.js";
import { LessonPicture } from "./learn_picture.js";

export default function Learn({ rest }) {
  return rest[0] ? html`<${Scenario} key=${rest[0]} name=${rest[0]} />` : html`<${Scenarios} />`;
}

function Scenarios() {
  const { data, error } = useAnswer("/api/learn");
  if (error) return html`<p class="notice bad" role="alert">${error}</p>`;
  return html`<div class="detail"><h1 class="sans">Learn</h1><p class="quiet lead">Small clusters that show how Kubernetes works. They run in virtual time on this machine, with the same components as a real one: what you see
    is what they wrote, not a drawing.</p>
    <ol class="lessons">${(data || []).map((one) => html`<li key=${one.name}><a href=${to("learn", one.name)}><b>${one.title}</b><span>${one.summary}</span><small>${one.steps} steps</small></a></li>`)}</ol></div>`;
}

function Scenario({ name }) {
  const { data, error } = useAnswer(`/api/learn/${encodeURIComponent(name)}`);
  if (error) return html`<div class="detail"><p class="notice bad" role="alert">${error}</p><p><a href=${to("learn")}>All scenarios</a></p></div>`;
  return data ? html`<${Player} recording=${data} />` : html`<p class="loading" role="status">Playing it in virtual time …</p>`;
}

export const passed = (seconds) => (seconds < 10 ? `${seconds.toFixed(2)} s` : seconds < 120 ? `${Math.round(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`);
const NAMES = { user: "you", nodes: "kubelet", controllers: "a controller" };
export const actorName = (actor) => NAMES[actor] || actor.replaceAll("-", " ");

function Player({ recording }) {
  const { place, step, playing, speed, act } = useLessonPlayer(recording);
  const objects = useMemo(() => objectsAt(recording, place), [recording, place]);
  const now = place > 0 ? recording.changes[place - 1] : null, at = now ? now.at : 0, { length } = recording.changes;
  return html`<div class="detail lesson"><p class="kind"><a href=${to("learn")}>Learn</a></p><h1 class="sans">${recording.title}</h1><p class="quiet lead">${recording.goal}</p>
    <div class="bar replay" role="group" aria-label="Play the scenario"><button class="button main" onClick=${act.toggle}>${playing ? "Pause" : place >= length ? "Play again" : "Play"}</button>
      <button class="button" onClick=${act.back} disabled=${step < 0}>Step back</button><button class="button" onClick=${act.next} disabled=${step >= recording.steps.length - 1}>Step</button>
      <input type="range" min="0" max=${length} step="1" value=${place} aria-label="Write" aria-valuetext=${`write ${place} of ${length}, after ${passed(at)}`} onInput=${(event) => act.seek(Number(event.currentTarget.value))} />
      <label>Speed <select value=${speed} onChange=${(event) => act.setSpeed(Number(event.currentTarget.value))}>${[0.5, 1, 2, 4].map((one) => html`<option key=${one} value=${one}>${one}×</option>`)}</select></label>
      <span class="quiet clock">after ${passed(at)}</span></div>
    <div class="lesson-parts"><div><${LessonPicture} objects=${objects} now=${now} /><${Written} recording=${recording} place=${place} /></div>
      <${Steps} recording=${recording} step=${step} choose=${act.choose} /></div></div>`;
}

function Steps({ recording, step, choose }) {
  const current = recording.steps[step];
  useEffect(() => { document.querySelector(".tour [aria-current=step]")?.scrollIntoView({ block: "nearest" }); }, [step]);
  return html`<section class="tour" aria-label="Steps"><p class="visually-hidden" aria-live="polite">${current ? `Step ${step + 1}: ${current.title}` : ""}</p>
    <ol>${recording.steps.map((one, at) => html`<li key=${at} class=${at === step ? "now" : at < step ? "past" : ""}><button aria-current=${at === step ? "step" : null} onClick=${() => choose(at)}>${one.title}</button>
      ${at === step && html`<${Told} step=${one} change=${recording.changes[one.change]} />`}</li>`)}</ol></section>`;
}

function Told({ step, change }) {
  return html`${step.command && html`<p class="command"><code>${step.command}</code></p>`}<p>${step.text}</p>
    ${change && html`<p class="quiet who"><b>${actorName(step.actor)}</b> ${verb(change)} ${change.kind} <span class="mono">${change.name}</span>, after ${passed(step.at)}</p><${Difference} change=${change} field=${step.field} />`}
    ${step.code.map((one) => html`<details key=${one.symbol} class="code"><summary><span class="mono">${one.symbol}</span> <span class="quiet">${one.file}:${one.line}</span></summary><pre tabindex="0">${one.source}</pre></details>`)}`;
}

const FIELDS = 6;
const VERBS = { create: "create", update: "write", delete: "delete" };
const verb = (one) => `${VERBS[one.verb]}${one.actor === "user" ? "" : "s"}`;
/** The fields of a write, those of one item of a list as one. */
const fieldsOf = (one) => [...new Set(one.difference.map((each) => each.path.replace(/\].*/, "]")))];
const value = (one) => { const text = one === null || one === undefined ? "none" : typeof one === "string" ? one : JSON.stringify(one); return text.length > 180 ? `${text.slice(0, 180)}…` : text; };

/** What a write changed, first the field that the step is about. */
function Difference({ change, field }) {
  const [all, setAll] = useState(false), isAbout = (one) => one.path === field;
  const ordered = [...change.difference.filter(isAbout), ...change.difference.filter((one) => !isAbout(one))];
  const shown = all ? ordered : ordered.slice(0, FIELDS), more = ordered.length - shown.length;
  if (!ordered.length) return null;
  return html`<div><dl class="difference">${shown.map((one) => html`<dt key=${one.path} class=${isAbout(one) ? "about" : ""}>${one.path}</dt><dd>${one.before !== null && html`<del>${value(one.before)}</del> `}<ins>${value(one.after)}</ins></dd>`)}</dl>
    ${more > 0 && html`<button class="button" onClick=${() => setAll(true)}>${more} fields more</button>`}</div>`;
}

/** The latest writes and the latest events. */
function Written({ recording, place }) {
  const done = recording.changes.slice(0, place), writes = done.filter((one) => one.kind !== "Event").slice(-8).reverse(), events = done.filter((one) => one.kind === "Event").slice(-6).reverse();
  return html`<div class="split written"><section aria-label="What was written"><h2>What was written</h2>${writes.length === 0 && html`<p class="quiet">Nothing yet.</p>`}
      <ol>${writes.map((one) => html`<li key=${one.revision}><span class="time">${passed(one.at)}</span><span><b>${actorName(one.actor)}</b> ${verb(one)} ${one.kind} <span class="mono">${one.name}</span>
        ${one.verb === "update" && html`<small>${fieldsOf(one).slice(0, 3).join(", ")}${fieldsOf(one).length > 3 ? ", …" : ""}</small>`}</span></li>`)}</ol></section>
    <section aria-label="Events of the cluster"><h2>Events of the cluster</h2>${events.length === 0 && html`<p class="quiet">None yet.</p>`}
      <ol>${events.map((one) => html`<li key=${one.revision}><span class="time">${passed(one.at)}</span><span class=${one.state.type === "Warning" ? "warning" : ""}><b>${one.state.reason}</b> ${one.state.about}<small>${one.state.message}</small></span></li>`)}</ol></section></div>`;
}
