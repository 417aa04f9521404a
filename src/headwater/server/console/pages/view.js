// One view: its rows as they change, the changes themselves, how it is computed, and how fresh it has been.

import { get, path } from "../api.js";
import { chart } from "../charts.js";
import { h, redraw } from "../dom.js";
import { bytes, cell, count, duration, rate } from "../format.js";
import { node, onFlow, rates } from "../live.js";
import { badge, button, empty, failure, figures, heading, loaded, resource, section, sql, table, tabs, time } from "../parts.js";
import { follow } from "../stream.js";
import { operators } from "./operators.js";
import { rows } from "./rows.js";
import { verify } from "./verify.js";

const RELOAD_EVERY = 3000;
const CHANGES_MOST = 300;
const TABS = [["", "Rows"], ["changes", "Changes"], ["definition", "SQL and operators"], ["history", "Positions and freshness"]];

export function view(name, tab = "") {
  const detail = resource(() => get(path("views", name, "definition")));
  const content = rows(name, () => detail.value?.view.columns.filter((one) => detail.value.view.key.includes(one.name)) ?? []);
  const verification = verify(name);
  let leave = () => {};
  let stream = null;
  let changes = [];
  let paused = null;
  let number = 0;
  let problem = null;

  /** Follows the view from where it is now: its content is not needed again, however large it is. */
  function open({ position, generation }) {
    content.load();
    stream = follow(path("views", name, "changes"), {
      after: `${position}.${generation}`,
      on: { change: take, snapshot: (event) => content.load(event.position), reset: () => content.load() },
      onFailure: (error) => { problem = error; redraw(); },
    });
  }

  function take({ position, changes: found }) {
    const at = new Date().toISOString();
    // What a row was stands below what it became.
    const keyOf = ({ row }) => JSON.stringify(detail.value.view.key.map((column) => row[column]));
    const ordered = found.slice(-CHANGES_MOST).sort((a, b) => keyOf(b).localeCompare(keyOf(a)) || a.weight - b.weight);
    const fresh = ordered.map((one) => ({ ...one, position, at, number: (number += 1) }));
    changes = [...fresh.reverse(), ...changes].slice(0, CHANGES_MOST);
    content.load(position);
    redraw();
  }

  async function look() {
    await detail.load();
    if (!stream && detail.value?.view.published) open(detail.value);
    else if (content.failed()) content.load();
  }

  return {
    title: name,
    start() {
      look();
      leave = onFlow(() => { if (Date.now() - detail.at > RELOAD_EVERY) look(); });
    },
    stop() {
      leave();
      stream?.close();
    },
    turn([next = ""]) {
      tab = next;
      redraw();
    },
    show: () => [
      heading(name, { above: h("a", { href: "#/views" }, "Views"), about: detail.value && reads(detail.value.view) }),
      loaded(detail, (found) => [
        found.view.not_kept && h("div", { class: "alarm", role: "alert" }, h("b", {}, "This view is not kept up to date: "), found.view.not_kept),
        summary(found, content.total()),
        found.view.published && verification.show(found.view),
        tabs(`#/views/${encodeURIComponent(name)}`, tab, TABS),
        problem && failure(problem),
        body(found),
      ]),
    ],
  };

  function body(found) {
    if (tab === "definition") return [section("SQL", {}, sql(found.view.sql.trim())), section("Operators", { note: "From the log to the view. Each keeps the state that its next answer needs." }, operators(found))];
    if (!found.view.published) return empty("It is not built yet.", "The pipeline has not published it: `headwater run` builds it and keeps it up to date. This page shows it as soon as it exists.");
    if (tab === "changes") return listed(found.view);
    return tab === "history" ? history(found) : content.show(found.view);
  }

  function listed(about) {
    const shown = paused ?? changes;
    const missed = paused ? changes.filter((one) => one.number > (paused[0]?.number ?? 0)).length : 0;
    const toggle = () => { paused = paused ? null : changes; redraw(); };
    return [
      h("div", { class: "toolbar" }, h("div", { class: "toolbar-row" },
        button(paused ? (missed ? `Resume (${count(missed)} new)` : "Resume") : "Pause", { onclick: toggle, kind: paused ? "primary" : "", "data-pause": "" }),
        h("span", { class: "live-state", role: "status" }, paused ? "Paused" : [h("span", { class: "pulse", "aria-hidden": "true" }), "Live"]),
        h("span", { class: "muted" }, "+1: the row appeared. −1: it was retracted. A changed row is both."))),
      shown.length === 0 ? empty("Nothing has changed since you opened this page.", "Every change of the view appears here, with its position.")
        : table([
          { name: "When", cell: (one) => time(one.at) },
          { name: "Position", number: true, cell: (one) => one.position },
          { name: "Weight", number: true, cell: (one) => badge(one.weight > 0 ? `+${one.weight}` : `−${-one.weight}`, one.weight > 0 ? "good" : "warn") },
          ...about.columns.map((column) => ({ name: column.name, cell: (one) => cell(one.row[column.name]) })),
        ], shown, { key: (one) => one.number, label: "Changes", rowClass: () => "fresh" }),
    ];
  }
}

function reads({ reads: all }) {
  return all.length ? ["Reads ", all.map((one, place) => [place > 0 && ", ", h("a", { href: `#/${node("view", one) ? "views" : "topics"}/${encodeURIComponent(one)}` }, one)])] : null;
}

function summary({ view: about, batches, explanation }, total) {
  const now = node("view", about.name) ?? about;
  const size = now.size ?? about.size;
  const kept = explanation?.operators.reduce((sum, one) => sum + one.state.bytes, 0);
  return h("div", { class: "summary" },
    figures(
      ["Rows", count(total)],
      ["Key", about.key.join(", ") || "none", "The columns by which rows are found."],
      ["View on disk", bytes(size?.bytes)],
      ["State of operators", bytes(kept), "What its operators keep in order to compute the next change."],
      ["Freshness", duration(batches.at(-1)?.freshness_seconds), "From the last commit to its publication in the view."],
      ["Followers", count(about.subscribers)]),
    chart({ name: "Changed rows per second", series: [{ name: about.name, points: rates((one) => one.views[about.name]) }], format: rate }));
}

function history({ batches, view: about }) {
  if (!batches.length) return empty("Nothing was published yet.");
  const points = batches.map((one) => ({ at: Date.parse(one.published_at), value: one.freshness_seconds }));
  const seconds = Math.max(10, (points.at(-1).at - points[0].at) / 1000);
  return [
    chart({ name: "Freshness of each batch", series: [{ name: about.name, points }], format: duration, seconds, gap: Infinity, note: "from commit to publication" }),
    section("Positions", { note: "The last batches, the newest first. All views of the application moved together." }, table([
      { name: "Position", number: true, cell: (one) => one.position },
      { name: "Published", cell: (one) => time(one.published_at) },
      { name: "Freshness", number: true, cell: (one) => duration(one.freshness_seconds) },
      { name: "Batch", number: true, cell: (one) => count(one.batch) },
      { name: "Took", number: true, cell: (one) => duration(one.seconds) },
      { name: "Records read", number: true, cell: (one) => count(one.records) },
      { name: "Rows changed here", number: true, cell: (one) => count(one.changes[about.name] ?? 0) },
    ], batches.toReversed(), { key: (one) => one.batch, label: "Positions" })),
  ];
}
