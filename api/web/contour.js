// What the forest (fanova.js) says, drawn: importance as bars, and the speed that it
// expects by two tunables as a map.

import {drawing} from "./canvas.js";
import {surface} from "./fanova.js";
import {coloured} from "./parallel.js";
import {scaleText} from "./space.js";
import {count, el, put, settingText, short} from "./text.js";

const ROW = 30, CELLS = 48, BANDS = 8;
const percent = (v) => Math.round(v * 100) + " %";

// The name of what tunables do only together.
const TOGETHER = "only together";

// Rows of the bars: each tunable, the strongest first, and what is left.
export function barsOf(names, shares) {
  const rows = names.map((name, i) => ({name, ...shares[i]})).sort((a, b) => b.mean - a.mean);
  const left = 1 - rows.reduce((sum, r) => sum + r.mean, 0);
  return rows.length > 1 ? [...rows, {name: TOGETHER, mean: Math.max(0, left), spread: null}] : rows;
}

export function importanceBars(id) {
  let rows = [];
  const frame = drawing({
    title: "importance", name: id + "-importance",
    label: "Importance of each tunable for the speed of trials, with its uncertainty",
    height: () => Math.max(1, rows.length) * ROW + 8,
    draw(ctx, width, height, c) {
      const left = Math.min(150, width * 0.34), span = width - left - 104;
      ctx.textBaseline = "middle";
      rows.forEach((r, i) => {
        const y = 8 + i * ROW + 11, end = left + span * r.mean;
        ctx.fillStyle = r.spread === null ? c.quiet : c.ink;
        ctx.textAlign = "right";
        ctx.fillText(r.name, left - 8, y);
        ctx.fillStyle = c.line;
        ctx.globalAlpha = 0.5;
        ctx.fillRect(left, y - 8, span, 16);
        ctx.globalAlpha = 1;
        ctx.fillStyle = r.spread === null ? c.second : c.accent;
        ctx.fillRect(left, y - 8, Math.max(1, end - left), 16);
        ctx.fillStyle = c.quiet;
        ctx.textAlign = "left";
        ctx.fillText(percent(r.mean) + (r.spread === null ? "" : " ± " + percent(r.spread)), left + span + 10, y);
        if (r.spread === null) return;
        const from = left + span * Math.max(0, r.mean - r.spread), to = left + span * Math.min(1, r.mean + r.spread);
        ctx.fillStyle = c.ink;
        ctx.fillRect(from, y - 0.5, to - from, 1);
        for (const x of [from, to]) ctx.fillRect(x - 0.5, y - 4, 1, 8);
      });
    },
    csv: () => {
      const alone = rows.filter((r) => r.spread !== null), all = alone.reduce((sum, r) => sum + r.mean, 0) || 1;
      return [["tunable", "share of variance", "standard deviation over trees", "share of what single tunables explain"],
        ...rows.map((r) => [r.name, r.mean, r.spread, r.spread === null ? null : r.mean / all])];
    },
  });
  // found: {search, rows, names, shares}; few: why there is nothing to tell, or "".
  return {...frame, set(found, few) {
    rows = few ? [] : barsOf(found.names, found.shares);
    frame.draw();
    put(frame.readout, few || "fANOVA: the share of the variance of speed over the whole space of search " + found.search +
      " that each accounts for alone, as a random forest learnt it from " + count(found.rows, "trial") +
      "; ± one standard deviation over its trees");
  }};
}

// A map of the expected speed by two tunables, which are chosen above it.
export function contourMap(id) {
  let axes = [], rows = [], forest = null, grid = [], range = [0, 1], picked = [null, null];
  const LEFT = 62, RIGHT = 12, TOP = 10, BOTTOM = 40, KEY = 26;
  const choose = ["across", "up"].map((way, i) => {
    const select = el("select");
    select.setAttribute("aria-label", "tunable " + way);
    select.addEventListener("change", () => { picked[i] = select.value; reckon(); });
    return select;
  });
  const frame = drawing({
    title: "speed by two tunables", name: id + "-contour", height: () => axes.length > 1 ? 300 : 1, draw, pick,
    label: "Map of the speed that is expected by two tunables, with the trials as points",
    csv: () => [[nameOf(0), nameOf(1), "expected speed"], ...grid.flatMap((line, b) => line.map((v, a) =>
      [cellText(0, a, line.length), cellText(1, b, grid.length), v]))],
  }, ...choose);
  const axis = (i) => axes.find((a) => a.name === picked[i]), nameOf = (i) => axis(i)?.name ?? "";
  const cellText = (i, k, cells) => axis(i).kind > 0 ? axis(i).text(k) : axis(i).text((k + 0.5) / cells);
  // Categories have a cell each: their middle is where they are drawn.
  const placeOf = (a, v) => a.kind > 0 ? (a.index(v) + 0.5) / a.kind : a.place(v);
  const spot = (a, place) => a.kind > 0 ? (Math.round(place * Math.max(1, a.kind - 1)) + 0.5) / a.kind : place;

  function reckon() {
    const [a, b] = [0, 1].map((i) => axes.findIndex((k) => k.name === picked[i]));
    grid = a >= 0 && b >= 0 && a !== b ? surface(forest, a, b, CELLS) : [];
    const flat = grid.flat();
    range = flat.length > 0 ? [Math.min(...flat), Math.max(...flat)] : [0, 1];
    frame.draw();
    put(frame.readout, grid.length > 0 ? "colour: the speed that the forest expects, over all other tunables; " +
      "points: trials, ○ where one did not converge" : axes.length > 1 ? "choose two different tunables" : "");
  }
  const shade = (v) => range[1] > range[0] ? Math.min(BANDS - 1, Math.floor((v - range[0]) / (range[1] - range[0]) * BANDS)) / (BANDS - 1) : 0;
  const box = (width, height) => ({x: (p) => LEFT + (width - LEFT - RIGHT) * p, y: (p) => height - BOTTOM - KEY - (height - TOP - BOTTOM - KEY) * p});

  function draw(ctx, width, height, c) {
    if (grid.length === 0) return;
    const {x, y} = box(width, height), across = grid[0].length, down = grid.length;
    grid.forEach((line, b) => line.forEach((v, a) => {
      ctx.fillStyle = coloured({second: c.ground, accent: c.accent}, shade(v));
      const left = Math.floor(x(a / across)), top = Math.floor(y((b + 1) / down));
      ctx.fillRect(left, top, Math.ceil(x((a + 1) / across)) - left, Math.ceil(y(b / down)) - top);
    }));
    drawAxes(ctx, width, height, c, x, y);
    for (const r of rows) {
      const at = [0, 1].map((i) => placeOf(axis(i), r.setting[axis(i).name]));
      ctx.beginPath();
      ctx.arc(x(at[0]), y(at[1]), 3.2, 0, 2 * Math.PI);
      ctx.lineWidth = 1.5;
      ctx.strokeStyle = c.card;
      ctx.fillStyle = c.ink;
      if (r.label === "converging") ctx.fill();
      else ctx.strokeStyle = c.ink;
      ctx.stroke();
    }
    drawKey(ctx, width, height, c);
  }
  function drawAxes(ctx, width, height, c, x, y) {
    ctx.fillStyle = c.quiet;
    ctx.textBaseline = "top";
    ctx.textAlign = "center";
    for (const [place, text] of axis(0).ticks(0, 1, width / 90)) ctx.fillText(text, x(spot(axis(0), place)), y(0) + 5);
    const named = (a) => a.name + (scaleText(a) ? " (" + scaleText(a) + ")" : "");
    ctx.fillText(named(axis(0)), x(0.5), y(0) + 21);
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    for (const [place, text] of axis(1).ticks(0, 1, 6)) ctx.fillText(text, LEFT - 5, y(spot(axis(1), place)));
    ctx.save();
    ctx.translate(8, y(0.5));
    ctx.rotate(-Math.PI / 2);
    ctx.textAlign = "center";
    ctx.fillText(named(axis(1)), 0, 0);
    ctx.restore();
  }
  function drawKey(ctx, width, height, c) {
    const step = 20, left = LEFT, top = height - 16;
    for (let i = 0; i < BANDS; i++) {
      ctx.fillStyle = coloured({second: c.ground, accent: c.accent}, i / (BANDS - 1));
      ctx.fillRect(left + 48 + i * step, top, step, 10);
    }
    ctx.fillStyle = c.quiet;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.fillText(short(range[0], 2), left + 44, top + 5);
    ctx.textAlign = "left";
    ctx.fillText(short(range[1], 2), left + 52 + BANDS * step, top + 5);
  }
  function pick(px, py) {
    if (grid.length === 0) return undefined;
    const {x, y} = box(frame.canvas.clientWidth, 300), a = (px - x(0)) / (x(1) - x(0)), b = (py - y(0)) / (y(1) - y(0));
    if (!(a >= 0 && a < 1 && b >= 0 && b < 1)) return undefined;
    const column = Math.floor(a * grid[0].length), row = Math.floor(b * grid.length);
    const near = rows.map((r) => [Math.hypot(...[0, 1].map((i) => (placeOf(axis(i), r.setting[axis(i).name]) - [a, b][i]) *
      [x(1) - x(0), y(0) - y(1)][i])), r]).sort((p, q) => p[0] - q[0])[0];
    if (near && near[0] < 8) return "trial " + near[1].trial + ": " + settingText(near[1].setting) + "; speed " + short(near[1].speed) +
      ", " + near[1].label;
    return nameOf(0) + " " + cellText(0, column, grid[0].length) + ", " + nameOf(1) + " " + cellText(1, row, grid.length) +
      ": expected speed " + short(grid[row][column], 3);
  }
  // strongest: names, the most important first; they are shown until others are chosen.
  function set(space, judged, model, strongest) {
    axes = model ? space : [];
    rows = judged;
    forest = model;
    frame.root.hidden = axes.length < 2;
    if (frame.root.hidden) return;
    picked = [0, 1].map((i) => axes.some((a) => a.name === picked[i]) ? picked[i] : strongest[i]);
    choose.forEach((select, i) => {
      if ([...select.options].map((o) => o.value).join() !== axes.map((a) => a.name).join())
        select.replaceChildren(...axes.map((a) => el("option", a.name)));
      select.value = picked[i];
    });
    reckon();
  }
  return {...frame, set};
}
