// Classes: how they end, and whether their timeouts fit.

import { byId, element, setText } from "./element.js";
import { Rows, cell, heading } from "./rows.js";
import { Spark } from "./spark.js";
import { className, count, duration, share } from "./units.js";

const STATUSES = ["completed", "expired", "cancelled"];
const VERDICTS = {
  tight: ["▲", "too tight"],
  fits: ["●", "fits"],
  long: ["▼", "longer than needed"],
  mixed: ["◆", "several timeouts"],
  unknown: ["○", "not enough data yet"],
};

export class Classes {
  constructor() {
    this.rows = new Rows(byId("classes"), makeRow, 6, "Nothing ended in the last 5 min.");
  }

  update(state) {
    const { classes } = state;
    const items = classes.rows.map((row) => ({ ...row, state }));
    if (classes.others) items.push({ ...classes.others, state });
    this.rows.update(items, (item) => (item.name === null ? "others" : `class ${item.name}`));
    setText(byId("classes-lead"),
      "What ended in the last 5 min. The advisor looks at a sample of recent ends, and whether what the expired " +
      `waited for came later (known to within ${duration(classes.late_known_within_ms)}).`);
  }
}

function makeRow(first) {
  const parts = STATUSES.map((status) => element("span", { class: status }));
  const bar = element("div", { class: "proportions", role: "img" }, ...parts);
  const spark = new Spark("expired");
  const verdict = element("strong");
  const says = element("span", { class: "small" });
  const rests = element("span", { class: "quiet small" });
  const ended = cell({ class: "number", "data-label": "ended" });
  const expired = cell({ class: "number", "data-label": "expired" });
  const row = element("tr", {},
    heading(first.name === null ? element("em", {}, "all other classes") : className(first.name)),
    ended,
    element("td", { class: "how", "data-label": "how" }, bar),
    expired,
    element("td", { class: "lately", "data-label": "expired, by 10 s" }, spark.svg),
    element("td", { class: "advice", "data-label": "timeout advisor" }, verdict, " ", says, " ", rests));
  return {
    row,
    update(item) {
      const total = STATUSES.reduce((sum, status) => sum + item[status], 0);
      setText(ended, count(total));
      setText(expired, share(item.expired, total));
      expired.classList.toggle("high", item.expired >= 0.1 * total && total >= 20);
      STATUSES.forEach((status, at) => {
        parts[at].style.flexGrow = item[status];
        parts[at].hidden = !item[status];
      });
      bar.setAttribute("aria-label", STATUSES.map((status) => `${count(item[status])} ${status}`).join(", "));
      bar.title = bar.getAttribute("aria-label");
      spark.update(item.expired_by_step, `expired in 10 s: at most ${count(Math.max(...item.expired_by_step))}`);
      showAdvice(item, verdict, says, rests);
    },
  };
}

function showAdvice({ name, advice, is_sampled: isSampled, state }, verdict, says, rests) {
  const { advisor } = state.classes;
  verdict.className = advice ? `verdict-${advice.verdict}` : "quiet";
  setText(verdict, advice ? VERDICTS[advice.verdict].join(" ") : "");
  if (advice) {
    setText(says, advice.says);
    setText(rests, `From ${count(advice.rests_on)} of ${count(advice.sampled)} operations sampled in ${duration(state.now_ms - advice.since_ms)}.`);
  } else {
    setText(says, "");
    setText(rests, advisor !== "ready" ? advisor
      : name === null ? "" : isSampled ? "being worked out…" : "too many classes to sample this one");
  }
}
