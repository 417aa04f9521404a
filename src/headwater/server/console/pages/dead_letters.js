// Dead letters: what did not fit a topic, what a view refuses, what a target refuses. Look, mend, send again, discard.

import { get, path, query, send } from "../api.js";
import { h, redraw } from "../dom.js";
import { count } from "../format.js";
import { live, lookAtLetters, onFlow, refusal } from "../live.js";
import { badge, button, code, empty, failure, heading, loaded, panel, resource, table, time, words } from "../parts.js";

const RELOAD_EVERY = 2000;
const STATES = { open: "Open", sent: "Sent again", discarded: "Discarded", superseded: "Superseded" };

export function deadLetters(chosen) {
  let state = "open";
  const list = resource(() => get(`dead-letters${query({ state, limit: 200 })}`));
  let letter = null;
  let leave = () => {};
  let position = "";

  function choose(id) {
    letter = id === undefined ? null : one(id, () => { list.load(); lookAtLetters(true); });
    redraw();
  }

  return {
    title: "Dead letters",
    choose,
    start() {
      list.load();
      if (chosen !== undefined) choose(chosen);
      leave = onFlow((flow) => {
        if (Date.now() - list.at < RELOAD_EVERY || (flow.log_position === position && !list.error)) return;
        position = flow.log_position;
        list.load();
      });
    },
    stop: () => leave(),
    show: () => [
      heading("Dead letters", { about: "Records that did not fit or that views refused, and rows that sinks' targets refused. They block nothing, and are kept here with the reason." }),
      h("div", { class: "choices", role: "group", "aria-label": "State" }, Object.entries(STATES).map(([name, text]) =>
        h("button", { type: "button", "aria-pressed": String(name === state), onclick: () => { state = name; list.value = null; list.load(); redraw(); } }, text, " ", h("span", { class: "muted" }, count((list.value?.counts ?? live.letters)[name]))))),
      loaded(list, ({ letters }) => listed(letters, state)),
      letter?.show(),
    ],
  };
}

function listed(letters, state) {
  if (!letters.length) {
    if (state !== "open") return empty(`None has been ${state} yet.`);
    return empty("There are no dead letters.", "A topic with `dead_letter=\"rejected\"` sets aside records that do not fit it; a view with `on_error=\"dead_letter\"` sets aside records that make it fail. Otherwise, such a record is refused, or stops the pipeline.");
  }
  return table([
    { name: "What", cell: (one) => what(one) },
    { name: "Reason", wide: true, cell: (one) => one.reason },
    { name: "Topic", cell: (one) => one.topic },
    { name: "When", cell: (one) => time(one.at) },
    { name: "Record", wide: true, cell: (one) => h("code", { class: "clip" }, originalOf(one)) },
    ...(state === "open" ? [] : [{ name: STATES[state], cell: (one) => time(one.dealt_with_at) }]),
  ], letters, { key: (one) => one.id, label: "Dead letters", open: (one) => { location.hash = `#/dead-letters/${encodeURIComponent(one.id)}`; } });
}

function what({ kind, view, sink }) {
  if (kind === "sink") return badge(`refused by ${sink}`, "bad", "The target of this sink did not take the row.");
  return kind === "refused" ? badge(`refused by ${view}`, "bad", "The record made this view fail.") : badge("did not fit", "warn", "The record did not fit its topic.");
}

/** The record as it came; as text where it is one. */
function originalOf({ original }, spaces) {
  if (!original) return "";
  if ("value" in original) return JSON.stringify(original.value, null, spaces);
  if (original.text === null) return original.base64;
  try {
    return JSON.stringify(JSON.parse(original.text), null, spaces);
  } catch {
    return original.text;
  }
}

/** One letter, which can be mended; `changed` is called when it was dealt with. */
function one(id, changed) {
  const found = resource(() => get(path("dead-letters", id)));
  const close = () => { location.hash = "#/dead-letters"; };
  let draft = null;
  let problem = null;
  let done = null;
  let busy = false;
  found.load();

  async function act(what, body) {
    busy = true;
    problem = null;
    redraw();
    try {
      done = await send("POST", path("dead-letters", id, what), body);
      changed();
    } catch (error) {
      problem = error;
    }
    busy = false;
    found.load();
  }

  function sendAgain(text) {
    try {
      JSON.parse(text);
    } catch (error) {
      problem = { message: "That is not JSON.", hint: error.message };
      redraw();
      return;
    }
    act("send", text);
  }

  function mending(letter) {
    const text = draft ?? originalOf(letter, 2);
    return [
      h("label", { class: "field" }, h("span", {}, letter.sink ? "The row to write to the target of " : "The record to append to ", h("b", {}, letter.sink ?? letter.topic)),
        h("textarea", { rows: 10, spellcheck: "false", value: text, oninput: (event) => { draft = event.target.value; } })),
      problem && failure(problem),
      h("div", { class: "actions" },
        button("Send again", { onclick: () => sendAgain(draft ?? text), busy, refused: refusal("admin"), kind: "primary" }),
        button("Discard", { onclick: () => act("discard"), busy, refused: refusal("admin") })),
    ];
  }

  return {
    show: () => panel("Dead letter", close, loaded(found, (letter) => [
      h("p", {}, what(letter), " ", time(letter.at)),
      h("dl", { class: "pairs" },
        pair("Reason", words(letter.reason)),
        pair("Topic", h("a", { href: `#/topics/${encodeURIComponent(letter.topic)}` }, letter.topic)),
        letter.sink && pair("Sink", h("a", { href: `#/sinks/${encodeURIComponent(letter.sink)}` }, letter.sink)),
        letter.view && pair("View", h("a", { href: `#/views/${encodeURIComponent(letter.view)}` }, letter.view)),
        pair("Partition, offset", `${letter.partition}, ${count(letter.offset)}`)),
      letter.state === "open" ? mending(letter) : [
        h("p", { role: "status" }, badge(STATES[letter.state].toLowerCase(), "good"), " ", time(letter.dealt_with_at)),
        letter.state === "superseded" && h("p", { class: "muted" }, "The view had a later version of the row, or none. That one counts, so nothing was sent."),
        done?.dead_letters > 0 && failure({ message: "It did not fit this time either.", hint: "There is a new dead letter with the reason." }),
        code(originalOf(letter, 2), "The original record"),
      ],
    ])),
  };
}

function pair(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}
