// The tree of branches over the global clock: each a row, its slices bars, its
// fork a line from its parent, its end a mark.

import {linearTicks, tickDigits} from "./axes.js";
import {branchControls} from "./byhand.js";
import {drawing} from "./canvas.js";
import {get, runPath} from "./data.js";
import {button, bytes, count, el, number, put, settingText, short, tick} from "./text.js";

const TOP = 26, BRANCHES = 1000, SLICES = 4000, TRIALS = 10000;
const ROW = 18, LEAST = 5, TEXT = 13; // height of a row, of many rows, and from which on it has a name
const HIGH = 1080;                    // what rows are made lower for
const JOINT = 7;                      // pixels of a fork that are drawn in full

// The height of one of so many rows.
export const rowOf = (rows) => Math.max(LEAST, Math.min(ROW, Math.floor(HIGH / Math.max(1, rows))));

const STATES = [["accent", "the surviving lineage"], ["good", "converging"], ["warn", "unstable"],
  ["bad", "diverged or failed"], ["second", "stopped early, or no trial"]];

function colourOf(b) {
  if (b.surviving) return "accent";
  return {converging: "good", unstable: "warn", diverged: "bad", failed: "bad"}[b.label] || "second";
}

// Rows in the order of a walk: after each branch those forked from it, in the
// order in which they were.
export function walk(branches) {
  const children = new Map(), shown = new Set(branches.map((b) => b.branch));
  for (const b of branches) {
    const parent = b.parent !== null && shown.has(b.parent) ? b.parent : null;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(b);
  }
  const rows = [], stack = [...(children.get(null) || [])].reverse().map((b) => [b, 0]);
  while (stack.length > 0) {
    const [b, depth] = stack.pop();
    rows.push({...b, depth});
    for (const c of [...(children.get(b.branch) || [])].reverse()) stack.push([c, depth + 1]);
  }
  return rows;
}

// The beginning, branch 0, is there before the first record: it is drawn as
// the parent of those that name none.
function withRoot(branches) {
  if (branches.length === 0 || branches.some((b) => b.branch === 0)) return branches;
  const root = {branch: 0, parent: null, type: "init", role: "beginning", live: true,
    surviving: true, trial: null, setting: {}, created_clock: 0, first_clock: 0, last_clock: 0,
    clocks: 0, freed_reason: null};
  return [root, ...branches.map((b) => b.parent === null ? {...b, parent: 0} : b)];
}

function describe(b) {
  if (b.branch === 0) return "branch 0: the state before the first clock";
  const end = b.live ? "lives" : "freed: " + (b.freed_reason || "no reason given");
  return "branch " + b.branch + ", " + b.role + (b.trial ? ", trial " + b.trial : "") +
    (b.surviving ? ", of the surviving lineage" : "") + "; " +
    (b.parent === null ? "the root" : "from branch " + b.parent + " at clock " + short(b.created_clock)) +
    "; ran " + count(b.clocks, "clock") + (b.label ? ", " + b.label : "") +
    (Number.isFinite(number(b.loss)) ? ", loss " + short(b.loss) : "") +
    (b.own === undefined ? "" : ", " + bytes(b.own) + " of its own") + "; " + end +
    (Object.keys(b.setting || {}).length > 0 ? "; " + settingText(b.setting) : "");
}

// Bars as pixels; gaps too narrow to be seen are closed.
function joined(bars, px) {
  const out = [];
  for (const [from, to] of bars) {
    const s = px(from), e = px(to), last = out.at(-1);
    if (last && s - last[1] < 2) last[1] = Math.max(last[1], e);
    else out.push([s, e]);
  }
  return out;
}

export function treeTab(id, {now, said, failed}) {
  let rows = [], slices = new Map(), clock = 1, start = 0, at = -1, range = null;
  let state = null, chosen = null; // the run; the branch that was clicked or gone to
  const byHand = branchControls(id, said, failed);
  const choose = (b) => {
    chosen = b ? b.branch : null;
    if (state) byHand.update(state, b);
  };
  const whole = button("whole", () => zoom(null), "small");
  whole.hidden = true;
  let left = 64, tall = ROW; // where the clocks begin; the height of a row
  const frame = drawing({
    title: "branches over the global clock", name: id + "-branches",
    label: "Tree of branches. Arrow keys go from branch to branch, + and - zoom.",
    height: () => TOP + Math.max(1, rows.length) * (tall = rowOf(rows.length)) + 8,
    draw, pick(x, y, clicked) {
      const i = Math.floor((y - TOP) / tall);
      if (!rows[i]) return undefined;
      if (clicked) choose(rows[i]);
      if (clicked || i !== at) { at = i; requestAnimationFrame(() => frame.draw()); }
      return describe(rows[i]);
    },
    key(e) {
      if (e.key === "+" || e.key === "-" || e.key === "0") {
        const [low, high] = extent(), half = (high - low) * (e.key === "+" ? 0.25 : 1);
        const b = rows[at], middle = b ? (b.first_clock + b.last_clock) / 2 : (low + high) / 2;
        zoom(e.key === "0" ? null : [middle - half, middle + half]);
        return b ? describe(b) : "";
      }
      const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[e.key];
      if (step === undefined && e.key !== "Home" && e.key !== "End") return undefined;
      if (rows.length === 0) return "";
      at = e.key === "Home" ? 0 : e.key === "End" ? rows.length - 1
        : Math.max(0, Math.min(rows.length - 1, at + step));
      choose(rows[at]);
      frame.draw();
      frame.scroll.scrollTop = Math.max(0, TOP + at * tall - frame.scroll.clientHeight / 2);
      return describe(rows[at]);
    },
    csv: () => [["branch", "parent", "type", "role", "trial", "surviving", "live", "created_clock",
      "last_clock", "clocks", "freed_reason", "setting"],
    ...rows.map((b) => [b.branch, b.parent, b.type, b.role, b.trial, b.surviving, b.live,
      b.created_clock, b.last_clock, b.clocks, b.freed_reason, JSON.stringify(b.setting)])],
  }, whole);
  const sides = () => [left, frame.canvas.clientWidth - 22];
  const extent = () => range || [start, clock];
  function zoom(to) {
    range = to && [Math.max(0, to[0]), Math.min(clock, to[1])];
    if (range && (range[1] - range[0] < 1 || range[1] - range[0] >= clock)) range = null;
    whole.hidden = range === null;
    frame.draw();
    now();
  }
  // Dragging from one clock to another shows what lies between.
  let pressed = null;
  const clockAt = (e) => {
    const [left, right] = sides(), [low, high] = extent();
    const x = e.clientX - frame.canvas.getBoundingClientRect().left;
    return low + (high - low) * Math.max(0, Math.min(1, (x - left) / (right - left)));
  };
  frame.canvas.addEventListener("pointerdown", (e) => {
    if (e.pointerType === "mouse") pressed = {x: e.clientX, clock: clockAt(e)};
  });
  frame.canvas.addEventListener("pointerup", (e) => {
    if (pressed && Math.abs(e.clientX - pressed.x) > 8) {
      const to = clockAt(e);
      zoom([Math.min(to, pressed.clock), Math.max(to, pressed.clock)]);
    }
    pressed = null;
  });
  frame.scroll.classList.add("tall");
  const colours = el("p.legend", ...STATES.map(([colour, text]) => el("span", el("i.swatch.bar." + colour), text)));
  const key = el("p.quiet", "Bars: slices that ran (of older ones, " +
    "from first to last clock). ● lives, × was freed. Drag to zoom. A branch that lives and is " +
    "clicked, or gone to with the arrow keys, can be forked.");
  const root = el("div.stacked", frame.root);
  frame.readout.after(byHand.root);
  byHand.root.hidden = true;
  frame.body.append(colours, key);

  // A fork, from its parent's row at that clock. Of the surviving lineage it is drawn
  // in full; of the others only its ends, or they would be a comb of lines.
  function joint(ctx, b, x, above, y, c) {
    const whole = b.surviving || y - above <= 3 * JOINT;
    ctx.lineWidth = b.surviving ? 2 : 1;
    ctx.beginPath();
    for (const [from, to] of whole ? [[above, y]] : [[above, above + JOINT / 2], [y - JOINT, y]]) {
      ctx.moveTo(x, from);
      ctx.lineTo(x, to);
    }
    ctx.stroke();
    if (tall < TEXT) return;
    ctx.beginPath();
    ctx.arc(x, above, 2.5, 0, 2 * Math.PI);
    ctx.fillStyle = c[colourOf(b)];
    ctx.fill();
  }
  function draw(ctx, width, height, c) {
    ctx.font = "600 " + c.font;
    const wide = width >= 500, name = (b) => b.branch + (wide ? " " + (b.trial ? "trial " + b.trial : b.role) : "");
    left = rows.reduce((w, b) => Math.max(w, ctx.measureText(name(b)).width + 12 + Math.min(b.depth, 4) * 6), 50);
    ctx.font = c.font;
    const right = 22, span = width - left - right;
    const [low, high] = extent();
    const px = (k) => left + span * Math.max(0, Math.min(1, (k - low) / (high - low)));
    const of = new Map(rows.map((b, i) => [b.branch, i]));
    ctx.fillStyle = c.quiet;
    ctx.strokeStyle = c.line;
    ctx.lineWidth = 1;
    ctx.textBaseline = "middle";
    const ticks = linearTicks(low, high, Math.max(2, span / 90), true), digits = tickDigits(ticks);
    for (const at of ticks) {
      const x = Math.round(px(at)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, TOP - 6);
      ctx.lineTo(x, height - 6);
      ctx.stroke();
      ctx.textAlign = x > width - right - 20 ? "right" : "center";
      ctx.fillText(tick(at, digits), Math.min(x, width - 4), 10);
    }
    rows.forEach((b, i) => {
      const y = TOP + (i + 0.5) * tall, from = px(b.created_clock);
      const bars = slices.get(b.branch) || [[b.first_clock, b.last_clock]];
      // A slice that is scheduled and runs is a bar already.
      const to = Math.max(from + 1, px(b.last_clock), px(bars.at(-1)[1]));
      if (i === at) {
        ctx.fillStyle = c.faint;
        ctx.fillRect(0, y - tall / 2, width, tall);
      }
      const parent = of.get(b.parent);
      ctx.strokeStyle = c[colourOf(b)];
      if (parent !== undefined) joint(ctx, b, Math.round(from) + 0.5, TOP + (parent + 0.5) * tall, y, c);
      ctx.lineWidth = b.surviving ? 2 : 1;
      ctx.beginPath();
      ctx.moveTo(from, y);
      ctx.lineTo(to, y);
      ctx.stroke();
      ctx.fillStyle = c[colourOf(b)];
      const thick = Math.max(2, tall * (b.surviving ? 0.55 : 0.35));
      for (const [s, e] of joined(bars, px))
        ctx.fillRect(s, y - thick / 2, Math.max(1, e - s), thick);
      if (tall < TEXT && i !== at) return;
      ctx.textAlign = "center";
      ctx.fillStyle = b.live ? c.good : c.quiet;
      ctx.fillText(b.live ? "●" : "×", Math.min(width - 7, to + 8), y);
      ctx.textAlign = "left";
      ctx.fillStyle = b.surviving ? c.ink : c.quiet;
      ctx.font = (b.surviving ? "600 " : "") + c.font;
      ctx.fillText(name(b), 4 + Math.min(b.depth, 4) * 6, y);
      ctx.font = c.font;
    });
  }
  // Slices that one branch ran in a row are one bar.
  function gather(list) {
    slices = new Map();
    for (const s of list.reverse()) {
      const ran = s.clocks ?? s.scheduled_clocks, end = s.first_clock + ran;
      if (!slices.has(s.branch)) slices.set(s.branch, []);
      const bars = slices.get(s.branch), last = bars.at(-1);
      if (last && last[1] >= s.first_clock) last[1] = Math.max(last[1], end);
      else bars.push([s.first_clock, end]);
    }
  }
  async function latestSlices() {
    const all = [];
    let token;
    while (all.length < SLICES && token !== null) {
      const list = await get(runPath(id, "/slices"), {order: "desc", page_size: 1000, page_token: token});
      all.push(...list.slices);
      token = list.next_page_token;
    }
    return all;
  }
  async function refresh(run) {
    const [tree, list, survey, {nodes}] = await Promise.all([
      get(runPath(id, "/tree"), {max_branches: BRANCHES,
      from: range ? Math.floor(range[0]) : undefined, to: range ? Math.ceil(range[1]) : undefined}),
    latestSlices(), get(runPath(id, "/survey"), {max_trials: TRIALS}), get(runPath(id, "/nodes"))]);
    const shown = rows[at] && rows[at].branch;
    const judged = new Map(survey.columns.trial.map((t, i) => [t, i])), own = new Map();
    for (const n of nodes) for (const b of n.branches) own.set(b.branch, (own.get(b.branch) || 0) + b.private_bytes);
    rows = walk(withRoot(tree.branches)).map((b) => {
      const i = judged.get(b.trial);
      return {...b, own: b.live ? own.get(b.branch) : undefined,
        ...i === undefined ? {} : {label: survey.columns.label[i], loss: survey.columns.loss[i]}};
    });
    at = rows.findIndex((b) => b.branch === shown);
    state = run;
    byHand.update(run, rows.find((b) => b.branch === chosen));
    clock = Math.max(1, run.clock);
    // Only the latest of too many slices are shown: the axis begins there.
    const forked = tree.branches.filter((b) => b.branch !== 0).map((b) => b.created_clock);
    start = tree.total > tree.branches.length && forked.length > 0 ? Math.min(...forked) : 0;
    gather(list);
    // A branch whose early slices are not kept any more is shown whole.
    for (const b of rows) {
      const bars = slices.get(b.branch);
      if (bars && bars[0][0] > b.first_clock) bars.unshift([b.first_clock, bars[0][0]]);
    }
    frame.draw();
    if (at < 0) put(frame.readout, tree.total > rows.length
      ? rows.length + " of " + short(tree.total) + " branches: the lineage, what lives, what ran longest, " +
        "the newest first; zoom to see others"
      : count(rows.length, "branch", "branches"));
  }
  return {root, refresh, destroy() { frame.destroy(); }};
}
