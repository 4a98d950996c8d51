// Who reads outcomes, and how far behind each is.

import { byId, setText } from "./element.js";
import { Rows, cell, heading } from "./rows.js";
import { count, roughly } from "./units.js";

export class Subscribers {
  constructor() {
    this.rows = new Rows(byId("subscribers"), makeRow, 4, "No subscriber has a position.");
  }

  update(state) {
    const items = state.subscribers.map((each) => ({ ...each, now_ms: state.now_ms }));
    this.rows.update(items, (item) => item.name);
    setText(byId("subscribers-lead"), `The last outcome is number ${count(state.outcomes.last)}.`);
  }
}

function makeRow(first) {
  const behind = cell({ class: "number" });
  const position = cell({ class: "number" });
  const how = cell({});
  const row = document.createElement("tr");
  row.append(heading(first.name), behind, position, how);
  return {
    row,
    update(item) {
      setText(behind, count(item.behind));
      setText(position, count(item.position));
      const still = item.now_ms - item.moved_ms;
      const moves = !item.behind ? "up to date" : still < 5000 ? "moving" : `has not moved for ${roughly(still)}`;
      setText(how, [item.has_webhook ? "webhook" : null, item.error ?? moves].filter(Boolean).join(": "));
      row.classList.toggle("bad", Boolean(item.error) || (item.behind >= 1000 && still >= 60000));
    },
  };
}
