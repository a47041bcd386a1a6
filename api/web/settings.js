// Settings: which values made trials fast. Parallel coordinates, slices,
// importance, contours, the history of the search.

import {contourMap, importanceBars} from "./contour.js";
import {get, runPath} from "./data.js";
import {marginal} from "./fanova.js";
import {axesOf, judgedOf, learnt} from "./learn.js";
import {parallel} from "./parallel.js";
import {plot} from "./plot.js";
import {scaleText} from "./space.js";
import {bestSoFar} from "./stats.js";
import {count, duration, el, number, put, short} from "./text.js";

const TRIALS = 2000;
const ENOUGH = 12; // trials, to tell what matters
const PLACES = 101; // of the line of a slice
const SAWTOOTH = 12; // searches whose best so far is drawn in one plot

// What the forest expects by one tunable, over all others: lines of a plot. A category
// has a short one at its place.
function expected(found, axis) {
  const d = found ? found.names.indexOf(axis.name) : -1;
  if (d < 0) return [];
  if (axis.kind === 0) {
    const x = Array.from({length: PLACES}, (_, i) => i / (PLACES - 1));
    return [{x, y: marginal(found.model, d, x)}];
  }
  const y = marginal(found.model, d, Array.from({length: axis.kind}, (_, i) => i)), half = 0.3 / Math.max(1, axis.kind - 1);
  return axis.ticks().map(([at], i) => ({x: [at - half, at + half], y: [y[i], y[i]]}));
}

// A plot of speed by value for each tunable.
function slicePlots(id) {
  const root = el("section.multiples"), shown = new Map();
  root.setAttribute("aria-label", "slices: speed by value");
  function one(rows, kept, axis, many, found) {
    const name = axis.name, height = (r) => many ? 100 * r.standing : r.speed, left = new Set(kept);
    const order = rows.filter((r) => (r.setting[name] ?? null) !== null)
      .sort((a, b) => axis.place(a.setting[name]) - axis.place(b.setting[name]));
    if (!shown.has(name)) {
      shown.set(name, plot({title: name, code: true, name: id + "-slice-" + name, xLabel: "", yLabel: "speed",
        height: 230, x: [], series: [], logAllowed: true}));
      root.append(shown.get(name).root);
    }
    const lines = many ? [] : expected(found, axis), room = axis.kind > 0 ? 0.4 / Math.max(1, axis.kind - 1) : 0.03;
    const part = (is) => order.map((r) => is(r) ? height(r) : null);
    shown.get(name).update({x: order.map((r) => axis.place(r.setting[name])), yLabel: many ? "faster than, %" : "speed",
      xRange: [-room, 1 + room], xTicks: axis.ticks, xLabel: scaleText(axis) ? name + " (" + scaleText(axis) + ")" : name,
      note: "blue: converging, grey: not" + (kept.length < rows.length ? "; pale: put aside above" : "") +
        (lines.length > 0 ? "; line: expected, over all else" : ""),
      bundles: [{colour: "warn", width: 1.5, alpha: 0.9, lines}],
      series: [{label: "put aside", values: part((r) => !left.has(r)), colour: "line", kind: "dots"},
        {label: "not converging", values: part((r) => left.has(r) && r.label !== "converging"), colour: "second", kind: "dots"},
        {label: "converging", values: part((r) => left.has(r) && r.label === "converging"), colour: "accent", kind: "dots", size: 6}],
      read: (k) => "trial " + order[k].trial + ": " + name + " " + short(order[k].setting[name]) +
        ", speed " + short(order[k].speed) + ", " + order[k].label,
      csv: () => [["trial", name, "speed", "label"],
        ...order.map((r) => [r.trial, r.setting[name], r.speed, r.label])]});
  }
  return {root,
    set(rows, kept, axes, many, found) {
      for (const [name, p] of shown) p.root.hidden = !axes.some((a) => a.name === name);
      for (const a of axes) one(rows, kept, a, many, found);
    },
    destroy() { for (const p of shown.values()) p.destroy(); }};
}

function historyPlot(id) {
  const past = plot({title: "history of the search", name: id + "-history", xLabel: "trial", xWhole: true,
    yLabel: "speed", height: 240, x: [], series: [], logAllowed: true});
  return {...past, set(rows) {
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
  }};
}

export function settingsTab(id) {
  const note = el("p.quiet", "loading"), choose = el("select");
  let last = null; // what is shown: {judged, axes, many, found}
  const slices = slicePlots(id), past = historyPlot(id), share = importanceBars(id), map = contourMap(id);
  const lines = parallel(id, (kept) => {
    if (last) slices.set(last.judged, kept, last.axes, last.many, last.found);
  });
  const slow = el("p.legend.quiet", "slow", el("i.swatch.ramp"), "fast");
  lines.readout.before(slow);
  const parts = el("div.stacked", lines.root, el("div.pair", share.root, map.root), slices.root, past.root);
  const root = el("div.stacked", el("div.head", note, el("div.tools", el("label", "search ", choose))), parts);
  let again = () => {}, learned = "", found = null;
  // One search: what later ones say is of another state (stats.js).
  choose.append(el("option", "1"), el("option", "all"));
  choose.addEventListener("change", () => again());

  function offer(searches) {
    for (let n = choose.options.length; n <= searches; n++) choose.lastChild.before(el("option", String(n)));
  }
  // The forest is grown again only where it has something new to learn.
  function learn(judged, axes) {
    // The fastest that were added would distort what the even sample says.
    const even = judged.filter((r) => r.sampled), now = JSON.stringify([axes.map((a) => [a.name, a.kind, a.ends]),
      even.map((r) => [r.trial, r.label, r.speed])]);
    if (now !== learned) { learned = now; found = learnt(even, axes); }
    const few = found.rows < ENOUGH ? "too few trials to tell: " + found.rows + ", " + ENOUGH + " are needed"
      : found.shares.length === 0 ? "all trials were equally fast" : "";
    share.set(found, few);
    const strongest = found.names.map((name, i) => [name, found.shares[i]?.mean ?? 0]).sort((a, b) => b[1] - a[1]);
    map.set(found.axes, judged.filter((r) => r.search === found.search && found.names.every((n) => (r.setting[n] ?? null) !== null)),
      few ? null : found.model, strongest.map(([name]) => name));
    return few ? null : found;
  }
  async function refresh(run) {
    again = () => refresh(run);
    offer(run.tuning.searches);
    const search = choose.value === "all" ? undefined : choose.value;
    const [survey, {searches}] = run.tuning.searches === 0 ? [{total: 0, rows: 0, columns: {}, tunables: {}}, {searches: []}]
      : await Promise.all([get(runPath(id, "/survey"), {max_trials: TRIALS, search}),
        get(runPath(id, "/searches"), {page_size: 1000})]);
    const judged = judgedOf(survey);
    put(note, survey.total === 0 ? "no trial so far: this view says what made trials fast once there are some"
      : count(judged.length, "trial") + " judged of " + short(survey.total) + (survey.rows < survey.total
        ? "; shown: " + short(survey.rows) + ", evenly spread, with the fastest of each stretch" : ""));
    parts.hidden = judged.length === 0;
    if (judged.length === 0) return;
    const specs = (searches.find((s) => String(s.search) === search) || searches[0] || {}).tunables || {};
    const axes = axesOf(judged, specs);
    const many = new Set(judged.map((r) => r.search)).size > 1;
    last = {judged, axes, many, found: learn(judged, axes)};
    lines.set(judged, axes, many); // which sets the slices
    past.set(judged);
  }
  return {root, refresh,
    destroy() { for (const part of [lines, share, map, slices, past]) part.destroy(); }};
}
