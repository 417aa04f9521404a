// The pipeline: how far it is, what each batch took, what it keeps, and what is wrong.

import { get } from "../api.js";
import { chart } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, counted, duration, exact, short } from "../format.js";
import { onFlow, points, statusNow } from "../live.js";
import { badge, code, empty, failure, figures, heading, loaded, resource, section, statusBadge, table, time } from "../parts.js";
import { candidate } from "./candidate.js";

const RELOAD_EVERY = 1000;

export function pipelines() {
  const found = resource(() => get("pipelines"));
  const changed = candidate();
  const load = () => { found.load(); changed.load(); };
  let leave = () => {};
  return {
    title: "Pipelines",
    start() {
      load();
      leave = onFlow(() => { if (Date.now() - found.at > RELOAD_EVERY) load(); });
    },
    stop: () => leave(),
    show: () => [
      heading("Pipelines", { about: "What keeps the views up to date: one job per batch, which reads the log from one position to the next and publishes all views at once." }),
      changed.show(),
      loaded(found, (answer) => answer.pipelines.map(pipeline)),
    ],
  };
}

function pipeline(one) {
  return h("div", { key: one.name },
    one.error ? problem(one) : one.process && !one.process.running && one.position !== null && silent(one),
    figures(
      ["Status", statusBadge(one.status === "behind" ? statusNow() : one.status)],
      ["Position", one.position ?? "–", "How far the views are."],
      ["Log", one.log_position, "The last commit of the log."],
      ["Behind", one.behind === null ? "–" : counted(one.behind, "commit")],
      ["Freshness", duration(one.freshness_seconds), "The age of the oldest commit that the views do not show yet, or how long something has not been running."],
      ["Last batch", time(one.last_published_at)],
      one.process && ["Runs", runs(one), one.process.started_at && `Since ${exact(one.process.started_at)}.`],
      one.retries > 0 && ["Retries", count(one.retries), "Batches that were retried because Spark lost a process."]),
    notKept(one),
    one.batches.length ? [charts(), batches(one)] : unpublished(one),
    state(one),
    generations(one));
}

function problem({ error, failed_at: at }) {
  const where = error.topic && ["It is record ", count(error.offset), " of partition ", error.partition, " of ", h("a", { href: `#/topics/${encodeURIComponent(error.topic)}` }, error.topic), "."];
  return h("div", { class: "problem" }, failure(error), where && h("p", {}, where), h("p", { class: "muted" }, "It stopped ", time(at), ". Nothing is lost: it resumes at its last position when it is started again."));
}

/** Who runs it, or when it was last heard of. */
function runs({ process: { running, state, pid, host, beat_at: beat, ended_at: ended }, runs_here: here }) {
  if (running) return here ? "in this process" : `process ${pid} on ${host}`;
  if (state === "never_seen") return badge("not seen yet", "bad");
  return [badge("not running", "bad"), " ", state === "ended" ? "ended " : "last heard of ", time(ended ?? beat)];
}

function silent({ process: { state, pid, host, beat_at: beat, ended_at: ended } }) {
  const last = state === "never_seen" ? "It has not been seen yet." : [state === "ended" ? "It ended " : `Process ${pid} on ${host} was last heard of `, time(ended ?? beat), "."];
  return h("div", { class: "problem" },
    failure({ message: "The pipeline is not running: the views stay as they are.", hint: "Start it with `headwater run`.", code: "not_running" }),
    h("p", { class: "muted" }, last, " Nothing is lost: it resumes at its last position."));
}

/** Views that could be planned and not run. */
function notKept({ not_kept: left }) {
  return Object.entries(left).map(([view, reason]) => h("div", { class: "alarm", role: "alert", key: view },
    h("b", {}, "View ", h("a", { href: `#/views/${encodeURIComponent(view)}` }, view), " is not kept up to date: "), reason));
}

function unpublished({ runs_here: here, process }) {
  return here || process?.running
    ? empty("The first batch is on its way.", "Spark starts and plans the views, which takes some seconds.")
    : empty("Nothing was published yet.", "Start a pipeline beside this server:", code("headwater run app.py --no-server", "Command"));
}

function charts() {
  return h("div", { class: "charts" },
    chart({ name: "Seconds per batch", series: [{ name: "last batch", points: points((one) => one.batch_seconds) }], format: duration }),
    chart({ name: "Records per batch", series: [{ name: "last batch", points: points((one) => one.batch_records) }], format: short }),
    chart({ name: "Freshness", series: [{ name: "views", points: points((one) => one.freshness_seconds) }], format: duration }),
    chart({ name: "Behind", series: [{ name: "views", points: points((one) => one.behind) }], format: short, note: "commits" }));
}

function batches({ batches: all }) {
  return section("Batches", { note: "the newest first" }, table([
    { name: "Batch", number: true, cell: (one) => count(one.batch) },
    { name: "Published", cell: (one) => time(one.published_at) },
    { name: "To position", number: true, cell: (one) => one.position },
    { name: "Records", number: true, cell: (one) => count(one.records) },
    { name: "Took", number: true, cell: (one) => duration(one.seconds) },
    { name: "Freshness", number: true, cell: (one) => duration(one.freshness_seconds) },
    { name: "Rows changed", wide: true, cell: (one) => Object.entries(one.changes).filter(([, rows]) => rows).map(([view, rows]) => h("span", { class: "changed", key: view }, h("a", { href: `#/views/${encodeURIComponent(view)}` }, view), ` ${count(rows)} `)) },
  ], all.toReversed().slice(0, 50), { key: (one) => one.batch, label: "Batches" }));
}

function state({ state: parts, excluded }) {
  const all = Object.entries(parts).sort(([, a], [, b]) => b.bytes - a.bytes);
  if (!all.length) return null;
  const total = all.reduce((sum, [, size]) => sum + size.bytes, 0);
  return section("State", { note: `${bytes(total)} in ${counted(all.length, "part")}` },
    excluded > 0 && h("p", {}, h("a", { href: "#/dead-letters" }, `${counted(excluded, "record")} refused by views`)),
    table([
      { name: "Part", cell: ([name]) => (name.startsWith("view/") ? ["view ", h("a", { href: `#/views/${encodeURIComponent(name.slice(5))}` }, name.slice(5))] : `operator ${name}`) },
      { name: "Rows", number: true, cell: ([, size]) => count(size.rows) },
      { name: "Bytes", number: true, cell: ([, size]) => bytes(size.bytes) },
      { name: "Files", number: true, cell: ([, size]) => count(size.files) },
    ], all.slice(0, 30), { key: ([name]) => name, label: "State" }));
}

function generations({ generations: all }) {
  if (!all.length) return null;
  return section("Generations", { note: "What changed is built beside the current one, and takes over when it has caught up." }, table([
    { name: "Generation", number: true, cell: (one) => one.id },
    { name: "Status", cell: (one) => badge(one.status, one.status === "current" ? "good" : one.status === "building" ? "busy" : "plain") },
    { name: "Made", cell: (one) => time(one.created_at) },
    { name: "Position", number: true, cell: (one) => one.position },
    { name: "Batches", number: true, cell: (one) => count(one.batch) },
    { name: "Views", wide: true, cell: (one) => one.views.join(", ") },
  ], all.toReversed(), { key: (one) => one.id, label: "Generations" }));
}
