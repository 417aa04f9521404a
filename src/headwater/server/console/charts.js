// Charts of what happened over time, drawn as SVG. Numbers stand beside the lines, and under the pointer.

import { h, redraw } from "./dom.js";
import { clock } from "./format.js";

const WIDTH = 1000;
const HEIGHT = 100;
// A gap in the samples is a gap in the line.
const GAP_MILLISECONDS = 5000;

const SECONDS_LEAST = 60;

const pointers = new Map();

/**
 * A chart of `series`, each `{name, points: [{at, value}]}`, over the last `seconds`.
 *
 * `format` writes a value. `name` is its heading, by which it is also known among others.
 */
export function chart({ name, series, format, seconds = 300, note = "", gap = GAP_MILLISECONDS }) {
  const all = series.flatMap((one) => one.points.filter((point) => point.value !== null));
  const end = all.length ? Math.max(...all.map((point) => point.at)) : Date.now();
  const first = all.length ? Math.min(...all.map((point) => point.at)) : 0;
  // What is not known yet takes no room, but for a minute.
  const begin = Math.max(end - seconds * 1000, Math.min(first, end - Math.min(seconds, SECONDS_LEAST) * 1000));
  const shown = series.map((one) => ({ ...one, points: one.points.filter((point) => point.at >= begin) }));
  const most = ceiling(Math.max(0, ...shown.flatMap((one) => one.points.map((point) => point.value ?? 0))));
  const x = (at) => ((at - begin) / (end - begin || 1)) * WIDTH;
  const y = (value) => HEIGHT - (value / most) * (HEIGHT - 4) - 1;
  const pointer = pointers.get(name) ?? null;
  const at = pointer === null ? end : begin + pointer * (end - begin);
  const summary = shown.map((one) => `${one.name} ${format(nearest(one.points, end)?.value)}`).join(", ");
  return h("figure", { class: "chart", key: name },
    h("figcaption", {},
      h("span", { class: "chart-name" }, name),
      shown.map((one, place) => h("span", { class: `chart-value series-${place}` },
        shown.length > 1 && h("span", { class: "chart-series" }, one.name), h("b", {}, format(nearest(one.points, at)?.value)))),
      h("span", { class: "chart-at" }, pointer === null ? note : clock(at))),
    h("div", {
      class: "chart-area",
      onpointermove: (event) => point(name, event),
      onpointerleave: () => { pointers.delete(name); redraw(); },
    },
      h("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${summary}` },
        [0.5, 1].map((part) => h("line", { class: "chart-grid", x1: 0, x2: WIDTH, y1: y(most * part), y2: y(most * part) })),
        h("line", { class: "chart-axis", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }),
        shown.map((one, place) => drawn(one.points, x, y, place, gap)),
        pointer !== null && h("line", { class: "chart-pointer", x1: x(at), x2: x(at), y1: 0, y2: HEIGHT })),
      h("span", { class: "chart-most" }, all.length ? format(most) : "")),
    h("div", { class: "chart-ends" },
      all.length ? [h("span", {}, clock(begin)), h("span", {}, clock(end))] : h("span", {}, "Nothing yet.")));
}

function point(name, event) {
  const area = event.currentTarget.getBoundingClientRect();
  pointers.set(name, Math.min(1, Math.max(0, (event.clientX - area.left) / area.width)));
  redraw();
}

function drawn(points, x, y, place, gap) {
  let line = "";
  let area = "";
  for (const piece of pieces(points, gap)) {
    const text = piece.map((one) => `${x(one.at).toFixed(1)},${y(one.value).toFixed(1)}`);
    // One point alone would not be seen.
    if (piece.length === 1) text.push(`${(x(piece[0].at) + 2).toFixed(1)},${y(piece[0].value).toFixed(1)}`);
    line += `M${text.join("L")}`;
    if (piece.length > 1) area += `M${x(piece[0].at).toFixed(1)},${HEIGHT}L${text.join("L")}L${x(piece.at(-1).at).toFixed(1)},${HEIGHT}Z`;
  }
  return [
    place === 0 && h("path", { class: `chart-fill series-${place}`, d: area }),
    h("path", { class: `chart-line series-${place}`, d: line }),
  ];
}

function pieces(points, gap) {
  const found = [];
  let last = null;
  for (const one of points) {
    if (one.value === null) {
      last = null;
    } else {
      if (last === null || one.at - last.at > gap) found.push([]);
      found.at(-1).push(one);
      last = one;
    }
  }
  return found;
}

/** The point at a time, or the last one before it. */
function nearest(points, at) {
  const before = points.filter((one) => one.at <= at + 500 && one.value !== null);
  return before.at(-1);
}

/** A round number that is not smaller. */
export function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/** A small line without words, beside a number. */
export function spark(points, label) {
  const shown = points.slice(-60).filter((one) => one.value !== null);
  if (shown.length < 2) return h("span", { class: "spark" });
  const most = ceiling(Math.max(...shown.map((one) => one.value)));
  const text = shown.map((one, place) => `${(place / (shown.length - 1)) * 80},${19 - (one.value / most) * 17}`);
  return h("svg", { class: "spark", viewBox: "0 0 80 20", role: "img", "aria-label": label },
    h("path", { class: "chart-line series-0", d: `M${text.join("L")}` }));
}
