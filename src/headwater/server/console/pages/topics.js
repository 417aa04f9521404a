// All topics, with what comes in now.

import { get } from "../api.js";
import { spark } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, rate } from "../format.js";
import { node, onFlow, rates } from "../live.js";
import { badge, code, empty, heading, loaded, resource, search, table } from "../parts.js";

const EXAMPLE = `app.topic("clicks", "user bigint, url string, at timestamp", event_time="at")`;

export function topics() {
  const list = resource(() => get("topics"));
  let filter = "";
  let leave = () => {};
  return {
    title: "Topics",
    start() {
      list.load();
      leave = onFlow((flow) => {
        const known = new Set(list.value?.topics.map((one) => one.name));
        if (list.error || flow.nodes.some((one) => one.kind === "topic" && !known.has(one.name))) list.load();
      });
    },
    stop: () => leave(),
    show: () => [
      heading("Topics", {
        about: "Named, typed collections of records. A table keeps the newest row of every key; a stream only appends.",
        actions: search(filter, (text) => { filter = text; }),
      }),
      loaded(list, ({ topics: all }) => shown(all, filter)),
    ],
  };
}

function shown(all, filter) {
  if (!all.length) return empty("There are no topics yet.", "An application defines them:", code(EXAMPLE, "A topic"));
  const found = all.filter((one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  if (!found.length) return empty("No topic matches the filter.");
  return table([
    { name: "Topic", cell: (one) => h("a", { href: address(one) }, one.name) },
    { name: "Kind", cell: (one) => [badge(one.kind), one.is_dead_letter && badge("dead letters", "warn")] },
    { name: "Key", cell: (one) => one.key.join(", ") || h("span", { class: "muted" }, "none") },
    { name: "Partitions", number: true, cell: (one) => one.partitions },
    { name: "Records", number: true, cell: (one) => count(node("topic", one.name)?.records ?? one.records) },
    { name: "On disk", number: true, cell: (one) => bytes(node("topic", one.name)?.bytes ?? one.bytes) },
    { name: "Last minute", cell: (one) => spark(rates((sample) => sample.topics[one.name]), `Records of ${one.name} in the last minute`) },
    { name: "Now", number: true, cell: (one) => rate(node("topic", one.name)?.per_second ?? one.records_per_second) },
  ], found, { key: (one) => one.name, open: (one) => { location.hash = address(one); }, label: "Topics" });
}

function address(one) {
  return `#/topics/${encodeURIComponent(one.name)}`;
}
