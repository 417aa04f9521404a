// Numbers, sizes and times as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** 1,234,567: all digits. */
export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** 1.2M: as many as one sees at a glance. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 10_000 ? whole.format(value) : compact.format(value);
}

/** 12/s, 0.3/s. */
export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0/s";
  if (value < 0.1) return "<0.1/s";
  return `${value < 10 ? value.toFixed(1) : short(Math.round(value))}/s`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** 12 ms, 1.4 s, 3 min, 2 h, 5 days. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

/** "now", "12 s ago". A clock that is a little ahead makes nothing lie in the future. */
export function ago(instant, now = Date.now()) {
  const seconds = Math.floor(Math.max(0, (now - Date.parse(instant)) / 1000));
  if (seconds < 2) return "now";
  return `${seconds < 90 ? `${seconds} s` : duration(seconds)} ago`;
}

/** The exact time: here, and as the server has it. */
export function exact(instant) {
  const local = new Date(instant).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return `${local} (${instant})`;
}

/** 12:03:45, of this place. */
export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString("en-GB");
}

/** "1 row", "2 rows". */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A value of a row in one line. */
export function cell(value) {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function pretty(value) {
  return JSON.stringify(value, null, 2);
}
