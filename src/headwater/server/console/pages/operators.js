// The operators of a view as a picture: what comes from the log, through which levels, and what each of them keeps.

import { h } from "../dom.js";
import { bytes, count, counted, short } from "../format.js";
import { graph } from "../graph.js";
import { empty, table } from "../parts.js";

export function operators({ explanation, view, batches }) {
  if (!explanation) return empty("There is no plan yet.", "It is made when `headwater run` builds the view.");
  const last = batches.at(-1)?.operators ?? {};
  const deepest = Math.max(1, ...explanation.operators.map((one) => one.level));
  const nodes = [
    ...explanation.origins.map((one) => ({ id: String(one.number), column: 0, title: one.title.replace(/^topic /, ""), lines: [one.title.startsWith("topic ") ? "topic" : "constant"], kind: "topic", href: topicOf(one) })),
    ...explanation.operators.map((one) => ({
      id: String(one.number), column: one.level, title: one.label, kind: one.number === explanation.publishes ? "view" : "operator",
      lines: [one.state.rows ? `keeps ${short(one.state.rows)} rows · ${bytes(one.state.bytes)}` : "keeps nothing"],
      about: [...one.linear.map((text) => `adds up ${text}`), ...one.recomputed.map((text) => `recomputes ${text}`)],
    })),
  ];
  const edges = explanation.operators.flatMap((one) => one.inputs.map((given) => ({
    from: String(given.producer), to: String(one.number), about: given.steps.join("\n"), kind: "rests",
    label: given.steps.length ? (given.steps.length === 1 ? brief(given.steps[0]) : counted(given.steps.length, "step")) : "",
  })));
  const headings = ["Log", ...Array.from({ length: deepest }, (_, level) => `Level ${level + 1}`)];
  return [
    graph(`operators of ${view.name}`, nodes, edges, { label: `The operators of ${view.name}`, headings, columnGap: 60 }),
    table([
      { name: "Operator", wide: true, cell: (one) => [h("b", {}, one.label), work(one)] },
      { name: "Level", number: true, cell: (one) => one.level },
      { name: "What reaches it", wide: true, cell: (one) => one.inputs.map((given) => h("div", { key: `${given.port}${given.producer}` }, reached(given, explanation))) },
      { name: "State", number: true, cell: (one) => (one.state.rows ? `${counted(one.state.rows, "row")}, ${bytes(one.state.bytes)}` : "–") },
      { name: "Last batch", number: true, cell: (one) => (last[one.number] ? `${count(last[one.number].rows_in)} in, ${count(last[one.number].rows_out)} out` : "–") },
    ], explanation.operators, { key: (one) => one.number, label: "Operators" }),
  ];
}

function topicOf(origin) {
  return origin.title.startsWith("topic ") ? `#/topics/${encodeURIComponent(origin.title.slice(6))}` : null;
}

function brief(text) {
  return text.length > 20 ? `${text.slice(0, 19)}…` : text;
}

function work({ linear, recomputed }) {
  const parts = [linear.length && `adds up ${linear.join(", ")}`, recomputed.length && `recomputes ${recomputed.join(", ")}`].filter(Boolean);
  return parts.map((text) => h("div", { class: "muted" }, text));
}

function reached({ port, producer, steps, key }, { origins, operators: all }) {
  const from = origins.find((one) => one.number === producer)?.title ?? all.find((one) => one.number === producer)?.label ?? producer;
  const named = ["rows", "records"].includes(port) ? "" : `${port}: `;
  return [`${named}${[from, ...steps.toReversed()].join(", ")}`, key.length > 0 && h("span", { class: "muted" }, ` by ${key.join(", ")}`)];
}
