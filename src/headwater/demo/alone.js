// The page "Break it" by itself, without the console around it.

import { get } from "../console/api.js";
import { drawWith, h, redraw, render } from "../console/dom.js";
import { live } from "../console/live.js";
import { failure } from "../console/parts.js";
import { breakIt } from "./page.js";

const REDRAW_EVERY = 1000;
const root = document.getElementById("console");
const page = breakIt();

function draw() {
  render(root, [h("div", { class: "body" }, h("main", { id: "content" }, h("p", { class: "above" }, h("a", { href: "./#/flow" }, "To the console")), page.show()))]);
}

async function begin() {
  try {
    live.session = await get("session");
  } catch (error) {
    render(root, [h("main", { class: "alone" }, failure(error, begin))]);
    return;
  }
  drawWith(draw);
  page.start();
  setInterval(redraw, REDRAW_EVERY);
  redraw();
}

begin();
