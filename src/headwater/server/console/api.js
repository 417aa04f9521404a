// Asks the server, which is where the page comes from. Every error of it has a code, a sentence and a hint.

export class Failure extends Error {
  constructor(status, about) {
    super(about.message);
    this.status = status;
    this.code = about.code;
    this.hint = about.hint ?? "";
    this.about = about;
  }
}

const UNREACHABLE = {
  code: "unreachable",
  message: "The server cannot be reached.",
  hint: "Is `headwater run` or `headwater serve` still running? This page resumes by itself as soon as it is.",
};

/** The path of an endpoint; each part may hold any character. Relative, so that a proxy may put it anywhere. */
export function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}

/** A query string of what is there; a list gives its name several times. */
export function query(values) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") found.append(name, one);
    }
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}

/** JSON, in which a whole number that a browser cannot hold stays the text that it was. */
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const exact = typeof value !== "number" || !Number.isInteger(value) || Number.isSafeInteger(value);
    return exact || !context?.source ? value : context.source;
  });
}

let signedOut = () => {};

/** Says what happens when the server wants a token. */
export function onSignedOut(then) {
  signedOut = then;
}

/** What an answer that is an error says. */
export async function failureOf(response) {
  let about;
  try {
    about = (await response.json()).error;
  } catch {
    about = { code: "unexpected", message: `The server answered with ${response.status}.`, hint: "Try again." };
  }
  if (response.status === 401) signedOut();
  return new Failure(response.status, about);
}

export async function request(target, options = {}) {
  try {
    return await fetch(target, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, UNREACHABLE);
  }
}

async function answered(response) {
  if (!response.ok) throw await failureOf(response);
  return response.status === 204 ? null : parse(await response.text());
}

export async function get(target, options) {
  return answered(await request(target, options));
}

export async function send(method, target, body, headers = {}) {
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  return answered(await request(target, { method, body, headers: { ...type, ...headers } }));
}

/** A key by which a second sending is recognised. Also where browsers offer no randomUUID, without TLS. */
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
