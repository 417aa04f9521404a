// Send a test event: a record into a topic, where it went, and how long until the views have seen it.

import { get, newKey, path, query, send } from "../api.js";
import { h, redraw } from "../dom.js";
import { cell, count, duration } from "../format.js";
import { refusal } from "../live.js";
import { button, code, empty, failure, heading, loaded, resource, table } from "../parts.js";

const WAIT_SECONDS = 20;

export function sendEvent(chosen) {
  const list = resource(() => get("topics"));
  let name = chosen ?? "";
  let detail = null;
  let draft = "";
  let sent = null;
  let problem = null;
  let typed = false;
  let busy = false;
  let views = null;

  async function start() {
    await list.load();
    name ||= list.value?.topics.find((one) => !one.is_dead_letter && !one.name.endsWith("._schema"))?.name ?? "";
    if (name) choose(name);
  }

  async function choose(next) {
    name = next;
    sent = problem = views = null;
    typed = false;
    detail = resource(() => get(path("topics", name)));
    await detail.load();
    // Somebody may have been faster than the answer.
    if (detail.value && !typed) draft = JSON.stringify(example(detail.value.columns), null, 2);
    redraw();
  }

  async function submit() {
    sent = problem = views = null;
    try {
      JSON.parse(draft);
    } catch (error) {
      problem = { message: "That is not JSON.", hint: error.message };
      redraw();
      return;
    }
    busy = true;
    redraw();
    try {
      // With a key: a connection that breaks off now cannot make two of it.
      sent = await send("POST", path("topics", name, "records"), draft, { "Idempotency-Key": newKey() });
      watch(sent);
    } catch (error) {
      problem = error;
    }
    busy = false;
    redraw();
  }

  /** Waits until the views have come to the position of what was sent. */
  async function watch(mine) {
    const began = performance.now();
    try {
      await get(`views${query({ at_least: mine.position, wait: WAIT_SECONDS })}`);
      if (mine === sent) views = { seconds: (performance.now() - began) / 1000 };
    } catch (error) {
      if (mine === sent) views = { error };
    }
    redraw();
  }

  function form(topics) {
    return h("form", { class: "send", onsubmit: (event) => { event.preventDefault(); submit(); } },
      h("label", { class: "field" }, h("span", {}, "Topic"), h("select", { value: name, onchange: (event) => choose(event.target.value) }, topics.map((one) => h("option", { value: one.name }, one.name)))),
      h("label", { class: "field" }, h("span", {}, "Record, or a list of records, as JSON"),
        h("textarea", { rows: 9, spellcheck: "false", "data-filter": "", value: draft, oninput: (event) => { draft = event.target.value; typed = true; } })),
      h("div", { class: "actions" }, button(busy ? "Sending …" : "Send", { type: "submit", busy, refused: refusal("write"), kind: "primary" })));
  }

  function outcome() {
    if (problem) return [failure(problem), problem.about?.records?.length > 0 && rejected(problem.about.records)];
    if (!sent) return null;
    return h("div", { class: "sent", role: "status" },
      h("h3", {}, `Durable at position ${sent.position}.`),
      h("p", {}, sent.records > 0 && [`${count(sent.records)} in `, h("a", { href: `#/topics/${encodeURIComponent(name)}` }, name), ". "], sent.dead_letters > 0 && [h("a", { href: "#/dead-letters" }, `${count(sent.dead_letters)} did not fit`), " and became dead letters."]),
      h("p", {}, !views ? "Waiting until the views have seen it …" : views.error ? [`The views have not seen it yet. ${views.error.message}`] : [h("b", {}, duration(views.seconds)), " later the views had seen it."]));
  }

  return {
    title: "Send a test event",
    start,
    show: () => [
      heading("Send a test event", { about: "Appends to a topic, as a program does over HTTP. The answer comes when the record is durable." }),
      loaded(list, ({ topics }) => (topics.length
        ? h("div", { class: "columns" }, h("div", {}, form(topics), outcome()), detail && loaded(detail, fields))
        : empty("There is no topic to send to.", "Define one in the application first:", code(`app.topic("clicks", "user bigint, url string")`, "A topic")))),
    ],
  };
}

/** Why records were not taken. */
function rejected(records) {
  return table([
    { name: "Record", number: true, cell: (one) => one.index },
    { name: "Field", cell: (one) => one.field ?? "–" },
    { name: "Expected", cell: (one) => one.expected ?? "–" },
    { name: "Got", cell: (one) => h("code", {}, cell(one.got)) },
    { name: "Reason", wide: true, cell: (one) => one.reason },
  ], records, { key: (one) => `${one.index}${one.field}`, label: "Records that do not fit" });
}

function fields({ columns, topic }) {
  return h("aside", { class: "fields", "aria-label": "Columns" }, h("h2", {}, "Columns"), table([
    { name: "Column", cell: (one) => h("b", {}, one.name) },
    { name: "Type", cell: (one) => h("code", {}, one.type) },
  ], columns, { key: (one) => one.name, label: "Columns" }),
  h("p", { class: "muted" }, topic.key.length ? `The key is ${topic.key.join(", ")}: a record replaces the row with the same key. "_deleted": true deletes it.` : "Columns that are left out are null."));
}

/** A record that fits the columns. */
export function example(columns) {
  return Object.fromEntries(columns.map(({ name, type }) => [name, valueOf(type)]));
}

function valueOf(type) {
  if (/^(tinyint|smallint|int|bigint)/.test(type)) return 1;
  if (/^(float|double)/.test(type)) return 1.5;
  if (type.startsWith("decimal")) return "9.50";
  if (type.startsWith("timestamp")) return new Date().toISOString();
  if (type.startsWith("date")) return new Date().toISOString().slice(0, 10);
  if (type === "boolean") return true;
  if (type.startsWith("array")) return [];
  if (/^(struct|map)/.test(type)) return {};
  return type === "binary" ? "aGVsbG8=" : "text";
}
