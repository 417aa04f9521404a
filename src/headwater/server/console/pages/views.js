// All views, with how much of them changes now and whether they were verified.

import { get } from "../api.js";
import { spark } from "../charts.js";
import { h } from "../dom.js";
import { bytes, rate } from "../format.js";
import { node, onFlow, rates } from "../live.js";
import { badge, code, empty, heading, loaded, resource, search, table, time } from "../parts.js";

const EXAMPLE = `app.view("revenue", "SELECT country, sum(amount) AS revenue FROM orders GROUP BY country", key="country")`;

export function views() {
  const list = resource(() => get("views"));
  let filter = "";
  let leave = () => {};
  let generation = "";
  return {
    title: "Views",
    start() {
      list.load();
      leave = onFlow((flow) => {
        // What is published, built or verified by now.
        const now = JSON.stringify(flow.nodes.filter((one) => one.kind === "view").map((one) => [one.name, Boolean(one.size), one.verification, one.not_kept]));
        if (list.error || now !== generation) list.load();
        generation = now;
      });
    },
    stop: () => leave(),
    show: () => [
      heading("Views", {
        about: "Queries whose results are kept up to date. All of them always show the same position of the log.",
        actions: search(filter, (text) => { filter = text; }),
      }),
      loaded(list, ({ views: all }) => shown(all, filter)),
    ],
  };
}

function shown(all, filter) {
  if (!all.length) return empty("There are no views yet.", "An application defines them in SQL:", code(EXAMPLE, "A view"));
  const found = all.filter((one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  if (!found.length) return empty("No view matches the filter.");
  return table([
    { name: "View", cell: (one) => h("a", { href: address(one) }, one.name) },
    { name: "Reads", wide: true, cell: (one) => one.reads.join(", ") || h("span", { class: "muted" }, "–") },
    { name: "Columns", number: true, cell: (one) => (one.not_kept ? badge("not kept", "bad", one.not_kept) : one.published ? one.columns.length : badge("not built yet", "busy", "The pipeline has not published it yet: `headwater run` builds it.")) },
    { name: "On disk", number: true, cell: (one) => bytes((node("view", one.name)?.size ?? one.size)?.bytes) },
    { name: "Last minute", cell: (one) => spark(rates((sample) => sample.views[one.name]), `Changes of ${one.name} in the last minute`) },
    { name: "Changes", number: true, cell: (one) => rate(node("view", one.name)?.per_second ?? one.changes_per_second) },
    { name: "Verified", cell: (one) => verified(node("view", one.name)?.verification ?? one.verification) },
  ], found, { key: (one) => one.name, open: (one) => { location.hash = address(one); }, label: "Views" });
}

/** What is known of a view's verification, in a word. */
export function verified({ status, result, error } = {}) {
  if (status === "waiting" || status === "running") return badge("verifying …", "busy");
  if (status === "failed") return badge("broke off", "warn", error?.message);
  if (!result) return h("span", { class: "muted" }, "never");
  return [badge(result.equal ? "right" : "differs", result.equal ? "good" : "bad"), " ", time(result.verified_at)];
}

function address(one) {
  return `#/views/${encodeURIComponent(one.name)}`;
}
