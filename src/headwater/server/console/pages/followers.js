// Followers: everything that records are kept for, how much that is, how close it is to the limits, and what was missed.

import { get, query, send } from "../api.js";
import { h, redraw } from "../dom.js";
import { bytes, count, counted, duration } from "../format.js";
import { onFlow, refusal } from "../live.js";
import { badge, button, empty, failure, heading, loaded, resource, search, section, table, time } from "../parts.js";

const RELOAD_EVERY = 2000;
const KINDS = {
  pipeline: "The views of an application, in one of their definitions.",
  base: "State that was kept so that views can be verified from there; what comes after it is held.",
  group: "A consumer group.",
  sink: "A sink.",
  capture: "A capture of a database.",
};

export function followers() {
  const list = resource(() => get("followers"));
  const releasing = release(() => list.load());
  let filter = "";
  let leave = () => {};
  return {
    title: "Followers",
    start() {
      list.load();
      leave = onFlow(() => { if (Date.now() - list.at > RELOAD_EVERY || list.error) list.load(); });
    },
    stop: () => leave(),
    show: () => [
      heading("Followers", {
        about: "Whatever has registered how far it has read. Records that a follower has not read are not deleted, up to the limits of their topic.",
        actions: search(filter, (text) => { filter = text; }),
      }),
      loaded(list, ({ followers: all, views }) => {
        if (!all.length && !views.length) return empty("Nothing follows the log yet.", "Pipelines and consumer groups register by themselves.");
        const fits = (name) => name.toLowerCase().includes(filter.toLowerCase());
        return [
          listed(all.filter((one) => fits(one.name)), releasing),
          releasing.shown(),
          missed(all.filter((one) => fits(one.name))),
          held(views.filter((one) => fits(one.follower))),
        ];
      }),
    ],
  };
}

function sum(parts, figure) {
  return parts.reduce((total, one) => total + one[figure], 0);
}

function listed(found, releasing) {
  if (!found.length) return empty("No follower has that in its name.");
  return table([
    { name: "Follower", cell: (one) => (one.kind === "group" ? h("a", { href: `#/groups/${encodeURIComponent(one.name)}` }, one.name) : h("b", {}, one.name)) },
    { name: "Kind", cell: (one) => h("span", { title: [KINDS[one.kind], one.moved_at && `It moved last at ${one.moved_at}.`].filter(Boolean).join(" ") }, one.kind) },
    { name: "Topics", wide: true, cell: (one) => [...new Set(one.partitions.map((part) => part.topic))].join(", ") },
    { name: "Lag", number: true, cell: (one) => count(sum(one.partitions, "records")) },
    { name: "Time lag", number: true, cell: (one) => duration(Math.max(0, ...one.partitions.map((part) => part.seconds))) },
    { name: "Held", number: true, cell: (one) => bytes(sum(one.partitions, "held")) },
    { name: "Limit used", number: true, cell: (one) => share(one.partitions) },
    { name: "Alarms", cell: (one) => alarms(one) },
    { name: "", cell: (one) => one.kind !== "group" && releasing.ask(one.name) },
  ], found, { key: (one) => `${one.kind} ${one.name}`, label: "Followers" });
}

/** How much of its retention and its limits a follower has used up; none where nothing is deleted. */
function share(parts) {
  const risk = Math.max(-1, ...parts.map((one) => one.risk ?? -1));
  return risk < 0 ? "–" : `${Math.round(risk * 100)} %`;
}

function alarms(one) {
  const gone = sum(one.missed, "records");
  const all = one.partitions.flatMap((part) => part.alarms);
  return [gone > 0 && badge(`${count(gone)} missed`, "bad", "Deleted before it had read them."), all.length > 0 && badge(counted(all.length, "alarm"), "warn", all.join("; "))];
}

function missed(found) {
  const rows = found.flatMap((one) => one.missed.map((each) => ({ ...each, follower: one.name })));
  return rows.length > 0 && section("Missed", { note: "Deleted because a limit was reached, although a follower had not read it." }, table([
    { name: "Follower", cell: (one) => one.follower },
    { name: "Topic", cell: (one) => h("a", { href: `#/topics/${encodeURIComponent(one.topic)}` }, one.topic) },
    { name: "Partition", number: true, cell: (one) => one.partition },
    { name: "Offsets", number: true, cell: (one) => (one.first === one.last ? count(one.first) : `${count(one.first)} to ${count(one.last)}`) },
    { name: "Records", number: true, cell: (one) => count(one.records) },
    { name: "Because", wide: true, cell: (one) => one.reason },
    { name: "When", cell: (one) => time(one.at) },
  ], rows, { key: (one) => `${one.follower}/${one.topic}/${one.partition}/${one.first}`, label: "Missed records" }));
}

function held(views) {
  return views.length > 0 && section("Held of views", { note: "Changes of views that sinks have still to get." }, table([
    { name: "Sink", cell: (one) => one.follower },
    { name: "View", cell: (one) => h("a", { href: `#/views/${encodeURIComponent(one.view)}` }, one.view) },
    { name: "Has all up to batch", number: true, cell: (one) => count(one.behind_batch) },
    { name: "Held", number: true, cell: (one) => bytes(one.bytes) },
  ], views, { key: (one) => `${one.follower}/${one.generation}`, label: "Held of views" }));
}

/** Removes a follower that no longer exists, after it was asked for twice; `changed` is called when that is done. */
function release(changed) {
  let asked = "";
  let busy = false;
  let problem = null;
  let done = "";

  async function carryOut() {
    const name = asked;
    busy = true;
    problem = null;
    redraw();
    try {
      await send("DELETE", "followers" + query({ name }));
      done = `Nothing is kept for ${name} any more.`;
      changed();
    } catch (error) {
      problem = error;
    }
    asked = "";
    busy = false;
    redraw();
  }

  const choose = (name) => () => { asked = name; done = ""; problem = null; redraw(); };
  return {
    ask: (name) => button("Release", { onclick: choose(name), busy, refused: refusal("admin"), "aria-label": `Release ${name}` }),
    shown: () => [
      asked && h("div", { class: "actions" },
        h("span", {}, `Keep nothing for ${asked} any longer? Do this if it no longer exists; one that runs registers again.`),
        button("Release it", { onclick: () => carryOut(), busy, kind: "primary" }),
        button("Keep it", { onclick: choose(""), busy })),
      problem && failure(problem),
      done && h("p", { role: "status" }, badge(done, "good")),
    ],
  };
}
