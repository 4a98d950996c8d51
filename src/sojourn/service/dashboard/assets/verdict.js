// Is it fine? If not: which class, which key, since when?

import { byId, element, setText } from "./element.js";
import { findLink } from "./rows.js";
import { className, count, duration, moment, share } from "./units.js";

/** A finding as a headline, and what there is to say about it. */
const SENTENCES = {
  not_ready: (f) => ["The service takes no commands", [f.reason]],
  full: (f) => [
    f.level === "bad" ? "Full: submissions are refused" : "Nearly full",
    [`${count(f.waiting)} of at most ${count(f.most)} wait`],
  ],
  expiries: (f) => [
    `${share(f.expired, f.ended)} of “${className(f.class)}” expire`,
    [`${count(f.expired)} of ${count(f.ended)} that ended in the last 5 min`, ...lacked(f.lacked)],
  ],
  late: (f) => ["Expiries are late", [`p99 ${duration(f.p99_ms)} after the deadline in the last minute`]],
  commits: (f) => ["The disk is slow", [`p99 ${duration(f.p99_ms)} for a commit in the last minute`]],
  behind: (f) => [`Subscriber “${f.subscriber}” does not move`, [`${count(f.behind)} outcomes behind`]],
  webhook: (f) => [`The webhook of “${f.subscriber}” fails`, [f.reason]],
};

function lacked(key) {
  if (!key) return [];
  const name = key.is_kind ? element("code", {}, key.key) : findLink(key.key);
  const kind = key.is_kind ? " (# is a number or an id)" : "";
  return [element("span", {}, `${share(key.expired, key.sampled)} of them lacked `, name, kind)];
}

function sentence(finding) {
  const say = SENTENCES[finding.kind] ?? (() => [finding.kind, [finding.reason ?? ""]]);
  const [headline, details] = say(finding);
  if (finding.since_ms) details.push(`since ${moment(finding.since_ms)}`);
  return { headline, details };
}

function lead(state) {
  const ends = ["completed", "expired", "cancelled"].map((name) =>
    state.rates[name].reduce((sum, number) => sum + number, 0));
  const ended = ends[0] + ends[1] + ends[2];
  const parts = [`${count(state.waiting)} wait`];
  parts.push(ended
    ? `${count(ended)} ended in the last 5 min, ${share(ends[1], ended)} of them by running out of time`
    : "none ended in the last 5 min");
  if (state.lateness.count) parts.push(`p99 of lateness is ${duration(state.lateness.p99_ms)}`);
  return `${parts.join("; ")}.`;
}

export function showVerdict(state) {
  const { findings } = state;
  const isEmpty = !state.waiting && !state.outcomes.last && !state.totals.submitted;
  const section = byId("verdict");
  section.className = `verdict ${findings.length ? findings[0].level : "fine"}`;
  const first = findings.length ? sentence(findings[0]).headline : isEmpty ? "Nothing waits yet" : "It is fine";
  setText(byId("verdict-title"), `${first}.`);
  document.title = `${first} · Sojourn`;
  setText(byId("verdict-lead"), lead(state));
  const list = byId("findings");
  const shown = JSON.stringify(findings);
  if (list.dataset.shown !== shown) {
    list.dataset.shown = shown;
    list.replaceChildren(...findings.map((finding) => {
      const { headline, details } = sentence(finding);
      const item = element("li", { class: finding.level }, element("strong", {}, headline));
      details.forEach((detail) => item.append(" · ", detail));
      return item;
    }));
  }
  list.hidden = !findings.length;
  byId("first-steps").hidden = !isEmpty;
}

export function showFirstSteps() {
  const at = location.origin;
  setText(byId("first-steps-code"), [
    `curl ${at}/v1/operations --json '{`,
    `  "id": "order-7", "timeout_ms": 600000,`,
    `  "requires": [{"key": "order-7/paid", "offset": 1}]}'`,
    `curl ${at}/v1/signals --json '{`,
    `  "key": "order-7/paid", "offset": 1}'`,
  ].join("\n"));
}
