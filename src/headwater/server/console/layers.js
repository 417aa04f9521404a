// Places the nodes of a graph in columns from left to right, so that edges cross little and bend softly.

const SWEEPS = 6;
const DUMMY_HEIGHT = 14;
// Where on the last piece of an edge its label may stand, the best first.
const PLACES = [0.5, 0.42, 0.58, 0.34, 0.66, 0.28, 0.72, 0.22, 0.78];

/**
 * Lays out nodes `{id, column, width, height}` and edges `{from, to, room}`, which lead to a column further right.
 *
 * `room` is how much an edge needs before the column that it leads to; an edge without takes what there is.
 * Gives each node its `x` and `y` (of its upper left corner), each edge its `points`, and the whole a width and a height.
 * An edge over several columns passes between the nodes of those in between. Edges that lead nowhere are left out.
 */
export function layout(nodes, edges, { columnGap = 110, rowGap = 18 } = {}) {
  const placed = nodes.map((node) => ({ ...node }));
  const byId = new Map(placed.map((node) => [node.id, node]));
  const known = edges.filter(({ from, to }) => byId.has(from) && byId.has(to));
  const columns = [];
  for (const node of placed) (columns[node.column] ??= []).push(node);
  const routes = known.map((edge) => ({ edge, through: passages(edge, byId, columns) }));
  const links = routes.flatMap(({ through }) => through.slice(1).map((node, place) => [through[place], node]));
  const full = columns.filter(Boolean);
  order(full, links);
  const height = stack(full, rowGap);
  settle(full, links, rowGap, height);
  const width = spread(full, (column) => Math.max(columnGap, ...known.map(({ to, room }) => (byId.get(to).column === column ? room ?? 0 : 0))));
  const top = Math.min(0, ...full.flat().map((node) => node.y));
  for (const node of full.flat()) node.y -= top;
  return {
    nodes: placed,
    edges: routes.map(({ edge, through }) => ({ ...edge, points: bends(through) })),
    columns: columns.map((column) => (column ? { x: column[0].x, width: column[0].width } : null)),
    width,
    height: Math.max(0, ...full.flat().map((node) => node.y + node.height)),
  };
}

/** The nodes that an edge passes: its two ends, and one without width in every column in between. */
function passages({ from, to }, byId, columns) {
  const [first, last] = [byId.get(from), byId.get(to)];
  const through = [first];
  for (let column = first.column + 1; column < last.column; column += 1) {
    if (!columns[column]) continue;
    const dummy = { column, width: 0, height: DUMMY_HEIGHT, dummy: true };
    columns[column].push(dummy);
    through.push(dummy);
  }
  return [...through, last];
}

/** Orders every column by the middle of its neighbours, to and fro. */
function order(columns, links) {
  const number = (column) => column.forEach((node, place) => (node.place = (place + 0.5) / column.length));
  columns.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forth = sweep % 2 === 0;
    for (const column of forth ? columns : [...columns].reverse()) {
      for (const node of column) {
        const places = neighbours(node, links, forth).map((other) => other.place);
        node.middle = places.length ? mean(places) : node.place;
      }
      column.sort((a, b) => a.middle - b.middle || a.place - b.place);
      number(column);
    }
  }
}

function neighbours(node, links, before) {
  return links.filter((link) => link[before ? 1 : 0] === node).map((link) => link[before ? 0 : 1]);
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Puts the nodes of every column below each other, all columns around one middle line. */
function stack(columns, gap) {
  const heights = columns.map((column) => column.reduce((sum, node) => sum + node.height + gap, -gap));
  const most = Math.max(0, ...heights);
  columns.forEach((column, place) => {
    let y = (most - heights[place]) / 2;
    for (const node of column) {
      node.y = y;
      y += node.height + gap;
    }
  });
  return most;
}

/** Moves nodes towards the middle of their neighbours, as far as those above and below leave room. */
function settle(columns, links, gap, height) {
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forth = sweep % 2 === 0;
    for (const column of forth ? columns : [...columns].reverse()) {
      for (const node of column) {
        const centres = neighbours(node, links, forth).map((other) => other.y + other.height / 2);
        node.wanted = centres.length ? mean(centres) - node.height / 2 : node.y;
      }
      let floor = 0;
      for (const node of column) {
        node.y = Math.max(node.wanted, floor);
        floor = node.y + node.height + gap;
      }
      // What was pushed out at the bottom comes back up, and takes those above with it.
      let ceiling = Math.max(height, 0);
      for (const node of [...column].reverse()) {
        node.y = Math.min(node.y, ceiling - node.height);
        ceiling = node.y - gap;
      }
    }
  }
}

/** Gives every column its place, and its boxes one width; the width of all. */
function spread(columns, gapBefore) {
  let end = 0;
  columns.forEach((column, place) => {
    const x = place === 0 ? 0 : end + gapBefore(column[0].column);
    const width = Math.max(...column.map((node) => node.width));
    for (const node of column) Object.assign(node, { x, width });
    end = x + width;
  });
  return end;
}

/** From the right side of one node to the left side of the next. */
function bends(through) {
  return through.flatMap((node, place) => {
    const y = node.y + node.height / 2;
    const [left, right] = [{ x: node.x, y }, { x: node.x + node.width, y }];
    if (place === 0) return [right];
    return place === through.length - 1 ? [left] : [left, right];
  });
}

/**
 * Where the middle of each edge's label stands, so that labels of this size cover each other as little as can be.
 *
 * On the last piece, where the edges of one node have parted; those that have the least room choose first.
 */
export function labelPlaces(edges, width, height) {
  const taken = [];
  const places = new Map();
  const rise = (edge) => Math.abs(edge.points.at(-1).y - edge.points.at(-2).y);
  for (const edge of [...edges].sort((a, b) => rise(a) - rise(b))) {
    const [from, to] = edge.points.slice(-2);
    const all = PLACES.map((part) => along(from, to, part));
    const between = all.filter(({ x }) => x - width / 2 >= from.x && x + width / 2 <= to.x);
    const covered = ({ x, y }) => taken.reduce((sum, other) => sum + Math.max(0, width - Math.abs(x - other.x)) * Math.max(0, height - Math.abs(y - other.y)), 0);
    const place = (between.length ? between : all.slice(0, 1)).reduce((best, one) => (covered(one) < covered(best) ? one : best));
    taken.push(place);
    places.set(edge, place);
  }
  return edges.map((edge) => places.get(edge));
}

/** A point of the piece of a curve between two points. */
function along(from, to, part) {
  const rest = 1 - part;
  const bend = 1.5 * rest * part;
  return { x: from.x + (to.x - from.x) * (bend + part ** 3), y: from.y + (to.y - from.y) * (3 * rest + part) * part ** 2 };
}

/** The path of an edge through its points, level at both ends of every piece. */
export function curve(points) {
  const [first, ...rest] = points;
  let before = first;
  let text = `M${first.x},${first.y}`;
  for (const point of rest) {
    const middle = (before.x + point.x) / 2;
    text += before.y === point.y ? `L${point.x},${point.y}` : `C${middle},${before.y} ${middle},${point.y} ${point.x},${point.y}`;
    before = point;
  }
  return text;
}
