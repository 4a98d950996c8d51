// Asks for a token when the service does.

import { token } from "./api.js";
import { byId, setText } from "./element.js";

export class TokenForm {
  constructor(onToken) {
    this.section = byId("token");
    byId("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      token.set(byId("token-input").value.trim());
      byId("token-input").value = "";
      onToken();
    });
  }

  ask(error) {
    const problem = token.get() ? error.message : "";
    token.clear();
    setText(byId("token-problem"), problem);
    if (this.section.hidden) {
      this.section.hidden = false;
      byId("token-input").focus();
    }
  }

  close() {
    this.section.hidden = true;
    setText(byId("token-problem"), "");
  }
}
