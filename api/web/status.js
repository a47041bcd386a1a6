// The status page: draws what the JSON interface has whenever the run's live
// events say that something is new. Everything that comes
// from the server enters the page as text (textContent), never as markup.
"use strict";

const API = "/api/v1";
const PAUSE_MS = 1000;
const RETRY_MS = 5000;
// Kinds of events, as the run's journal names them.
const KINDS = ["run_started", "run_status", "run_finished", "run_resumed", "command",
  "search_started", "search_decided", "search_ended", "trial_started", "trial_updated",
  "trial_ended", "branch_created", "branch_freed", "slice_scheduled", "slice_ended",
  "progress", "epoch_ended", "setting_chosen", "decision", "snapshot_written",
  "model_saved"];
const SVG = "http://www.w3.org/2000/svg";

const $ = (id) => document.getElementById(id);

let shown = null;        // id of the run on the page
let winners = new Set(); // trials that won their search

// ---- values ----------------------------------------------------------------

// Non-finite numbers travel as strings ("nan", "inf").
function number(x) {
  if (typeof x === "number") return x;
  if (x === "inf") return Infinity;
  if (x === "-inf") return -Infinity;
  return NaN;
}

function short(x) {
  if (x === null || x === undefined) return "–";
  const v = number(x);
  if (!Number.isFinite(v)) return String(x);
  if (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e6))
    return v.toExponential(2);
  if (Number.isInteger(v)) return v.toLocaleString("en");
  return String(Number(v.toPrecision(4)));
}

function duration(s) {
  if (!Number.isFinite(s)) return "–";
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 60) return s.toFixed(1) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
}

function settingText(setting) {
  const parts = Object.entries(setting || {}).map(
    ([name, value]) => name + "=" + (typeof value === "number" ? short(value) : value));
  return parts.join("  ") || "–";
}

function put(id, text) {
  $(id).textContent = text;
}

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// ---- charts ----------------------------------------------------------------

function svg(tag, attributes) {
  const e = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step)
    out.push(v);
  return out;
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (low === high) { low -= Math.abs(low) * 0.05 || 0.5; high += Math.abs(high) * 0.05 || 0.5; }
  return [low, high];
}

// Points as a path; a value that is not finite breaks the line.
function path(points, x, y) {
  let d = "", pen = "M";
  for (const [px, py] of points) {
    if (!Number.isFinite(py)) { pen = "M"; continue; }
    d += pen + x(px).toFixed(1) + " " + y(py).toFixed(1);
    pen = "L";
  }
  return d;
}

// series: [{points: [[x, y], ...], className}], marks: x values.
function chart(host, series, marks, label, height) {
  const finite = series.flatMap((s) => s.points.filter((p) => Number.isFinite(p[1])));
  if (finite.length === 0) {
    host.replaceChildren(element("p", "nothing to draw yet", "quiet"));
    return;
  }
  const width = Math.max(320, host.clientWidth || 640);
  const left = 56, right = 10, top = 8, bottom = 26;
  const [x0, x1] = range(finite.map((p) => p[0]));
  const [y0, y1] = range(finite.map((p) => p[1]));
  const x = (v) => left + (v - x0) / (x1 - x0) * (width - left - right);
  const y = (v) => top + (y1 - v) / (y1 - y0) * (height - top - bottom);
  const root = svg("svg", {viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": label});

  for (const v of ticks(y0, y1, 4)) {
    root.append(svg("line", {x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid"}));
    const t = svg("text", {x: left - 6, y: y(v) + 4, "text-anchor": "end"});
    t.textContent = short(Number(v.toPrecision(6)));
    root.append(t);
  }
  for (const v of ticks(x0, x1, Math.max(4, Math.floor(width / 110)))) {
    const t = svg("text", {x: x(v), y: height - 8, "text-anchor": "middle"});
    t.textContent = short(Number(v.toPrecision(6)));
    root.append(t);
  }
  for (const v of marks)
    if (v > x0 && v < x1)
      root.append(svg("line", {x1: x(v), x2: x(v), y1: top, y2: height - bottom, class: "switch"}));
  for (const s of series) {
    root.append(svg("path", {d: path(s.points, x, y), class: s.className}));
    if (s.points.length === 1 && Number.isFinite(s.points[0][1]))
      root.append(svg("circle", {cx: x(s.points[0][0]), cy: y(s.points[0][1]), r: 3, class: "dot"}));
  }
  host.replaceChildren(root);
}

// The losses of all trials that did not diverge: one scale for their traces.
function traceRange(trials) {
  const losses = trials.filter((t) => t.label !== "diverged")
    .flatMap((t) => t.points.map((p) => number(p.loss))).filter(Number.isFinite);
  return losses.length > 0 ? range(losses) : null;
}

function sparkline(points, scale) {
  const data = points.map((p) => [number(p.seconds), number(p.loss)])
    .filter((p) => Number.isFinite(p[1]));
  const root = svg("svg", {viewBox: "0 0 90 24", "aria-hidden": "true"});
  if (data.length < 2) return root;
  const [x0, x1] = range(data.map((p) => p[0]));
  const [y0, y1] = scale || range(data.map((p) => p[1]));
  const inside = (v) => Math.min(1, Math.max(0, v));
  root.append(svg("path", {
    d: path(data, (v) => 2 + (v - x0) / (x1 - x0) * 86,
            (v) => 2 + inside((y1 - v) / (y1 - y0)) * 20),
    class: "series"}));
  return root;
}

// ---- parts of the page -----------------------------------------------------

const STATUS_CLASS = {
  waiting: "active", tuning: "active", training: "active", saving: "active",
  paused: "warn", interrupted: "warn", stopped: "warn", finished: "good", failed: "bad",
};
const LABEL_CLASS = {
  converging: "good", unstable: "warn", diverged: "bad", failed: "bad", stopped: "quiet",
};

function showRun(run) {
  const name = run.name || run.run;
  document.title = run.status + " · " + name + " · mltune";
  put("name", name);
  put("status", run.status);
  $("status").className = "chip " + (STATUS_CLASS[run.status] || "");
  put("status_reason", run.message ? "" : run.status_reason || "");
  $("notice").hidden = !run.message;
  put("notice", run.message || "");

  put("loss", short(run.loss));
  put("loss_note", run.best ? short(run.best.loss) + " in the best epoch, " + run.best.epoch : "");
  const metric = run.job && run.job.metric;
  put("metric_name", metric ? "validation " + metric.name : "metric");
  put("metric", metric && run.last_epoch ? short(run.last_epoch.metric) : "–");
  put("metric_note", metric && run.best ? "best " + short(run.best.metric) : "");
  put("epochs", String(run.epochs));
  put("clock", "clock " + short(run.clock));
  put("setting", settingText(run.setting));
  showTime(run);
}

function showTime(run) {
  const seconds = (Date.parse(run.updated_at) - Date.parse(run.first_clock_at)) / 1000;
  put("time", duration(seconds));
  put("tuning", run.tuning.trials + " trials, " + duration(number(run.tuning.seconds)) + " tuning");
}

function trialRow(t, scale) {
  const row = element("tr", undefined, winners.has(t.trial) ? "winner" : "");
  row.append(element("td", t.trial + (winners.has(t.trial) ? " ✓" : "") + (t.incumbent ? " (in use)" : "")));
  row.append(element("td", t.label, LABEL_CLASS[t.label]));
  row.append(element("td", settingText(t.setting), "setting"));
  row.append(element("td", short(t.speed), "number"));
  const trace = element("td");
  trace.append(sparkline(t.points, scale));
  row.append(trace);
  row.append(element("td", short(t.clocks), "number"));
  row.append(element("td", duration(number(t.seconds)), "number"));
  return row;
}

function showTrials(list) {
  const scale = traceRange(list.trials);
  $("trials").replaceChildren(...list.trials.map((t) => trialRow(t, scale)));
  put("trials_note", list.total > list.trials.length
    ? "the latest " + list.trials.length + " of " + list.total
    : list.total === 0 ? "no trial so far" : "");
}

function showDecisions(list) {
  $("decisions").replaceChildren(...list.decisions.map((d) => {
    const item = element("li");
    const when = element("time", d.at ? new Date(d.at).toLocaleTimeString() : "");
    if (d.at) when.dateTime = d.at;
    item.append(when, document.createTextNode(d.text));
    return item;
  }));
  if (list.decisions.length === 0)
    $("decisions").replaceChildren(element("li", "none so far", "quiet"));
}

function showSchedule(list) {
  const last = list.schedule[0];
  put("why", last && last.reason ? "since clock " + short(last.clock) + ": " + last.reason : "");
}

function showEpochs(run, list) {
  const metric = run.job && run.job.metric;
  $("metric_card").hidden = !metric || list.epochs.length === 0;
  if ($("metric_card").hidden) return;
  put("epoch_title", "validation " + metric.name + " by epoch");
  chart($("epoch_curve"), [{
    points: list.epochs.map((e) => [e.epoch, number(e.metric)]), className: "series"}],
    [], "validation " + metric.name + " by epoch", 150);
}

// While nothing is chosen yet, the trials of the search are what there is.
function showCurve(progress, schedule, trials) {
  if (progress && progress.points.length > 0) {
    // A setting was chosen at a global clock; the axis has those of the branch.
    const switches = schedule.schedule.map((c) => progress.points.find((p) => p.clock >= c.clock))
      .filter(Boolean).map((p) => p.branch_clock - p.clocks);
    put("curve_title", "training loss by clock of its branch" +
      (switches.some((x) => x > progress.points[0].branch_clock) ? "; dashed: another setting" : ""));
    chart($("curve"), [{
      points: progress.points.map((p) => [p.branch_clock, number(p.loss)]), className: "series"}],
      switches, "training loss", 250);
    return;
  }
  put("curve_title", "loss of the trials by seconds");
  chart($("curve"), trials.trials.map((t) => ({
    points: t.points.map((p) => [number(p.seconds), number(p.loss)]),
    className: t.label === "running" || winners.has(t.trial) ? "series" : "other"})),
    [], "loss of the trials", 250);
}

function showRuns(list) {
  const select = $("runs");
  select.hidden = list.runs.length < 2;
  select.replaceChildren(...list.runs.map((r) => {
    const option = element("option", (r.name || r.run) + " (" + r.status + ")");
    option.value = r.run;
    option.selected = r.run === shown;
    return option;
  }));
}

// ---- live ------------------------------------------------------------------

async function get(url) {
  const reply = await fetch(API + url, {headers: {accept: "application/json"}});
  if (!reply.ok) throw new Error(url + ": " + reply.status);
  return reply.json();
}

async function refresh() {
  const runs = await get("/runs?order=desc&page_size=100");
  if (runs.runs.length === 0) {
    put("name", "no run yet");
    put("status", "idle");
    return;
  }
  const wanted = location.hash.slice(1);
  const run = runs.runs.find((r) => r.run === wanted) || runs.runs[0];
  shown = run.run;
  const base = "/runs/" + encodeURIComponent(run.run);
  const [trials, searches, schedule, epochs, decisions] = await Promise.all([
    get(base + "/trials?order=desc&page_size=60"),
    get(base + "/searches?order=desc&page_size=50"),
    get(base + "/schedule?order=desc&page_size=50"),
    get(base + "/epochs?surviving=true&order=desc&page_size=1000"),
    get(base + "/decisions?order=desc&page_size=25"),
  ]);
  const progress = run.branch === null ? null
    : await get(base + "/branches/" + run.branch + "/progress?lineage=true&max_points=600");
  winners = new Set(searches.searches.map((s) => s.result && s.result.winner).filter(Boolean));
  showRuns(runs);
  showRun(run);
  showTrials(trials);
  showSchedule(schedule);
  showEpochs(run, epochs);
  showCurve(progress, schedule, trials);
  showDecisions(decisions);
}

function lost() {
  $("notice").hidden = false;
  put("notice", "No answer: the run has ended, or its machine cannot be reached. What is shown is the last that was known.");
  $("status").className = "chip warn";
}

// Draws what has changed, but not more often than once in PAUSE_MS.
let timer = null, drawing = false, again = false;

function soon(delay) {
  if (drawing) again = true;
  if (drawing || timer !== null || document.hidden) return;
  timer = setTimeout(draw, delay);
}

async function draw() {
  timer = null;
  drawing = true;
  again = false;
  try {
    await refresh();
    follow();
  } catch (error) {
    lost();
    setTimeout(() => soon(0), RETRY_MS);
  }
  drawing = false;
  if (again) soon(PAUSE_MS);
}

let source = null, followed = null;

// The run's live events say when to draw; where they fail for good (too many
// streams), asking again after a while does.
function follow() {
  if (shown === null) {
    setTimeout(() => soon(0), RETRY_MS);
    return;
  }
  if (source !== null && followed === shown && source.readyState !== EventSource.CLOSED) return;
  if (source !== null) source.close();
  followed = shown;
  source = new EventSource(API + "/runs/" + encodeURIComponent(shown) + "/events");
  for (const kind of KINDS) source.addEventListener(kind, () => soon(PAUSE_MS));
  source.addEventListener("dropped", () => { source.close(); soon(0); });
  source.addEventListener("open", () => soon(PAUSE_MS));
  source.addEventListener("error", () => {
    lost();
    if (source.readyState === EventSource.CLOSED) setTimeout(() => soon(0), RETRY_MS);
  });
}

document.addEventListener("visibilitychange", () => soon(0));
window.addEventListener("hashchange", () => soon(0));
$("runs").addEventListener("change", (event) => { location.hash = event.target.value; });
get("/version").then((v) => put("version", v.name + " " + v.version)).catch(() => {});
soon(0);
