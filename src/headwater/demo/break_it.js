// "Break it": what one can do to the shop, what runs, and what became of everything that was done.
//
// A page as the console has them. It comes with the demo, whose server tells the console of it.

import { send } from "../console/api.js";
import { h, redraw } from "../console/dom.js";
import { count, duration } from "../console/format.js";
import { refusal } from "../console/live.js";
import { badge, button, empty, failure, heading, section, time } from "../console/parts.js";
import { follow } from "../console/stream.js";

const STATES = {
  happening: ["happening", "busy", "It is being done."],
  recovering: ["recovering", "busy", "The views are catching up with the log."],
  verifying: ["verifying", "busy", "Every view is compared with its SQL over the entire log."],
  auditing: ["auditing", "busy", "Every target is compared with its view, once it has caught up."],
  green: ["all right", "good", "Every view is what its SQL gives over the log, and every target has the rows of its view."],
  red: ["something differs", "bad", "This is a bug: please report it."],
  failed: ["failed", "bad", "It could not be done, or did not recover in time."],
};
const VERDICTS = { waiting: "plain", right: "good", wrong: "bad", failed: "warn", equal: "good", repaired: "good", different: "bad" };
const PROCESSES = { running: "good", stopped: "bad", waiting: "plain" };

export default function breakIt() {
  const state = { demo: null, error: null, refused: null, asking: "" };
  let stream = null;

  async function act(name) {
    Object.assign(state, { asking: name, refused: null });
    redraw();
    try {
      await send("POST", `demo/${encodeURIComponent(name)}`);
    } catch (error) {
      state.refused = error;
    }
    state.asking = "";
    redraw();
  }

  return {
    title: "Break it",
    start() {
      styled();
      stream = follow("demo", {
        on: { demo: (demo) => { Object.assign(state, { demo, error: null }); redraw(); } },
        onFailure: (error) => { state.error = error; redraw(); },
      });
    },
    stop: () => stream?.close(),
    show: () => [
      heading("Break it", { about: "Do something bad to the shop, and watch it recover. Afterward every view is compared with its SQL over the entire log, and every target with its view." }),
      state.error && failure(state.error),
      state.refused && failure(state.refused),
      state.demo ? shown(state.demo, state.asking, act) : !state.error && h("div", { class: "loading", role: "status" }, "Loading …"),
    ],
  };
}

function shown(demo, asking, act) {
  const stopped = demo.processes.some((one) => one.name === "database" && one.state === "stopped");
  const blow = (one) => h("div", { class: "blow", key: one.name },
    button(one.title, { onclick: () => act(one.name), busy: asking === one.name, refused: refusal("admin") }),
    h("p", { class: "muted" }, one.about));
  const possible = demo.actions.filter((one) => stopped || one.name !== "start-database");
  return [
    section("The shop and its pipeline", {}, h("div", { class: "blows" }, possible.filter((one) => !one.on_target).map(blow))),
    section("The targets", { note: ["Watch them on the page ", h("a", { href: "#/search" }, "Search"), " and among the ", h("a", { href: "#/sinks" }, "sinks"), "."] },
      h("div", { class: "blows" }, possible.filter((one) => one.on_target).map(blow))),
    section("What happened", {}, demo.incidents.length
      ? h("ol", { class: "incidents" }, demo.incidents.map(incident))
      : empty("Nothing is broken yet.", "Choose one of the above.")),
    section("Processes", { note: "The demo restarts those that end." }, h("ul", { class: "processes" }, demo.processes.map(process))),
  ];
}

function process(one) {
  const about = one.pid === null ? "" : `process ${one.pid}, ${duration(one.seconds)}`;
  return h("li", { key: one.name }, h("b", {}, one.name), badge(one.state, PROCESSES[one.state]), h("span", { class: "muted" }, about, one.starts > 1 && `, started ${count(one.starts)} times`));
}

function incident(one) {
  const [text, kind, title] = STATES[one.state];
  return h("li", { key: one.number, class: "incident", "aria-label": `${one.title}: ${text}` },
    h("div", { class: "incident-head" },
      h("h3", {}, one.title), badge(text, kind, title), time(one.began_at),
      one.recovered_seconds !== null && h("span", {}, "recovered after ", h("b", {}, duration(one.recovered_seconds))),
      one.verified_seconds !== null && h("span", {}, "verified after ", h("b", {}, duration(one.verified_seconds))),
      one.audited_seconds !== null && h("span", {}, "audited after ", h("b", {}, duration(one.audited_seconds)))),
    h("ul", { class: "steps" }, one.steps.map((step, place) => h("li", { key: place }, step.text))),
    verdicts("views", one.verified),
    verdicts("sinks", one.audited));
}

/** What was found about each view or sink, which leads to its page. */
function verdicts(kind, found) {
  const all = Object.entries(found);
  return all.length > 0 && h("div", { class: "verdicts" }, h("span", { class: "muted" }, kind === "views" ? "Views" : "Targets"),
    all.map(([name, verdict]) => h("a", { key: name, class: "plain-link", href: `#/${kind}/${encodeURIComponent(name)}` }, badge(`${name}: ${verdict}`, VERDICTS[verdict]))));
}

/** The styles come with the pages. */
export function styled() {
  if (document.querySelector('link[href="demo/page.css"]')) return;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = "demo/page.css";
  document.head.append(link);
}
