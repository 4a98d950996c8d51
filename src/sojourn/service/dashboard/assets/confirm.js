// Asks before something is done: a dialog, closed by either button or by Escape.

import { byId, setText } from "./element.js";

const OFFSET = /^-?[0-9]{1,19}$/;

/** Ask; `act(offset)` is called on yes. `offset` is null where none is asked for. */
export function confirm({ title, text, no, yes, offset = null, act }) {
  const dialog = byId("confirm");
  const field = byId("confirm-offset");
  const problem = byId("confirm-problem");
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-no"), no);
  setText(byId("confirm-yes"), yes);
  setText(problem, "");
  byId("confirm-field").hidden = offset === null;
  field.value = offset === null ? "" : String(offset);
  byId("confirm-yes").disabled = false;
  byId("confirm-no").onclick = () => dialog.close();
  byId("confirm-form").onsubmit = async (event) => {
    event.preventDefault();
    const given = field.value.trim();
    if (offset !== null && !OFFSET.test(given)) {
      setText(problem, "An offset is a whole number of 64 bits, such as 1.");
      field.focus();
      return;
    }
    byId("confirm-yes").disabled = true;
    setText(problem, "");
    try {
      await act(offset === null ? null : BigInt(given));
      dialog.close();
    } catch (error) {
      setText(problem, [error.message, error.advice].filter(Boolean).join("; "));
    }
    byId("confirm-yes").disabled = false;
  };
  dialog.showModal();
  (offset === null ? byId("confirm-no") : field).focus();
}
