// Captured databases: how far each is, what it keeps for the capture, its tables, and what happened to them.

import { get, path } from "../api.js";
import { chart } from "../charts.js";
import { h, redraw } from "../dom.js";
import { bytes, count, counted, duration } from "../format.js";
import { onFlow } from "../live.js";
import { badge, code, empty, failure, figures, heading, loaded, resource, section, table, time } from "../parts.js";

// Each look asks the databases themselves.
const RELOAD_EVERY = 3000;
const POINTS_MOST = 300;
const EVENTS_SHOWN = 50;
const EXAMPLE = `app.postgres("postgresql://shop@localhost/shop", tables=["orders", "customers"])`;
const PHASES = {
  "not begun": ["not begun", "plain", "`headwater run` starts it."],
  creating: ["beginning", "busy", "The replication slot is being created."],
  snapshot: ["first snapshot", "busy", "All rows are read; they enter the log in one commit."],
  streaming: ["streaming", "good", "Each transaction of the database becomes one commit of the log."],
  dropped: ["dropped", "warn", "Slot and publication were removed; a capture starts over."],
};
const STATES = { streaming: "good", reading: "busy", stopped: "bad", dropped: "warn" };

export function capture() {
  const seen = new Map();
  const histories = new Map();
  let leave = () => {};
  const found = resource(async () => {
    const answer = await get("capture");
    for (const { name, status } of answer.sources) {
      if (status) seen.set(name, [...(seen.get(name) ?? []), { at: Date.now(), retained: status.bytes_retained, behind: status.bytes_behind }].slice(-POINTS_MOST));
      history(name);
    }
    return answer;
  });

  /** What happened to the tables is a topic of its own; a source that has not begun has none yet. */
  async function history(name) {
    try {
      const page = await get(`${path("topics", `${name}._schema`, "records")}?from=last:${EVENTS_SHOWN}&limit=${EVENTS_SHOWN}`);
      histories.set(name, page.records.reverse());
    } catch (error) {
      histories.set(name, error.status === 404 ? [] : null);
    }
    redraw();
  }

  return {
    title: "Capture",
    start() {
      found.load();
      leave = onFlow(() => { if (Date.now() - found.at > RELOAD_EVERY) found.load(); });
    },
    stop: () => leave(),
    show: () => [
      heading("Capture", { about: "Databases whose changes become records in the log, each transaction as one commit." }),
      loaded(found, ({ sources }) => (sources.length
        ? sources.map((one) => source(one, seen.get(one.name) ?? [], histories.get(one.name)))
        : empty("No database is captured.", "Tables of a PostgreSQL database become topics with one line in the application:", code(EXAMPLE, "A source")))),
    ],
  };
}

function source({ name, process, status, error }, points, events) {
  if (!status) return h("section", { key: name }, h("h2", {}, name), silent(process), failure(error.message ? error : { message: "Its status is unknown." }), schemaHistory(events));
  const [text, kind, title] = PHASES[status.phase] ?? [status.phase, "plain"];
  return h("section", { key: name },
    h("div", { class: "section-head" }, h("h2", {}, name), h("span", { class: "muted" }, status.address)),
    silent(process),
    status.alarms.map((alarm) => h("div", { class: "alarm", role: "alert", key: alarm }, h("b", {}, "Alarm: "), alarm)),
    figures(
      ["State", !process.running ? badge("not running", "bad", "It is not being captured.") : status.paused ? badge("paused", "warn", "It is paused until `headwater capture resume`; the database keeps its changes.") : badge(text, kind, title)],
      ["Captured to", status.position, "The place in the database's own log (LSN)."],
      ["Behind", `${bytes(status.bytes_behind)}, ${duration(status.seconds_behind)}`],
      ["WAL retained", bytes(status.bytes_retained), "What the database keeps because this capture has not taken it yet."],
      ["Until it is lost", status.bytes_until_lost === null ? "no limit" : bytes(status.bytes_until_lost), "max_slot_wal_keep_size"],
      ...Object.entries(status.details).map(([what, text]) => [what[0].toUpperCase() + what.slice(1), [text, " ", badge(status.active ? "in use" : "not in use", status.active ? "good" : "warn")]])),
    snapshot(status),
    h("div", { class: "charts" }, ["retained", "behind"].map((what) => chart({
      name: `${name}: WAL ${what}`, format: bytes, gap: 4 * RELOAD_EVERY, note: "since you opened this page",
      series: [{ name, points: points.map((one) => ({ at: one.at, value: one[what] })) }],
    }))),
    tables(status),
    schemaHistory(events));
}

/** That nobody captures a source, and since when. */
function silent({ running, state, pid, host, beat_at: beat, ended_at: ended, error }) {
  if (running) return null;
  const last = state === "never_seen" ? "It has not been seen yet." : [state === "ended" ? "It ended " : `Process ${pid} on ${host} was last heard of `, time(ended ?? beat), "."];
  return h("div", { class: "alarm", role: "alert", key: "silent" }, h("b", {}, "The capture is not running. "), last, error && ` ${error.message}`);
}

/** How much of the first snapshot is read, or of tables that are re-read while changes flow. */
function snapshot({ phase, blocks_read: read, blocks_total: total, tables: all }) {
  const reading = all.filter((one) => one.state === "reading");
  if (phase === "snapshot" && total > 0) return progress("First snapshot", read, total, `${count(read)} of ${counted(total, "block")} read`);
  if (!reading.length) return null;
  const left = reading.reduce((sum, one) => sum + (one.blocks_left ?? 0), 0);
  return h("p", { role: "status" }, badge("reading", "busy"), ` ${counted(reading.length, "table")} re-read while changes flow: `, reading.map((one) => one.name).join(", "), left > 0 && `, ${counted(left, "block")} left`);
}

function progress(name, done, total, text) {
  return h("div", { class: "progress" }, h("label", {}, h("span", {}, name), h("progress", { max: total, value: done })), h("span", { class: "muted" }, text));
}

function tables({ tables: all }) {
  return section("Tables", { note: counted(all.length, "table") }, all.length === 0
    ? empty("No table is captured yet.")
    : table([
      { name: "Table", cell: (one) => h("b", {}, one.name) },
      { name: "Topic", cell: (one) => h("a", { href: `#/topics/${encodeURIComponent(one.topic)}` }, one.topic) },
      { name: "State", cell: (one) => badge(one.state, STATES[one.state]) },
      { name: "", wide: true, cell: (one) => one.reason ?? "" },
    ], all, { key: (one) => one.topic + one.name, label: "Tables" }));
}

function schemaHistory(events) {
  if (events === undefined || events === null) return null;
  return section("Schema history", { note: "what happened to the tables, the newest first" }, events.length === 0
    ? empty("Nothing has happened to the tables yet.")
    : table([
      { name: "When", cell: (one) => time(one.at) },
      { name: "Place", cell: (one) => h("code", {}, one.value.lsn) },
      { name: "Table", cell: (one) => one.value.relation },
      { name: "What", cell: (one) => badge(one.value.event) },
      { name: "", wide: true, cell: (one) => one.value.detail },
    ], events, { key: (one) => one.offset, label: "Schema history" }));
}
