// The rows of a table, kept by name: a row that stays is changed in place, so that focus stays too.

import { element } from "./element.js";

export class Rows {
  /** `make(item)` gives { row, update }. */
  constructor(body, make, columns, empty) {
    this.body = body;
    this.make = make;
    this.known = new Map();
    this.empty = element("tr", { class: "empty" }, element("td", { colspan: columns }, empty));
  }

  update(items, nameOf) {
    const wanted = new Set(items.map(nameOf));
    for (const [name, made] of this.known) {
      if (!wanted.has(name)) {
        made.row.remove();
        this.known.delete(name);
      }
    }
    if (items.length) this.empty.remove();
    else if (!this.empty.isConnected) this.body.append(this.empty);
    let before = this.body.firstElementChild;
    for (const item of items) {
      const name = nameOf(item);
      let made = this.known.get(name);
      if (!made) this.known.set(name, (made = this.make(item)));
      if (made.row !== before) this.body.insertBefore(made.row, before);
      else before = before.nextElementSibling;
      made.update(item);
    }
  }
}

/** A cell whose text is set later. */
export const cell = (attributes) => element("td", attributes);
export const heading = (...children) => element("th", { scope: "row" }, ...children);

/** The address that finds an id or a key. */
export const findHash = (text) => `#find=${encodeURIComponent(text.toWellFormed?.() ?? text)}`;
export const findLink = (text) => element("a", { href: findHash(text) }, text);
