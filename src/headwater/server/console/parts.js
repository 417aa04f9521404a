// What pages are put together from: headings, figures, tables, tabs, and what is said when there is nothing or it fails.

import { h, redraw } from "./dom.js";
import { ago, exact } from "./format.js";

export function time(instant) {
  return instant ? h("time", { datetime: instant, title: exact(instant) }, ago(instant)) : "–";
}

/** The head of a page: where one is, and what it is about. */
export function heading(title, { above, about, actions } = {}) {
  return h("header", { class: "heading" },
    h("div", {},
      above && h("p", { class: "above" }, above),
      h("h1", {}, title),
      about && h("p", { class: "about" }, about)),
    actions && h("div", { class: "actions" }, actions));
}

export function section(title, { note, actions } = {}, ...content) {
  return h("section", { key: title },
    h("div", { class: "section-head" }, h("h2", {}, title), note && h("span", { class: "muted" }, note), actions && h("div", { class: "actions" }, actions)),
    content);
}

/** Figures in a row, each `[name, value, hint]`. */
export function figures(...all) {
  return h("dl", { class: "figures" }, all.filter(Boolean).map(([name, value, hint]) =>
    h("div", { title: hint }, h("dt", {}, name), h("dd", {}, value))));
}

/** A short word with a colour, and never the colour alone. */
export function badge(text, kind = "plain", title) {
  return h("span", { class: `badge ${kind}`, title }, text);
}

export const STATUS = {
  up_to_date: ["up to date", "good", "The views have seen every record of the log."],
  following: ["following", "good", "The views follow the log closely."],
  behind: ["catching up", "busy", "The views are on their way to the end of the log."],
  starting: ["starting", "busy", "The first batch is not published yet."],
  waiting: ["waiting", "plain", "No pipeline has published anything yet: start one with `headwater run`."],
  not_running: ["not running", "bad", "No process keeps the views up to date: start one with `headwater run`."],
  capture_not_running: ["capture not running", "bad", "A database is not being captured: its latest changes are unknown."],
  failed: ["failed", "bad", "The pipeline has stopped: see Pipelines."],
};

export function statusBadge(status) {
  const [text, kind, title] = STATUS[status] ?? [status, "plain", ""];
  return badge(text, kind, title);
}

/** A field that filters a list by name, which the key / leads to. */
export function search(value, change) {
  const name = "Filter by name";
  return h("input", { type: "search", "data-filter": "", placeholder: name, "aria-label": name, value, oninput: (event) => { change(event.target.value); redraw(); } });
}

/** Nothing is there, and what makes something be there. */
export function empty(title, ...more) {
  return h("div", { class: "empty" }, h("h3", {}, title), more.map((one) => (typeof one === "string" ? h("p", {}, words(one)) : one)));
}

/** What went wrong, and what to do. */
export function failure(error, again) {
  return h("div", { class: "failure", role: "alert" },
    h("h3", {}, error.message),
    error.hint && h("p", {}, words(error.hint)),
    h("p", { class: "muted" }, error.code && h("code", {}, error.code)),
    again && h("button", { type: "button", onclick: again }, "Try again"));
}

/** Text in which `…` is code. */
export function words(text) {
  return String(text).split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part));
}

/** Shows what was loaded, that it is being loaded, or why it is not there. */
export function loaded(resource, show) {
  if (resource.value !== null) return [resource.error && h("div", { class: "stale", role: "status" }, `This is as of ${ago(new Date(resource.at).toISOString())}: ${resource.error.message}`), show(resource.value)];
  if (resource.error) return failure(resource.error, resource.load);
  return h("div", { class: "loading", role: "status" }, "Loading …");
}

/** Something that is asked for and kept; `load` asks again, and what is there stays until the answer comes. */
export function resource(ask) {
  let turn = 0;
  const found = {
    value: null,
    error: null,
    at: 0,
    async load() {
      turn += 1;
      const mine = turn;
      try {
        const value = await ask();
        if (mine === turn) Object.assign(found, { value, error: null, at: Date.now() });
      } catch (error) {
        if (mine === turn) found.error = error;
      }
      redraw();
    },
  };
  return found;
}

/** Tabs as links, so that each has an address. `all` are `[name, text]`. */
export function tabs(address, current, all) {
  return h("nav", { class: "tabs", "aria-label": "Parts of this page" }, all.map(([name, text]) =>
    h("a", { href: name ? `${address}/${name}` : address, "aria-current": name === current ? "page" : null }, text)));
}

/**
 * A table. `columns` are `{name, head, cell(row), number, wide}`; with `open`, rows can be chosen by click, Enter, j and k.
 */
export function table(columns, rows, { key, open, label, rowClass = () => "" }) {
  return h("div", { class: "table", tabindex: open ? null : "0", role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col", "aria-sort": one.sorted ?? null, class: one.number ? "number" : one.wide ? "wide" : null }, one.head ?? one.name)))),
      h("tbody", {}, rows.map((row) => h("tr", {
        key: key(row), class: rowClass(row) || null, tabindex: open ? "0" : null, "data-row": open ? "" : null,
        onclick: open && ((event) => { if (!event.target.closest("a, button")) open(row); }),
        onkeydown: open && ((event) => { if (event.key === "Enter" && event.target === event.currentTarget) open(row); }),
      }, columns.map((one) => h("td", { class: one.number ? "number" : one.wide ? "wide" : null }, one.cell(row))))))));
}

/** What lies over the page until it is closed; `close` is called by its button and by Esc. */
export function panel(title, close, ...content) {
  return h("aside", { class: "panel", role: "dialog", "aria-modal": "false", "aria-label": title, key: "panel" },
    h("div", { class: "panel-head" }, h("h2", {}, title),
      h("button", { type: "button", class: "quiet", "data-close": "", onclick: close, "aria-label": "Close", focus: true }, "Close")),
    content);
}

export function code(text, label) {
  return h("pre", { tabindex: "0", "aria-label": label }, h("code", {}, text));
}

const WORDS = /('(?:[^']|'')*')|(--[^\n]*)|\b(select|from|where|group|by|order|having|limit|join|left|right|full|outer|inner|semi|anti|cross|on|using|as|and|or|not|in|is|null|case|when|then|else|end|union|all|distinct|with|over|partition|between|like|exists|desc|asc|interval|lateral|window|filter|rollup|cube|grouping|sets|except|intersect|cast)\b/gi;

/** SQL with its words told apart. */
export function sql(text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(WORDS)) {
    parts.push(text.slice(last, match.index), h("span", { class: match[1] ? "sql-text" : match[2] ? "sql-comment" : "sql-word" }, match[0]));
    last = match.index + match[0].length;
  }
  return h("pre", { class: "sql", tabindex: "0", "aria-label": "SQL" }, h("code", {}, parts, text.slice(last)));
}

/** A button that says what it waits for, and why it cannot be used. */
export function button(text, { onclick, busy = false, refused = "", kind = "", ...more }) {
  return h("button", { type: "button", class: kind, disabled: busy || Boolean(refused), title: refused || null, onclick, ...more }, text);
}
