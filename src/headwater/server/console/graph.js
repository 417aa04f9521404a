// Draws a graph: nodes as boxes that lead somewhere, edges as lines with what flows through them.

import { h } from "./dom.js";
import { curve, labelPlaces, layout } from "./layers.js";

const TITLE = "600 13px";
const LINE = "12px";
const WIDTH_MOST = 280;
const PADDING = 26;
const LABEL_HEIGHT = 18;
const LABEL_WIDTH = 84;
const SMALLEST = 0.7;
const kept = new Map();
const canvas = document.createElement("canvas").getContext("2d");

/** How wide a text is, in the page's own font. */
function widthOf(text, font) {
  canvas.font = `${font} ${getComputedStyle(document.documentElement).fontFamily}`;
  return canvas.measureText(text).width;
}

function cut(text, font, most) {
  if (widthOf(text, font) <= most) return text;
  let end = text.length - 1;
  while (end > 1 && widthOf(`${text.slice(0, end)}…`, font) > most) end -= 1;
  return `${text.slice(0, end)}…`;
}

/**
 * A picture of nodes `{id, column, title, lines, href, kind, about}` and edges `{from, to, label, kind}`.
 *
 * Places are worked out once and kept while the same nodes and edges are there, however their figures change.
 */
export function graph(name, nodes, edges, { label, headings = [], columnGap = 120, wideOnly = false } = {}) {
  const rows = Math.max(1, ...nodes.map((node) => node.lines.length));
  const shape = JSON.stringify([nodes.map((node) => [node.id, node.column, node.title, node.lines.length, node.room]), edges.map((edge) => [edge.from, edge.to])]);
  if (kept.get(name)?.shape !== shape) {
    const boxes = nodes.map((node) => ({ id: node.id, column: node.column, width: boxWidth(node), height: 30 + 17 * node.lines.length }));
    const widths = edges.map((edge) => (edge.label ? widthOf(edge.label, LINE) + 8 : 0));
    const spaced = edges.map((edge, place) => ({ ...edge, room: widths[place] ? widths[place] + 32 : 0 }));
    const placed = layout(boxes, spaced, { columnGap, rowGap: rows > 1 ? 22 : 16 });
    kept.set(name, { shape, placed, labels: labelPlaces(placed.edges, Math.max(LABEL_WIDTH, ...widths), LABEL_HEIGHT + 2) });
  }
  const { placed, labels } = kept.get(name);
  const places = new Map(placed.nodes.map((node) => [node.id, node]));
  const lines = placed.edges.map((edge, place) => ({ ...edge, middle: labels[place], ...edges.find((one) => one.from === edge.from && one.to === edge.to) }));
  const top = headings.length ? 34 : 4;
  const [width, height] = [placed.width + 8, placed.height + top + 8];
  return h("div", { class: wideOnly ? "graph wide-only" : "graph", tabindex: "0", role: "group", "aria-label": label },
    // As large as it is, or as narrow as its place, down to where it can still be read.
    h("svg", { viewBox: `-4 0 ${width} ${height}`, style: { width: `${width}px`, "min-width": `${width * SMALLEST}px` } },
      headings.map((text, column) => placed.columns[column] && text && h("text", { class: "graph-heading", x: placed.columns[column].x, y: 14 }, text)),
      h("g", { transform: `translate(0 ${top})` },
        lines.map((edge) => h("path", { key: `${edge.from}>${edge.to}`, class: `graph-edge ${edge.kind ?? ""}`, d: curve(edge.points) })),
        lines.map((edge) => edge.label && edgeLabel(edge)),
        nodes.map((node) => box(node, places.get(node.id))))));
}

function boxWidth(node) {
  const widest = Math.max(widthOf(node.title, TITLE), ...node.lines.map((line) => widthOf(line, LINE)), node.room ?? 0);
  return Math.min(WIDTH_MOST, Math.ceil(widest) + PADDING);
}

function edgeLabel(edge) {
  const { x, y } = edge.middle;
  const width = widthOf(edge.label, LINE) + 8;
  return h("g", { key: `label ${edge.from}>${edge.to}`, class: `graph-label ${edge.kind ?? ""}` },
    h("rect", { x: x - width / 2, y: y - LABEL_HEIGHT / 2, width, height: LABEL_HEIGHT, rx: LABEL_HEIGHT / 2 }),
    h("text", { x, y: y + 4, "text-anchor": "middle" }, edge.about && h("title", {}, edge.about), edge.label));
}

function box(node, { x, y, width, height }) {
  const room = width - PADDING + 4;
  const inside = [
    h("rect", { width, height, rx: 8 }),
    h("rect", { class: "graph-mark", y: 8, width: 3, height: height - 16, rx: 1.5 }),
    h("text", { class: "graph-title", x: 14, y: 20 }, cut(node.title, TITLE, room)),
    node.lines.map((line, place) => h("text", { class: "graph-line", x: 14, y: 37 + 17 * place }, cut(line, LINE, room))),
    h("title", {}, [node.title, ...(node.about ?? [])].join("\n")),
  ];
  const properties = { key: node.id, class: `graph-node ${node.kind}`, transform: `translate(${x} ${y})`, "data-node": node.id };
  return node.href ? h("a", { ...properties, href: node.href, "aria-label": [node.title, ...node.lines].join(", ") }, inside) : h("g", properties, inside);
}
