// Further metrics of a run: a plot of each that is chosen, over the clocks of
// the lineage, and beside it by epoch where the validation has it.

import {get, runPath} from "./data.js";
import {plot} from "./plot.js";
import {button, count, el, number, short} from "./text.js";

const SHOWN = 2; // that are chosen at first

function clockPlot(id, name) {
  return plot({title: name, code: true, name: id + "-" + name.replaceAll("/", "-"), xLabel: "clock", yLabel: "",
    height: 200, logAllowed: true, x: [], series: []});
}

function epochPlot(id, name) {
  return plot({title: name + ", validation", code: true, name: id + "-epochs-" + name.replaceAll("/", "-"),
    xLabel: "epoch", yLabel: "", height: 200, xWhole: true, x: [], series: []});
}

export function metricsPart(id, redo) {
  const chosen = new Set(), known = [], plots = new Map();
  const choice = el("div.choices"), list = el("section.multiples");
  const root = el("div.stacked", el("section.card", el("div.head", el("h2", "further metrics"), choice)), list);
  choice.setAttribute("role", "group");
  choice.setAttribute("aria-label", "further metrics that are drawn");
  list.setAttribute("aria-label", "further metrics");
  root.hidden = true;

  function offer(name) {
    known.push(name);
    if (known.length <= SHOWN) chosen.add(name);
    const toggle = button(name, () => {
      if (!chosen.delete(name)) chosen.add(name);
      toggle.setAttribute("aria-pressed", String(chosen.has(name)));
      redo();
    }, "small");
    toggle.setAttribute("aria-pressed", String(chosen.has(name)));
    choice.append(toggle);
  }
  function plotOf(key, make) {
    if (!plots.has(key)) {
      plots.set(key, make());
      list.append(plots.get(key).root);
    }
    return plots.get(key);
  }
  function drop(key) {
    if (!plots.has(key)) return;
    plots.get(key).root.remove();
    plots.get(key).destroy();
    plots.delete(key);
  }
  function drawClocks(name, curve, clock) {
    const a = curve.lineage;
    if (a.clock.length === 0) return drop("clock " + name);
    plotOf("clock " + name, () => clockPlot(id, name)).update({
      x: a.clock, xRange: [0, Math.max(1, clock)],
      series: [{label: name, values: a.value, colour: "accent", points: a.clock.length < 2}],
      note: "now " + short(a.value.at(-1)) + "; " + count(a.points, "point") + " of the surviving lineage",
      read: (i) => "clock " + short(a.clock[i], 6) + ": " + short(a.value[i]) + " in branch " + a.branch[i],
      csv: () => [["branch", "clock", "seconds", name],
        ...a.clock.map((c, i) => [a.branch[i], c, a.seconds[i], a.value[i]])],
    });
  }
  function drawEpochs(name, epochs) {
    const of = epochs.filter((e) => e.values && Number.isFinite(number(e.values[name])));
    if (of.length === 0) return drop("epoch " + name);
    plotOf("epoch " + name, () => epochPlot(id, name)).update({
      x: of.map((e) => e.epoch), note: "last " + short(of.at(-1).values[name]),
      series: [{label: name, values: of.map((e) => e.values[name]), colour: "accent", points: of.length < 60}],
      csv: () => [["epoch", name], ...of.map((e) => [e.epoch, e.values[name]])],
    });
  }
  async function refresh(run, epochs) {
    const names = (run.values || []).map((v) => v.name);
    root.hidden = names.length === 0;
    for (const name of names) if (!known.includes(name)) offer(name);
    for (const name of known)
      if (!chosen.has(name)) for (const kind of ["clock ", "epoch "]) drop(kind + name);
    for (const name of chosen) {
      drawClocks(name, await get(runPath(id) + "/curve", {spans: 300, value: name}), run.clock);
      drawEpochs(name, epochs);
    }
  }
  return {root, refresh, destroy() { for (const p of plots.values()) p.destroy(); }};
}
