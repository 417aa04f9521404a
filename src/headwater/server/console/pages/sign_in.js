// Signing in with a token, which the browser then keeps in a cookie that no script can read.

import { send } from "../api.js";
import { h, redraw } from "../dom.js";
import { live } from "../live.js";
import { failure, words } from "../parts.js";

let text = "";
let problem = null;
let busy = false;

/** The form; `done` is called when it was accepted. */
export function signIn(done) {
  async function submit(event) {
    event.preventDefault();
    busy = true;
    redraw();
    try {
      live.session = await send("POST", "session", JSON.stringify({ token: text.trim() }));
      text = "";
      problem = null;
      await done();
    } catch (error) {
      problem = error;
    }
    busy = false;
    redraw();
  }

  return h("form", { class: "sign-in", onsubmit: submit },
    h("img", { src: "console/icon.svg", alt: "", width: 40, height: 40 }),
    h("h1", {}, "Sign in"),
    h("p", {}, words("This server needs a token. Create one with `headwater token app.py` on the server.")),
    h("label", { class: "field" }, h("span", {}, "Token"),
      h("input", { type: "password", autocomplete: "current-password", focus: true, value: text, placeholder: "hw_read_…", oninput: (event) => { text = event.target.value; } })),
    problem && failure(problem),
    h("button", { type: "submit", class: "primary", disabled: busy }, "Sign in"));
}
