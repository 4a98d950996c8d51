// Asks for the state each second, while the page is seen; says how that goes.

import * as api from "./api.js";

const EVERY_MS = 1000;

export class Poll {
  /** `on` has: state(value), trouble(error), paused(). */
  constructor(on) {
    this.on = on;
    this.timer = null;
    this.isAsking = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.ask()));
  }

  pause() {
    clearTimeout(this.timer);
    this.on.paused();
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.isAsking) return;
    this.isAsking = true;
    const began = performance.now();
    let goesOn = true;
    try {
      this.on.state(await api.state());
    } catch (error) {
      goesOn = this.on.trouble(error);
    }
    this.isAsking = false;
    if (goesOn && !document.hidden) {
      this.timer = setTimeout(() => this.ask(), Math.max(EVERY_MS - (performance.now() - began), 100));
    }
  }
}
