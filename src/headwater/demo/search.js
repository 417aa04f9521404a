// "Search": orders found by PostgreSQL's full text search, in a table that a sink keeps in step with a view.
//
// A page as the console has them. It asks again all the time, so that one sees what happens to the target.

import { get, query } from "../console/api.js";
import { h, redraw } from "../console/dom.js";
import { count, counted } from "../console/format.js";
import { badge, empty, figures, heading, loaded, resource, section, table, time } from "../console/parts.js";
import { styled } from "./break_it.js";

const RELOAD_EVERY = 2000;
const TYPING = 150;
const EXAMPLES = ["tent", "espresso shipped", "kite JP"];
const STATUS = { placed: "busy", paid: "busy", shipped: "good", cancelled: "warn" };

export default function search() {
  let words = "";
  let typing = null;
  let again = null;
  const found = resource(() => get(`demo/search${query({ words })}`));

  function change(text) {
    words = text;
    redraw();
    clearTimeout(typing);
    typing = setTimeout(found.load, TYPING);
  }

  return {
    title: "Search",
    start() {
      styled();
      found.load();
      again = setInterval(() => document.hidden || found.load(), RELOAD_EVERY);
    },
    stop() {
      clearInterval(again);
      clearTimeout(typing);
    },
    show: () => [
      heading("Search", { about: ["Orders in the report database, found by PostgreSQL's full text search. The sink ", link("search"), " keeps the table in step with the view ", view("orders_full"), "."] }),
      h("div", { class: "search" },
        h("input", { type: "search", "data-filter": "", placeholder: "Product, customer, country, status or number", "aria-label": "Search orders", maxlength: "200", value: words, oninput: (event) => change(event.target.value) }),
        h("span", { class: "muted" }, "Try ", EXAMPLES.map((one, place) => [place > 0 && ", ", h("button", { type: "button", class: "link", onclick: () => change(one) }, one)]))),
      loaded(found, shown),
    ],
  };
}

function shown(found) {
  return [
    h("p", { role: "status" }, h("b", {}, count(found.matching)), ` of ${counted(found.rows, "order")}`, found.matching > found.orders.length && h("span", { class: "muted" }, `, the newest ${found.orders.length} are shown`)),
    found.orders.length ? orders(found.orders) : empty(found.rows ? "No order has all of these words." : "The table is empty.", found.rows ? "Use fewer words." : "Its first content is on the way, or somebody has emptied it on the page Break it."),
    section("Two tables, one transaction", { note: "Both sinks are in one group, so both tables always show the same moment." },
      figures(
        ["Paid and shipped orders", money(found.paid), "The sum over the table orders."],
        ["Revenue by country", money(found.revenue), "The sum over the table revenue."],
        ["The two", Number(found.paid) === Number(found.revenue) ? badge("equal", "good") : badge("differ", "bad", "Somebody has changed a table by hand.")]),
      countries(found.countries)),
  ];
}

function orders(rows) {
  return table([
    { name: "Order", number: true, cell: (one) => one.id },
    { name: "Customer", cell: (one) => one.customer },
    { name: "Country", cell: (one) => one.country },
    { name: "Status", cell: (one) => badge(one.status, STATUS[one.status]) },
    { name: "Total", number: true, cell: (one) => money(one.total) },
    { name: "Products", wide: true, cell: (one) => one.products },
    { name: "Placed", cell: (one) => time(one.placed_at) },
  ], rows, { key: (one) => one.id, label: "Orders" });
}

function countries(rows) {
  return table([
    { name: "Country", cell: (one) => one.country },
    { name: "Orders", number: true, cell: (one) => count(one.orders) },
    { name: "Revenue", number: true, cell: (one) => money(one.revenue) },
  ], rows, { key: (one) => one.country, label: "Revenue by country" });
}

function money(text) {
  return text === null ? "–" : Number(text).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

function link(sink) {
  return h("a", { href: `#/sinks/${sink}` }, sink);
}

function view(name) {
  return h("a", { href: `#/views/${name}` }, name);
}
