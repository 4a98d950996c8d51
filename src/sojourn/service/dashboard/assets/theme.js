// Light, dark, or as the system has it; remembered in this browser.

import { byId } from "./element.js";

const NAME = "sojourn-theme";

function apply(choice) {
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

export function startTheme() {
  const select = byId("theme");
  const kept = localStorage.getItem(NAME);
  select.value = ["light", "dark"].includes(kept) ? kept : "auto";
  apply(select.value);
  select.addEventListener("change", () => {
    localStorage.setItem(NAME, select.value);
    apply(select.value);
  });
}
