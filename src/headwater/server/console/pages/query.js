// A query: SQL over views and topics, all at one position, and its rows.

import { get, send } from "../api.js";
import { h, redraw } from "../dom.js";
import { cell, count, counted, duration, pretty } from "../format.js";
import { refusal } from "../live.js";
import { button, code, empty, failure, heading, loaded, panel, resource, table } from "../parts.js";

const ROWS_MAX = 1000;
const NUMBER = /^(tinyint|smallint|int|bigint|float|double|decimal)/;
// What was written stays while other pages are looked at.
const kept = { sql: "", answer: null, problem: null };

export function query() {
  const views = resource(() => get("views"));
  const topics = resource(() => get("topics"));
  let busy = false;
  let chosen = null;

  async function start() {
    await Promise.all([views.load(), topics.load()]);
    const first = views.value?.views[0]?.name ?? topics.value?.topics[0]?.name;
    if (!kept.sql && first) kept.sql = `SELECT * FROM ${quoted(first)} LIMIT 100`;
    redraw();
  }

  async function run() {
    if (busy || !kept.sql.trim()) return;
    busy = true;
    chosen = null;
    redraw();
    const began = performance.now();
    try {
      const answer = await send("POST", `query?limit=${ROWS_MAX}`, JSON.stringify({ sql: kept.sql }));
      Object.assign(kept, { answer: { ...answer, seconds: (performance.now() - began) / 1000 }, problem: null });
    } catch (error) {
      Object.assign(kept, { answer: null, problem: error });
    }
    busy = false;
    redraw();
  }

  function form() {
    return h("form", { class: "query", onsubmit: (event) => { event.preventDefault(); run(); } },
      h("label", { class: "field" }, h("span", {}, "SQL"),
        h("textarea", {
          rows: 8, spellcheck: "false", "data-filter": "", value: kept.sql,
          oninput: (event) => { kept.sql = event.target.value; },
          onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(); },
        })),
      h("div", { class: "actions" },
        button(busy ? "Running …" : "Run", { type: "submit", busy, refused: refusal("read"), kind: "primary" }),
        h("span", { class: "muted" }, h("kbd", {}, "Ctrl"), " ", h("kbd", {}, "Enter"))));
  }

  function outcome() {
    if (kept.problem) return failure(kept.problem);
    if (!kept.answer) return null;
    const { rows, columns, position, cut, seconds } = kept.answer;
    return h("div", { class: "answer" },
      h("p", { role: "status" }, h("b", {}, counted(rows.length, "row")), cut && " (the first of more)", ` at position ${position}, in ${duration(seconds)}`),
      rows.length > 0 && table(columns.map(({ name, type }) => ({
        name, number: NUMBER.test(type), head: h("span", { title: type }, name),
        cell: ({ row }) => h("span", { class: "value", title: cell(row[name]) }, row[name] === null ? h("span", { class: "muted" }, "null") : cell(row[name])),
      })), rows.map((row, place) => ({ row, place })), { key: (one) => one.place, label: "Rows", open: (one) => { chosen = one.row; redraw(); } }),
      chosen && panel("Row", () => { chosen = null; redraw(); }, code(pretty(chosen), "Row")));
  }

  /** The names that a query can read; a click writes one into it. */
  function names(title, resource, list) {
    return h("div", {}, h("h2", {}, title), loaded(resource, (value) => {
      const all = list(value);
      return all.length ? h("ul", { class: "names" }, all.map((name) => h("li", { key: name }, button(name, { kind: "quiet", onclick: () => insert(quoted(name)) })))) : h("p", { class: "muted" }, "None.");
    }));
  }

  return {
    title: "Query",
    start,
    show: () => [
      heading("Query", { about: "SQL over views and topics, all at the same position. It only reads. A topic with a key is read as its newest rows." }),
      views.value && topics.value && !views.value.views.length && !topics.value.topics.length
        ? empty("There is nothing to query yet.", "Topics and views appear here when the application runs.")
        : h("div", { class: "columns" },
          h("div", {}, form(), outcome()),
          h("aside", { class: "fields", "aria-label": "What can be read" },
            names("Views", views, (value) => value.views.map((one) => one.name)),
            names("Topics", topics, (value) => value.topics.map((one) => one.name).filter((name) => !name.startsWith("headwater."))))),
    ],
  };
}

/** A name as SQL takes it: `shop.orders` is a schema and a table already. */
function quoted(name) {
  return name.split(".").map((part) => (/^[a-z_][a-z0-9_]*$/i.test(part) ? part : `"${part.replaceAll('"', '""')}"`)).join(".");
}

function insert(text) {
  const field = document.querySelector("main textarea");
  const { selectionStart: from, selectionEnd: to } = field;
  kept.sql = kept.sql.slice(0, from) + text + kept.sql.slice(to);
  redraw();
  requestAnimationFrame(() => {
    field.focus();
    field.setSelectionRange(from + text.length, from + text.length);
  });
}
