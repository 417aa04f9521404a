// The flow: the whole application from left to right, with what moves through it now.

import { get } from "../api.js";
import { chart } from "../charts.js";
import { h } from "../dom.js";
import { bytes, count, counted, duration, rate, short } from "../format.js";
import { graph } from "../graph.js";
import { isGrowing, live, onFlow, points, rates, statusNow } from "../live.js";
import { badge, code, empty, failure, heading, resource, section } from "../parts.js";

const SOURCES = new Set(["capture", "hook", "http", "statsd"]);
const NAMES = { capture: "captured database", hook: "webhooks", http: "sent over HTTP", statsd: "StatsD over UDP" };
const FIRST_TOPIC = `import headwater as hw

app = hw.App("shop", log="./shop")
app.topic("orders", "id bigint, country string, amount decimal(12,2)", key="id")
app.view("revenue", "SELECT country, sum(amount) AS revenue FROM orders GROUP BY country")`;

export function flow() {
  const pipelines = resource(() => get("pipelines"));
  let leave = () => {};
  let failed = false;
  return {
    title: "Flow",
    start() {
      leave = onFlow((current) => {
        if ((current.status === "failed") !== failed) pipelines.load();
        failed = current.status === "failed";
      });
    },
    stop: () => leave(),
    show() {
      const current = live.flow;
      if (!current) return h("div", { class: "loading", role: "status" }, "Loading …");
      const error = current.status === "failed" ? pipelines.value?.pipelines[0].error : null;
      return [
        heading("Flow", { about: "The path of your records, from their sources to their readers. Choose a part to see its details." }),
        ["not_running", "capture_not_running"].includes(current.status) && h("a", { class: "plain-link", href: current.status === "not_running" ? "#/pipelines" : "#/capture" }, failure({ message: current.status === "not_running" ? "The pipeline is not running: the views stay as they are." : "A capture is not running: the views may be missing changes from its database.", hint: "Start it with `headwater run`." })),
        error && h("a", { class: "plain-link", href: "#/pipelines" }, failure({ ...error, message: `The pipeline has stopped. ${error.message}` })),
        current.nodes.length === 0 ? nothing() : [picture(current), list(current)],
        current.nodes.length > 0 && charts(),
      ];
    },
  };
}

function nothing() {
  return empty("This application has no topics yet.", "Define a topic and a view, and run it with `headwater run app.py`:", code(FIRST_TOPIC, "An application"));
}

/** What the capture of a database writes down about its tables belongs to the page of captures. */
function isShown(node) {
  return !(node.kind === "topic" && node.name.endsWith("._schema"));
}

function picture(current) {
  const nodes = current.nodes.filter(isShown);
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const edges = current.edges.filter((edge) => byId.has(edge.from) && byId.has(edge.to));
  const depths = viewDepths(nodes, edges);
  const deepest = Math.max(0, ...depths.values());
  const headings = ["Sources", "Topics", nodes.some((node) => node.is_dead_letter) ? "Views and dead letters" : "Views"];
  headings[3 + deepest] = "Readers";
  const boxes = nodes.map((node) => ({
    id: node.id, kind: node.is_dead_letter ? "letters" : SOURCES.has(node.kind) ? "source" : node.kind,
    column: columnOf(node, depths, deepest), title: titleOf(node), room: 116, ...described(node, edges), href: hrefOf(node, edges),
  }));
  const lines = edges.map((edge) => ({ from: edge.from, to: edge.to, ...flowing(edge, edges, byId, current) }));
  return graph("flow", boxes, lines, { label: "The flow as a picture", headings, columnGap: 132, wideOnly: true });
}

/** How many views are before each view; dead letters, which stand in the first column of views, count as one. */
function viewDepths(nodes, edges) {
  const letters = new Set(nodes.filter((node) => node.is_dead_letter).map((node) => node.id));
  const afterLetters = new Set(edges.filter((edge) => letters.has(edge.from)).map((edge) => edge.to));
  const depths = new Map(nodes.filter((node) => node.kind === "view").map((node) => [node.id, afterLetters.has(node.id) ? 1 : 0]));
  // No view reads itself: this many rounds are enough.
  for (let round = 0; round < depths.size; round += 1) {
    for (const { from, to } of edges) {
      if (depths.has(from) && depths.has(to)) depths.set(to, Math.max(depths.get(to), depths.get(from) + 1));
    }
  }
  return depths;
}

function columnOf(node, depths, deepest) {
  if (SOURCES.has(node.kind)) return 0;
  if (node.kind === "topic") return node.is_dead_letter ? 2 : 1;
  return node.kind === "view" ? 2 + depths.get(node.id) : 3 + deepest;
}

function titleOf(node) {
  if (node.kind === "http") return "HTTP";
  if (node.kind === "statsd") return "StatsD";
  return node.kind === "subscribers" ? `${node.name}, live` : node.name;
}

/** What a box says, and more of it under the pointer. */
function described(node) {
  if (node.kind === "topic") {
    const kind = node.is_dead_letter ? "dead letters" : node.table ? "table" : "stream";
    return {
      lines: [`${kind} · ${short(node.records)}`],
      about: [counted(node.records, "record"), `${rate(node.per_second)} now`, `${bytes(node.bytes)} on disk`],
    };
  }
  if (node.kind === "view") {
    // Sizes are looked at now and then: a view may be there before its size is.
    const built = node.name in (live.samples.at(-1)?.views ?? {});
    return {
      lines: node.not_kept ? ["✗ not kept up to date"] : [built ? `${bytes(node.size?.bytes)} · ${rate(node.per_second ?? 0)}` : "not built yet", verified(node.verification)],
      about: [node.not_kept, built ? `${bytes(node.size?.bytes)} on disk` : "Nothing is published yet.", `Rows changed now: ${rate(node.per_second)}`].filter(Boolean),
    };
  }
  if (node.kind === "capture" && !node.running) return { lines: [NAMES.capture, "✗ not running"], about: ["It is not being captured: the latest changes in the database are unknown."] };
  if (node.kind === "group") return { lines: [`group · lag ${short(node.lag)}`], about: [`${counted(node.lag, "record")} still to read`] };
  if (node.kind === "sink") return delivered(node);
  if (node.kind === "subscribers") return { lines: [counted(node.count, "follower")] };
  if (node.kind === "hook") return { lines: [`webhooks · ${node.style}`] };
  if (node.kind === "statsd") return { lines: [`${short(node.samples)} samples`], about: Object.entries(node).filter(([, value]) => typeof value === "number").map(([name, value]) => `${name.replaceAll("_", " ")} ${count(value)}`) };
  return { lines: [NAMES[node.kind] ?? node.kind] };
}

/** What a sink says: whether deliveries arrive, and why not. */
function delivered(node) {
  const lag = node.lag === null ? "nothing delivered yet" : `lag ${short(node.lag)}`;
  const state = { running: lag, retrying: `✗ retrying · ${lag}`, paused: `✗ paused · ${lag}` }[node.status];
  return {
    // The end of the address tells targets apart: a host, an index, a table. All of it is in the hint.
    lines: [`${node.sink} · ${node.target.replace(/^.*\/(?=.)/, "")}`, state],
    about: [`${counted(node.deliveries, "delivery", "deliveries")} to ${node.target}`, node.lag !== null && `${counted(node.lag, "changed row")} still to deliver`, node.error].filter(Boolean),
  };
}

function verified(verification) {
  const { status, result } = verification ?? {};
  if (status === "waiting" || status === "running") return "verifying …";
  if (!result) return "not verified yet";
  return result.equal ? "✓ verified" : `✗ ${counted(result.differences, "difference")}`;
}

function hrefOf(node, edges) {
  const name = encodeURIComponent(node.name);
  const fed = edges.find((edge) => edge.from === node.id)?.to.replace("topic:", "");
  if (node.is_dead_letter) return "#/dead-letters";
  return {
    topic: `#/topics/${name}`,
    view: `#/views/${name}`,
    capture: "#/capture",
    http: "#/send",
    subscribers: `#/views/${name}/changes`,
    sink: `#/sinks/${name}`,
    group: `#/groups/${name}`,
  }[node.kind] ?? (fed && `#/topics/${encodeURIComponent(fed)}`);
}

/** What stands on an edge: how much flows, how far its end is behind, how fresh it is. */
function flowing(edge, edges, byId, current) {
  const [from, to] = [byId.get(edge.from), byId.get(edge.to)];
  const only = edges.filter((one) => one.to === edge.to).length === 1;
  const speed = edge.per_second ?? (to.kind === "topic" && only ? to.per_second : null);
  const parts = speed === null || speed === undefined ? [] : [rate(speed)];
  if (edge.lag !== null && edge.lag !== undefined) parts.push(`lag ${short(edge.lag)}`);
  if (from.kind === "topic" && to.kind === "view" && current.freshness_seconds !== null) parts.push(duration(current.freshness_seconds));
  const moves = speed > 0;
  const late = to.kind === "group" ? isGrowing(to.name) : to.kind === "sink" ? to.status !== "running" : to.kind === "view" && ["behind", "not_running"].includes(statusNow());
  return {
    label: parts.join(" · "),
    kind: `${moves ? "moves" : "rests"} ${late ? "late" : ""}`,
    about: [speed !== null && "records or changed rows per second", edge.lag !== null && "records or changed rows that are still to be read", to.kind === "view" && "freshness: the age of the oldest commit that the views do not show"].filter(Boolean).join("; "),
  };
}

/** The same as a list, for narrow screens. */
function list(current) {
  const groups = [
    ["Sources", (node) => SOURCES.has(node.kind)],
    ["Topics", (node) => node.kind === "topic" && isShown(node)],
    ["Views", (node) => node.kind === "view"],
    ["Readers", (node) => ["group", "subscribers", "sink"].includes(node.kind)],
  ];
  return h("div", { class: "flow-list" }, groups.map(([title, belongs]) => {
    const nodes = current.nodes.filter(belongs).sort((a, b) => Number(a.is_dead_letter ?? 0) - Number(b.is_dead_letter ?? 0));
    return nodes.length > 0 && h("section", { key: title }, h("h2", {}, title), h("ul", {}, nodes.map((node) => h("li", { key: node.id },
      h("a", { href: hrefOf(node, current.edges) ?? "#/flow" }, h("b", {}, titleOf(node)), h("span", {}, [...described(node).lines, node.kind === "topic" && rate(node.per_second)].filter(Boolean).join(" · ")),
        reads(node, current))))));
  }));
}

function reads(node, { nodes, edges }) {
  const from = edges.filter((edge) => edge.to === node.id).map((edge) => titleOf(nodes.find((one) => one.id === edge.from)));
  return from.length > 0 && h("span", { class: "muted" }, `from ${from.join(", ")}`);
}

function charts() {
  const total = (sample) => Object.values(sample.topics).reduce((sum, value) => sum + value, 0);
  const lags = Object.keys(live.samples.at(-1)?.lag ?? {}).slice(0, 3);
  return section("The last five minutes", { note: statusNow() === "behind" ? badge("catching up", "busy") : null },
    h("div", { class: "charts" },
      chart({ name: "Records per second", series: [{ name: "all topics", points: rates(total) }], format: (value) => rate(value) }),
      chart({ name: "Freshness", series: [{ name: "of the views", points: points((one) => one.freshness_seconds) }], format: duration, note: "of the views" }),
      lags.length
        ? chart({ name: "Lag", series: lags.map((group) => ({ name: group, points: points((one) => one.lag[group]) })), format: short, note: "records" })
        : chart({ name: "Behind", series: [{ name: "views", points: points((one) => one.behind) }], format: short, note: "commits that views have not seen" })));
}
