// Sinks: all of them with their lag, and one of them, which can be paused, audited, repaired and reset.

import { get, path, query, send } from "../api.js";
import { chart } from "../charts.js";
import { h, redraw } from "../dom.js";
import { count, counted, duration, rate, short } from "../format.js";
import { onFlow, points, refusal } from "../live.js";
import { badge, button, code, empty, failure, figures, heading, loaded, resource, search, section, table, time, words } from "../parts.js";

const RELOAD_EVERY = 2000;
const EXAMPLE = `app.sink("report", view="revenue", key="country",\n         to=hw.sinks.Postgres("postgresql://reports/shop", table="revenue"))`;

/** Loads something again with the events of the flow; what is returned begins and ends that. */
function followed(...all) {
  let leave = () => {};
  return {
    start() {
      for (const one of all) one.load();
      leave = onFlow(() => { for (const one of all) if (Date.now() - one.at > RELOAD_EVERY || one.error) one.load(); });
    },
    stop: () => leave(),
  };
}

export function sinks() {
  const list = resource(() => get("sinks"));
  let filter = "";
  return {
    title: "Sinks",
    ...followed(list),
    show: () => [
      heading("Sinks", {
        about: "Outside systems that are kept in step with views. Each has reached a position of the log, and gets every change after it.",
        actions: search(filter, (text) => { filter = text; }),
      }),
      loaded(list, ({ sinks: all }) => listed(all, filter)),
    ],
  };
}

function listed(all, filter) {
  if (!all.length) return empty("There are no sinks yet.", "An application declares what to keep in sync with a view:", code(EXAMPLE, "A sink"));
  const found = all.filter((one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  if (!found.length) return empty("No sink matches the filter.");
  return table([
    { name: "Sink", cell: (one) => h("a", { href: address(one.name) }, one.name) },
    { name: "View", cell: (one) => viewLink(one.view) },
    { name: "Target", wide: true, cell: (one) => one.target },
    { name: "Status", cell: (one) => state(one) },
    { name: "Lag", number: true, cell: (one) => (one.lag === null ? "–" : count(one.lag)) },
    { name: "Time lag", number: true, cell: (one) => (one.lag_seconds === null ? "–" : duration(one.lag_seconds)) },
    { name: "Rate", number: true, cell: (one) => rate(one.rows_per_second) },
  ], found, { key: (one) => one.name, open: (one) => { location.hash = address(one.name); }, label: "Sinks" });
}

function address(name) {
  return `#/sinks/${encodeURIComponent(name)}`;
}

function viewLink(name) {
  return h("a", { href: `#/views/${encodeURIComponent(name)}` }, name);
}

function state(one) {
  if (one.paused) return badge("paused", "warn", "It was paused. Its changes are kept.");
  if (one.status === "paused") return badge("gave up", "bad", "The target failed for too long. Resume the sink once that is fixed.");
  if (one.status === "retrying") return badge("retrying", "bad", "The target is failing. It is retried, with growing pauses.");
  if (one.position === null) return badge("starting", "busy", "The target does not have the first content yet.");
  return one.lag ? badge("delivering", "busy", "There are changes that the target does not have yet.") : badge("up to date", "good", "The target has everything that is published.");
}

export function sink(name) {
  const detail = resource(() => get(path("sinks", name)));
  const audit = resource(() => get(path("sinks", name, "audit")));
  const letters = resource(() => get(`dead-letters${query({ state: "open", limit: 1000 })}`));
  const doing = operations(name, detail);
  const auditing = audits(name, audit);
  return {
    title: name,
    ...followed(detail, audit, letters),
    show: () => [
      heading(name, { above: h("a", { href: "#/sinks" }, "Sinks") }),
      loaded(detail, (found) => [
        summary(found),
        found.error && section("The last failure", { note: time(found.failed_at) }, h("p", {}, words(found.error))),
        doing.show(found),
        found.holds_content && section("Audit", { note: "Target and view, row by row, at one position. The sink need not be paused." }, loaded(audit, auditing.show)),
        found.dead_letter && section("Dead letters", { note: "Rows that the target refuses, with its own error message. All others arrive." }, loaded(letters, (all) => refused(all.letters.filter((one) => one.sink === name)))),
      ]),
    ],
  };
}

function summary(one) {
  return h("div", { class: "summary" },
    figures(
      ["Status", state(one)],
      ["View", viewLink(one.view)],
      ["Target", one.target],
      ["Position", one.position ?? "–", "What the target has, completely."],
      ["Lag", one.lag === null ? "–" : count(one.lag), "Changed rows that the target does not have yet."],
      ["Time lag", one.lag_seconds === null ? "–" : duration(one.lag_seconds), "The age of the first of them."],
      ["Rate", rate(one.rows_per_second), "Over the last ten seconds."],
      ["Delivered", counted(one.rows, "row")],
      one.total > 0 && ["Long delivery", `${short(one.done)} of ${short(one.total)} rows`],
      ["Last delivery", time(one.delivered_at)],
      one.failures > 0 && ["Failures", count(one.failures), "Total failed attempts."]),
    chart({ name: "Lag", series: [{ name: one.name, points: points((sample) => sample.sinks?.[one.name]) }], format: short }));
}

/** Carries out one thing at a time, and shows what went wrong. */
function acting() {
  const found = {
    busy: false,
    problem: null,
    async act(action) {
      found.busy = true;
      found.problem = null;
      redraw();
      try {
        await action();
      } catch (error) {
        found.problem = error;
      }
      found.busy = false;
      redraw();
    },
  };
  return found;
}

function operations(name, detail) {
  const on = acting();
  let resetting = false;
  const run = (what) => () => on.act(async () => {
    await send("POST", path("sinks", name, what));
    resetting = false;
    await detail.load();
  });
  const ask = (wanted) => () => { resetting = wanted; redraw(); };
  const common = () => ({ busy: on.busy, refused: refusal("admin") });
  return {
    show: (one) => [
      h("div", { class: "actions" },
        one.status === "running" && button("Pause", { onclick: run("pause"), ...common() }),
        one.status === "retrying" && [button("Retry now", { onclick: run("resume"), ...common(), kind: "primary" }), button("Pause", { onclick: run("pause"), ...common() })],
        one.status === "paused" && button("Resume", { onclick: run("resume"), ...common(), kind: "primary" }),
        resetting
          ? [button("Deliver the content again", { onclick: run("reset"), ...common(), kind: "primary" }), button("Cancel", { onclick: ask(false), busy: on.busy })]
          : button("Reset", { onclick: ask(true), ...common() })),
      on.problem && failure(on.problem),
    ],
  };
}

function audits(name, audit) {
  const on = acting();
  const begin = (repair) => () => on.act(async () => {
    await send("POST", path("sinks", name, "audit") + query({ repair: repair ? "true" : "" }));
    await audit.load();
  });
  return {
    show(found) {
      const busy = on.busy || found.status === "running";
      const differs = found.result && !found.result.equal && !found.result.repaired;
      return h("div", { class: "verify" },
        h("div", { class: "verify-row" },
          button(busy ? "Comparing …" : "Audit", { onclick: begin(false), busy, refused: refusal("admin"), kind: differs ? "" : "primary" }),
          differs && button("Repair exactly these rows", { onclick: begin(true), busy, refused: refusal("admin"), kind: "primary" }),
          h("div", { role: "status" }, outcome(found, busy))),
        on.problem && failure(on.problem),
        !busy && found.status === "failed" && failure(found.error),
        found.result && !found.result.equal && differing(found.result));
    },
  };
}

function outcome({ result, done, total }, busy) {
  if (busy) return [badge("running", "busy"), total > 0 && ` ${short(done)} of ${short(total)} rows`];
  if (!result) return h("span", { class: "muted" }, "Never audited. It compares checksums over ranges of keys, and looks closer where they differ.");
  const wrong = result.missing.count + result.different.count + result.extra.count;
  const verdict = result.equal ? badge("equal", "good") : result.repaired ? badge("repaired", "good") : badge("differs", "bad");
  return [
    verdict, " ",
    result.equal ? counted(result.rows_in_view, "row") : `${counted(wrong, "key")} of ${counted(result.rows_in_view, "row")}`,
    ` at position ${result.position}, `, time(result.audited_at),
    result.refused > 0 && h("div", { class: "muted" }, `${counted(result.refused, "row")} that the target refuses: these are dead letters, not differences.`),
  ];
}

const DIFFERENCES = { missing: "missing in the target", different: "different", extra: "only in the target" };

function differing(result) {
  const rows = Object.entries(DIFFERENCES).flatMap(([kind, text]) => result[kind].named.map((key) => ({ kind, text, key })));
  return table([
    { name: "What", cell: (one) => badge(one.text, result.repaired ? "plain" : "bad") },
    { name: "Key", wide: true, cell: (one) => Object.entries(one.key).map(([column, value]) => `${column} = ${JSON.stringify(value)}`).join(", ") },
  ], rows, { key: (one) => `${one.kind} ${JSON.stringify(one.key)}`, label: "Keys that differ" });
}

function refused(letters) {
  if (!letters.length) return h("p", { class: "muted" }, "No row is refused at the moment.");
  return table([
    { name: "Reason", wide: true, cell: (one) => one.reason },
    { name: "Row", wide: true, cell: (one) => h("code", { class: "clip" }, one.original?.text ?? "") },
    { name: "When", cell: (one) => time(one.at) },
  ], letters, { key: (one) => one.id, label: "Dead letters", open: (one) => { location.hash = `#/dead-letters/${encodeURIComponent(one.id)}`; } });
}
