// The wheel: a row for each level, a bar for each bucket, from the present one onwards.

import { byId, drawn, element, setText } from "./element.js";
import { count, duration, roughly } from "./units.js";

const WIDTH = 400;
const HEIGHT = 30;

export class Wheel {
  constructor() {
    this.root = byId("wheel");
    this.told = "";
  }

  update(state) {
    const { inspection } = state;
    if (!inspection) return;
    setText(byId("wheel-lead"),
      "Where the deadlines are. Each row is a level, each bar a bucket of it, from the present one on the left. " +
      `Operations fall from level to level until they expire in the first. As of ${roughly(state.now_ms - inspection.at_ms)} ago.`);
    const told = JSON.stringify([inspection.at_ms, inspection.wheel]);
    if (told === this.told) return;
    this.told = told;
    const used = inspection.wheel.findLastIndex((level) => level.counts.some(Boolean)) + 1;
    const parts = inspection.wheel.slice(0, used).map(draw);
    const spare = inspection.wheel.length - used;
    if (!used) parts.push(element("p", { class: "quiet" }, "It is empty."));
    else if (spare) parts.push(element("p", { class: "quiet small" }, `${spare} more ${spare === 1 ? "level is" : "levels are"} empty.`));
    this.root.replaceChildren(...parts);
  }
}

function draw({ tick_ms: tickMs, counts }, level) {
  const most = Math.max(...counts, 1);
  const total = counts.reduce((sum, number) => sum + number, 0);
  const step = WIDTH / counts.length;
  const bars = counts.map((number, at) => {
    const height = number ? Math.max((number / most) * HEIGHT, 2) : 0;
    const text = `in ${duration(at * tickMs)} to ${duration((at + 1) * tickMs)}: ${count(number)}`;
    return drawn("g", {},
      drawn("title", {}, text),
      drawn("rect", { class: "slot", x: at * step, y: 0, width: step - 2, height: HEIGHT }),
      drawn("rect", { class: "bucket", x: at * step, y: HEIGHT - height, width: step - 2, height }));
  });
  const name = `level ${level}: ${count(total)} wait in ${counts.length} buckets of ${duration(tickMs)}; most in a bucket ${count(total ? most : 0)}`;
  return element("div", { class: "level" },
    element("p", { class: "level-name" }, element("strong", {}, `${duration(tickMs)} a bucket`),
      element("span", { class: "quiet small" }, total ? `${count(total)} wait, at most ${count(most)} in one` : "empty")),
    drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": name }, ...bars),
    element("p", { class: "level-span quiet small", "aria-hidden": "true" }, element("span", {}, "now"), element("span", {}, `+ ${duration(tickMs * counts.length)}`)));
}
