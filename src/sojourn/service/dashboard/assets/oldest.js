// The operations that have waited longest.

import { byId, element, setText } from "./element.js";
import { nowMs } from "./clock.js";
import { Rows, cell, findLink, heading } from "./rows.js";
import { className, roughly } from "./units.js";

export class Oldest {
  constructor() {
    this.rows = new Rows(byId("oldest"), makeRow, 3, "Nobody waits.");
  }

  update(state) {
    const { inspection } = state;
    this.rows.update(inspection?.oldest ?? [], (item) => item.id);
    setText(byId("oldest-lead"), inspection
      ? `As of ${roughly(state.now_ms - inspection.at_ms)} ago.` : "The writer has not been reached yet.");
  }
}

function makeRow(first) {
  const waits = cell({ class: "number" });
  const left = cell({ class: "number" });
  const row = document.createElement("tr");
  const itsClass = element("span", { class: "quiet small" }, ` ${className(first.class)}`);
  row.append(heading(findLink(first.id), itsClass), waits, left);
  return {
    row,
    update(item) {
      const leftMs = item.deadline_ms - nowMs();
      setText(waits, roughly(nowMs() - item.submitted_ms));
      setText(left, leftMs > 0 ? roughly(leftMs) : "due");
    },
  };
}
