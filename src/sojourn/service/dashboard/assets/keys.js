// The keys most waited on.

import { byId, setText } from "./element.js";
import { Rows, cell, findLink, heading } from "./rows.js";
import { count, roughly } from "./units.js";

export class Keys {
  constructor() {
    this.rows = new Rows(byId("keys"), makeRow, 3, "Nobody waits on any key.");
  }

  update(state) {
    const { inspection } = state;
    this.rows.update(inspection?.keys ?? [], (item) => item.key);
    setText(byId("keys-lead"), inspection
      ? `Of ${count(inspection.known_keys)} known keys, ${roughly(state.now_ms - inspection.at_ms)} ago.`
      : "The writer has not been reached yet.");
  }
}

function makeRow(first) {
  const waiting = cell({ class: "number" });
  const progress = cell({ class: "number" });
  const row = document.createElement("tr");
  row.append(heading(findLink(first.key)), waiting, progress);
  return {
    row,
    update(item) {
      setText(waiting, count(item.waiting));
      setText(progress, item.progress === null ? "none yet" : count(item.progress));
    },
  };
}
