// The training loss of a run: the surviving lineage as one smooth line with its
// points behind it, what was tried faint, over clocks, epochs or time.

import {MARKS, plot} from "./plot.js";
import {apart, epochAt, logarithmic, pauses, smooth, wholeAxis} from "./stats.js";
import {count, el, number, short} from "./text.js";

const REACH = [0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1]; // of the axis, by the slider's place
const AXES = {clock: "clock", epoch: "epoch", time: "seconds since the start"};

// Lines of branches out of the columns of a curve, at their places on the axis. Those
// that waited while others ran are not drawn across that. lineage: where its points are.
function lines(columns, x, lineage, byTime) {
  const of = new Map();
  columns.branch.forEach((b, i) => {
    if (!of.has(b)) of.set(b, {x: [], y: []});
    of.get(b).x.push(x[i]);
    of.get(b).y.push(number(columns.loss[i]));
  });
  const all = [...x, ...lineage].sort((a, b) => a - b);
  return [...of.values()].map((line) => ({...line, apart: apart(line.x, all, byTime)}));
}

function legend() {
  const key = (kind, text) => {
    const span = el("span", el("i.swatch." + kind), text);
    span.firstChild.setAttribute("aria-hidden", "true");
    return span;
  };
  const parts = {smooth: key("smooth", "surviving lineage, smooth"), raw: key("raw", "its points"),
    others: key("others", "trials and other branches"), chosen: key("chosen", "a setting was chosen"),
    beyond: el("span", el("b.bad", "▲"), "beyond the axis")};
  return {parts, root: el("p.legend", ...Object.values(parts))};
}

export function lossPlot(id, redo) {
  let axis = "clock", curve = null, choices = [], epochs = [];
  const keys = legend(), choose = el("select"), slider = el("input");
  for (const name of Object.keys(AXES)) choose.append(el("option", name));
  choose.setAttribute("aria-label", "axis of the training loss");
  choose.addEventListener("change", () => {
    axis = choose.value;
    frame.update({xLabel: AXES[axis]});
    frame.whole();
    show();
  });
  slider.type = "range";
  slider.min = 0;
  slider.max = REACH.length - 1;
  slider.value = 3;
  slider.addEventListener("input", () => show());
  const frame = plot({title: "training loss", name: id + "-loss", xLabel: "clock", yLabel: "loss",
    height: 320, losses: true, logAllowed: true, logWhen: () => logarithmic(curve.lineage.loss.map(number).filter(Number.isFinite)),
    x: [], series: [], cut: (any) => { keys.parts.beyond.hidden = !any; },
    zoomed: () => { if (axis === "clock") redo(); },
    csv: () => {
      const rows = [["lineage", "branch", "clock", "seconds", "loss"]];
      for (const [part, survives] of [[curve.lineage, "surviving"], [curve.others, "other"]])
        part.clock.forEach((c, i) => rows.push([survives, part.branch[i], c, part.seconds[i],
          part.loss[i]]));
      return rows;
    }}, el("label.slider", "smooth ", slider), choose);
  frame.body.after(keys.root);
  const places = (part) => axis === "time" ? part.seconds : axis === "clock" ? part.clock
    : part.clock.map((c) => epochAt(c, epochs));

  function show() {
    if (!curve) return;
    for (const o of choose.options) o.disabled = o.value === "epoch" && epochs.length === 0;
    const a = curve.lineage, x = places(a), others = places(curve.others);
    const breaks = pauses(x, others, axis === "time");
    const even = smooth(x, a.loss.map(number), (x.at(-1) - x[0]) * REACH[slider.value], breaks);
    const raw = Number(slider.value) > 0;
    // Steps of one decision, as of a cooldown, are one mark.
    const marks = axis === "time" ? [] : choices.filter((c, i) => i === 0 || c.reason !== choices[i - 1].reason).map((c) => axis === "clock" ? c.clock : epochAt(c.clock, epochs));
    keys.root.hidden = a.points + curve.others.points === 0; // nothing is drawn
    keys.parts.raw.hidden = !raw;
    keys.parts.others.hidden = curve.others.points === 0;
    keys.parts.chosen.hidden = marks.length === 0 || marks.length > MARKS;
    frame.update({
      x, xRange: axis === "clock" ? [0, Math.max(1, curve.clock)] : wholeAxis(x, others, 1e-3),
      series: [{label: "points", values: raw ? a.loss : a.loss.map(() => null), colour: "accent", width: 1, alpha: 0.35,
        points: false, breaks},
      {label: "surviving lineage", values: even, colour: "accent", width: 2.5, points: x.length < 2, breaks}],
      bundles: [{colour: "quiet", alpha: 0.45, lines: lines(curve.others, others, x, axis === "time")}],
      marks,
      note: count(a.points, "point") + " of the lineage, " + count(curve.others.points, "point") +
        " of others. Drag to zoom.",
      read: (i) => axis + " " + short(x[i], 6) + ": loss " + short(a.loss[i]) +
        (raw ? ", smooth " + short(even[i]) : "") + " in branch " + a.branch[i],
    });
  }
  return {
    ...frame,
    range: () => axis === "clock" ? frame.zoom() : null,
    set(c, clock, chosen, ended) {
      curve = {...c, clock};
      choices = chosen;
      epochs = ended;
      show();
    },
  };
}
