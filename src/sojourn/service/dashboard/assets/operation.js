// An operation that was found: what it waits for, what of that holds, and for how long still.

import { askCancel, askSignal } from "./actions.js";
import { nowMs } from "./clock.js";
import { element, setText } from "./element.js";
import { findLink, heading } from "./rows.js";
import { className, count, duration, moment, roughly } from "./units.js";

const MOST_PAYLOAD = 20000;

/** `ticking` gets functions that show times which go on; `again` looks again. */
export function operationCard(found, ticking, again) {
  const isWaiting = found.status === "waiting";
  const card = element("article", { class: "card" },
    element("h2", { tabindex: "-1", "data-name": "title" },
      element("span", { class: `swatch ${found.status}`, "aria-hidden": "true" }),
      found.id, " ", element("span", { class: "quiet" }, found.status)),
    facts(found, isWaiting, ticking),
    element("p", {}, summary(found, isWaiting)),
    requirements(found, isWaiting, again),
    ...payload(found));
  if (isWaiting) {
    card.append(element("p", { class: "buttons" }, element("button", {
      type: "button", class: "danger", "data-name": "cancel", onclick: () => askCancel(found.id, again),
    }, "Cancel the operation…")));
  }
  return card;
}

function facts(found, isWaiting, ticking) {
  const left = element("dd");
  const waited = element("dd");
  ticking.push(() => {
    const leftMs = found.deadline_ms - nowMs();
    setText(left, leftMs > 0
      ? `${roughly(leftMs)}, until ${moment(found.deadline_ms)}` : `due since ${moment(found.deadline_ms)}`);
    setText(waited, isWaiting ? `${roughly(nowMs() - found.submitted_ms)} so far` : duration(found.waited_ms));
  });
  const told = [
    ["class", element("dd", {}, className(found.class))],
    ["submitted", element("dd", {}, moment(found.submitted_ms))],
    ["timeout", element("dd", {}, duration(found.timeout_ms))],
    [isWaiting ? "waits" : "waited", waited],
    isWaiting ? ["time left", left] : ["ended", element("dd", {}, moment(found.at_ms))],
  ];
  if (found.by_key !== null) told.push(["completed by", element("dd", {}, findLink(found.by_key))]);
  if (found.number !== null) told.push(["outcome number", element("dd", {}, count(found.number))]);
  if (found.traceparent) told.push(["trace", element("dd", {}, element("code", {}, found.traceparent))]);
  return element("dl", { class: "facts" },
    ...told.map(([name, value]) => element("div", {}, element("dt", {}, name), value)));
}

function summary({ requires, needed }, isWaiting) {
  if (!isWaiting) return `${needed} of ${requires.length} requirements ${needed === 1 ? "was" : "were"} needed.`;
  const holding = requires.filter((each) => each.holds).length;
  return `${holding} of ${requires.length} requirements hold; ${needed} ${needed === 1 ? "is" : "are"} needed.`;
}

function requirements(found, isWaiting, again) {
  const head = ["key", "needs", ...(isWaiting ? ["has", "holds", "do"] : [])];
  return element("div", {}, element("table", { class: "stack" },
    element("caption", { class: "unseen" }, `Requirements of ${found.id}`),
    element("thead", {}, element("tr", {}, ...head.map((name, at) =>
      element("th", { scope: "col", class: at === 0 || name === "holds" ? null : "number" },
        name === "do" ? element("span", { class: "unseen" }, "actions") : name)))),
    element("tbody", {}, ...found.requires.map((each, at) => requirement(each, at, isWaiting, again)))));
}

function requirement(each, at, isWaiting, again) {
  const row = element("tr", {}, heading(findLink(each.key)),
    element("td", { class: "number", "data-label": "needs" }, count(each.offset)));
  if (isWaiting) {
    row.append(
      element("td", { class: "number", "data-label": "has" }, each.progress === null ? "nothing yet" : count(each.progress)),
      element("td", { class: each.holds ? "holds" : "lacks", "data-label": "holds" }, each.holds ? "✓ holds" : "✗ does not hold"),
      element("td", { class: "number" }, each.holds ? null : element("button", {
        type: "button", "data-name": `signal ${at}`, "aria-label": `Signal ${each.key}…`,
        onclick: () => askSignal(each.key, each.progress, each.offset, again),
      }, "Signal…")));
  }
  return row;
}

function payload(found) {
  const isBytes = "payload_base64" in found;
  if (!isBytes && !("payload" in found)) return [];
  const plain = (_, value) => (typeof value === "bigint" ? String(value) : value);
  let text = isBytes ? found.payload_base64 : JSON.stringify(found.payload, plain, 2);
  if (text.length > MOST_PAYLOAD) text = `${text.slice(0, MOST_PAYLOAD)}… (${count(text.length)} characters)`;
  return [element("details", {}, element("summary", {}, isBytes ? "Payload (bytes, base64)" : "Payload"),
    element("pre", { tabindex: "0" }, text))];
}
