// The service's time, going on between answers.

let shown = null;
let at = 0;

export function setNow(nowMs) {
  shown = nowMs;
  at = performance.now();
}

export const nowMs = () => (shown === null ? Date.now() : shown + performance.now() - at);

/** How long ago the last answer came. */
export const ageMs = () => performance.now() - at;
