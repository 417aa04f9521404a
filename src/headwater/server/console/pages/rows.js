// The rows of a view as a table that stays up to date: what has changed flashes.

import { get, path, query } from "../api.js";
import { conditions } from "../conditions.js";
import { h, redraw } from "../dom.js";
import { cell, count, pretty } from "../format.js";
import { button, code, empty, failure, panel, table } from "../parts.js";

const PAGE_ROWS = 50;
// Views may change many times a second; people cannot read as fast.
const RELOAD_EVERY = 500;
const NESTED = /^(array|struct|map)/;
const NUMBER = /^(tinyint|smallint|int|bigint|float|double|decimal)/;

/** `key` gives the columns by which a row is known again, each with its type. */
export function rows(name, key) {
  const where = conditions(() => { offset = 0; turn(); });
  let order = "";
  let offset = 0;
  let found = null;
  let problem = null;
  let known = new Map();
  let chosen = null;
  let wanted = null;
  let busy = false;
  let last = 0;
  let total = null;

  /** Asks for the page again, once at a time, and not for each of many changes. */
  async function load(position = "") {
    wanted = position;
    if (busy) return;
    busy = true;
    while (wanted !== null) {
      await new Promise((done) => setTimeout(done, Math.max(0, last + RELOAD_EVERY - Date.now())));
      const asked = { order: order || natural(), offset, where: where.texts() };
      const target = path("views", name) + query({ ...asked, limit: PAGE_ROWS, at_least: wanted });
      wanted = null;
      last = Date.now();
      try {
        take(await get(target), JSON.stringify(asked));
        problem = null;
      } catch (error) {
        problem = error;
      }
      redraw();
    }
    busy = false;
  }

  /** Shows at once what somebody has chosen, and asks for it without waiting as changes do. */
  function turn() {
    last = 0;
    redraw();
    load();
  }

  /** Takes a page in. A row that was there before, on the same page, knows which of its values have changed. */
  function take(page, asked) {
    const same = found?.asked === asked;
    const next = new Map();
    page.rows.forEach((row) => {
      const own = identity(row, next);
      const before = same ? known.get(own) : null;
      const versions = {};
      for (const column of Object.keys(row)) {
        const changed = before && cell(before.row[column]) !== cell(row[column]);
        versions[column] = (before?.versions[column] ?? 0) + (changed ? 1 : 0);
      }
      next.set(own, { key: own, row, versions, fresh: same && !before });
    });
    known = next;
    if (!where.count()) total = page.matching;
    found = { ...page, asked };
  }

  function identity(row, taken) {
    const columns = key().length ? key().map((column) => column.name) : Object.keys(row);
    const own = JSON.stringify(columns.map((column) => row[column]));
    // A key need not be unique: the second row of one is known as such.
    let known = own;
    for (let place = 1; taken.has(known); place += 1) known = `${own}#${place}`;
    return known;
  }

  /** By key, so that rows stay where they are while others come; nothing nested can be ordered. */
  function natural() {
    return key().some((column) => NESTED.test(column.type)) ? "" : key().map((column) => column.name).join(",");
  }

  function head(column) {
    const up = order === column.name;
    const down = order === `-${column.name}`;
    // By what is chosen when the button is, not when it was drawn: the second of two clicks may come before the answer.
    const choose = () => {
      order = { [column.name]: `-${column.name}`, [`-${column.name}`]: "" }[order] ?? column.name;
      offset = 0;
      turn();
    };
    return {
      sorted: up ? "ascending" : down ? "descending" : null,
      head: h("button", { type: "button", class: "sort", onclick: choose, title: `${column.type}. Click to sort by it.` }, column.name, up ? " ↑" : down ? " ↓" : ""),
    };
  }

  function lastOffset() {
    return Math.floor((found.matching - 1) / PAGE_ROWS) * PAGE_ROWS;
  }

  function content() {
    if (problem && !found) return failure(problem, () => load());
    if (!found) return h("div", { class: "loading", role: "status" }, "Loading …");
    if (!found.rows.length) return where.count() ? empty("No row matches all conditions.") : empty("The view has no rows.", "Rows appear here as soon as there are some.");
    const end = found.offset + found.rows.length;
    return [
      problem && h("div", { class: "stale", role: "status" }, problem.message),
      table(found.columns.map((column) => ({
        name: column.name, number: NUMBER.test(column.type), ...head(column),
        cell: ({ row, versions }) => h("span", { key: versions[column.name], class: versions[column.name] ? "value flash" : "value", title: cell(row[column.name]) },
          row[column.name] === null ? h("span", { class: "muted" }, "null") : cell(row[column.name])),
      })), [...known.values()], { key: (one) => one.key, label: `Rows of ${name}`, rowClass: (one) => (one.fresh ? "fresh" : ""), open: (one) => { chosen = one.key; redraw(); } }),
      h("div", { class: "more" },
        button("Previous", { onclick: () => { offset = Math.max(0, offset - PAGE_ROWS); turn(); }, disabled: found.offset === 0 }),
        h("span", { class: "muted" }, `${count(found.offset + 1)}–${count(end)} of ${count(found.matching)}`),
        button("Next", { onclick: () => { offset = Math.min(offset + PAGE_ROWS, lastOffset()); turn(); }, disabled: end >= found.matching }),
        h("span", { class: "muted", title: "All of these rows are as of this position of the log." }, `position ${found.position}`)),
    ];
  }

  return {
    load,
    /** How many rows the view has; null while that is not known. */
    total: () => total,
    failed: () => problem !== null,
    show(view) {
      const row = known.get(chosen);
      return [
        h("div", { class: "toolbar" }, h("div", { class: "toolbar-row" }, where.show(view.columns))),
        content(),
        row && panel("Row", () => { chosen = null; redraw(); }, code(pretty(row.row), "Row")),
      ];
    },
  };
}
