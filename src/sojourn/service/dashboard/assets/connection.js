// Whether the numbers are of now.

import { byId, setText } from "./element.js";
import { ageMs, nowMs } from "./clock.js";
import { duration, moment, roughly } from "./units.js";

const STALE_MS = 3500;

export class Connection {
  constructor() {
    this.line = byId("connection");
    this.has = false;
    this.trouble = null;
    this.isPaused = false;
  }

  good() {
    this.has = true;
    this.trouble = null;
    this.isPaused = false;
    this.show();
  }

  bad(error) {
    this.trouble = reason(error);
    this.show();
  }

  pause() {
    this.isPaused = true;
    this.show();
  }

  /** Also called each second, since silence makes numbers old. */
  show() {
    const isStale = this.has && ageMs() > STALE_MS;
    const kind = this.isPaused ? "paused" : this.trouble || isStale ? "lost" : this.has ? "live" : "waiting";
    this.line.className = `connection ${kind}`;
    document.body.classList.toggle("stale", this.has && kind === "lost");
    if (kind === "live") setText(this.line, "live");
    else if (kind === "paused") setText(this.line, "paused while nobody looks");
    else if (kind === "waiting") setText(this.line, "Connecting…");
    else {
      const old = this.has ? ` The numbers are from ${moment(nowMs() - ageMs())}, ${age()} ago.` : "";
      setText(this.line, `The service cannot be reached.${old} ${this.trouble ?? "No answer yet."}`);
      document.title = "No answer · Sojourn";
    }
  }
}

/** In steps, so that it is not told anew each second. */
function age() {
  if (ageMs() < 10000) return "a few seconds";
  return ageMs() < 60000 ? `more than ${Math.floor(ageMs() / 10000) * 10} s` : `more than ${roughly(Math.floor(ageMs() / 60000) * 60000)}`;
}

/** What an error of the network means to people. */
function reason(error) {
  if (error.status) return `It answered: ${error.message}.`;
  return error.name === "TimeoutError" ? "There was no answer within 5 s." : "There is no connection.";
}

export const since = (state) => duration(Math.min(state.now_ms - state.counted_from_ms, state.waited.over_ms));
