// What can be done from the page, after a confirmation.

import * as api from "./api.js";
import { confirm } from "./confirm.js";
import { count } from "./units.js";

/** `then` is awaited when it is done. */
export function askCancel(id, then) {
  confirm({
    title: `Cancel ${id}?`,
    text: "It ends as cancelled, now and for good. Its subscribers are told.",
    no: "Let it wait",
    yes: "Cancel the operation",
    act: async () => {
      await api.cancel(id);
      await then();
    },
  });
}

export function askSignal(key, progress, offset, then) {
  const now = progress === null ? "It has no progress yet." : `Its progress is ${count(progress)}.`;
  confirm({
    title: `Signal ${key}?`,
    text: `${now} All requirements on it up to the offset will hold, and operations with enough of them will complete. Progress never goes back.`,
    no: "Leave it",
    yes: "Signal",
    offset,
    act: async (given) => {
      await api.signal(key, given);
      await then();
    },
  });
}
