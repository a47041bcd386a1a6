// Runs beside each other: loss and validation of each surviving lineage, what
// was found and what it cost.

import {colours, DASHES, onTheme} from "./canvas.js";
import {get, runPath} from "./data.js";
import {plot} from "./plot.js";
import {tuningCost} from "./runs.js";
import {logarithmic, smooth} from "./stats.js";
import {button, chip, duration, el, ENDED, link, number, put, runHref, runSeconds, settingText,
  short} from "./text.js";

const RUNS = 6;
const EPOCHS = 1000; // whose validation is drawn: the latest
const REACH = 0.01;  // of a run, that its line is smoothed over

// Curves with axes of their own on one: at each x of any, the value of the one
// that has it there.
export function merged(curves) {
  const x = [...new Set(curves.flatMap((c) => c.x))].sort((a, b) => a - b);
  const at = new Map(x.map((v, i) => [v, i]));
  return {x, values: curves.map((c) => {
    const out = new Array(x.length).fill(null);
    c.x.forEach((v, i) => { out[at.get(v)] = c.y[i]; });
    return out;
  })};
}

export function compareView({id, crumbs}) {
  const ids = [...new Set(id.split(",").filter(Boolean))].slice(0, RUNS);
  let axis = "seconds", data = [];
  const toggle = button("by clock", () => {
    axis = axis === "seconds" ? "clock" : "seconds";
    put(toggle, axis === "seconds" ? "by clock" : "by time");
    loss.whole();
    draw();
  }, "small");
  const loss = plot({title: "training loss of what survived", name: "compare-loss", xLabel: "seconds",
    yLabel: "loss", height: 340, x: [], series: [], logAllowed: true,
    logWhen: () => logarithmic(data.flatMap((d) => d.curve.lineage.loss.map(number).filter(Number.isFinite)))},
  toggle);
  const metric = plot({title: "validation by epoch", name: "compare-validation", xLabel: "epoch",
    yLabel: "", height: 240, xWhole: true, x: [], series: []});
  const head = el("tr"), body = el("tbody");
  const table = el("section.card", el("div.head", el("h2", "figures")),
    el("div.scroll", el("table.beside-runs", el("thead", head), body)));
  const legend = el("p.legend");
  const root = el("div.stacked", el("h1", "compare"), legend, loss.root, metric.root, table);
  metric.root.hidden = true;
  crumbs("compare", link("runs", "#/"), el("span", "compare"));

  const name = (run) => run.name && data.filter((d) => d.run.name === run.name).length === 1
    ? run.name : run.run;
  const even = (x, y) => smooth(x, y.map(number), REACH * (x.at(-1) - x[0]));
  const look = (i) => ({colour: "run" + i, dash: DASHES[i], points: false});

  function draw() {
    const lines = merged(data.map((d) => ({x: d.curve.lineage[axis], y: even(d.curve.lineage[axis], d.curve.lineage.loss)})));
    loss.update({x: lines.x, xLabel: axis === "seconds" ? "seconds since the start" : "clock",
      note: "each line is smoothed over a hundredth of its run; the CSV has the points",
      series: data.map((d, i) => ({label: name(d.run), values: lines.values[i], ...look(i)})),
      csv: () => [["run", "branch", "clock", "seconds", "loss"], ...data.flatMap((d) =>
        d.curve.lineage.clock.map((c, i) => [d.run.run, d.curve.lineage.branch[i], c,
          d.curve.lineage.seconds[i], d.curve.lineage.loss[i]]))]});
    const names = new Set(data.map((d) => d.run.job && d.run.job.metric && d.run.job.metric.name));
    const [what] = names;
    metric.root.hidden = names.size !== 1 || !what;
    if (metric.root.hidden) return;
    const epochs = merged(data.map((d) => ({x: d.epochs.map((e) => e.epoch),
      y: d.epochs.map((e) => number(e.metric))})));
    metric.update({title: "validation " + what + " by epoch", yLabel: what, x: epochs.x,
      note: data.some((d) => d.older) ? "of a run with more epochs, the latest " + short(EPOCHS) : "",
      series: data.map((d, i) => ({label: name(d.run), values: epochs.values[i], ...look(i)}))});
  }
  // The line that a run is drawn with.
  function key(i) {
    const canvas = el("canvas.key"), ctx = canvas.getContext("2d");
    canvas.width = 56;
    canvas.height = 16;
    ctx.strokeStyle = colours()["run" + i];
    ctx.lineWidth = 5;
    ctx.setLineDash(DASHES[i].map((d) => d * 2));
    ctx.beginPath();
    ctx.moveTo(0, 8);
    ctx.lineTo(56, 8);
    ctx.stroke();
    canvas.setAttribute("aria-hidden", "true");
    return canvas;
  }
  function figures() {
    const best = (r) => r.best ? short(r.best.loss) + " (epoch " + r.best.epoch + ")" : "–";
    const rows = [
      ["state", (r) => chip(r.status)],
      ["why it ended", (r) => r.reason ? r.reason.replaceAll("_", " ") : "–"],
      ["loss", (r) => short(r.loss)],
      ["loss in the best epoch", best],
      ["best validation", (r) => r.best && r.best.metric !== null
        ? r.job.metric.name + " " + short(r.best.metric) : "–"],
      ["epochs", (r) => short(r.epochs)],
      ["time", (r) => duration(runSeconds(r))],
      ["tuning", tuningCost],
      ["trials, searches", (r) => short(r.tuning.trials) + ", " + short(r.tuning.searches)],
      ["strategy, searcher", (r) => (r.tuning.strategy || "–") + ", " + (r.tuning.searcher || "–")],
      ["seed", (r) => short(r.seed)],
      ["setting in use", (r) => settingText(r.setting)],
    ];
    legend.replaceChildren(...data.map((d, i) => el("span", key(i), " ", name(d.run))));
    head.replaceChildren(el("th", ""), ...data.map((d, i) => el("th", key(i),
      link(name(d.run), runHref(d.run.run)))));
    body.replaceChildren(...rows.map(([label, of]) => {
      const th = el("th", label);
      th.scope = "row";
      return el("tr", th, ...data.map((d) => el(label === "setting in use" ? "td.setting" : "td", of(d.run))));
    }));
  }
  async function refresh() {
    data = await Promise.all(ids.map(async (run) => {
      const [state, curve, epochs] = await Promise.all([get(runPath(run)),
        get(runPath(run, "/curve"), {spans: 400}),
        get(runPath(run, "/epochs"), {surviving: true, order: "desc", page_size: EPOCHS})]);
      return {run: state, curve, epochs: epochs.epochs.reverse(), older: epochs.next_page_token !== null};
    }));
    draw();
    figures();
    return !data.every((d) => ENDED.has(d.run.status));
  }
  const off = onTheme(() => figures()); // the lines beside the names have the scheme's colours
  return {root, run: null, refresh, destroy() { off(); loss.destroy(); metric.destroy(); }};
}
