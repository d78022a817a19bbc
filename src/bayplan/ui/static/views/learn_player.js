// Where a scenario stands: how many of its changes have happened and which step is told. Playing waits at each step as long as its text takes to read.
import { useEffect, useState } from "../lib.js";

const BETWEEN = 450, PER_WORD = 260, LEAST = 2500;

/** The last step that has happened after so many changes; -1 if none has. */
export function stepAt(recording, place) {
  let found = -1;
  recording.steps.forEach((one, at) => { if (one.change < place) found = at; });
  return found;
}

/** The next moment: another step of the same change, or one change more. Returns [place, step], or null at the end. */
export function following(recording, place, step) {
  const next = recording.steps[step + 1];
  if (next && next.change < place) return [place, step + 1];
  if (place >= recording.changes.length) return null;
  const first = recording.steps.findIndex((one, at) => at > step && one.change === place);
  return [place + 1, first >= 0 ? first : step];
}

export function useLessonPlayer(recording) {
  const [{ place, step }, setMoment] = useState({ place: 0, step: -1 });
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const [fresh, setFresh] = useState(false);
  useEffect(() => {
    if (!playing) return undefined;
    const next = following(recording, place, step);
    if (!next) { setPlaying(false); return undefined; }
    const reading = fresh ? Math.max(LEAST, PER_WORD * recording.steps[step].text.split(" ").length) : BETWEEN;
    const timer = setTimeout(() => { setFresh(next[1] !== step); setMoment({ place: next[0], step: next[1] }); }, reading / speed);
    return () => clearTimeout(timer);
  }, [playing, place, step, speed, fresh, recording]);
  const choose = (at) => { setFresh(true); setMoment({ place: at < 0 ? 0 : recording.steps[at].change + 1, step: at }); };
  const act = {
    toggle: () => { if (!playing && place >= recording.changes.length) choose(-1); setFresh(false); setPlaying(!playing); },
    next: () => { setPlaying(false); choose(Math.min(step + 1, recording.steps.length - 1)); },
    back: () => { setPlaying(false); choose(Math.max(step - 1, -1)); },
    choose: (at) => { setPlaying(false); choose(at); },
    seek: (to) => { setPlaying(false); setFresh(false); setMoment({ place: to, step: stepAt(recording, to) }); },
    setSpeed,
  };
  return { place, step, playing, speed, act };
}

/** The objects after so many changes: key -> change whose state is shown. */
export function objectsAt(recording, place) {
  const objects = new Map();
  for (const one of recording.initial) objects.set(`${one.kind}/${one.name}`, one);
  for (const one of recording.changes.slice(0, place)) {
    if (one.kind === "Event") continue;
    if (one.state === null) objects.delete(`${one.kind}/${one.name}`);
    else if (Object.keys(one.state).length) objects.set(`${one.kind}/${one.name}`, one);
  }
  return objects;
}
