// What all pages share: the flow of the whole and the samples of the last minutes, as they come; and who is signed in.

import { get } from "./api.js";
import { redraw } from "./dom.js";
import { follow } from "./stream.js";

const SAMPLES_MOST = 600;
const RATE_SECONDS = 3;
const LETTERS_EVERY = 15_000;
const STEADY_SAMPLES = 10;
const STEADY_SECONDS = 10;

export const live = {
  /** The newest graph; null before the first. */
  flow: null,
  samples: [],
  /** connecting, open or lost. */
  state: "connecting",
  session: null,
  /** How many dead letters there are in each state. */
  letters: { open: 0, sent: 0, discarded: 0, superseded: 0 },
};

let stream = null;
let listeners = new Set();

/** Calls a function after every event, until what is returned is called. */
export function onFlow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function start() {
  stop();
  stream = follow("flow", {
    on: {
      flow: (flow) => {
        live.flow = flow;
        lookAtLetters();
        redraw();
      },
      sample: (sample) => {
        add([sample]);
        for (const listener of listeners) listener(live.flow);
      },
    },
    onState: (state) => {
      if (state === "open") fill();
      live.state = state;
      redraw();
    },
  });
}

export function stop() {
  stream?.close();
  stream = null;
}

/** Takes in what happened while nobody listened. */
async function fill() {
  try {
    add((await get("history?seconds=600")).samples);
    redraw();
  } catch {
    // The charts begin with what comes.
  }
}

let lettersLooked = { at: 0, records: -1 };

/** Counts dead letters: at once when there are more, and now and then, since views may refuse records as well. */
export async function lookAtLetters(now = false) {
  const topics = live.flow?.nodes.filter((one) => one.is_dead_letter) ?? [];
  const records = topics.reduce((sum, one) => sum + one.records, 0);
  const waited = Date.now() - lettersLooked.at;
  if (!now && waited < (records === lettersLooked.records ? LETTERS_EVERY : 1000)) return;
  lettersLooked = { at: Date.now(), records };
  try {
    live.letters = (await get("dead-letters?limit=1")).counts;
    redraw();
  } catch {
    // The page of dead letters says why, to who wants to know.
  }
}

function add(samples) {
  const known = new Map(live.samples.map((one) => [one.at, one]));
  for (const one of samples) known.set(one.at, one);
  live.samples = [...known.values()].sort((a, b) => (a.at < b.at ? -1 : 1)).slice(-SAMPLES_MOST);
}

/** A node of the flow; undefined if there is none. */
export function node(kind, name) {
  return live.flow?.nodes.find((one) => one.kind === kind && one.name === name);
}

/** Points of a chart: what `value` finds in each sample. */
export function points(value) {
  return live.samples.map((one) => ({ at: Date.parse(one.at), value: value(one) ?? null }));
}

/** Points of how fast something that is counted up grows, per second, over a few seconds. */
export function rates(value) {
  const counted = points(value);
  let first = 0;
  return counted.map((one, place) => {
    while (first < place - 1 && one.at - counted[first].at > RATE_SECONDS * 1000) first += 1;
    const before = counted[first];
    if (place === first || one.value === null || before.value === null) return { at: one.at, value: null };
    return { at: one.at, value: Math.max(0, ((one.value - before.value) * 1000) / (one.at - before.at)) };
  });
}

/** How the pipeline is. Where records come all the time, views that follow them closely are always a little behind. */
export function statusNow() {
  const status = live.flow?.status;
  const recent = live.samples.slice(-STEADY_SAMPLES);
  const moves = recent.some((one) => one.behind === 0) || (recent.length > 1 && recent[0].view_position !== recent.at(-1).view_position);
  return status === "behind" && moves && live.flow.freshness_seconds < STEADY_SECONDS ? "following" : status;
}

/** Whether a lag is there all the time, and becomes no smaller. */
export function isGrowing(group) {
  const recent = live.samples.slice(-STEADY_SAMPLES).map((one) => one.lag[group] ?? 0);
  return recent.length > 1 && recent.every((lag) => lag > 0) && recent.at(-1) >= recent[0];
}

/** Whether who is signed in may do something; and why not. */
export function refusal(scope) {
  const order = ["read", "write", "admin"];
  const held = live.session?.scope ?? "read";
  return order.indexOf(held) >= order.indexOf(scope) ? "" : `This needs a token with the scope ${scope}; yours has ${held}.`;
}
