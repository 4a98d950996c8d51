// A key that was found: how far it has come, and who waits on it.

import { askSignal } from "./actions.js";
import { nowMs } from "./clock.js";
import { element, setText } from "./element.js";
import { findLink, heading } from "./rows.js";
import { className, count, roughly } from "./units.js";

export const MOST_WAITING = 20;

/** `ticking` gets functions that show times which go on; `again` looks again. */
export function keyCard(name, found, waiting, ticking, again) {
  const card = element("article", { class: "card" },
    element("h2", { tabindex: "-1", "data-name": "key title" }, name, " ", element("span", { class: "quiet" }, "key")),
    element("dl", { class: "facts" },
      fact("progress", found.progress === null ? "none yet" : count(found.progress)),
      fact("waiting", `${count(found.waiting)} ${found.waiting === 1 ? "operation" : "operations"}`)));
  if (waiting.length) card.append(waiters(name, waiting, ticking));
  const next = waiting.flatMap((each) => each.requires).find((each) => each.key === name)?.offset ?? 1;
  card.append(element("p", { class: "buttons" }, signalButton(name, found.progress, next, again)));
  return card;
}

export const signalButton = (name, progress, offset, again) => element("button", {
  type: "button", "data-name": "signal", onclick: () => askSignal(name, progress, offset, again),
}, "Signal this key…");

const fact = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));

function waiters(name, waiting, ticking) {
  const title = waiting.length < MOST_WAITING
    ? "Operations that wait on it" : `The first ${MOST_WAITING} operations that wait on it`;
  return element("div", { class: "scroll" }, element("table", {},
    element("caption", { class: "quiet small" }, title),
    element("thead", {}, element("tr", {}, ...["id and class", "needs", "time left"].map((text, at) =>
      element("th", { scope: "col", class: at ? "number" : null }, text)))),
    element("tbody", {}, ...waiting.map((each) => waiter(name, each, ticking)))));
}

function waiter(name, each, ticking) {
  const left = element("td", { class: "number" });
  ticking.push(() => setText(left, roughly(Math.max(each.deadline_ms - nowMs(), 0))));
  const needs = each.requires.filter((one) => one.key === name).map((one) => count(one.offset)).join(", ");
  return element("tr", {},
    heading(findLink(each.id), element("span", { class: "quiet small" }, ` ${className(each.class)}`)),
    element("td", { class: "number" }, needs), left);
}
