// The file: how large it is, and what it holds.

import { byId, element, setText } from "./element.js";
import { bytes, count, duration, moment } from "./units.js";

const FACTS = [
  ["size, with its log", (state) => bytes(state.file_bytes)],
  ["outcomes kept", (state) => {
    const { first, last } = state.outcomes;
    return last && first ? `${count(last - first + 1)}, numbers ${count(first)} to ${count(last)}` : "none";
  }],
  ["signals taken", (state) => `${count(state.totals.signals)} since the start`],
  ["started", (state) => `${moment(state.started_ms)}, ${duration(state.now_ms - state.started_ms)} ago`],
];

export class File {
  constructor() {
    this.values = FACTS.map(() => element("dd"));
    FACTS.forEach(([name], at) => byId("file").append(element("div", {}, element("dt", {}, name), this.values[at])));
  }

  update(state) {
    FACTS.forEach(([, value], at) => setText(this.values[at], value(state)));
  }
}
