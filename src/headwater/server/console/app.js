// The console: which page is shown, what stands around it, and who is signed in.

import { get, onSignedOut, send } from "./api.js";
import { drawWith, h, redraw, render } from "./dom.js";
import { counted, duration } from "./format.js";
import { HELP, listen } from "./keys.js";
import { live, start, statusNow, stop } from "./live.js";
import { empty, failure, statusBadge } from "./parts.js";
import { alerts } from "./pages/alerts.js";
import { capture } from "./pages/capture.js";
import { deadLetters } from "./pages/dead_letters.js";
import { flow } from "./pages/flow.js";
import { followers } from "./pages/followers.js";
import { group, groups } from "./pages/groups.js";
import { pipelines } from "./pages/pipelines.js";
import { query } from "./pages/query.js";
import { sendEvent } from "./pages/send.js";
import { signIn } from "./pages/sign_in.js";
import { sink, sinks } from "./pages/sinks.js";
import { topic } from "./pages/topic.js";
import { topics } from "./pages/topics.js";
import { view } from "./pages/view.js";
import { views } from "./pages/views.js";

// A page is made from the parts of its address: its title, what it shows, what begins and ends with it.
const PAGES = [
  { name: "flow", text: "Flow", list: flow },
  { name: "topics", text: "Topics", list: topics, one: topic },
  { name: "views", text: "Views", list: views, one: view },
  { name: "query", text: "Query", list: query },
  { name: "groups", text: "Groups", list: groups, one: group },
  { name: "followers", text: "Followers", list: followers },
  { name: "sinks", text: "Sinks", list: sinks, one: sink },
  { name: "alerts", text: "Alerts", list: alerts },
  { name: "dead-letters", text: "Dead letters", list: deadLetters, one: deadLetters },
  { name: "capture", text: "Capture", list: capture },
  { name: "pipelines", text: "Pipelines", list: pipelines },
  { name: "send", text: "Send a test event", list: sendEvent, one: sendEvent },
];
const THEMES = { auto: "As the system", light: "Light", dark: "Dark" };
// Times are relative: without events they still have to move on.
const REDRAW_EVERY = 5000;

const state = { page: null, address: "", shown: "", signedOut: false, problem: null, help: false, theme: "auto" };

/** The parts of an address: `#/topics/orders/schema`. */
function parts() {
  const written = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try {
    return written.map(decodeURIComponent);
  } catch {
    return written;
  }
}

function go() {
  const [name = "flow", one, ...rest] = parts();
  const found = PAGES.find((page) => page.name === name);
  const address = `${name}/${one ?? ""}`;
  // Another tab of the same thing is the same page, and so is another thing of some lists.
  if (address === state.address && state.page?.turn) {
    state.page.turn(rest);
  } else if (name === state.page?.name && state.page.choose) {
    state.page.choose(one);
  } else {
    state.page?.stop?.();
    const make = one === undefined ? found?.list : found?.one;
    state.page = make ? make(one, ...rest) : missing();
    state.page.name = name;
    state.page.start?.();
    window.scrollTo(0, 0);
  }
  state.address = address;
  state.shown = location.hash || "#/flow";
  redraw();
}

function missing() {
  return { title: "Not found", show: () => empty("There is no such page.", h("p", {}, h("a", { href: "#/flow" }, "Go to the flow"))) };
}

function draw() {
  const shown = state.problem
    ? h("main", { class: "alone" }, failure(state.problem, begin))
    : state.signedOut
      ? h("main", { class: "alone" }, signIn(signedIn))
      : live.session && h("div", { class: "shell" }, shell());
  render(document.getElementById("console"), shown ? [shown] : []);
  if (state.marked !== state.page?.name) {
    // On a phone the names of the pages are a row that may be wider than the screen.
    state.marked = state.page?.name;
    document.querySelector(".side nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }
  document.title = [state.page?.title, live.flow?.application ?? "headwater"].filter(Boolean).join(" · ");
}

function shell() {
  const page = state.page;
  return [
    h("a", { class: "skip", href: location.hash || "#/flow", onclick: skip }, "Skip to content"),
    h("aside", { class: "side" },
      h("a", { class: "brand", href: "#/flow" }, h("img", { src: "console/icon.svg", alt: "", width: 24, height: 24 }), h("b", {}, live.flow?.application ?? "headwater")),
      h("nav", { "aria-label": "Pages" }, PAGES.map((one) => h("a", { href: `#/${one.name}`, "aria-current": one.name === page?.name ? "page" : null }, one.text, mark(one.name)))),
      h("div", { class: "side-foot" }, h("label", {}, h("span", {}, "Theme"),
        h("select", { value: state.theme, onchange: (event) => theme(event.target.value), "aria-label": "Theme" }, Object.entries(THEMES).map(([name, text]) => h("option", { value: name }, text)))),
        h("button", { type: "button", class: "quiet", onclick: () => help(true) }, "Keys ", h("kbd", {}, "?")),
        live.session.tokens_needed && h("button", { type: "button", class: "quiet", onclick: signOut, title: `Signed in with token ${live.session.token}, scope ${live.session.scope}.` }, "Sign out"))),
    h("div", { class: "body" },
      h("div", { class: "top" }, connection()),
      h("main", { id: "content", tabindex: "-1", "data-page": state.shown }, page?.show())),
    state.help && keyList(),
  ];
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

/** What deserves a look, beside the name of its page. */
function mark(name) {
  if (name === "pipelines" && live.flow?.status === "failed") return h("span", { class: "badge bad" }, "failed");
  if (name === "pipelines" && live.flow?.status === "not_running") return h("span", { class: "badge bad", title: "It is not running." }, "down");
  if (name === "capture" && live.flow?.nodes.some((one) => one.kind === "capture" && !one.running)) return h("span", { class: "badge bad", title: "It is not running." }, "down");
  const left = name === "views" ? (live.flow?.nodes.filter((one) => one.not_kept).length ?? 0) : 0;
  if (left) return h("span", { class: "badge bad", title: `${counted(left, "view")} not kept up to date` }, left);
  const open = name === "dead-letters" ? live.letters.open : 0;
  return open ? h("span", { class: "badge warn", title: `${counted(open, "dead letter")} open` }, open) : null;
}

function connection() {
  if (live.state === "lost") return h("span", { class: "lost", role: "alert" }, h("b", {}, "Connection lost."), " This page shows the last data received. Reconnecting …");
  if (!live.flow) return h("span", { class: "muted" }, "Connecting …");
  const { freshness_seconds: fresh, log_position: position, behind } = live.flow;
  const status = statusNow();
  return [
    statusBadge(status),
    behind > 0 && status !== "following" && h("span", {}, `${behind} behind`),
    fresh !== null && h("span", { title: "The age of the oldest commit that the views do not show yet, or how long something has not been running." }, "freshness ", h("b", {}, duration(fresh))),
    h("span", { class: "muted", title: "The number of the log's last commit." }, "position ", h("b", {}, position)),
  ];
}

function keyList() {
  return h("div", { class: "cover", key: "help", onclick: () => help(false) },
    h("div", { class: "dialog", role: "dialog", "aria-modal": "true", "aria-label": "Keys", onclick: (event) => event.stopPropagation() },
      h("h2", {}, "Keys"),
      h("dl", { class: "keys" }, HELP.map(([key, text]) => h("div", {}, h("dt", {}, key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, text)))),
      h("button", { type: "button", focus: true, onclick: () => help(false) }, "Close")));
}

function help(shown) {
  state.help = shown;
  redraw();
}

function theme(name) {
  state.theme = name in THEMES ? name : "auto";
  document.documentElement.dataset.theme = state.theme;
  try {
    localStorage.setItem("headwater-theme", state.theme);
  } catch {
    // A browser that keeps nothing shows it so until the page is closed.
  }
  redraw();
}

function remembered() {
  try {
    return localStorage.getItem("headwater-theme") ?? "auto";
  } catch {
    return "auto";
  }
}

async function begin() {
  state.problem = null;
  try {
    live.session = await get("session");
    await signedIn();
  } catch (error) {
    if (error.status !== 401) state.problem = error;
    redraw();
  }
}

async function signedIn() {
  // Pages that the server has beside those of every console.
  for (const { name, text, module } of live.session.pages) {
    if (!PAGES.some((page) => page.name === name)) PAGES.push({ name, text, list: (await import(`../${module}`)).default });
  }
  state.signedOut = false;
  start();
  state.address = "";
  go();
}

async function signOut() {
  try {
    await send("DELETE", "session");
  } finally {
    signedOut();
  }
}

function signedOut() {
  stop();
  state.page?.stop?.();
  Object.assign(state, { signedOut: true, page: null });
  Object.assign(live, { session: null, flow: null, samples: [], state: "connecting" });
  redraw();
}

drawWith(draw);
onSignedOut(signedOut);
theme(remembered());
listen({ help, helpShown: () => state.help });
window.addEventListener("hashchange", () => live.session && go());
setInterval(redraw, REDRAW_EVERY);
begin();
