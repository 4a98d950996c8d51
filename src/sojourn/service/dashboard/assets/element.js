// Elements from code. What comes from outside only ever becomes text.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; children that are not elements become text. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same in a drawing. */
export function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Put the text there, unless it is there: what has not changed is not told again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
