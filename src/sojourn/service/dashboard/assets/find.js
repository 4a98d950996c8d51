// Search by id or by key. What is searched for stands in the address, so that it can be sent on.

import * as api from "./api.js";
import { byId, element } from "./element.js";
import { MOST_WAITING, keyCard, signalButton } from "./key.js";
import { operationCard } from "./operation.js";
import { findHash } from "./rows.js";

export class Find {
  /** `onTrouble(error)` says whether the error is to be shown here too. */
  constructor(onTrouble) {
    this.onTrouble = onTrouble;
    this.found = byId("found");
    this.input = byId("find-input");
    this.close = byId("find-close");
    this.wanted = null;
    this.shown = "";
    this.ticking = [];
    byId("find-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const hash = findHash(this.input.value);
      if (location.hash === hash) this.follow(true);
      else location.hash = hash;
    });
    this.close.addEventListener("click", () => {
      history.replaceState(null, "", location.pathname);
      this.follow(false);
      this.input.focus();
    });
    addEventListener("hashchange", () => this.follow(true));
    this.follow(false);
  }

  /** Find what the address asks for. */
  async follow(moves) {
    const asked = /^#find=(.*)$/s.exec(location.hash)?.[1] ?? "";
    this.wanted = decoded(asked) || null;
    this.shown = "";
    this.found.hidden = this.close.hidden = this.wanted === null;
    if (this.wanted === null) {
      this.found.replaceChildren();
      return;
    }
    this.input.value = this.wanted;
    this.found.replaceChildren(element("p", { class: "quiet" }, "Looking…"));
    await this.look();
    if (moves) {
      this.found.querySelector("h2")?.focus();
      this.found.scrollIntoView({ block: "nearest" });
    }
  }

  /** Look; also when there are new numbers. */
  async look() {
    const { wanted } = this;
    if (wanted === null) return;
    try {
      const [operation, key, waiting] = await Promise.all([
        api.operation(wanted), api.key(wanted), api.waitingOn(wanted, MOST_WAITING),
      ]);
      if (wanted === this.wanted) this.show(operation, key, waiting.operations);
    } catch (error) {
      if (this.onTrouble(error) && wanted === this.wanted && !this.shown) {
        this.found.replaceChildren(element("p", { class: "problem" }, error.message));
      }
    }
  }

  show(operation, key, waiting) {
    const shown = JSON.stringify([operation, key, waiting], (_, value) => (typeof value === "bigint" ? String(value) : value));
    if (shown !== this.shown) {
      this.shown = shown;
      const focused = this.found.contains(document.activeElement) ? document.activeElement.dataset.name : null;
      const isOpen = this.found.querySelector("details")?.open ?? false;
      this.found.replaceChildren(...this.cards(operation, key, waiting));
      if (isOpen) this.found.querySelector("details")?.setAttribute("open", "");
      if (focused) (this.found.querySelector(`[data-name="${CSS.escape(focused)}"]`) ?? this.found.querySelector("h2")).focus();
    }
    this.tick();
  }

  cards(operation, key, waiting) {
    const again = () => this.look();
    this.ticking = [];
    const cards = [];
    if (operation) cards.push(operationCard(operation, this.ticking, again));
    if (key && (key.progress !== null || waiting.length)) {
      cards.push(keyCard(this.wanted, key, waiting, this.ticking, again));
    }
    if (!cards.length) cards.push(nothing(this.wanted, again));
    return cards;
  }

  /** Times that go on by themselves. */
  tick() {
    this.ticking.forEach((show) => show());
  }
}

function nothing(wanted, again) {
  return element("article", { class: "card" },
    element("h2", { tabindex: "-1", "data-name": "title" }, "Nothing by that name"),
    element("p", {}, "No operation has the id ", element("code", {}, wanted),
      ", or it ended so long ago that it is no longer kept; and nobody waits on, or has signalled, a key of that name."),
    element("p", { class: "buttons" }, signalButton(wanted, null, 1, again)));
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
