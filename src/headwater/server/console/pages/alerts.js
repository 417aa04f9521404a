// Alerts: what fires now, who is told and how that goes, and what has happened lately.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, counted, duration } from "../format.js";
import { onFlow } from "../live.js";
import { badge, code, empty, heading, loaded, resource, search, section, table, time } from "../parts.js";

const RELOAD_EVERY = 2000;
const EXAMPLE = `app.alert("orders stuck", view="orders_waiting_too_long", after="2 minutes",\n          to=hw.sinks.Mail("ops@example.com", smtp="smtp://mail.example.com"))`;
const TURNS = { fired: ["fired", "bad"], cleared: ["cleared", "good"] };
const RECEIVERS = {
  running: ["running", "good", "Everything that was due has been sent."],
  retrying: ["retrying", "warn", "The receiver does not take messages now; they are sent again."],
  paused: ["paused", "bad", "The receiver takes nothing; the next run tries again."],
};

export function alerts() {
  const list = resource(() => get("alerts"));
  let filter = "";
  let leave = () => {};
  const fits = (name) => name.toLowerCase().includes(filter.toLowerCase());
  return {
    title: "Alerts",
    start() {
      list.load();
      leave = onFlow(() => { if (Date.now() - list.at > RELOAD_EVERY || list.error) list.load(); });
    },
    stop: () => leave(),
    show: () => [
      heading("Alerts", {
        about: "Rows of views that should not exist: an alert fires, people are notified, and it clears when the row is gone.",
        actions: search(filter, (text) => { filter = text; }),
      }),
      loaded(list, (found) => (found.alerts.length ? [
        firing(found.firing.filter((one) => fits(one.alert))),
        declared(found.alerts.filter((one) => fits(one.name))),
        told(found.alerts.filter((one) => fits(one.name))),
        recent(found.recent.filter((one) => fits(one.alert))),
      ] : empty("This application has no alerts.", "Declare one over a view:", code(EXAMPLE, "An alert")))),
    ],
  };
}

function firing(all) {
  if (!all.length) return section("Firing", {}, h("p", {}, badge("none firing", "good")));
  return section("Firing", { note: counted(all.length, "alert") }, table([
    { name: "Alert", cell: (one) => h("b", {}, one.alert) },
    { name: "Key", cell: (one) => one.key },
    { name: "Fired", cell: (one) => time(one.fired_at) },
    { name: "Row", wide: true, cell: (one) => values(one.row) },
    { name: "View", cell: (one) => viewLink(one.view) },
  ], all, { key: (one) => one.id, label: "Firing" }));
}

function declared(all) {
  if (!all.length) return empty("No alert matches the filter.");
  return section("Rules", {}, table([
    { name: "Alert", cell: (one) => h("b", {}, one.name) },
    { name: "Firing", number: true, cell: (one) => (one.firing ? badge(count(one.firing), "bad") : "0") },
    { name: "View", cell: (one) => viewLink(one.view) },
    { name: "When", wide: true, cell: when },
    { name: "Receivers", number: true, cell: (one) => one.receivers.length || badge("none", "plain", "Alerts are only recorded in the history.") },
  ], all, { key: (one) => one.name, label: "Rules" }));
}

function told(all) {
  const found = all.flatMap((one) => one.receivers.map((each, number) => ({ ...each, alert: one.name, number })));
  if (!found.length) return null;
  return section("Receivers", {}, table([
    { name: "Alert", cell: (one) => h("b", {}, one.alert) },
    { name: "Receiver", cell: (one) => one.kind },
    { name: "Status", cell: (one) => badge(...(RECEIVERS[one.status] ?? [one.status])) },
    { name: "Waiting", number: true, cell: (one) => count(one.waiting) },
    { name: "Messages", number: true, cell: (one) => count(one.messages) },
    { name: "Address", wide: true, cell: (one) => [one.address, one.error && h("p", {}, one.error)] },
  ], found, { key: (one) => `${one.alert}/${one.number}`, label: "Receivers" }));
}

function when(one) {
  const parts = [
    one.after_seconds > 0 ? `after ${duration(one.after_seconds)}` : "at once",
    one.repeat_seconds && `every ${duration(one.repeat_seconds)}`,
    one.digest_seconds && `digest of ${duration(one.digest_seconds)}`,
    one.quiet && `quiet ${one.quiet}`,
  ];
  return parts.filter(Boolean).join(", ");
}

function recent(all) {
  if (!all.length) return section("History", {}, h("p", {}, "Nothing has fired yet."));
  return section("History", { note: "Newest first" }, table([
    { name: "At", cell: (one) => time(one.at) },
    { name: "Alert", cell: (one) => h("b", {}, one.alert) },
    { name: "Event", cell: (one) => badge(...(TURNS[one.event] ?? [one.event])) },
    { name: "Key", cell: (one) => one.key },
    { name: "Row", wide: true, cell: (one) => values(one.row) },
  ], all, { key: (one) => `${one.id}/${one.event}`, label: "History" }));
}

function viewLink(name) {
  return h("a", { href: `#/views/${encodeURIComponent(name)}` }, name);
}

function values(row) {
  return Object.entries(row).map(([name, value]) => `${name}: ${value !== null && typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ");
}
