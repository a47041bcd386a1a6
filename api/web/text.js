// Values as text, and elements made of text: whatever comes from the server
// enters the page through textContent.

// Non-finite numbers travel as strings ("nan", "inf").
export function number(x) {
  if (typeof x === "number") return x;
  if (x === "inf") return Infinity;
  if (x === "-inf") return -Infinity;
  return NaN;
}

export function short(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (typeof x === "boolean") return x ? "yes" : "no";
  const v = number(x);
  if (!Number.isFinite(v)) return String(x);
  if (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e9))
    return v.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e");
  if (Number.isInteger(v)) return v.toLocaleString("en");
  return String(Number(v.toPrecision(digits)));
}

// For axes: 20,000 as 20 k, 1,500,000 as 1.5 M; all of an axis, of which @most is the
// largest, in one unit.
export function tick(v, digits = 5, most = v) {
  const size = Math.abs(v) === 0 ? 0 : Math.abs(most);
  if (size >= 1e9) return short(v, digits);
  if (size >= 1e6) return short(v / 1e6, digits) + " M";
  if (size >= 1e4) return short(v / 1e3, digits) + " k";
  return short(v, digits);
}

export function bytes(n) {
  const v = number(n);
  if (!Number.isFinite(v)) return "–";
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (v >= size) return short(v / size, 3) + " " + unit;
  return short(v) + " B";
}

export function duration(s) {
  if (!Number.isFinite(s)) return "–";
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 60) return s.toFixed(1) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
  if (s < 2 * 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}

export function count(n, one, many = one + "s") {
  return short(n) + " " + (n === 1 ? one : many);
}

export function settingText(setting) {
  const parts = Object.entries(setting || {}).map(
    ([name, value]) => name + " " + (typeof value === "number" ? short(value) : value));
  return parts.join(", ") || "–";
}

// el("p.quiet", "text", child, ...): an element with classes and children.
export function el(what, ...children) {
  const [tag, ...classes] = what.split(".");
  const e = document.createElement(tag);
  if (classes.length > 0) e.className = classes.join(" ");
  for (const c of children)
    if (c !== null && c !== undefined) e.append(c);
  return e;
}

export function button(text, act, className = "") {
  const b = el("button", text);
  b.type = "button";
  b.className = className;
  b.addEventListener("click", act);
  return b;
}

export function link(text, href) {
  const a = el("a", text);
  a.href = href;
  return a;
}

export function runHref(run, tab = "", query = "") {
  return "#/run/" + encodeURIComponent(run) + (tab ? "/" + tab : "") + query;
}

// Replaces the text only where it differs: a screen reader is not told again.
export function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export const STATUS_CLASS = {
  waiting: "active", queued: "active", tuning: "active", training: "active", saving: "active",
  paused: "warn", held: "warn", interrupted: "warn", stopped: "warn", finished: "good", failed: "bad",
};

export const LABEL_CLASS = {
  converging: "good", unstable: "warn", diverged: "bad", failed: "bad",
};

// Not under way: in a service's queue.
export const QUEUED = new Set(["queued", "held"]);

export const ENDED = new Set(["finished", "failed", "interrupted", "stopped"]);

export function chip(status) {
  const c = el("span.chip", status);
  if (STATUS_CLASS[status]) c.classList.add(STATUS_CLASS[status]);
  return c;
}

// Seconds of a run since its first clock, without those that it was paused or
// interrupted; NaN before.
export function runSeconds(run) {
  return run.first_clock_at ? number(run.seconds) - number(run.paused_seconds) : NaN;
}

// The same since the run's beginning, which is what its time limit counts.
export function begunSeconds(run) {
  const before = (Date.parse(run.first_clock_at) - Date.parse(run.started_at)) / 1000;
  return runSeconds(run) + (before > 0 ? before : 0);
}

// At most how long the run still takes: what its limits leave, at the pace of
// the training so far. null where no limit says.
export function timeLeft(run) {
  if (ENDED.has(run.status)) return null;
  const spent = runSeconds(run);
  const left = [];
  const {max_time: time = null, max_epochs: epochs} = run.stop || {}; // not known in a queue
  if (time !== null && Number.isFinite(number(time))) left.push(number(time) - begunSeconds(run));
  const training = spent - number(run.tuning.seconds);
  if (epochs && run.epochs > 0 && training > 0)
    left.push(training / run.epochs * (epochs - run.epochs));
  return left.length > 0 ? Math.max(0, Math.min(...left)) : null;
}
