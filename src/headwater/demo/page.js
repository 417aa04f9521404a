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
  recovering: ["recovering", "busy", "The views are on their way to where the log is."],
  verifying: ["verifying", "busy", "Every view is compared with its SQL over the whole log."],
  green: ["all views right", "good", "Every view is what its SQL gives over the log, at this position or a later one."],
  red: ["a view differs", "bad", "This should not be: please report it."],
  failed: ["failed", "bad", "It could not be done, or did not recover in time."],
};
const VERDICTS = { waiting: "plain", right: "good", wrong: "bad", failed: "warn" };
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
      heading("Break it", { about: "Do something bad to the shop, and watch it recover. After each of them every view is compared with its SQL run over the whole log." }),
      state.error && failure(state.error),
      state.refused && failure(state.refused),
      state.demo ? shown(state.demo, state.asking, act) : !state.error && h("div", { class: "loading", role: "status" }, "Loading …"),
    ],
  };
}

function shown(demo, asking, act) {
  const stopped = demo.processes.some((one) => one.name === "database" && one.state === "stopped");
  return [
    h("div", { class: "blows" }, demo.actions.filter((one) => stopped || one.name !== "start-database").map((one) => h("div", { class: "blow", key: one.name },
      button(one.title, { onclick: () => act(one.name), busy: asking === one.name, refused: refusal("admin") }),
      h("p", { class: "muted" }, one.about)))),
    section("Processes", { note: "Started again by the demo when they end." }, h("ul", { class: "processes" }, demo.processes.map(process))),
    section("What happened", {}, demo.incidents.length
      ? h("ol", { class: "incidents" }, demo.incidents.map(incident))
      : empty("Nothing is broken yet.", "Choose one of the above.")),
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
      one.verified_seconds !== null && h("span", {}, "verified after ", h("b", {}, duration(one.verified_seconds)))),
    h("ul", { class: "steps" }, one.steps.map((step, place) => h("li", { key: place }, step.text))),
    h("div", { class: "verdicts" }, Object.entries(one.verified).map(([view, verdict]) => h("a", { key: view, class: "plain-link", href: `#/views/${encodeURIComponent(view)}` }, badge(`${view}: ${verdict}`, VERDICTS[verdict])))));
}

/** The styles come with the page. */
function styled() {
  if (document.querySelector('link[href="demo/page.css"]')) return;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = "demo/page.css";
  document.head.append(link);
}
