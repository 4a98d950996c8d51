// Small bar charts: the last minutes of a rate, without axes.

import { drawn, setText } from "./element.js";

const HEIGHT = 36;

/** A chart that is drawn again in place. */
export class Spark {
  constructor(className) {
    this.title = drawn("title");
    this.bars = drawn("path", { class: "bars" });
    this.svg = drawn("svg", { class: `spark ${className}`, role: "img", preserveAspectRatio: "none" },
      this.title, this.bars);
  }

  /** `values` from the oldest to the newest; those before `from` were not counted. */
  update(values, text, from = 0) {
    const most = Math.max(...values, 0);
    const width = values.length * 4;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    let path = "";
    values.forEach((value, at) => {
      const height = value > 0 ? Math.max((value / most) * HEIGHT, 1.5) : at < from ? 0 : 0.6;
      if (height) path += `M${at * 4} ${HEIGHT}v${-height.toFixed(1)}h3.2v${height.toFixed(1)}z`;
    });
    this.bars.setAttribute("d", path);
    setText(this.title, text);
  }
}

/** Sums of `size` neighbours, counted from the end so that the newest is whole. */
export function sums(values, size) {
  const grouped = [];
  for (let end = values.length; end >= size; end -= size) {
    grouped.unshift(values.slice(end - size, end).reduce((sum, value) => sum + value, 0));
  }
  return grouped;
}
