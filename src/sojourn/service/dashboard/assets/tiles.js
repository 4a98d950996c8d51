// Waiting now, and what comes and goes each second.

import { byId, element, setText } from "./element.js";
import { Spark, sums } from "./spark.js";
import { count, duration, rate, short } from "./units.js";

const LATELY = 10; // seconds that a rate is taken over
const GROUP = 5; // seconds a bar

const KINDS = [
  ["waiting", "waiting now", "operations"],
  ["submitted", "submitted", "a second"],
  ["completed", "completed", "a second"],
  ["expired", "expired", "a second"],
  ["cancelled", "cancelled", "a second"],
];

export class Tiles {
  constructor() {
    this.tiles = new Map(KINDS.map(([name, title, unit]) => [name, new Tile(name, title, unit)]));
    byId("tiles").append(...[...this.tiles.values()].map((tile) => tile.root));
  }

  update(state) {
    const { rates } = state;
    const counted = Math.min((state.now_ms - state.counted_from_ms) / rates.step_ms, rates.submitted.length);
    const span = duration(Math.round(counted) * rates.step_ms);
    for (const [name] of KINDS.slice(1)) {
      const values = rates[name];
      const over = Math.max(Math.min(LATELY, Math.floor(counted)), 1);
      const mean = values.slice(-over).reduce((sum, value) => sum + value, 0) / over;
      const peak = Math.max(...values);
      this.tiles.get(name).update(rate(mean), sums(values, GROUP), counted, span,
        `peak ${count(peak)} in a second`, `${count(state.totals[name])} since the start`);
    }
    const waiting = waitingBefore(state);
    this.tiles.get("waiting").update(short(state.waiting), waiting.filter((_, at) => at % GROUP === GROUP - 1), counted, span,
      `peak ${count(Math.max(...waiting, 0))}`,
      state.max_waiting === null ? "no limit" : `at most ${count(state.max_waiting)}`);
    setText(byId("rates-lead"),
      `Rates are means of the last ${LATELY} s. Each bar is ${GROUP} s; together they are the last ${span}.`);
  }
}

class Tile {
  constructor(name, title, unit) {
    this.many = element("span", { class: "many" });
    this.peak = element("p", { class: "quiet small" });
    this.total = element("p", { class: "quiet small" });
    this.spark = new Spark(name);
    this.title = title;
    this.root = element("div", { class: `tile ${name}`, role: "group", "aria-label": title },
      element("h3", {}, element("span", { class: `swatch ${name}`, "aria-hidden": "true" }), title),
      element("p", { class: "amount" }, this.many, ` ${unit}`), this.spark.svg, this.peak, this.total);
  }

  update(many, bars, counted, span, peak, total) {
    setText(this.many, many);
    setText(this.peak, peak);
    setText(this.total, total);
    this.spark.update(bars, `${this.title} over the last ${span}: ${peak}`, bars.length - Math.ceil(counted / GROUP));
  }
}

/** How many waited at the end of each second: from now backwards. */
function waitingBefore(state) {
  const { submitted, completed, expired, cancelled } = state.rates;
  const waiting = new Array(submitted.length);
  let number = state.waiting;
  for (let at = submitted.length - 1; at >= 0; at--) {
    waiting[at] = Math.max(number, 0);
    number += completed[at] + expired[at] + cancelled[at] - submitted[at];
  }
  return waiting;
}
