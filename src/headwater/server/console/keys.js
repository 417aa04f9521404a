// The keyboard: letters go somewhere, j and k go through lists, Esc closes. Nothing of it works while somebody types.

const PLACES = { f: "#/flow", t: "#/topics", v: "#/views", q: "#/query", r: "#/groups", k: "#/sinks", d: "#/dead-letters", c: "#/capture", p: "#/pipelines", s: "#/send" };
const SECOND_KEY_WITHIN = 1500;

export const HELP = [
  ["g f", "Flow"], ["g t", "Topics"], ["g v", "Views"], ["g q", "Query"], ["g r", "Groups"], ["g k", "Sinks"], ["g d", "Dead letters"], ["g c", "Capture"], ["g p", "Pipelines"],
  ["g s", "Send a test event"], ["/", "Filter"], ["j k", "Next, previous row"], ["Enter", "Open the row"],
  ["Space", "Pause, resume (records and changes)"], ["Esc", "Close, leave a field"], ["?", "This list"],
];

/** Listens to the keyboard. `help` shows the list of keys or hides it; `helpShown` says whether it is there. */
export function listen({ help, helpShown }) {
  let gone = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      leave(help, helpShown);
      return;
    }
    if (event.target.closest("input, textarea, select")) return;
    const second = Date.now() - gone < SECOND_KEY_WITHIN;
    gone = 0;
    if (second && PLACES[event.key]) location.hash = PLACES[event.key];
    else if (event.key === "g") gone = Date.now();
    else if (event.key === "?") help(!helpShown());
    else if (event.key === "/") focus("[data-filter]");
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === " " && event.target.closest("[data-row], body") && !event.target.closest("button, a, summary")) {
      const pause = document.querySelector("[data-pause]");
      if (!pause) return;
      pause.click();
    } else return;
    event.preventDefault();
  });
}

function leave(help, helpShown) {
  if (helpShown()) help(false);
  else if (document.activeElement?.closest("input, textarea, select")) document.activeElement.blur();
  else document.querySelector("[data-close]")?.click();
}

function focus(selector) {
  document.querySelector(`main ${selector}`)?.focus();
}

function step(by) {
  const rows = [...document.querySelectorAll("main [data-row]")];
  if (!rows.length) return;
  const place = rows.indexOf(document.activeElement?.closest("[data-row]"));
  const next = place < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, place + by));
  rows[next].focus();
}
