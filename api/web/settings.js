// Settings: which values made trials fast. Parallel coordinates, slices,
// importance, the history of the search.

import {drawing} from "./canvas.js";
import {get, runPath} from "./data.js";
import {plot} from "./plot.js";
import {bestSoFar, importanceWithin, logarithmic} from "./stats.js";
import {count, duration, el, number, put, settingText, short} from "./text.js";

const TRIALS = 2000;
const ENOUGH = 12; // trials, to tell what matters
const SAWTOOTH = 12; // searches whose best so far is drawn in one plot

// An axis of one tunable: place of a value, 0 .. 1, and its labels.
function axisOf(name, values) {
  const numbers = values.filter((v) => v !== null);
  if (!numbers.every((v) => typeof v === "number")) {
    const distinct = [...new Set(numbers.map(String))].sort();
    return {name, log: false, place: (v) => distinct.length < 2 ? 0.5
      : distinct.indexOf(String(v)) / (distinct.length - 1),
    ends: [distinct[0] ?? "", distinct.at(-1) ?? ""]};
  }
  const log = logarithmic(numbers), f = log ? Math.log : (v) => v;
  const low = Math.min(...numbers), high = Math.max(...numbers);
  return {name, log, place: (v) => high > low ? (f(v) - f(low)) / (f(high) - f(low)) : 0.5,
    ends: [short(low, 3), short(high, 3)]};
}

// From slow to fast: a colour between the two, which are "rgb(r, g, b)".
function mix(a, b, t) {
  const [from, to] = [a, b].map((c) => c.match(/[\d.]+/g).map(Number));
  return "rgb(" + [0, 1, 2].map((i) => Math.round(from[i] + t * (to[i] - from[i]))).join(" ") + ")";
}

function parallel(id) {
  let rows = [], axes = [], order = [], chosen = -1;
  const frame = drawing({
    title: "parallel coordinates", name: id + "-settings",
    label: "Parallel coordinates of the trials' settings. Arrow keys go from the fastest trial to slower ones.",
    height: () => 300, draw,
    pick(x, y, clicked) {
      if (rows.length === 0) return undefined;
      if (!clicked) return undefined;
      const {px, py} = places(frame.canvas.clientWidth);
      let best = -1, near = 14;
      rows.forEach((r, i) => axes.forEach((a, k) => {
        const d = Math.hypot(px(k) - x, py(a.place(a.of(r))) - y);
        if (d < near) { near = d; best = i; }
      }));
      chosen = best;
      requestAnimationFrame(() => frame.draw());
      return best < 0 ? "" : describe(rows[best]);
    },
    key(e) {
      const step = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[e.key];
      if (step === undefined || rows.length === 0) return undefined;
      const at = order.indexOf(chosen);
      chosen = order[Math.max(0, Math.min(order.length - 1, at + step))];
      frame.draw();
      return describe(rows[chosen]);
    },
    csv: () => [["trial", "search", "label", ...axes.slice(0, -1).map((a) => a.name), "speed"],
      ...rows.map((r) => [r.trial, r.search, r.label, ...axes.slice(0, -1).map((a) => a.of(r)), r.speed])],
  });
  const describe = (r) => "trial " + r.trial + ", " + r.label + ": " + settingText(r.setting) +
    "; speed " + short(r.speed) + ", faster than " + Math.round(100 * r.standing) + " % of search " + r.search;
  function places(width) {
    const left = 46, right = width - 46;
    return {px: (k) => axes.length < 2 ? width / 2 : left + (right - left) * k / (axes.length - 1),
      py: (v) => 262 - 216 * v};
  }
  function line(ctx, r, px, py) {
    ctx.beginPath();
    axes.forEach((a, k) => {
      const v = a.of(r);
      if (v === null || v === undefined) return;
      ctx.lineTo(px(k), py(a.place(v)));
    });
    ctx.stroke();
  }
  function draw(ctx, width, height, c) {
    const {px, py} = places(width);
    const alpha = Math.max(0.08, Math.min(0.9, 60 / Math.max(1, rows.length)));
    // The fastest last, so that they lie on top.
    [...order].reverse().forEach((i, k) => {
      const part = order.length > 1 ? k / (order.length - 1) : 1;
      ctx.strokeStyle = mix(c.second, c.accent, part ** 2);
      ctx.globalAlpha = rows[i].label === "diverged" ? alpha / 2 : alpha + (part > 0.95 ? 0.3 : 0);
      ctx.lineWidth = part > 0.95 ? 1.6 : 1;
      line(ctx, rows[i], px, py);
    });
    ctx.globalAlpha = 1;
    if (rows[chosen]) {
      ctx.strokeStyle = c.warn;
      ctx.lineWidth = 3;
      line(ctx, rows[chosen], px, py);
    }
    ctx.lineWidth = 1;
    axes.forEach((a, k) => {
      const x = px(k), edge = k === 0 ? "left" : k === axes.length - 1 ? "right" : "center";
      const at = k === 0 ? 4 : k === axes.length - 1 ? width - 4 : x;
      ctx.strokeStyle = c.quiet;
      ctx.beginPath();
      ctx.moveTo(x, py(0));
      ctx.lineTo(x, py(1));
      ctx.stroke();
      ctx.textAlign = edge;
      ctx.fillStyle = c.ink;
      const room = (width - 20) / axes.length;
      ctx.fillText(fit(ctx, a.name, room), at, 14 + (width < 520 && k % 2 ? 13 : 0));
      ctx.fillStyle = c.quiet;
      ctx.fillText(a.ends[1], at, 41);
      ctx.fillText(a.ends[0] + (a.log ? " (log)" : ""), at, 280);
    });
  }
  function fit(ctx, text, room) {
    if (ctx.measureText(text).width <= room * 1.9) return text;
    while (text.length > 2 && ctx.measureText(text + "…").width > room * 1.9) text = text.slice(0, -1);
    return text + "…";
  }
  function set(judged, names, many) {
    const trial = rows[chosen] && rows[chosen].trial;
    rows = judged;
    axes = names.map((name) => ({...axisOf(name, rows.map((r) => r.setting[name] ?? null)),
      of: (r) => r.setting[name] ?? null}));
    axes.push(many
      ? {name: "standing", log: false, ends: ["slowest", "fastest"], place: (v) => v, of: (r) => r.standing}
      : {...axisOf("speed", rows.map((r) => r.speed)), of: (r) => r.speed});
    order = rows.map((r, i) => i).sort((a, b) => rows[b].standing - rows[a].standing);
    chosen = rows.findIndex((r) => r.trial === trial);
    frame.draw();
    if (chosen < 0) put(frame.readout, "a line a trial; the fastest are strongest" + (many
      ? "; standing: the part of its search's trials that are slower" : "") + ". Click near a line to read it.");
  }
  return {...frame, set};
}

function bars(id) {
  let shares = [];
  const frame = drawing({
    title: "importance", name: id + "-importance",
    label: "Importance of each tunable for the speed of trials",
    height: () => Math.max(1, shares.length) * 28 + 8,
    draw(ctx, width, height, c) {
      ctx.textBaseline = "middle";
      const left = Math.min(150, width * 0.4);
      shares.forEach(([name, share], i) => {
        const y = 8 + i * 28 + 10;
        ctx.fillStyle = c.ink;
        ctx.textAlign = "right";
        ctx.fillText(name, left - 8, y);
        ctx.fillStyle = c.accent;
        const long = Math.max(1, (width - left - 60) * share);
        ctx.fillRect(left, y - 8, long, 16);
        ctx.fillStyle = c.quiet;
        ctx.textAlign = "left";
        ctx.fillText(Math.round(share * 100) + " %", left + long + 6, y);
      });
    },
    csv: () => [["tunable", "share of variance"], ...shares],
  });
  return {...frame, set(found) {
    shares = found.rows < ENOUGH ? [] : found.shares;
    frame.draw();
    put(frame.readout, found.rows < ENOUGH ? "too few trials to tell: " + found.rows + ", " + ENOUGH + " are needed"
      : "share of the variance of the trials' standing in search " + found.search + " that a tunable alone " +
        "accounts for, chance taken out, from " + count(found.rows, "trial") +
        "; what only acts together with another is not in it");
  }};
}

// A plot of speed by value for each tunable.
function slicePlots(id) {
  const root = el("section.multiples"), shown = new Map();
  root.setAttribute("aria-label", "slices: speed by value");
  function one(rows, name, many) {
    const height = (r) => many ? 100 * r.standing : r.speed;
    const values = rows.map((r) => r.setting[name] ?? null);
    const texts = values.some((v) => v !== null && typeof v !== "number")
      ? [...new Set(values.filter((v) => v !== null).map(String))].sort() : null;
    const log = !texts && logarithmic(values.filter((v) => v !== null));
    const place = (v) => texts ? texts.indexOf(String(v)) : log ? Math.log10(v) : v;
    const order = rows.map((r, i) => i).filter((i) => values[i] !== null)
      .sort((a, b) => place(values[a]) - place(values[b]));
    const label = (v) => texts ? texts[v] ?? "" : short(log ? Number((10 ** v).toPrecision(3)) : v, 4);
    if (!shown.has(name)) {
      shown.set(name, plot({title: name, name: id + "-slice-" + name, xLabel: "", yLabel: "speed",
        height: 210, x: [], series: [], logAllowed: true,
        xWhole: texts !== null, xValues: (u, ticks) => ticks.map(label)}));
      root.append(shown.get(name).root);
    }
    const fast = order.map((i) => rows[i].label === "converging" ? height(rows[i]) : null);
    const rest = order.map((i) => rows[i].label === "converging" ? null : height(rows[i]));
    const x = order.map((i) => place(values[i])), wide = x.at(-1) - x[0] || 1;
    shown.get(name).update({x, yLabel: many ? "faster than, %" : "speed", xRange: [x[0] - wide * 0.04, x.at(-1) + wide * 0.04],
      note: (log ? "logarithmic; " : "") + "blue: converging, grey: not",
      series: [{label: "not converging", values: rest, colour: "second", kind: "dots"},
        {label: "converging", values: fast, colour: "accent", kind: "dots", size: 6}],
      read: (k) => "trial " + rows[order[k]].trial + ": " + name + " " + short(values[order[k]]) +
        ", speed " + short(rows[order[k]].speed) + ", " + rows[order[k]].label,
      csv: () => [["trial", name, "speed", "label"],
        ...order.map((i) => [rows[i].trial, values[i], rows[i].speed, rows[i].label])]});
  }
  return {root, set(rows, names, many) { for (const n of names) one(rows, n, many); },
    destroy() { for (const p of shown.values()) p.destroy(); }};
}

export function settingsTab(id) {
  const note = el("p.quiet", "loading"), choose = el("select");
  const lines = parallel(id), share = bars(id), slices = slicePlots(id);
  const past = plot({title: "history of the search", name: id + "-history", xLabel: "trial",
    yLabel: "speed", height: 240, x: [], series: [], logAllowed: true});
  const head = el("div.head", note, el("div.tools", el("label", "search ", choose)));
  const root = el("div.stacked", head, lines.root, el("div.pair", share.root, past.root), slices.root);
  let again = () => {};
  choose.append(el("option", "all"));
  choose.addEventListener("change", () => again());

  function history(rows) {
    const line = new Set(rows.map((r) => r.search)).size <= SAWTOOTH;
    past.update({x: rows.map((r) => r.trial), note: "dots: trials; " + (line
      ? "line: the fastest so far, anew in each search" : "choose one search to see the fastest so far"),
      series: [...!line ? [] : [{label: "best so far", values: bestSoFar(rows.map((r) => r.speed), rows.map((r) => r.search)),
        colour: "good", kind: "steps", points: false}],
      {label: "speed", values: rows.map((r) => r.speed), colour: "accent", kind: "dots"}],
      csv: () => [["trial", "search", "speed", "label", "seconds"],
        ...rows.map((r) => [r.trial, r.search, r.speed, r.label, r.seconds])],
      read: (i) => "trial " + rows[i].trial + " of search " + rows[i].search + ": speed " +
        short(rows[i].speed) + ", " + rows[i].label + ", " + duration(number(rows[i].seconds))});
  }
  function offer(searches) {
    for (let n = choose.options.length; n <= searches; n++) choose.append(el("option", String(n)));
  }
  async function refresh(run) {
    again = () => refresh(run);
    offer(run.tuning.searches);
    const search = choose.value === "all" ? undefined : choose.value;
    const survey = await get(runPath(id, "/survey"), {max_trials: TRIALS, search});
    const c = survey.columns, names = Object.keys(survey.tunables);
    const all = Array.from({length: survey.rows}, (_, i) => ({
      trial: c.trial[i], search: c.search[i], label: c.label[i], sampled: c.sampled[i],
      standing: c.standing[i], speed: number(c.speed[i]), seconds: c.seconds[i],
      setting: Object.fromEntries(names.map((n) => [n, survey.tunables[n][i]]))}));
    const judged = all.filter((r) => r.standing !== null && Number.isFinite(r.speed));
    // Only what can differ is worth an axis.
    const free = names.filter((n) => new Set(judged.map((r) => r.setting[n])).size > 1);
    put(note, survey.total === 0 ? "no trial so far" : count(judged.length, "trial") + " judged of " +
      short(survey.total) + (survey.rows < survey.total
      ? "; shown: " + short(survey.rows) + ", evenly spread, with the fastest of each stretch" : ""));
    if (judged.length === 0) return;
    const many = new Set(judged.map((r) => r.search)).size > 1;
    lines.set(judged, free, many);
    // The fastest that were added would distort what the even sample says.
    const even = judged.filter((r) => r.sampled);
    share.set(importanceWithin(even, free));
    history(judged);
    slices.set(judged, free, many);
  }
  return {root, refresh,
    destroy() { lines.destroy(); share.destroy(); slices.destroy(); past.destroy(); }};
}
