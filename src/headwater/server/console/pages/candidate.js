// Changed views: how far they are built, what they change, and the decision to switch.

import { get, path, send } from "../api.js";
import { h, redraw } from "../dom.js";
import { count, counted, duration } from "../format.js";
import { refusal } from "../live.js";
import { badge, button, failure, resource, section, table } from "../parts.js";

/** A section of the page of pipelines. */
export function candidate() {
  const found = resource(() => get("candidate"));
  const compared = new Map();
  let busy = false;
  let problem = null;

  async function act(action) {
    busy = true;
    problem = null;
    redraw();
    try {
      await action();
    } catch (error) {
      problem = error;
    }
    busy = false;
    redraw();
  }

  const decide = (method, ...place) => act(async () => {
    await send(method, path("candidate", ...place));
    compared.clear();
    await found.load();
  });
  const compare = (view) => act(async () => { compared.set(view, await get(path("views", view, "candidate"))); });

  function building({ views, done, total, seconds_left: left, error }) {
    if (error) return failure({ message: `${views.join(", ")} cannot be built: ${error}`, hint: "The former views are kept up to date. Change the SQL, and run the application again." });
    return h("p", { role: "status" }, `Building ${views.join(", ")}: ${count(done)} of ${counted(total, "record")}`, left !== null && `, ${duration(left)} left`);
  }

  function waiting(one) {
    const decisions = one.is_former
      ? [["Roll back", "POST", "rollback"], ["Discard the former versions", "DELETE"]]
      : [["Switch to them", "POST", "switch"], ["Discard them", "DELETE"]];
    return [
      h("p", {}, badge(one.is_former ? "former" : "new", "busy"), one.is_ready ? ` Up to date at position ${one.position}, and not visible to readers.` : ` At position ${one.position}, catching up.`),
      table([
        { name: "View", cell: (view) => view },
        ...["removed", "added", "changed"].map((kind) => ({ name: `Rows ${kind}`, number: true, cell: (view) => (compared.has(view) ? count(compared.get(view)[kind]) : "–") })),
        { name: "Changed in", wide: true, cell: (view) => Object.entries(compared.get(view)?.changed_by_column ?? {}).filter(([, rows]) => rows).map(([column, rows]) => `${column} ${count(rows)}`).join(", ") },
        { name: "", cell: (view) => button("Compare", { onclick: () => compare(view), busy: busy || !one.is_ready }) },
      ], one.views, { key: (view) => view, label: "Changed views" }),
      h("div", { class: "actions" }, decisions.map(([text, method, ...place], at) => button(text, { onclick: () => decide(method, ...place), busy: busy || (at === 0 && !one.is_ready), refused: refusal("admin"), kind: at === 0 ? "primary" : undefined }))),
    ];
  }

  return {
    load: () => found.load(),
    show() {
      const { candidate: one = null, build = null } = found.value ?? {};
      const shown = build?.error || (one && !one.is_ready) ? build : null;
      if (!one && !shown && !problem) return null;
      return section("Changed views", { note: "Readers see the current versions until you decide." },
        problem && failure(problem),
        shown && building(shown),
        one && waiting(one));
    },
  };
}
