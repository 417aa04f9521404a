// A keyed renderer: descriptions of elements in, as few changes of the page as possible out.
//
// A page describes everything that it shows, again and again, and hardly ever touches an element itself. Elements whose
// name and key stay are kept, with their focus, their scrolling and what was typed into them. Nothing is parsed as HTML,
// so that data cannot become markup.

const SVG = "http://www.w3.org/2000/svg";
const BOOLEANS = new Set(["checked", "disabled", "hidden", "open", "readOnly", "selected"]);
const descriptions = new WeakMap();

/** Describes an element. Children that are null, undefined or a boolean are left out, so that `condition && child` works. */
export function h(name, properties, ...children) {
  const kept = children.flat(Infinity).filter((child) => child !== null && child !== undefined && typeof child !== "boolean");
  return { name, properties: properties ?? {}, children: kept.map(described) };
}

function described(child) {
  return typeof child === "object" ? child : { name: "#text", properties: {}, text: String(child) };
}

/** Makes the content of an element what the descriptions say. */
export function render(parent, children, svg = parent.namespaceURI === SVG) {
  const there = new Map();
  const known = [...parent.childNodes];
  const names = identities(known.map((node) => descriptions.get(node) ?? { name: "", properties: {} }));
  known.forEach((node, place) => there.set(names[place], node));
  const nodes = identities(children).map((identity, place) => there.get(identity) ?? created(children[place], svg));
  // What goes is taken away first: then a list that loses its first rows moves none of the others.
  const kept = new Set(nodes);
  for (const node of known) if (!kept.has(node)) node.remove();
  nodes.forEach((node, place) => {
    update(node, children[place], svg);
    if (parent.childNodes[place] !== node) parent.insertBefore(node, parent.childNodes[place] ?? null);
  });
}

/** What each of some siblings is known by: name and key, and which of those that have the same. */
function identities(siblings) {
  const counts = new Map();
  return siblings.map(({ name, properties }) => {
    const own = `${name}\0${properties.key ?? ""}`;
    const count = counts.get(own) ?? 0;
    counts.set(own, count + 1);
    return `${own}\0${count}`;
  });
}

function created(wanted, svg) {
  if (wanted.name === "#text") return document.createTextNode(wanted.text);
  const node = svg || wanted.name === "svg" ? document.createElementNS(SVG, wanted.name) : document.createElement(wanted.name);
  if (wanted.properties.focus) queueMicrotask(() => node.focus());
  return node;
}

function update(node, wanted, svg) {
  const before = descriptions.get(node);
  if (before === wanted) return;
  descriptions.set(node, wanted);
  if (wanted.name === "#text") {
    if (node.data !== wanted.text) node.data = wanted.text;
    return;
  }
  const old = before?.properties ?? {};
  for (const name of Object.keys(old)) if (!(name in wanted.properties)) change(node, name, undefined, old[name]);
  for (const [name, value] of Object.entries(wanted.properties)) {
    if (name !== "value" && value !== old[name]) change(node, name, value, old[name]);
  }
  render(node, wanted.children, svg || wanted.name === "svg");
  // A choice has its value only once its options are there; and people type into it between two descriptions.
  if ("value" in wanted.properties && node.value !== wanted.properties.value) node.value = wanted.properties.value;
}

function change(node, name, value, old) {
  if (name === "key" || name === "focus") return;
  if (name.startsWith("on")) node[name] = value ?? null;
  else if (name === "style") restyle(node, value ?? {}, old ?? {});
  else if (BOOLEANS.has(name)) node[name] = Boolean(value);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

// Through the object model, which the page's policy allows; a style attribute it does not.
function restyle(node, value, old) {
  for (const name of Object.keys(old)) if (!(name in value)) node.style.removeProperty(name);
  for (const [name, one] of Object.entries(value)) if (old[name] !== one) node.style.setProperty(name, one);
}

let draw = () => {};
let asked = false;

/** Says what draws the whole page. */
export function drawWith(drawing) {
  draw = drawing;
}

/** Draws the page with the next frame, once, however often it is asked for. */
export function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}
