// One topic: its records, its schema and how that came to be, its partitions, and who reads it.

import { get, path } from "../api.js";
import { chart } from "../charts.js";
import { h, redraw } from "../dom.js";
import { bytes, count, duration, rate, short } from "../format.js";
import { node, onFlow, points, rates } from "../live.js";
import { badge, code, empty, figures, heading, loaded, resource, section, table, tabs, time } from "../parts.js";
import { records } from "./records.js";

const RELOAD_EVERY = 3000;
const TABS = [["", "Records"], ["schema", "Schema"], ["partitions", "Partitions and retention"], ["groups", "Groups"]];

export function topic(name, tab = "") {
  const detail = resource(() => get(path("topics", name)));
  const shownRecords = records(name);
  let leave = () => {};
  return {
    title: name,
    start() {
      detail.load();
      if (!tab) shownRecords.start();
      leave = onFlow(() => { if (Date.now() - detail.at > RELOAD_EVERY || detail.error) detail.load(); });
    },
    stop() {
      leave();
      shownRecords.stop();
    },
    turn([next = ""]) {
      if (next === tab) return;
      tab = next;
      if (tab) shownRecords.stop();
      else shownRecords.start();
      redraw();
    },
    show: () => [
      heading(name, { above: h("a", { href: "#/topics" }, "Topics"), actions: h("a", { class: "button", href: `#/send/${encodeURIComponent(name)}` }, "Send a test event") }),
      loaded(detail, (found) => [
        summary(found),
        tabs(`#/topics/${encodeURIComponent(name)}`, tab, TABS),
        tab === "" ? shownRecords.show(found) : tab === "schema" ? schema(found) : tab === "partitions" ? partitions(found) : groups(found),
      ]),
    ],
  };
}

function summary({ topic: about, settings }) {
  const now = node("topic", about.name) ?? about;
  return h("div", { class: "summary" },
    figures(
      ["Kind", about.is_dead_letter ? "dead letters" : about.kind, about.kind === "table" ? "The newest row of every key counts." : "Events, which only append."],
      ["Key", about.key.join(", ") || "none"],
      ["Records", count(now.records)],
      ["On disk", bytes(now.bytes)],
      ["Kept", kept(settings)]),
    chart({ name: "Records per second", series: [{ name: about.name, points: rates((one) => one.topics[about.name]) }], format: rate }));
}

/** What happens to old records, in words. */
function kept(settings) {
  if (settings.cleanup === "compact") return "newest of each key";
  const limits = [settings.retention_age && duration(settings.retention_age), settings.retention_bytes && bytes(settings.retention_bytes)].filter(Boolean);
  return settings.cleanup === "delete" && limits.length ? limits.join(" or ") : "forever";
}

function schema({ columns, schemas, topic: about, event_time: happened, partition_by: division }) {
  return [
    section("Columns", {}, table([
      { name: "Column", cell: (one) => h("b", {}, one.name) },
      { name: "Type", cell: (one) => h("code", {}, one.type) },
      { name: "", cell: (one) => [about.key.includes(one.name) && badge("key", "good"), division.includes(one.name) && badge("partition", "plain"), one.name === happened && badge("event time", "plain")] },
    ], columns, { key: (one) => one.name, label: "Columns" })),
    section("History", { note: schemas.length === 1 ? "It has never changed." : `${schemas.length} versions, the newest first` },
      schemas.toReversed().map((one) => h("div", { class: "version", key: one.version },
        h("h3", {}, `Version ${one.version}`, one.version === schemas.length - 1 && badge("current", "good")),
        difference(schemas[one.version - 1]?.schema, one.schema),
        code(one.schema, `Schema, version ${one.version}`)))),
  ];
}

function difference(before, after) {
  if (!before) return null;
  const [old, fresh] = [columnsOf(before), columnsOf(after)];
  const added = fresh.filter((one) => !old.includes(one));
  const gone = old.filter((one) => !fresh.includes(one));
  return h("p", {}, added.map((one) => badge(`+ ${one}`, "good")), gone.map((one) => badge(`− ${one}`, "warn")));
}

/** The columns of a definition; a comma inside of brackets does not end one. */
export function columnsOf(text) {
  const found = [];
  let depth = 0;
  let current = "";
  for (const character of text) {
    if ("(<".includes(character)) depth += 1;
    if (")>".includes(character)) depth -= 1;
    if (character === "," && depth === 0) {
      found.push(current.trim());
      current = "";
    } else current += character;
  }
  return [...found, current.trim()].filter(Boolean);
}

function orderOf(columns) {
  return columns.length ? `Records with the same ${columns.join(", ")} are in the same partition, in order.` : "Records are spread over the partitions.";
}

function partitions({ partitions: all, settings, topic: about, partition_by: division }) {
  return [
    section("Partitions", { note: orderOf(division.length ? division : about.key) }, table([
      { name: "Partition", number: true, cell: (one) => one.partition },
      { name: "First offset", number: true, cell: (one) => count(one.first) },
      { name: "End", number: true, cell: (one) => count(one.end) },
      { name: "Records", number: true, cell: (one) => count(one.records) },
      { name: "On disk", number: true, cell: (one) => bytes(one.bytes) },
      { name: "Segments", number: true, cell: (one) => count(one.segments) },
      { name: "Oldest", cell: (one) => time(one.first_at) },
      { name: "Newest", cell: (one) => time(one.last_at) },
    ], all, { key: (one) => one.partition, label: "Partitions" })),
    section("Retention", {}, h("dl", { class: "pairs" },
      setting("Clean up", settings.cleanup, { delete: "Old segments are deleted according to the limits.", compact: "The newest record of every key is kept.", none: "Nothing is ever deleted." }[settings.cleanup]),
      setting("By age", settings.retention_age === null ? "no limit" : duration(settings.retention_age)),
      setting("By size", settings.retention_bytes === null ? "no limit" : bytes(settings.retention_bytes)),
      setting("A new segment", `at ${bytes(settings.segment_bytes_max)} or after ${duration(settings.segment_age_max)}`),
      setting("Tombstones are kept", duration(settings.tombstone_grace)),
      setting("Records that do not fit", settings.dead_letter ? h("a", { href: "#/dead-letters" }, `becomes a dead letter in ${settings.dead_letter}`) : "is refused"))),
  ];
}

function setting(name, value, more) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value, more && h("span", { class: "muted" }, ` ${more}`)));
}

function groups({ groups: all, topic: about }) {
  const names = [...new Set(all.map((one) => one.group))];
  if (!names.length) return empty("No group reads this topic.", "Members of a group share its partitions:", code(`with app.log.consumer("${about.name}", group="mailer") as consumer:\n    for batch in consumer:\n        ...\n        consumer.commit()`, "A consumer"));
  return [
    chart({ name: "Lag", series: names.slice(0, 4).map((group) => ({ name: group, points: points((one) => one.lag[group]) })), format: short, note: "records still to read, in all topics of the group" }),
    table([
      { name: "Group", cell: (one) => h("a", { href: `#/groups/${encodeURIComponent(one.group)}` }, one.group) },
      { name: "Partition", number: true, cell: (one) => one.partition },
      { name: "Member", cell: (one) => one.member ?? badge("none", "warn", "No member of the group is reading this partition.") },
      { name: "Offset", number: true, cell: (one) => count(one.offset) },
      { name: "End", number: true, cell: (one) => count(one.end) },
      { name: "Lag", number: true, cell: (one) => count(one.records) },
      { name: "Time lag", number: true, cell: (one) => duration(one.seconds) },
      { name: "Alarms", wide: true, cell: (one) => [one.gone > 0 && badge(`${count(one.gone)} missed`, "bad", "Retention has deleted them before they were read."), one.alarms.map((alarm) => badge(alarm, "warn"))] },
    ], all, { key: (one) => `${one.group}/${one.partition}`, label: "Groups" }),
  ];
}
