// How long operations waited, how late expiries were told, how long commits took.

import { byId, setText } from "./element.js";
import { Rows, cell, heading } from "./rows.js";
import { since } from "./connection.js";
import { count, duration } from "./units.js";

const WHAT = [
  ["waited", "waiting time, of all that ended"],
  ["lateness", "lateness: from a deadline to its expiry on disk"],
  ["commit", "commit: one batch on disk"],
];

export class Times {
  constructor() {
    this.rows = new Rows(byId("times"), makeRow, 5, "");
  }

  update(state) {
    const items = WHAT.map(([name, title]) => ({ title, ...state[name] }));
    this.rows.update(items, (item) => item.title);
    setText(byId("times-lead"), `Over the last ${since(state)}. Percentiles are exact to an eighth.`);
  }
}

function makeRow(first) {
  const cells = ["p50", "p99", "longest", "p99 of the last minute"].map((label) => cell({ class: "number", "data-label": label }));
  const row = document.createElement("tr");
  const title = heading(first.title);
  row.append(title, ...cells);
  return {
    row,
    update(item) {
      title.title = `${count(item.count)} counted`;
      const values = [item.p50_ms, item.p99_ms, item.max_ms, item.last_minute.p99_ms];
      values.forEach((value, at) => setText(cells[at], duration(value)));
    },
  };
}
