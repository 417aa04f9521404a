// Follows server-sent events and continues after every interruption, behind the last event that came.
//
// Not EventSource: that one cannot begin behind an event, gives up after an answer that is an error without saying
// which, and holds one of the six connections that a browser has for a server also in a tab that nobody looks at.

import { Failure, failureOf, parse, request } from "./api.js";

const WAIT_FIRST = 500;
const WAIT_MOST = 5000;
// The server says every 15 s that it is still there.
const SILENCE_MOST = 40_000;
const LASTING = new Set([400, 401, 403, 404, 410, 422]);

/**
 * Follows a stream until `close` is called.
 *
 * `on` has a function for each event by name, which is given its data. `onState` is told `open` and `lost`. What does
 * not become better by trying again goes to `onFailure`, and the stream ends. `after` is the id of an event.
 */
export function follow(target, { on, onState = () => {}, onFailure = () => {}, after = "" }) {
  let last = after;
  let closed = false;
  let connection = new AbortController();

  const hide = () => document.hidden && connection.abort();
  document.addEventListener("visibilitychange", hide);

  function close() {
    closed = true;
    document.removeEventListener("visibilitychange", hide);
    connection.abort();
  }

  async function once() {
    connection = new AbortController();
    let silence = setTimeout(() => connection.abort(), SILENCE_MOST);
    try {
      const headers = { Accept: "text/event-stream", ...(last && { "Last-Event-ID": last }) };
      const response = await request(target, { headers, signal: connection.signal });
      if (!response.ok) throw await failureOf(response);
      onState("open");
      for await (const event of events(response.body)) {
        clearTimeout(silence);
        silence = setTimeout(() => connection.abort(), SILENCE_MOST);
        if (closed) return;
        if (event.id) last = event.id;
        if (event.data) tell(on[event.name], event);
      }
    } finally {
      clearTimeout(silence);
      connection.abort();
    }
  }

  async function run() {
    let wait = WAIT_FIRST;
    while (!closed) {
      if (document.hidden) {
        await shown();
        continue;
      }
      const began = Date.now();
      let failure = null;
      try {
        await once();
      } catch (error) {
        failure = error instanceof Failure ? error : null;
      }
      if (closed) return;
      if (failure && LASTING.has(failure.status)) {
        close();
        onFailure(failure);
        return;
      }
      // Hidden on purpose is not lost.
      if (document.hidden) continue;
      onState("lost", failure);
      wait = Date.now() - began > WAIT_MOST ? WAIT_FIRST : Math.min(wait * 2, WAIT_MOST);
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  run();
  return { close, last: () => last };
}

/** A fault of ours is reported, and must not look like a connection that is lost. */
function tell(listener, event) {
  try {
    listener?.(parse(event.data));
  } catch (error) {
    reportError(error);
  }
}

function shown() {
  return new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

/** The events of a body. Comments count, without data, since they show that the server lives. */
async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) yield parsed(part);
  }
}

/** One event from its lines. */
export function parsed(part) {
  const event = { name: "message", id: "", data: "" };
  for (const line of part.split("\n")) {
    const colon = line.indexOf(": ");
    const field = line.slice(0, colon);
    const value = line.slice(colon + 2);
    if (field === "event") event.name = value;
    else if (field === "id") event.id = value;
    else if (field === "data") event.data = value;
  }
  return event;
}
