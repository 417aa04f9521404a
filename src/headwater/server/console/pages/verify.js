// Verify: a view compared with its own SQL, run as a batch query over the log; the result, and when that was.

import { path, send } from "../api.js";
import { h, redraw } from "../dom.js";
import { cell, count, counted } from "../format.js";
import { node, refusal } from "../live.js";
import { badge, button, failure, table, time } from "../parts.js";

export function verify(name) {
  let problem = null;
  let asked = false;

  async function ask() {
    asked = true;
    redraw();
    try {
      await send("POST", path("views", name, "verify"));
      problem = null;
    } catch (error) {
      problem = error;
    }
    // The next event of the flow has its state.
    setTimeout(() => { asked = false; redraw(); }, 1500);
  }

  return {
    show(view) {
      const state = node("view", name)?.verification ?? view.verification;
      const busy = asked || state.status === "waiting" || state.status === "running";
      return h("div", { class: "verify" },
        h("div", { class: "verify-row" },
          button(busy ? "Verifying …" : "Verify", { onclick: ask, busy, refused: refusal("admin"), kind: "primary" }),
          h("div", { role: "status" }, outcome(state, busy))),
        problem && failure(problem),
        !busy && state.status === "failed" && failure(state.error),
        state.result && !state.result.equal && differences(state.result));
    },
  };
}

function outcome({ status, result, started_at: started }, busy) {
  if (busy) return [badge(status === "waiting" ? "waiting for its turn" : "running", "busy"), started && status === "running" && [" since ", time(started)]];
  if (!result) return h("span", { class: "muted" }, "Never verified. It runs the view's SQL as a batch query over the log and compares every row.");
  return [
    badge(result.equal ? "right" : "differs", result.equal ? "good" : "bad"),
    result.equal ? ` ${counted(result.rows, "row")} equal to the ${result.base ? `replay from position ${result.base.position}` : "batch query"} at position ${result.position}, ` : ` ${counted(result.differences, "row")} of ${count(result.rows)} at position ${result.position}, `,
    time(result.verified_at),
    result.base && h("div", { class: "muted" }, `The view remembers records that the log has deleted. What it made of them cannot be recomputed; everything after the base at position ${result.base.position} was replayed.`),
    // Results that were kept by an older version have neither of these.
    result.excluded?.length > 0 && h("div", { class: "muted" }, `Without ${counted(result.excluded.length, "record")} that the view failed on: ${result.excluded.slice(0, 3).map((one) => `${one.topic}, partition ${one.partition}, offset ${one.offset}`).join("; ")}${result.excluded.length > 3 ? "; …" : ""}.`),
    result.decided_by?.length > 0 && h("div", { class: "muted" }, `Where SQL leaves the answer open: ${result.decided_by.join("; ")}.`),
  ];
}

function differences({ examples }) {
  if (!examples.length) return null;
  const columns = Object.keys(examples[0].row);
  return table([
    { name: "What", cell: (one) => (one.surplus > 0 ? badge(`${one.surplus} too many`, "bad") : badge(`${-one.surplus} missing`, "bad")) },
    ...columns.map((column) => ({ name: column, cell: (one) => cell(one.row[column]) })),
  ], examples, { key: (one) => JSON.stringify(one), label: "Rows that differ" });
}
