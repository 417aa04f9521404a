// Conditions on columns, as the API takes them: put together from a column, a comparison and a value.

import { h, redraw } from "./dom.js";

const OPERATORS = { eq: "=", ne: "≠", lt: "<", le: "≤", gt: ">", ge: "≥", contains: "contains", null: "is null", notnull: "is not null" };
const ALONE = new Set(["null", "notnull"]);

/** Conditions that people put together; `change` is called after each change of them. */
export function conditions(change) {
  const draft = { column: "", operator: "eq", value: "" };
  let all = [];

  function add(columns) {
    const column = draft.column || columns[0]?.name;
    if (!column || (!ALONE.has(draft.operator) && draft.value === "")) return;
    all = [...all, { ...draft, column }];
    draft.value = "";
    change();
  }

  return {
    /** As the parameter `where` has them. */
    texts: () => all.map(({ column, operator, value }) => (ALONE.has(operator) ? `${column}:${operator}` : `${column}:${operator}:${value}`)),
    count: () => all.length,
    show: (columns) => h("form", { class: "conditions", onsubmit: (event) => { event.preventDefault(); add(columns); } },
      h("label", {}, h("span", {}, "Filter"),
        h("select", { "aria-label": "Column", value: draft.column || columns[0]?.name, onchange: (event) => { draft.column = event.target.value; } }, columns.map((one) => h("option", { value: one.name }, one.name)))),
      h("select", { "aria-label": "Comparison", value: draft.operator, onchange: (event) => { draft.operator = event.target.value; redraw(); } }, Object.entries(OPERATORS).map(([name, text]) => h("option", { value: name }, text))),
      !ALONE.has(draft.operator) && h("input", { "data-filter": "", "aria-label": "Value", placeholder: "value", value: draft.value, oninput: (event) => { draft.value = event.target.value; } }),
      h("button", { type: "submit", class: "quiet" }, "Add"),
      all.map((one, place) => h("button", { key: place, type: "button", class: "chip", title: "Remove this condition", onclick: () => { all = all.filter((other) => other !== one); change(); } },
        `${one.column} ${OPERATORS[one.operator]}${ALONE.has(one.operator) ? "" : ` ${one.value}`}`, h("span", { "aria-label": "remove" }, " ×")))),
  };
}
