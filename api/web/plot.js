// Line plots: uPlot in a card. Beside its series a plot may have bundles, many
// faint lines drawn under them, and marks, vertical lines.

import {linearRange, linearTicks, logRange, logTicks, tickDigits} from "./axes.js";
import {card, colours, onTheme} from "./canvas.js";
import {topOfLosses} from "./stats.js";
import {button, el, number, put, short, tick} from "./text.js";

const uPlot = window.uPlot;
export const MARKS = 60; // more would hide what they mark
const DEEP = 1e-6;       // a zoom is so wide at least, as a part of the whole

// A straight run of finite numbers; what is not finite breaks a line.
function finite(values, log) {
  return values.map((v) => {
    const x = number(v);
    return Number.isFinite(x) && (!log || x > 0) ? x : null;
  });
}

// The range of y that shows the series whole, and of the bundles what does not
// crush them: up to their 90th percentile. Of losses, what has diverged is left
// out of it.
function spread(spec, data, log, x0, x1) {
  let low = Infinity, high = -Infinity;
  const rest = [];
  spec.series.forEach((s, i) => {
    data[i + 1].forEach((v, k) => {
      if (v === null || data[0][k] < x0 || data[0][k] > x1) return;
      low = Math.min(low, v);
      high = Math.max(high, v);
    });
  });
  for (const b of spec.bundles || [])
    for (const line of b.lines)
      line.y.forEach((v, k) => {
        if (Number.isFinite(v) && (!log || v > 0) && line.x[k] >= x0 && line.x[k] <= x1)
          rest.push(v);
      });
  rest.sort((a, b) => a - b);
  if (rest.length > 0) {
    low = Math.min(low, rest[0]);
    high = Math.max(high, rest[Math.floor((rest.length - 1) * 0.9)]);
  }
  if (spec.losses) {
    const lines = [...data.slice(1), ...(spec.bundles || []).flatMap((b) => b.lines.map((l) => l.y))];
    const top = topOfLosses(lines.map((y) => y.find(Number.isFinite)), high);
    // A lineage that is beyond it for the most part is what there is to be seen.
    const own = data.slice(1).flat().filter(Number.isFinite), beyond = own.filter((v) => v > top).length;
    if (top > low && 2 * beyond <= own.length) high = top;
  }
  return log ? logRange(low, high) : linearRange(low, high, 0.05);
}

// Marks at the top edge where lines leave the axis, or are no numbers any more;
// returns how many.
function drawCut(u, spec, c, scale) {
  const {ctx, bbox} = u, top = u.scales.y.max, room = 9 * scale, at = new Set();
  for (const b of spec.cut ? spec.bundles || [] : [])
    for (const line of b.lines)
      line.y.forEach((v, i) => {
        const x = line.x[i];
        if ((v > top || !Number.isFinite(v)) && x >= u.scales.x.min && x <= u.scales.x.max) at.add(Math.round(u.valToPos(x, "x", true) / room));
      });
  for (const s of spec.cut ? spec.series : [])
    s.values.forEach((v, i) => {
      const x = spec.x[i];
      if (v !== null && !(number(v) <= top) && x >= u.scales.x.min && x <= u.scales.x.max) at.add(Math.round(u.valToPos(x, "x", true) / room));
    });
  ctx.fillStyle = c.bad;
  ctx.beginPath();
  for (const k of at) {
    const px = k * room;
    ctx.moveTo(px, bbox.top);
    ctx.lineTo(px - 4 * scale, bbox.top + 7 * scale);
    ctx.lineTo(px + 4 * scale, bbox.top + 7 * scale);
  }
  ctx.fill();
  return at.size;
}

function drawBundles(u, spec, c) {
  const {ctx, bbox} = u, scale = devicePixelRatio || 1;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const b of spec.bundles || []) {
    ctx.strokeStyle = c[b.colour] || b.colour;
    ctx.fillStyle = ctx.strokeStyle;
    ctx.lineWidth = (b.width || 1) * scale;
    ctx.globalAlpha = b.alpha || 1;
    ctx.beginPath();
    for (const line of b.lines) {
      let pen = false, alone = line.x.length === 1;
      for (let i = 0; i < line.x.length; i++) {
        const v = line.y[i];
        if (!Number.isFinite(v)) { pen = false; continue; }
        if (line.apart && line.apart.has(i)) pen = false;
        const px = u.valToPos(line.x[i], "x", true);
        const py = Math.max(-1e5, Math.min(1e5, u.valToPos(v, "y", true)));
        if (alone) ctx.rect(px - scale, py - scale, 2 * scale, 2 * scale);
        else if (pen) ctx.lineTo(px, py);
        else ctx.moveTo(px, py);
        pen = true;
      }
    }
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
  const cut = drawCut(u, spec, c, scale);
  if (spec.cut) spec.cut(cut > 0);
  ctx.strokeStyle = c.warn;
  ctx.lineWidth = scale;
  ctx.setLineDash([3 * scale, 3 * scale]);
  ctx.beginPath();
  const marks = (spec.marks || []).filter((m) => m >= u.scales.x.min && m <= u.scales.x.max);
  for (const m of marks.length > MARKS ? [] : marks) {
    const px = u.valToPos(m, "x", true);
    ctx.moveTo(px, bbox.top);
    ctx.lineTo(px, bbox.top + bbox.height);
  }
  ctx.stroke();
  ctx.restore();
}

// The largest of an axis's ticks, for their unit; of one over many powers of ten each has its own.
const span = (ticks) => {
  const sizes = ticks.map(Math.abs).filter((v) => v > 0), most = Math.max(...sizes);
  return most / Math.min(...sizes) > 1000 ? undefined : most;
};
const longest = (texts) => Math.max(0, ...(texts || []).map((t) => t.length));

// Where a line is not drawn, in pixels: what is not finite, and its breaks.
function broken(u, state, index, nulls) {
  const px = (v) => Math.round(u.valToPos(v, "x", true));
  const breaks = (state.spec.series[index - 1].breaks || []).map(([a, b]) => [px(a), px(b)]);
  return [...nulls, ...breaks].sort((a, b) => a[0] - b[0]);
}

// Ticks of an axis are not uPlot's: its own never end on some axes, as on a
// logarithmic one that begins at 0.0096. Of the steps it is given it takes the one
// that fits any range, and asks for the ticks.
function ticksOf(room, reckon) {
  let most = 2;
  return {
    space: 1, filter: (u, ticks) => ticks,
    incrs: (u, i, low, high, pixels) => {
      most = Math.max(2, pixels / room);
      return [Number.MAX_VALUE];
    },
    splits: (u, i, low, high) => reckon(low, high, most),
    values: (u, ticks) => ticks.map((t) => tick(t, tickDigits(ticks), span(ticks))),
  };
}

function options(state, width) {
  const {spec, log} = state, c = colours();
  const axis = (label, size) => ({
    stroke: c.quiet, font: c.font, labelFont: c.font, label, labelSize: 18, size,
    grid: {stroke: c.line, width: 1}, ticks: {stroke: c.line, width: 1, size: 4},
  });
  const x = {...axis(spec.xLabel, 30),
    ...ticksOf(60, (low, high, most) => linearTicks(low, high, most, spec.xWhole))};
  // Ticks of the axis of now, not of the one that was drawn first.
  if (spec.xTicks) {
    let told = [];
    x.splits = (u, i, low, high) => (told = state.spec.xTicks(low, high, Math.max(2, width / 90))).map(([at]) => at);
    x.values = (u, ticks) => ticks.map((at) => (told.find(([v]) => v === at) || [at, ""])[1]);
  }
  const y = {...axis(spec.yLabel, (u, texts) => Math.max(58, 16 + 7 * longest(texts))),
    ...ticksOf(34, log ? logTicks : (low, high, most) => linearTicks(low, high, most, spec.yWhole))};
  return {
    width, height: spec.height || 280, legend: {show: false}, pxAlign: 0,
    padding: [10, 30, 0, 0],
    scales: {
      x: {time: false, range: (u, low, high) =>
        linearRange(...state.zoom || state.spec.xRange || [low ?? NaN, high ?? NaN])},
      y: {distr: log ? 3 : 1, range: (u) => spread(state.spec, u.data, log,
        u.scales.x.min ?? -Infinity, u.scales.x.max ?? Infinity)},
    },
    axes: [x, y],
    cursor: {y: false, drag: {x: true, y: false, setScale: false}, points: {size: 7}},
    series: [{}, ...spec.series.map((s) => ({
      label: s.label, stroke: c[s.colour] || s.colour, width: s.width ?? 2, dash: s.dash,
      alpha: s.alpha ?? 1, spanGaps: !s.breaks, fill: s.fill, gaps: (u, k, from, to, nulls) => broken(u, state, k, nulls),
      paths: s.kind === "steps" ? uPlot.paths.stepped({align: 1})
        : s.kind === "dots" ? () => null : undefined,
      points: {show: s.kind === "dots" ? true : s.points, size: s.size || 5,
        stroke: c[s.colour] || s.colour, fill: c[s.colour] || s.colour},
    }))],
    bands: (spec.bands || []).map((b) => ({series: b.series, fill: c[b.colour] || b.colour})),
    hooks: {
      drawAxes: [(u) => drawBundles(u, state.spec, c)],
      setCursor: [(u) => state.read(u.cursor.idx)],
      setSelect: [(u) => {
        if (u.select.width < 4) return;
        state.setZoom([u.posToVal(u.select.left, "x"),
          u.posToVal(u.select.left + u.select.width, "x")]);
        u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
      }],
    },
  };
}

// spec: {title, name, code (the title is a name), xLabel, yLabel, height, x: [], series: [{label, values,
// colour, width, dash, kind: "line" | "steps" | "dots", breaks: [[from x, to x]]}], bundles: [{colour,
// alpha, lines: [{x, y, apart: a Set of the points that are not joined to the one before}]}], marks: [], xWhole, yWhole, losses, bands, logAllowed, log, xRange, xTicks(low, high, most) -> [[x, text]],
// cut(whether lines go beyond the top: marked there), zoomed(range | null), csv() -> rows, read(index) -> text, note, empty}. With logAllowed a button
// makes the axis logarithmic; logWhen() says whether it is before anybody has pressed it.
export function plot(first, ...tools) {
  const host = el("div.plot"), nothing = el("p.quiet", "");
  const state = {spec: first, log: Boolean(first.log), chosen: false, zoom: null, index: null};
  let u = null, shape = "";
  const rows = () => {
    const s = state.spec;
    return s.csv ? s.csv() : [[s.xLabel, ...s.series.map((k) => k.label)],
      ...s.x.map((x, i) => [x, ...s.series.map((k) => k.values[i])])];
  };
  const reset = button("whole", () => state.setZoom(null), "small");
  reset.hidden = true;
  const logButton = button("log", () => {
    state.log = !state.log;
    state.chosen = true;
    draw();
  }, "small");
  logButton.hidden = !first.logAllowed;
  const frame = card(first.title, {name: first.name, code: first.code, csv: rows,
    canvas: () => u && u.ctx.canvas}, ...tools, logButton, reset);
  host.tabIndex = 0;
  host.setAttribute("role", "img");
  frame.body.append(host, nothing);

  const whole = () => linearRange(...state.spec.xRange || [state.spec.x[0], state.spec.x.at(-1)]);
  state.setZoom = (range) => {
    const [low, high] = whole();
    if (range && !(range[1] - range[0] >= (high - low) * DEEP)) return;
    state.zoom = range;
    reset.hidden = range === null;
    if (u) rescale();
    if (state.spec.zoomed) state.spec.zoomed(range);
  };
  state.read = (index) => {
    const s = state.spec;
    state.index = index;
    if (index === null || index === undefined || s.x[index] === undefined) {
      put(frame.readout, s.note || "");
      return;
    }
    put(frame.readout, s.read ? s.read(index) : s.xLabel + " " + short(s.x[index], 6) + ": " +
      s.series.filter((k) => k.values[index] !== null && k.values[index] !== undefined)
        .map((k) => k.label + " " + short(k.values[index])).join(", "));
  };
  function rescale() {
    const [low, high] = state.zoom || whole();
    u.setScale("x", {min: low, max: high});
    point();
  }
  // The cursor stays with the value that is read, not with the pixel.
  function point() {
    const x = state.spec.x[state.index];
    if (x !== undefined && host.contains(document.activeElement))
      u.setCursor({left: u.valToPos(x, "x"), top: 10}, false);
  }
  function draw() {
    const s = state.spec, width = Math.floor(host.clientWidth);
    const data = [s.x, ...s.series.map((k) => finite(k.values, state.log))];
    const some = data.slice(1).some((v) => v.some((y) => y !== null)) ||
      (s.bundles || []).some((b) => b.lines.length > 0);
    nothing.hidden = some;
    put(nothing, some ? "" : s.empty || "nothing to draw yet");
    host.classList.toggle("bare", !some);
    host.setAttribute("aria-label", s.title + ". Arrow keys read values, + and - zoom.");
    logButton.setAttribute("aria-pressed", String(state.log));
    if (!some || width <= 0) {
      if (u) u.destroy();
      u = null;
      return;
    }
    const now = [width, state.log, s.height, s.yLabel, s.xLabel, s.xWhole, s.yWhole, JSON.stringify(colours()),
      ...s.series.map((k) => [k.label, k.colour, k.kind, k.points].join())].join("|");
    if (u && now === shape) {
      u.setData(data, true);
      point();
      state.read(state.index);
      return;
    }
    if (u) u.destroy();
    shape = now;
    u = new uPlot(options(state, width), data, host);
    state.read(null);
  }
  host.addEventListener("dblclick", () => state.setZoom(null));
  host.addEventListener("keydown", (e) => {
    if (!u || e.ctrlKey || e.metaKey || e.altKey) return;
    const x = state.spec.x, at = state.index ?? -1;
    const step = (e.shiftKey ? 10 : 1) * (e.key === "ArrowLeft" ? -1 : 1);
    if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
      const to = Math.max(0, Math.min(x.length - 1, at + step));
      u.setCursor({left: u.valToPos(x[to], "x"), top: 10});
      state.read(to);
    } else if (e.key === "+" || e.key === "-") {
      const {min, max} = u.scales.x, middle = at >= 0 ? x[at] : (min + max) / 2;
      const half = (max - min) * (e.key === "+" ? 0.25 : 1);
      const all = whole();
      const range = [Math.max(all[0], middle - half), Math.min(all[1], middle + half)];
      state.setZoom(range[0] <= all[0] && range[1] >= all[1] ? null : range);
    } else if (e.key === "Escape" || e.key === "0") {
      state.setZoom(null);
    } else {
      return;
    }
    e.preventDefault();
  });
  let width = 0;
  const watch = new ResizeObserver(() => {
    if (host.clientWidth === width) return;
    width = host.clientWidth;
    draw();
  });
  watch.observe(host);
  const off = onTheme(draw);
  return {
    ...frame,
    update(spec) {
      state.spec = {...state.spec, ...spec};
      if (spec.title) frame.title(spec.title);
      if (state.spec.logWhen && !state.chosen) state.log ||= state.spec.logWhen();
      draw();
    },
    zoom: () => state.zoom,
    whole: () => { if (state.zoom) state.setZoom(null); },
    destroy() { watch.disconnect(); off(); if (u) u.destroy(); },
  };
}
