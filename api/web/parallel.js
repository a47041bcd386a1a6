// Parallel coordinates: a line a trial through its values. What is dragged over on an
// axis, or chosen there by keys, keeps the trials that go through it.

import {drawing} from "./canvas.js";
import {scaleText} from "./space.js";
import {count, put, settingText, short} from "./text.js";

const HIGH = 320, TOP = 50, BOTTOM = 282; // of the axes
const SIDE = 48;
const NEAR = 14; // pixels from an axis or a line

// From slow to fast: a colour between the two, which are "rgb(r, g, b)".
export function mix(a, b, t) {
  const [from, to] = [a, b].map((c) => c.match(/[\d.]+/g).map(Number));
  return "rgb(" + [0, 1, 2].map((i) => Math.round(from[i] + t * (to[i] - from[i]))).join(" ") + ")";
}

// The colours of a standing of 0 .. 1.
export const coloured = (c, part) => mix(c.second, c.accent, part ** 2);

// Whether each row goes through all brushes: {axis's name: [low, high] of 0 .. 1}.
export function keeps(row, axes, brushes) {
  return axes.every((a) => {
    const range = brushes.get(a.name), value = a.of(row);
    if (!range) return true;
    if (value === null || value === undefined) return false;
    const at = a.place(value);
    return at >= range[0] - 1e-9 && at <= range[1] + 1e-9;
  });
}

const describe = (r) => "trial " + r.trial + ", " + r.label + ": " + settingText(r.setting) + "; speed " + short(r.speed) +
  ", faster than " + Math.round(100 * r.standing) + " % of search " + r.search;

// kept(rows) is told what the brushes keep, each time that it changes.
export function parallel(id, kept) {
  let rows = [], axes = [], order = [], chosen = -1, axis = -1, dragging = null;
  const brushes = new Map();
  const through = () => rows.filter((r) => keeps(r, axes, brushes));
  const frame = drawing({
    title: "parallel coordinates", name: id + "-settings",
    label: "Parallel coordinates of the trials' settings. Up and down go through the trials from the fastest on; " +
      "left and right choose an axis, whose lower, middle and upper third 1, 2 and 3 keep; Escape keeps all.",
    height: () => HIGH, draw, pick, key,
    csv: () => [["trial", "search", "label", ...axes.slice(0, -1).map((a) => a.name), "speed", "kept"],
      ...rows.map((r) => [r.trial, r.search, r.label, ...axes.slice(0, -1).map((a) => a.of(r)), r.speed,
        keeps(r, axes, brushes)])],
  });
  const px = (k) => {
    const width = frame.canvas.clientWidth;
    return axes.length < 2 ? width / 2 : SIDE + (width - 2 * SIDE) * k / (axes.length - 1);
  };
  const py = (v) => BOTTOM - (BOTTOM - TOP) * v, back = (y) => (BOTTOM - y) / (BOTTOM - TOP);

  function say() {
    if (rows[chosen]) return describe(rows[chosen]);
    if (brushes.size === 0) return "A line a trial; the fastest are strongest. Drag along an axis to keep the trials " +
      "that go through there; click a line to read it.";
    const left = through(), best = left.reduce((a, b) => !a || b.standing > a.standing ? b : a, null);
    return count(left.length, "trial") + " of " + rows.length + " kept" + (best ? "; the fastest of them: " + describe(best) : "") +
      ". Click the axis, or press Escape, to keep all.";
  }
  function changed() {
    frame.draw();
    put(frame.readout, say());
    kept(brushes.size > 0 ? through() : rows);
  }
  function brush(name, range) {
    if (range) brushes.set(name, [Math.max(0, range[0]), Math.min(1, range[1])]);
    else brushes.delete(name);
    if (rows[chosen] && !keeps(rows[chosen], axes, brushes)) chosen = -1;
    changed();
  }
  const nearAxis = (x) => {
    const k = axes.length < 2 ? 0 : Math.round((x - px(0)) / (px(1) - px(0)));
    return axes[k] && Math.abs(px(k) - x) <= NEAR ? k : -1;
  };
  frame.canvas.addEventListener("pointerdown", (e) => {
    const box = frame.canvas.getBoundingClientRect(), k = nearAxis(e.clientX - box.left);
    if (k < 0 || e.button !== 0) return;
    frame.canvas.setPointerCapture(e.pointerId);
    dragging = {k, from: e.clientY - box.top, moved: false};
  });
  frame.canvas.addEventListener("pointermove", (e) => {
    if (!dragging) return;
    const y = e.clientY - frame.canvas.getBoundingClientRect().top;
    if (!dragging.moved && Math.abs(y - dragging.from) < 4) return;
    dragging.moved = true;
    chosen = -1;
    brush(axes[dragging.k].name, [back(y), back(dragging.from)].sort((a, b) => a - b));
  });
  for (const kind of ["pointerup", "pointercancel"])
    frame.canvas.addEventListener(kind, () => { if (dragging && !dragging.moved) dragging = null; });
  frame.canvas.style.touchAction = "pan-x pan-y";

  function pick(x, y, clicked) {
    if (rows.length === 0 || !clicked) return undefined;
    if (dragging) { dragging = null; return undefined; } // the end of a drag
    const k = nearAxis(x);
    let best = -1, near = NEAR;
    rows.forEach((r, i) => {
      if (keeps(r, axes, brushes)) axes.forEach((a, n) => {
        const d = Math.hypot(px(n) - x, py(a.place(a.of(r))) - y);
        if (d < near) { near = d; best = i; }
      });
    });
    chosen = best;
    if (best < 0 && k >= 0 && brushes.has(axes[k].name)) brushes.delete(axes[k].name);
    changed();
    return undefined;
  }
  function key(e) {
    if (rows.length === 0) return undefined;
    const turn = {ArrowRight: 1, ArrowLeft: -1}[e.key], step = {ArrowDown: 1, ArrowUp: -1}[e.key];
    if (turn) {
      axis = Math.max(0, Math.min(axes.length - 1, axis + turn));
      frame.draw();
      return "axis " + axes[axis].name + " from " + axes[axis].ends.join(" to ") + ": 1, 2, 3 keep its lower, middle, upper third";
    }
    if (step) {
      const list = order.filter((i) => keeps(rows[i], axes, brushes)), at = list.indexOf(chosen);
      chosen = list[Math.max(0, Math.min(list.length - 1, at + step))] ?? -1;
      frame.draw();
      return say();
    }
    if (axes[axis] && ["1", "2", "3"].includes(e.key)) {
      chosen = -1;
      brush(axes[axis].name, [(e.key - 1) / 3, e.key / 3]);
      return say();
    }
    if (e.key !== "Escape" && e.key !== "0") return undefined;
    brushes.clear();
    chosen = -1;
    changed();
    return say();
  }
  function line(ctx, r) {
    ctx.beginPath();
    axes.forEach((a, k) => {
      const v = a.of(r);
      if (v !== null && v !== undefined) ctx.lineTo(px(k), py(a.place(v)));
    });
    ctx.stroke();
  }
  function drawLines(ctx, c) {
    const alpha = Math.max(0.12, Math.min(0.9, 60 / Math.max(1, rows.length)));
    // The fastest last, so that they lie on top.
    [...order].reverse().forEach((i, k) => {
      const part = order.length > 1 ? k / (order.length - 1) : 1, left = keeps(rows[i], axes, brushes);
      ctx.strokeStyle = left ? coloured(c, part) : c.line;
      ctx.globalAlpha = !left ? 0.6 : rows[i].label === "diverged" ? alpha / 2 : Math.min(1, alpha + (part > 0.95 ? 0.3 : 0));
      ctx.lineWidth = left && part > 0.95 ? 1.8 : 1;
      line(ctx, rows[i]);
    });
    ctx.globalAlpha = 1;
    if (!rows[chosen]) return;
    ctx.strokeStyle = c.warn;
    ctx.lineWidth = 3;
    line(ctx, rows[chosen]);
  }
  function drawAxis(ctx, a, k, width, c) {
    const x = px(k), edge = k === 0 ? "left" : k === axes.length - 1 ? "right" : "center";
    const at = k === 0 ? 4 : k === axes.length - 1 ? width - 4 : x, range = brushes.get(a.name);
    ctx.lineWidth = k === axis ? 2 : 1;
    ctx.strokeStyle = k === axis ? c.accent : c.quiet;
    ctx.beginPath();
    ctx.moveTo(x, py(0));
    ctx.lineTo(x, py(1));
    ctx.stroke();
    if (range) {
      ctx.fillStyle = c.faint;
      ctx.strokeStyle = c.accent;
      ctx.fillRect(x - 7, py(range[1]), 14, py(range[0]) - py(range[1]));
      ctx.strokeRect(x - 7, py(range[1]), 14, py(range[0]) - py(range[1]));
    }
    ctx.textAlign = edge;
    ctx.fillStyle = c.ink;
    ctx.fillText(fit(ctx, a.name, (width - 20) / axes.length), at, 14 + (width < 520 && k % 2 ? 14 : 0));
    ctx.fillStyle = c.quiet;
    ctx.fillText(a.ends[1], at, TOP - 7);
    ctx.fillText(a.ends[0], at, BOTTOM + 16);
    if (scaleText(a)) ctx.fillText(scaleText(a), at, BOTTOM + 31);
    // What lies between, where there is room beside the axis.
    if (k === axes.length - 1 || width < 520) return;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    for (const [place, text] of a.ticks(0, 1, 5)) {
      if (place < 0.04 || place > 0.96) continue;
      ctx.fillRect(x - 3, py(place), 6, 1);
      ctx.lineWidth = 3;
      ctx.strokeStyle = c.card;
      ctx.strokeText(text, x + 6, py(place));
      ctx.fillText(text, x + 6, py(place));
    }
    ctx.textBaseline = "alphabetic";
  }
  function draw(ctx, width, height, c) {
    drawLines(ctx, c);
    axes.forEach((a, k) => drawAxis(ctx, a, k, width, c));
  }
  function fit(ctx, text, room) {
    if (ctx.measureText(text).width <= room * 1.9) return text;
    while (text.length > 2 && ctx.measureText(text + "…").width > room * 1.9) text = text.slice(0, -1);
    return text + "…";
  }
  // tunables: axes of them; judged: {trial, search, label, speed, standing, setting}.
  function set(judged, tunables, many) {
    const trial = rows[chosen] && rows[chosen].trial, fastest = Math.max(...judged.map((r) => r.speed), 0);
    rows = judged;
    axes = tunables.map((a) => ({...a, of: (r) => r.setting[a.name] ?? null}));
    const last = many ? {name: "standing", ends: ["slowest", "fastest"], place: (v) => v, of: (r) => r.standing}
      : {name: "speed", ends: ["0", short(fastest, 3)], place: (v) => fastest > 0 ? Math.max(0, v) / fastest : 0, of: (r) => r.speed};
    axes.push({scale: "linear", ticks: () => [], ...last});
    for (const name of [...brushes.keys()]) if (!axes.some((a) => a.name === name)) brushes.delete(name);
    order = rows.map((r, i) => i).sort((a, b) => rows[b].standing - rows[a].standing);
    chosen = rows.findIndex((r) => r.trial === trial);
    changed();
  }
  return {...frame, set};
}
