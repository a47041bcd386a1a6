// Trials: which settings were tried, the trace each was judged by, the verdict.

import {get, runPath} from "./data.js";
import {needs} from "./me.js";
import {plot} from "./plot.js";
import {suggest, takesSuggestions} from "./suggest.js";
import {tookText, verdict} from "./verdict.js";
import {button, count, duration, el, LABEL_CLASS, number, put, settingText, short} from "./text.js";

const PAGE = 50;
const COLUMNS = ["trial", "search", "verdict", "setting", "speed", "trace", "clocks", "time"];
const BY_SPEED = new Set(["mltuner", "fixed"]); // strategies; contests compare what epochs end with

// The name of what decides between trials instead of speed, their `result`; null: speed does.
function decides(run) {
  if (!run || BY_SPEED.has(run.tuning.strategy)) return null;
  return run.job && run.job.metric ? run.job.metric.name : "loss";
}

// The trace as a line of 90 x 24; decoration, its numbers are in the detail.
function sparkline(points, range) {
  const canvas = el("canvas.spark"), scale = devicePixelRatio || 1;
  canvas.width = 90 * scale;
  canvas.height = 24 * scale;
  canvas.setAttribute("aria-hidden", "true");
  const ctx = canvas.getContext("2d");
  const t = points.map((p) => number(p.seconds)), v = points.map((p) => number(p.loss));
  const last = t.at(-1);
  ctx.scale(scale, scale);
  ctx.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  let pen = false;
  v.forEach((y, i) => {
    if (!Number.isFinite(y)) { pen = false; return; }
    const part = (y - range[0]) / (range[1] - range[0] || 1);
    const px = 2 + 86 * (last > 0 ? t[i] / last : 0);
    const py = 22 - 20 * Math.min(1, Math.max(0, part));
    if (pen) ctx.lineTo(px, py);
    else ctx.moveTo(px, py);
    pen = true;
  });
  ctx.stroke();
  return canvas;
}

// One scale for the traces that did not diverge; what leaps out of it is cut, or
// all others would be flat.
function traceRange(trials) {
  const values = trials.filter((t) => t.label !== "diverged")
    .flatMap((t) => t.points.map((p) => number(p.loss))).filter(Number.isFinite).sort((a, b) => a - b);
  return values.length > 0 ? [values[0], values[Math.floor((values.length - 1) * 0.95)]] : [0, 1];
}

function tracePlot(id) {
  const frame = plot({title: "trace", name: id + "-trial", xLabel: "seconds of its own",
    yLabel: "loss", height: 240, x: [], series: [], logAllowed: true,
    empty: "choose a trial below"});
  const text = el("p"), setting = el("p.setting");
  frame.body.after(setting, text);
  function show(t) {
    const x = t.points.map((p) => number(p.seconds)), y = t.points.map((p) => number(p.loss));
    const noise = number(t.noise), spread = 2 * number(t.window_noise);
    const band = Math.max(Number.isFinite(noise) ? noise : 0, Number.isFinite(spread) ? spread : 0);
    const line = x.map((v) => y[0] + (y.at(-1) - y[0]) * (x.at(-1) > 0 ? v / x.at(-1) : 0));
    frame.update({title: "trial " + t.trial + " of search " + t.search + ": loss by window",
      x, note: "shaded: noise, the larger of the largest rise between windows and two standard " +
        "deviations of a window's mean; dashed: from first to last",
      series: [
        {label: "upper", values: y.map((v) => v + band), colour: "line", width: 1, points: false},
        {label: "lower", values: y.map((v) => v - band), colour: "line", width: 1, points: false},
        {label: "first to last", values: line, colour: "warn", width: 1, dash: [5, 5], points: false},
        {label: "loss", values: y, colour: "accent", points: true, size: 7},
      ],
      bands: [{series: [1, 2], colour: "faint"}],
      read: (i) => (i === 0 ? "before the trial" : "window " + i + ", " + duration(x[i])) +
        ": loss " + short(y[i], 6),
      csv: () => [["window", "seconds", "loss", "noise"],
        ...x.map((v, i) => [i, v, y[i], noise])]});
    put(setting, settingText(t.setting));
    put(text, verdict(t));
  }
  return {...frame, show};
}

export function trialsTab(id, {now, said, failed}) {
  const trace = tracePlot(id), body = el("tbody"), note = el("p.quiet", "loading");
  const choose = el("select"), older = button("older", () => { pages++; now(); }, "small");
  const heads = COLUMNS.map((c) => el("th", c));
  const table = el("table.stack", el("thead", el("tr", ...heads)), body);
  const label = el("label", "search ", choose);
  const propose = needs(button("suggest a setting", () => suggest(id, said).catch((error) => failed(error.message)), "small"),
    "run");
  propose.hidden = true; // until it is known whether it searches
  const root = el("div.stacked", trace.root, el("section.card",
    el("div.head", el("h2", "trials"), el("div.tools", propose, label)), el("div.scroll", table), note, older));
  let chosen = null, pages = 1, follows = true, drawn = "", by = null;
  choose.addEventListener("change", () => { pages = 1; drawn = ""; now(); });

  function row(t, range, winners) {
    const won = winners.has(t.trial);
    const pick = button(t.trial + (won ? " ✓" : "") + (t.incumbent ? " (in use)" : ""), () => {
      chosen = t.trial;
      follows = false;
      mark();
      trace.show(t);
      trace.root.scrollIntoView({block: "nearest"});
    }, "link");
    pick.setAttribute("aria-label", "show trial " + t.trial + (won ? ", winner of its search" : ""));
    const verdictCell = el("span", t.label);
    if (LABEL_CLASS[t.label]) verdictCell.className = LABEL_CLASS[t.label];
    const tried = el("span", settingText(t.setting));
    if (t.label === "failed" && t.reason) tried.append(el("div.bad", t.reason));
    const cells = [pick, short(t.search), verdictCell, tried, short(by ? t.result : t.speed),
      sparkline(t.points, range), short(t.clocks), tookText(t)];
    const tr = el("tr" + (won ? ".winner" : ""), ...cells.map((c, i) => {
      const td = el("td", c);
      td.dataset.label = heads[i].textContent;
      if (i === 3) td.className = "setting";
      if (i === 4 || i > 5) td.className = "number";
      td.classList.toggle("wide", i === 1 || i === 6);
      return td;
    }));
    tr.dataset.trial = t.trial;
    return tr;
  }
  function mark() {
    for (const tr of body.children)
      tr.classList.toggle("chosen", Number(tr.dataset.trial) === chosen);
  }
  function offer(searches) {
    const had = choose.value;
    const texts = ["all", ...searches.map((s) => String(s.search))];
    if ([...choose.options].map((o) => o.value).join() === texts.join()) return;
    choose.replaceChildren(...texts.map((t) => {
      const o = el("option", t);
      o.value = t;
      return o;
    }));
    if (texts.includes(had)) choose.value = had;
  }
  // Rows are made anew only where something in them has changed, so that what
  // has the focus keeps it.
  function draw(trials, winners) {
    const range = traceRange(trials);
    const now_ = JSON.stringify([range, [...winners], trials.map((t) => [t.trial, t.label, t.clocks, t.result]), by]);
    if (now_ === drawn) return;
    drawn = now_;
    const focused = document.activeElement && document.activeElement.closest("tr");
    const at = focused && body.contains(focused) ? focused.dataset.trial : null;
    body.replaceChildren(...trials.map((t) => row(t, range, winners)));
    if (at) body.querySelector("tr[data-trial='" + at + "'] button")?.focus();
    mark();
  }
  async function refresh(run) {
    if (run) propose.hidden = !takesSuggestions(run);
    const base = runPath(id), search = choose.value === "all" || !choose.value ? undefined : choose.value;
    const searches = await get(base + "/searches", {order: "desc", page_size: 1000});
    const trials = [];
    let token, total = 0;
    while (trials.length < pages * PAGE && token !== null) {
      const list = await get(base + "/trials", {order: "desc", search, page_token: token,
        page_size: search ? 1000 : PAGE});
      trials.push(...list.trials);
      token = list.next_page_token;
      total = list.total;
    }
    offer(searches.searches);
    by = decides(run);
    put(heads[4], by || "speed");
    heads[4].title = by ? "when it was tested last, which decides here; the speed of its trace does not" : "";
    draw(trials, new Set(searches.searches.map((s) => s.result && s.result.winner).filter(Boolean)));
    older.hidden = token === null;
    put(note, total === 0 ? "no trial so far" : token === null ? count(trials.length, "trial")
      : "the latest " + trials.length + " of " + short(total));
    if (follows && trials.length > 0) chosen = (trials.find((t) => t.points.length > 1) || trials[0]).trial;
    const t = trials.find((k) => k.trial === chosen);
    if (t) trace.show(t);
    mark();
  }
  return {root, refresh, destroy() { trace.destroy(); }};
}
