// Keeps the store up to date: a snapshot, then server-sent frames of differences; a snapshot again when frames are missing.
import { ask } from "./lib.js";

const LONGEST_PAUSE = 10000;

export class Feed {
  /** told: called with what is wrong with the connection, "" if nothing is. */
  constructor(store, told) {
    this.store = store;
    this.told = told;
    this.pause = 500;
    this.begin();
  }

  async begin() {
    try {
      const snapshot = await ask("/api/snapshot");
      this.number = snapshot.frame;
      this.store.replace(snapshot);
      this.follow();
    } catch (error) {
      this.again(error.message);
    }
  }

  follow() {
    this.source?.close();
    const source = this.source = new EventSource(`/api/changes?after=${this.number}`);
    source.onopen = () => { this.pause = 500; this.told(""); };
    source.addEventListener("frame", (event) => {
      const frame = JSON.parse(event.data);
      if (frame.frame <= this.number) return;
      this.number = frame.frame;
      this.store.apply(frame);
    });
    source.addEventListener("resync", () => { source.close(); this.begin(); });
    source.onerror = () => {
      this.told("The connection to bayplan broke; what is shown may be old.");
      if (source.readyState === EventSource.CLOSED) this.again("bayplan has closed the stream; what is shown may be old");
    };
  }

  again(why) {
    this.source?.close();
    this.told(why);
    setTimeout(() => this.begin(), this.pause);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }
}
