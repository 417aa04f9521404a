// The records of a topic: as they arrive, or from wherever somebody wants to look.

import { get, path, query } from "../api.js";
import { conditions } from "../conditions.js";
import { h, redraw } from "../dom.js";
import { cell, count, exact, pretty } from "../format.js";
import { live } from "../live.js";
import { button, code, empty, failure, panel, table, time } from "../parts.js";
import { follow } from "../stream.js";

// Older records leave the page: it stays as large as it is, however long it is open.
const ROWS_MOST = 500;
const ROWS_FIRST = 50;
const PAGE_ROWS = 100;
const COLUMNS_MOST = 8;
const PLACES = { earliest: "The beginning", offset: "An offset", time: "A time", position: "After a position" };

export function records(name) {
  const target = path("topics", name, "records");
  const place = { kind: "earliest", offset: "0", time: "", position: "0", partition: "" };
  const where = conditions(() => (page ? goTo() : fromNow()));
  let stream = null;
  let rows = [];
  let page = null;
  let paused = null;
  let chosen = null;
  let problem = null;
  let gone = null;

  function open(from, after = "") {
    stream?.close();
    problem = null;
    stream = follow(target + query({ from, partition: place.partition, where: where.texts() }), {
      after,
      on: {
        records: ({ records: found }) => {
          rows = [...found.reverse(), ...rows].slice(0, ROWS_MOST);
          redraw();
        },
        gone: ({ error }) => { gone = error; redraw(); },
        error: ({ error }) => { problem = error; redraw(); },
      },
      onFailure: (error) => { problem = error; redraw(); },
    });
  }

  function fromNow() {
    rows = [];
    page = paused = gone = null;
    open(`last:${ROWS_FIRST}`);
    redraw();
  }

  /** How many records have come while it is paused. The id of an event says how far each partition was read. */
  function came() {
    const read = paused.last.split(".").reduce((sum, offset) => sum + Number(offset), 0);
    return place.partition ? 0 : Math.max(0, (live.samples.at(-1)?.topics[name] ?? 0) - read);
  }

  function pause() {
    paused = { last: stream.last() };
    stream.close();
    redraw();
  }

  function resume() {
    const { last } = paused;
    // What would leave the page at once is not fetched.
    const many = came() > ROWS_MOST;
    paused = null;
    if (many || !last) fromNow();
    else open("latest", last);
    redraw();
  }

  function start() {
    if (place.kind === "offset" || place.kind === "position") return `${place.kind}:${place[place.kind] || 0}`;
    if (place.kind === "time" && place.time) return `time:${new Date(place.time).toISOString()}`;
    return "earliest";
  }

  async function goTo(from = start()) {
    stream?.close();
    paused = gone = null;
    try {
      const found = await get(target + query({ from, limit: PAGE_ROWS, partition: place.partition, where: where.texts() }));
      Object.assign(found, { from });
      problem = null;
      page = found;
    } catch (error) {
      problem = error;
      page ??= { records: [], end: true };
    }
    redraw();
  }

  function toolbar(detail) {
    const set = (field) => (event) => { place[field] = event.target.value; redraw(); };
    return h("div", { class: "toolbar" },
      h("div", { class: "toolbar-row" },
        page
          ? button("Back to live", { onclick: fromNow, kind: "primary" })
          : paused
            ? button(came() ? `Resume (${count(came())} new)` : "Resume", { onclick: resume, kind: "primary", "data-pause": "" })
            : button("Pause", { onclick: pause, "data-pause": "" }),
        h("span", { class: "live-state", role: "status" }, page ? "Looking back" : paused ? "Paused" : [h("span", { class: "pulse", "aria-hidden": "true" }), "Live"]),
        h("form", { class: "go-to", onsubmit: (event) => { event.preventDefault(); goTo(); } },
          h("label", {}, h("span", {}, "Go to"), h("select", { value: place.kind, onchange: set("kind"), "aria-label": "Where to go" }, Object.entries(PLACES).map(([kind, text]) => h("option", { value: kind }, text)))),
          (place.kind === "offset" || place.kind === "position") && h("input", { key: place.kind, type: "number", min: "0", "aria-label": PLACES[place.kind], value: place[place.kind], oninput: set(place.kind) }),
          place.kind === "time" && h("input", { type: "datetime-local", step: "1", "aria-label": "Local time", value: place.time, oninput: set("time") }),
          h("button", { type: "submit", class: "quiet" }, "Go"))),
      h("div", { class: "toolbar-row" },
        where.show(detail.columns),
        detail.partitions.length > 1 && h("label", {}, h("span", {}, "Partition"), h("select", { value: place.partition, onchange: (event) => { place.partition = event.target.value; page ? goTo() : fromNow(); } },
          h("option", { value: "" }, "all"), detail.partitions.map((one) => h("option", { value: String(one.partition) }, one.partition))))));
  }

  function list(detail) {
    const shown = page ? page.records : rows;
    if (problem) return failure(problem, () => (page ? goTo(page.from) : fromNow()));
    if (!shown.length) return none(detail);
    const columns = detail.columns.slice(0, COLUMNS_MOST);
    return [
      gone && h("p", { class: "stale", role: "status" }, gone.message),
      table([
        detail.partitions.length > 1 && { name: "Partition", number: true, cell: (one) => one.partition },
        { name: "Offset", number: true, cell: (one) => count(one.offset) },
        { name: "Arrived", cell: (one) => time(one.at) },
        ...columns.map((column) => ({ name: column.name, cell: (one) => valueOf(one, column, detail) })),
        detail.columns.length > COLUMNS_MOST && { name: `+${detail.columns.length - COLUMNS_MOST}`, cell: () => h("span", { class: "muted" }, "…") },
      ].filter(Boolean), shown, {
        key: (one) => `${one.partition}.${one.offset}`, label: "Records", open: (one) => { chosen = one; redraw(); },
        rowClass: (one) => [page ? "" : "fresh", one.deleted ? "deleted" : "", one === chosen ? "chosen" : ""].join(" ").trim(),
      }),
      page && h("div", { class: "more" }, page.end ? h("span", { class: "muted" }, "That is the end of the topic.") : button(`Next ${PAGE_ROWS}`, { onclick: () => goTo(page.next) })),
    ];
  }

  function none(detail) {
    if (where.count()) return empty("No record matches all conditions.", page && !page.end ? button("Look further", { onclick: () => goTo(page.next) }) : "Remove one of them, go to the beginning to search all records, or wait: matching records appear here.");
    if (page) return empty("There are no records from there on.", "Records before it may be there: go to the beginning.");
    return empty("No records yet.", "They appear here as they arrive.", h("p", {}, h("a", { href: `#/send/${encodeURIComponent(detail.topic.name)}` }, "Send a test event")));
  }

  return {
    start: fromNow,
    stop: () => stream?.close(),
    show: (detail) => [toolbar(detail), list(detail), chosen && inFull(chosen, detail, () => { chosen = null; redraw(); })],
  };
}

function valueOf(record, column, detail) {
  if (record.deleted && !detail.topic.key.includes(column.name)) return h("span", { class: "muted" }, "deleted");
  const value = record.value?.[column.name];
  return value === null || value === undefined ? h("span", { class: "muted" }, "null") : h("span", { title: cell(value) }, cell(value));
}

/** One record with everything that is known of it. */
function inFull(record, detail, close) {
  const headers = Object.entries(record.headers);
  const happened = detail.event_time && record.value?.[detail.event_time];
  return panel(`Record ${count(record.offset)}`, close,
    h("dl", { class: "pairs" },
      pair("Topic", detail.topic.name),
      pair("Partition, offset", `${record.partition}, ${count(record.offset)}`),
      pair("Position", record.position),
      pair("Arrived", [time(record.at), h("span", { class: "muted" }, ` ${exact(record.at)}`)]),
      happened && pair(`Happened (${detail.event_time})`, [time(happened), h("span", { class: "muted" }, ` ${exact(happened)}`)]),
      record.deleted && pair("Kind", "A tombstone: the row of this key is deleted.")),
    h("h3", {}, "Value"),
    code(pretty(record.value), "Value"),
    h("h3", {}, "Headers"),
    headers.length ? h("dl", { class: "pairs" }, headers.map(([name, value]) => pair(name, String(value)))) : h("p", { class: "muted" }, "None."));
}

function pair(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}
