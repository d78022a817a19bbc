// Keeps the store up to date: a snapshot, then frames of differences; a snapshot again when frames are missing.
//
// Browsers open six connections to a server at most, for all tabs together. So one tab, which holds a lock, has the stream of server-sent events and hands on what comes to the
// others; when it is closed, the lock goes to another one. Each tab takes its own snapshot and keeps its own number of the last frame.
import { ask } from "./lib.js";

const LONGEST_PAUSE = 10000, NAME = "bayplan-feed";

export class Feed {
  /** told: called with what is wrong with the connection, "" if nothing is. */
  constructor(store, told) {
    Object.assign(this, { store, told, pause: 500, number: null, waiting: [], source: null });
    this.tabs = globalThis.BroadcastChannel && navigator.locks ? new BroadcastChannel(NAME) : null;
    if (this.tabs) this.tabs.onmessage = ({ data }) => this.heard(data);
    this.begin();
    if (this.tabs) navigator.locks.request(NAME, () => new Promise(() => { this.lead(); }));
    else this.lead();
  }

  async begin() {
    this.number = null;
    this.waiting = [];
    try {
      const snapshot = await ask("/api/snapshot");
      this.number = snapshot.frame;
      this.store.replace(snapshot);
      for (const frame of this.waiting.splice(0)) this.take(frame);
      if (this.leads) this.follow();
    } catch (error) {
      this.again(error.message);
    }
  }

  lead() {
    this.leads = true;
    if (this.number !== null) this.follow();
  }

  /** Open the stream, as the one tab that has it. */
  follow() {
    this.source?.close();
    const source = this.source = new EventSource(`/api/changes?after=${this.number}`);
    source.onopen = () => { this.pause = 500; this.say(""); };
    source.addEventListener("frame", ({ data }) => { this.tabs?.postMessage({ frame: data }); this.take(JSON.parse(data)); });
    source.addEventListener("resync", () => { source.close(); this.tabs?.postMessage({ resync: true }); this.begin(); });
    source.onerror = () => {
      this.say("The connection to bayplan broke; what is shown may be old.");
      if (source.readyState === EventSource.CLOSED) this.again("bayplan has closed the stream; what is shown may be old");
    };
  }

  /** From the tab that has the stream. */
  heard({ frame, resync, words }) {
    if (frame) this.take(JSON.parse(frame));
    else if (resync) this.begin();
    else this.told(words);
  }

  say(words) { this.told(words); this.tabs?.postMessage({ words }); }

  take(frame) {
    if (this.number === null) this.waiting.push(frame);
    else if (frame.frame > this.number + 1 && !this.leads) this.begin(); // some were missed
    else if (frame.frame > this.number) {
      this.number = frame.frame;
      this.store.apply(frame);
    }
  }

  again(why) {
    this.source?.close();
    this.told(why);
    if (this.leads) this.tabs?.postMessage({ words: why });
    setTimeout(() => { if (this.leads) this.tabs?.postMessage({ resync: true }); this.begin(); }, this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }
}
