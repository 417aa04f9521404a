// Consumer groups: all of them with their lag, and one of them with its members, which can be moved or deleted.

import { get, path, query, send } from "../api.js";
import { chart } from "../charts.js";
import { h, redraw } from "../dom.js";
import { bytes, count, counted, duration, short } from "../format.js";
import { onFlow, points, refusal } from "../live.js";
import { badge, button, code, empty, failure, figures, heading, loaded, resource, search, section, table } from "../parts.js";

const RELOAD_EVERY = 2000;
const EXAMPLE = `with app.log.consumer("orders", group="mailer") as consumer:\n    for batch in consumer:\n        ...\n        consumer.commit()`;
const PLACES = { earliest: "Earliest", latest: "Latest", time: "A time", position: "Behind a position", offset: "An offset" };

export function groups() {
  const list = resource(() => get("groups"));
  let filter = "";
  let leave = () => {};
  return {
    title: "Groups",
    start() {
      list.load();
      leave = onFlow(() => { if (Date.now() - list.at > RELOAD_EVERY || list.error) list.load(); });
    },
    stop: () => leave(),
    show: () => [
      heading("Groups", {
        about: "Programs that read topics together: the members of a group share the partitions, and each group sees everything.",
        actions: search(filter, (text) => { filter = text; }),
      }),
      loaded(list, ({ groups: all }) => listed(summaries(all), filter)),
    ],
  };
}

/** One row for each group, of the lags of its partitions. */
function summaries(lags) {
  const found = new Map();
  for (const one of lags) found.set(one.group, [...(found.get(one.group) ?? []), one]);
  return [...found].map(([name, parts]) => ({
    name,
    topics: [...new Set(parts.map((one) => one.topic))],
    members: new Set(parts.map((one) => one.member).filter(Boolean)).size,
    records: sum(parts, "records"),
    seconds: Math.max(...parts.map((one) => one.seconds)),
    gone: sum(parts, "gone"),
    risk: Math.max(...parts.map((one) => one.risk ?? -1)),
    alarms: parts.flatMap((one) => one.alarms).length,
  }));
}

function sum(parts, figure) {
  return parts.reduce((total, one) => total + one[figure], 0);
}

function listed(all, filter) {
  if (!all.length) return empty("There are no consumer groups yet.", "A program that reads topics as a group creates one:", code(EXAMPLE, "A consumer"));
  const found = all.filter((one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  if (!found.length) return empty("No group matches the filter.");
  return table([
    { name: "Group", cell: (one) => h("a", { href: address(one.name) }, one.name) },
    { name: "Topics", wide: true, cell: (one) => one.topics.join(", ") },
    { name: "Members", number: true, cell: (one) => one.members || badge("none", "warn", "No member of the group is reading.") },
    { name: "Lag", number: true, cell: (one) => count(one.records) },
    { name: "Time lag", number: true, cell: (one) => duration(one.seconds) },
    { name: "Retention used", number: true, cell: (one) => share(one.risk) },
    { name: "Alarms", cell: (one) => [one.gone > 0 && badge(`${count(one.gone)} missed`, "bad", "Retention deleted them before they were read."), one.alarms > 0 && badge(counted(one.alarms, "alarm"), "warn")] },
  ], found, { key: (one) => one.name, open: (one) => { location.hash = address(one.name); }, label: "Groups" });
}

function address(name) {
  return `#/groups/${encodeURIComponent(name)}`;
}

/** How much of the retention a group has used up by being late; none where nothing is deleted. */
function share(risk) {
  return risk === null || risk < 0 ? "–" : `${Math.round(risk * 100)} %`;
}

export function group(name) {
  const detail = resource(() => get(path("groups", name)));
  const moving = move(name, () => detail.load());
  let leave = () => {};
  return {
    title: name,
    start() {
      detail.load();
      leave = onFlow(() => { if (Date.now() - detail.at > RELOAD_EVERY || detail.error) detail.load(); });
    },
    stop: () => leave(),
    show: () => [
      heading(name, { above: h("a", { href: "#/groups" }, "Groups") }),
      loaded(detail, (found) => [
        summary(found),
        members(found),
        partitions(found),
        moving.show(found),
      ]),
    ],
  };
}

function summary({ group: name, members: active, partitions: parts }) {
  return h("div", { class: "summary" },
    figures(
      ["Members", active.length ? count(active.length) : badge("none", "warn")],
      ["Lag", count(sum(parts, "records")), "Records not read yet."],
      ["Size", bytes(sum(parts, "bytes"))],
      ["Time lag", duration(Math.max(0, ...parts.map((one) => one.seconds))), "The age of the oldest of them."],
      ["Retention used", share(Math.max(-1, ...parts.map((one) => one.risk ?? -1))), "At 100 % the next record is about to be deleted unread."]),
    chart({ name: "Lag", series: [{ name, points: points((one) => one.lag[name]) }], format: short }));
}

function members({ members: active }) {
  return section("Members", { note: active.length ? "" : "No member is reading; the group's offsets are kept." }, active.length > 0 && table([
    { name: "Member", cell: (one) => h("b", {}, one.name) },
    { name: "Topics", wide: true, cell: (one) => one.topics.join(", ") },
    { name: "Lease", number: true, cell: (one) => duration(one.lease_left_seconds) },
  ], active, { key: (one) => one.name, label: "Members" }));
}

function partitions({ partitions: parts }) {
  return section("Partitions", {}, table([
    { name: "Topic", cell: (one) => h("a", { href: `#/topics/${encodeURIComponent(one.topic)}` }, one.topic) },
    { name: "Partition", number: true, cell: (one) => one.partition },
    { name: "Member", cell: (one) => one.member ?? badge("none", "warn", "No member of the group is reading this partition.") },
    { name: "Offset", number: true, cell: (one) => count(one.offset) },
    { name: "End", number: true, cell: (one) => count(one.end) },
    { name: "Lag", number: true, cell: (one) => count(one.records) },
    { name: "Time lag", number: true, cell: (one) => duration(one.seconds) },
    { name: "Alarms", wide: true, cell: (one) => [one.gone > 0 && badge(`${count(one.gone)} missed`, "bad", "Retention deleted them before they were read."), one.alarms.map((alarm) => badge(alarm, "warn"))] },
  ], parts, { key: (one) => `${one.topic}/${one.partition}`, label: "Partitions" }));
}

/** Moves the group, after it was shown from where to where, or deletes it; `changed` is called when it was moved. */
function move(name, changed) {
  const place = { kind: "earliest", time: "", position: "", offset: "", topic: "", partition: "" };
  let preview = null;
  let problem = null;
  let done = "";
  let busy = false;
  let deleting = false;

  function target() {
    if (place.kind === "time") return `time:${new Date(place.time).toISOString()}`;
    return place.kind === "position" || place.kind === "offset" ? `${place.kind}:${place[place.kind]}` : place.kind;
  }

  function reset(more) {
    const chosen = { topic: place.topic, partition: place.kind === "offset" ? place.partition : "" };
    return send("POST", path("groups", name, "reset") + query({ ...chosen, ...more }), JSON.stringify({ to: target() }));
  }

  async function act(action) {
    busy = true;
    problem = null;
    done = "";
    redraw();
    try {
      await action();
    } catch (error) {
      problem = error instanceof RangeError ? { message: "That is not a time.", hint: "Choose a date and a time." } : error;
    }
    busy = false;
    redraw();
  }

  const look = () => act(async () => { preview = (await reset({ dry_run: "true" })).moves; });
  const carryOut = (force) => act(async () => {
    const { moves } = await reset({ force: force ? "true" : "" });
    preview = null;
    done = `Moved in ${counted(moves.length, "partition")}.`;
    changed();
  });
  const remove = (force) => act(async () => {
    await send("DELETE", path("groups", name) + query({ force: force ? "true" : "" }));
    location.hash = "#/groups";
  });

  function form(topics) {
    const set = (field) => (event) => { place[field] = event.target.value; preview = null; done = ""; redraw(); };
    return h("form", { class: "toolbar", onsubmit: (event) => { event.preventDefault(); look(); } }, h("div", { class: "toolbar-row" },
      h("label", {}, h("span", {}, "To"), h("select", { value: place.kind, onchange: set("kind"), "aria-label": "Where to move it" }, Object.entries(PLACES).map(([kind, text]) => h("option", { value: kind }, text)))),
      place.kind === "time" && h("input", { type: "datetime-local", step: "1", "aria-label": "Local time", value: place.time, required: "", oninput: set("time") }),
      (place.kind === "offset" || place.kind === "position") && h("input", { key: place.kind, type: "number", min: "0", "aria-label": PLACES[place.kind], value: place[place.kind], required: "", oninput: set(place.kind) }),
      h("label", {}, h("span", {}, "Topic"), h("select", { value: place.topic, onchange: set("topic"), "aria-label": "Topic" }, h("option", { value: "" }, "all"), topics.map((one) => h("option", { value: one }, one)))),
      place.kind === "offset" && h("label", {}, h("span", {}, "Partition"), h("input", { type: "number", min: "0", placeholder: "all", "aria-label": "Partition", value: place.partition, oninput: set("partition") })),
      h("button", { type: "submit", disabled: busy || Boolean(refusal("admin")), title: refusal("admin") || null }, "Preview")));
  }

  function shownMoves(active) {
    return [
      table([
        { name: "Topic", cell: (one) => one.topic },
        { name: "Partition", number: true, cell: (one) => one.partition },
        { name: "From", number: true, cell: (one) => (one.before === null ? "–" : count(one.before)) },
        { name: "To", number: true, cell: (one) => count(one.after) },
        { name: "Records", wide: true, cell: (one) => effect(one.after - (one.before ?? 0)) },
      ], preview, { key: (one) => `${one.topic}/${one.partition}`, label: "Old and new offsets" }),
      active.length > 0 && h("p", {}, badge(counted(active.length, "active member"), "warn"), " They continue from there; what they have not committed is refused."),
      h("div", { class: "actions" },
        button(active.length ? "Move it despite its members" : "Move the group", { onclick: () => carryOut(active.length > 0), busy, refused: refusal("admin"), kind: "primary" }),
        button("Cancel", { onclick: () => { preview = null; redraw(); }, busy })),
    ];
  }

  function deletion(active) {
    const ask = (wanted) => () => { deleting = wanted; redraw(); };
    if (!deleting) return h("div", { class: "actions" }, button("Delete the group", { onclick: ask(true), busy, refused: refusal("admin") }));
    return h("div", { class: "actions" },
      button("Delete its offsets for good", { onclick: () => remove(active.length > 0), busy, kind: "primary" }),
      button("Keep it", { onclick: ask(false), busy }));
  }

  return {
    show: ({ members: active, partitions: parts }) => section("Move or delete", { note: "Its members continue from the new place." },
      form([...new Set(parts.map((one) => one.topic))]),
      preview && shownMoves(active),
      problem && failure(problem),
      done && h("p", { role: "status" }, badge(done, "good")),
      deletion(active)),
  };
}

/** What a move means for the records of a partition. */
function effect(moved) {
  if (!moved) return h("span", { class: "muted" }, "stays");
  return moved < 0 ? `${counted(-moved, "record")} again` : badge(`${counted(moved, "record")} skipped`, "warn");
}
