// Branches as a time line: time from left to right, a row for each lineage, forks
// as joints, what each branch came to by colour.

import {linearTicks, tickDigits} from "./axes.js";
import {branchControls} from "./byhand.js";
import {drawing} from "./canvas.js";
import {get, runPath} from "./data.js";
import {between, inRows, lineages, neighbour, withRoot} from "./lineages.js";
import {button, bytes, count, el, ENDED, number, put, settingText, short, tick} from "./text.js";

const BRANCHES = 1000, SLICES = 2000, SPANS = 300;
const AXIS = 22, SEARCHES = 20;          // heights above the rows
const TALL = 26, LOW = 8, HIGH = 560;    // of a row; what rows are made lower for
const TEXT = 16;                         // from which on a row has names in it
const LEAST = 9, GAP = 3;                // pixels that a bar has for itself, and between two
const JOINTS = 6;                        // pixels between joints, below which only those of the chosen are drawn
const AXES = ["time", "clock", "forks"]; // the last: as far from one another as there are forks and ends between
const UNITS = [[7200, 3600, "h"], [120, 60, "min"], [0, 1, "s"]];

const STATES = [["accent", "the surviving lineage"], ["good", "converging"], ["warn", "unstable"],
  ["bad", "diverged or failed"], ["second", "stopped early, or no trial"]];

function colourOf(b) {
  if (b.surviving) return "accent";
  return {converging: "good", unstable: "warn", diverged: "bad", failed: "bad"}[b.label] || "second";
}

const nameOf = (b) => b.trial ? "trial " + b.trial : b.branch === 0 ? "start" : b.role || "branch " + b.branch;
const stateOf = (b) => (b.surviving ? [b.result ? "survived as the result" : "surviving"] : [])
  .concat(b.label || [], b.live ? "lives" : []).join(", ");

// Branches of a run that has ended: none lives any more. Those that the run had still
// are of the result, or were left when it ended.
export function asEnded(branches, run) {
  if (!ENDED.has(run.status)) return branches;
  const last = branches.findLast((b) => b.live && b.surviving); // its loss is that of the last epoch
  return branches.map((b) => !b.live || b.branch === 0 ? b : {...b, live: false, result: b.surviving,
    loss: b.loss ?? (b === last ? run.last_epoch?.loss : null) ?? null, freed_reason: "the run ended"});
}

function describe(b) {
  if (b.branch === 0) return "branch 0: the state before the first clock";
  const end = b.live ? "lives" : b.result ? "survived as the result" : "freed: " + (b.freed_reason || "no reason given");
  return "branch " + b.branch + ", " + b.role + (b.trial ? ", trial " + b.trial : "") +
    (b.surviving ? ", of the surviving lineage" : "") + "; " +
    (b.parent === null ? "the root" : "from branch " + b.parent + " at clock " + short(b.created_clock)) +
    "; ran " + count(b.clocks, "clock") + (b.label ? ", " + b.label : "") +
    (Number.isFinite(number(b.loss)) ? ", loss " + short(b.loss) : "") +
    (b.own === undefined ? "" : ", " + bytes(b.own) + " of its own") + "; " + end +
    (Object.keys(b.setting || {}).length > 0 ? "; " + settingText(b.setting) : "");
}

// What is known of a branch, for the one that is pointed at: its setting, loss, memory.
function facts(b) {
  const of = Object.entries(b.setting || {}).map(([name, v]) => [name, typeof v === "number" ? short(v) : v]);
  if (b.loss !== null && b.loss !== undefined) of.push(["loss", short(b.loss)]);
  if (b.branch !== 0) of.push(["ran", count(b.clocks, "clock")]);
  if (b.own !== undefined) of.push(["memory", bytes(b.own) + " of its own" + (b.live ? "" : " at the end")]);
  else if (!b.live) of.push(["memory", "given back"]);
  if (b.parent !== null) of.push(["from", "branch " + b.parent + " at clock " + short(b.created_clock)]);
  if (!b.live && !b.result) of.push(["freed", b.freed_reason || "–"]);
  return of;
}

// A box beside what is pointed at. For the eye only: the line below says the same.
function tip() {
  const root = el("div.tip");
  root.hidden = true;
  root.setAttribute("aria-hidden", "true");
  return {root, hide() { root.hidden = true; },
    show(b, x, y, width) {
      const list = el("dl.facts", ...facts(b).flatMap(([name, value]) => [el("dt", name), el("dd", String(value))]));
      root.replaceChildren(el("p", el("i.swatch.bar." + colourOf(b)), el("b", nameOf(b)),
        el("span.quiet", "branch " + b.branch + (stateOf(b) ? ", " + stateOf(b) : ""))), list);
      root.hidden = false;
      root.style.left = Math.max(0, Math.min(x + 12, width - root.offsetWidth - 4)) + "px";
      root.style.top = y + "px";
    }};
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

// Slices that one branch ran in a row are one bar; of a branch whose early ones are
// not kept any more, and of one without, from its first to its last clock.
export function ranBars(branches, slices) {
  const of = new Map();
  for (const s of slices) {
    const end = s.first_clock + (s.clocks ?? s.scheduled_clocks);
    if (!of.has(s.branch)) of.set(s.branch, []);
    const bars = of.get(s.branch), last = bars.at(-1);
    if (last && last[1] >= s.first_clock) last[1] = Math.max(last[1], end);
    else bars.push([s.first_clock, end]);
  }
  for (const b of branches) {
    const bars = of.get(b.branch);
    if (!bars) of.set(b.branch, [[b.first_clock, b.last_clock]]);
    else if (bars[0][0] > b.first_clock) bars.unshift([b.first_clock, bars[0][0]]);
  }
  return of;
}

// When each search tried: [{search, from, to}] in clocks. What survives goes on after it.
export function searchSpans(branches) {
  const of = new Map();
  for (const b of branches) {
    if (!b.search) continue;
    const s = of.get(b.search) || {search: b.search, from: Infinity, to: 0};
    of.set(b.search, {...s, from: Math.min(s.from, b.created_clock), to: Math.max(s.to, b.surviving ? b.created_clock : b.last_clock)});
  }
  return [...of.values()].sort((a, b) => a.from - b.from);
}

// Clock and seconds of points of all branches, rising, for an axis of time.
function clocks(curve) {
  const all = [curve.lineage, curve.others].flatMap((p) => p.clock.map((c, i) => [c, number(p.seconds[i])]));
  all.sort((a, b) => a[0] - b[0]);
  let latest = 0;
  return {clock: [0, ...all.map(([c]) => c)], seconds: [0, ...all.map(([, s]) => (latest = Math.max(latest, s)))]};
}

export function treeTab(id, {now, said, failed}) {
  let branches = [], lines = [], slices = new Map(), spans = [], clock = 1, start = 0, range = null, known = null;
  let steps = {clock: [], place: []};
  let state = null, rows = [], places = new Map(), of = new Map(), axis = "time", tall = TALL, laid = 0;
  let chosen = null, over = null; // branches: clicked or gone to; pointed at
  const byHand = branchControls(id, said, failed), box = tip();
  const whole = button("whole", () => zoom(null), "small"), choose = el("select");
  choose.setAttribute("aria-label", "axis of the branches");
  choose.append(...AXES.map((name) => el("option", name)));
  choose.addEventListener("change", () => { axis = choose.value; over = null; box.hide(); frame.draw(); });
  whole.hidden = true;

  const seconds = (k) => between(known.clock, known.seconds, k);
  const timed = () => axis !== "clock" && known !== null && known.clock.length > 2;
  const evenly = () => axis === "forks" && steps.clock.length > 2;
  const value = (k) => evenly() ? between(steps.clock, steps.place, k) : axis === "time" && timed() ? seconds(k) : k;
  const clockOf = (v) => evenly() ? between(steps.place, steps.clock, v) : axis === "time" && timed() ? between(known.seconds, known.clock, v) : v;
  const extent = () => range || [start, clock];
  const top = () => AXIS + (spans.length > 0 ? SEARCHES : 0);
  const middle = (row) => top() + (row + 0.5) * tall + 2;

  // Where everything is, for a width.
  function scale(width) {
    const [low, high] = extent().map(value), left = 6, right = width - 16;
    const place = (v) => left + (right - left) * Math.max(0, Math.min(1, (v - low) / (high - low || 1)));
    return {low, high, left, right, place, px: (k) => place(value(k))};
  }
  function layout(width) {
    if (width !== laid) box.hide(); // where it stood is elsewhere now
    laid = width;
    const {px} = scale(width);
    rows = inRows(lines, (b) => {
      const from = px(b.created_clock), bars = slices.get(b.branch);
      const to = b.live || b.result ? px(clock) : Math.max(px(b.last_clock), px(bars.at(-1)[1]));
      return [from, Math.max(to, from + LEAST)];
    }, GAP);
    places = new Map();
    rows.forEach((bars, row) => bars.forEach((k, index) => {
      // A branch lives on beside who goes on from it: its bar ends where that begins.
      const next = bars[index + 1];
      k.end = Math.max(k.from + 3, next ? Math.min(k.to, next.from) : k.to);
      places.set(k.b.branch, {row, index});
    }));
    tall = Math.max(LOW, Math.min(TALL, Math.floor(HIGH / Math.max(1, rows.length))));
    return top() + Math.max(1, rows.length) * tall + 8;
  }
  function at(x, y) {
    const bars = rows[Math.floor((y - top() - 2) / tall)] || [];
    return bars.findLast((k) => x >= k.from - 1 && x <= Math.max(k.end, k.from + LEAST) + 1)?.b;
  }
  const searchAt = (x) => {
    const {px} = scale(frame.canvas.clientWidth);
    return spans.find((s) => x >= px(s.from) && x <= Math.max(px(s.to), px(s.from) + LEAST));
  };
  // A search as wide as the picture, with a bit of what was before and after.
  function showSearch(s) {
    const room = Math.max(2, (s.to - s.from) * 0.05);
    zoom([s.from - room, s.to + room]);
    return "search " + s.search + ", clocks " + short(s.from) + " to " + short(s.to);
  }
  function point(b, x, y) {
    over = b ? b.branch : null;
    if (b) box.show(b, x, y - frame.scroll.scrollTop, frame.scroll.clientWidth);
    else box.hide();
    requestAnimationFrame(() => frame.draw());
  }
  function select(b) {
    chosen = b ? b.branch : null;
    if (state) byHand.update(state, b);
  }
  function go(place) {
    const {b, from} = rows[place.row][place.index], y = middle(place.row);
    select(b);
    frame.scroll.scrollTop = Math.max(0, y - frame.scroll.clientHeight / 2);
    point(b, from, y + tall / 2 + 4);
    return describe(b);
  }
  function keys(e) {
    const here = places.get(chosen);
    if (["+", "-", "0"].includes(e.key)) {
      const [low, high] = extent(), half = (high - low) * (e.key === "+" ? 0.25 : 1), b = of.get(chosen);
      const about = b ? (b.first_clock + b.last_clock) / 2 : (low + high) / 2;
      zoom(e.key === "0" ? null : [about - half, about + half]);
      return b ? describe(b) : "";
    }
    if (!["Home", "End", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].includes(e.key)) return undefined;
    if (rows.length === 0) return "";
    if (e.key === "End") return go(places.get(branches.at(-1).branch));
    return go(e.key === "Home" || !here ? {row: 0, index: 0} : neighbour(rows, here, e.key));
  }
  const frame = drawing({
    title: "branches over time", name: id + "-branches", height: layout, draw, key: keys,
    label: "Time line of branches. Arrow keys go from branch to branch, + and - zoom.",
    pick(x, y, clicked) {
      const b = at(x, y), search = clicked && y >= AXIS && y < top() ? searchAt(x) : null;
      if (search) return showSearch(search);
      if (!b && over === null) return undefined;
      if (clicked && b) select(b);
      point(b, x, y + 16);
      return b ? describe(b) : undefined;
    },
    csv: () => [["branch", "parent", "type", "role", "trial", "search", "label", "loss", "surviving", "live", "created_clock",
      "last_clock", "clocks", "freed_reason", "setting"],
    ...branches.map((b) => [b.branch, b.parent, b.type, b.role, b.trial, b.search, b.label, b.loss, b.surviving, b.live,
      b.created_clock, b.last_clock, b.clocks, b.freed_reason, JSON.stringify(b.setting)])],
  }, choose, whole);
  frame.canvas.addEventListener("pointerleave", () => point(null));
  frame.scroll.classList.add("tall");
  frame.body.classList.add("pointed");
  const legend = el("p.legend", ...STATES.map(([colour, text]) => el("span", el("i.swatch.bar." + colour), text)),
    el("span", el("b.good", "●"), "lives"));
  const key = el("p.quiet", "A row is a lineage: a branch and what goes on from it. Lineages that follow one another " +
    "share a row. A line from a row is a fork. The full part of a bar is when it ran. Drag, or click a search, to zoom. A branch that lives " +
    "and is clicked, or gone to with the arrow keys, can be forked.");
  frame.body.append(box.root, legend, key);
  frame.readout.after(byHand.root);
  byHand.root.hidden = true;
  const root = el("div.stacked", frame.root);

  function zoom(to) {
    range = to && [Math.max(0, to[0]), Math.min(clock, to[1])];
    if (range && (range[1] - range[0] < 1 || range[1] - range[0] >= clock)) range = null;
    whole.hidden = range === null;
    box.hide();
    frame.draw();
    now();
  }
  // Dragging from one time to another shows what lies between.
  let pressed = null;
  const clockAt = (e) => {
    const {low, high, left, right} = scale(frame.canvas.clientWidth);
    const x = e.clientX - frame.canvas.getBoundingClientRect().left;
    return clockOf(low + (high - low) * Math.max(0, Math.min(1, (x - left) / (right - left))));
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

  // ---- the picture -----------------------------------------------------------

  function drawAxis(ctx, width, height, c, {low, high, left, right, place, px}) {
    ctx.textBaseline = "middle";
    spans.forEach((s, i) => {
      const x = px(s.from), to = px(s.to), text = [`search ${s.search}`, String(s.search)].find((t) =>
        ctx.measureText(t).width + 6 < to - x);
      ctx.fillStyle = c.ground;
      if (i % 2 === 0 || spans.length < 20) ctx.fillRect(x, AXIS, to - x, height - AXIS - 4);
      ctx.fillStyle = c.quiet;
      ctx.textAlign = "left";
      if (text) ctx.fillText(text, x + 4, AXIS + SEARCHES / 2);
    });
    // Along the forks a tick says when it was; else it stands at a round number.
    const told = (v) => !evenly() ? v : timed() ? seconds(clockOf(v)) : clockOf(v), most = Math.max(2, (right - left) / 90);
    const [, unit, name] = timed() ? UNITS.find(([from]) => told(high) >= from) : [0, 1, ""];
    const at = evenly() ? linearTicks(low, high, most) : linearTicks(low / unit, high / unit, most, !timed()).map((v) => v * unit);
    const ticks = at.map((v) => told(v) / unit), digits = evenly() ? 3 : tickDigits(ticks);
    ctx.strokeStyle = c.line;
    ctx.fillStyle = c.quiet;
    ctx.lineWidth = 1;
    for (const [i, v] of ticks.entries()) {
      const x = Math.round(place(at[i])) + 0.5, text = tick(v, digits, Math.max(...ticks)) + (name ? " " + name : "");
      ctx.beginPath();
      ctx.moveTo(x, AXIS - 4);
      ctx.lineTo(x, height - 4);
      ctx.stroke();
      const room = ctx.measureText(text).width / 2 + 2;
      ctx.textAlign = "center";
      ctx.fillText(text, Math.max(room, Math.min(x, width - room)), 9);
    }
    if (!timed()) {
      ctx.textAlign = "right";
      ctx.fillText("clock", width - 2, 9);
    }
  }
  // A fork: down from its parent's row, round the corner into its bar.
  function drawJoint(ctx, k, row, c, strong) {
    const from = places.get(k.b.parent);
    if (!from || from.row === row) return;
    const x = Math.round(k.from) + 0.5, y0 = middle(from.row), y1 = middle(row);
    ctx.strokeStyle = strong ? c.ink : c[colourOf(k.b)];
    ctx.globalAlpha = strong ? 1 : 0.55;
    ctx.lineWidth = strong ? 2 : 1;
    ctx.beginPath();
    ctx.moveTo(x - 3, y0);
    ctx.arcTo(x, y0, x, y0 + Math.sign(y1 - y0) * 4, 3);
    ctx.lineTo(x, y1);
    ctx.stroke();
    ctx.globalAlpha = 1;
  }
  function drawBar(ctx, k, row, c, px) {
    const y = middle(row), high = tall >= TEXT ? tall - 6 : tall - 2, colour = c[colourOf(k.b)], thin = tall < TEXT;
    const wide = Math.max(3, k.end - k.from), strip = thin ? high : Math.max(3, Math.round(high * 0.22));
    ctx.fillStyle = c.card;
    ctx.fillRect(k.from, y - high / 2, wide, high);
    ctx.fillStyle = colour;
    if (wide < LEAST + 0.5) return ctx.fillRect(k.from, y - high / 2, Math.min(wide, LEAST - GAP), high); // nothing to tell within
    ctx.globalAlpha = 0.22;
    ctx.fillRect(k.from, y - high / 2, wide, high);
    ctx.globalAlpha = 1;
    for (const [s, e] of joined(slices.get(k.b.branch), px))
      ctx.fillRect(s, y + high / 2 - strip, Math.max(k.b.clocks > 0 ? 3 : 1, e - s), strip);
    if (!thin) ctx.fillRect(k.from, y - high / 2, 2, high);
    if (k.b.live && k.b.branch !== 0 && !thin) {
      ctx.fillStyle = c.good;
      ctx.beginPath();
      ctx.arc(k.from + wide + 6, y, 3.5, 0, 2 * Math.PI);
      ctx.fill();
    }
    const text = [nameOf(k.b), k.b.trial ? String(k.b.trial) : ""].find((t) => ctx.measureText(t).width + 10 < wide);
    if (thin || !text) return;
    ctx.textAlign = "left";
    ctx.fillStyle = c.ink;
    ctx.fillText(text, k.from + 6, y - strip / 2 + 0.5);
  }
  // Which joints are drawn: all where there is room between them, of many the chosen one's.
  function drawJoints(ctx, c) {
    const xs = new Set(rows.flatMap((bars, row) => row === 0 ? [] : bars.map((k) => Math.round(k.from / 3))));
    const {clientWidth} = frame.canvas, marked = new Set();
    for (const from of [chosen, over])
      for (let b = of.get(from); b && !marked.has(b.branch); b = of.get(b.parent)) marked.add(b.branch);
    const all = xs.size === 0 || clientWidth / xs.size >= JOINTS;
    for (const strong of [false, true])
      rows.forEach((bars, row) => bars.forEach((k) => {
        if (strong ? marked.has(k.b.branch) : all) drawJoint(ctx, k, row, c, strong);
      }));
  }
  function draw(ctx, width, height, c) {
    const s = scale(width);
    drawAxis(ctx, width, height, c, s);
    drawJoints(ctx, c);
    rows.forEach((bars, row) => bars.forEach((k) => drawBar(ctx, k, row, c, s.px)));
    for (const branch of [chosen, over]) {
      const place = places.get(branch);
      if (!place) continue;
      const k = rows[place.row][place.index];
      ctx.strokeStyle = c.ink;
      ctx.lineWidth = 2;
      ctx.strokeRect(k.from - 1, middle(place.row) - tall / 2 + 2, Math.max(4, k.end - k.from) + 2, tall - 4);
    }
  }

  // ---- data ------------------------------------------------------------------

  async function latestSlices() {
    const all = [];
    let token;
    while (all.length < SLICES && token !== null) {
      const list = await get(runPath(id, "/slices"), {order: "desc", page_size: 1000, page_token: token});
      all.push(...list.slices);
      token = list.next_page_token;
    }
    return all.reverse();
  }
  async function refresh(run) {
    const part = range ? {from: Math.floor(range[0]), to: Math.ceil(range[1])} : {};
    const [tree, list, {nodes}, curve] = await Promise.all([
      get(runPath(id, "/tree"), {max_branches: BRANCHES, ...part}), latestSlices(), get(runPath(id, "/nodes")),
      get(runPath(id, "/curve"), {spans: SPANS, ...part})]);
    const own = new Map();
    for (const n of nodes) for (const b of n.branches) own.set(b.branch, (own.get(b.branch) || 0) + b.private_bytes);
    branches = asEnded(withRoot(tree.branches).map((b) => ({...b, own: b.live ? own.get(b.branch) : undefined})), run);
    of = new Map(branches.map((b) => [b.branch, b]));
    lines = lineages(branches);
    slices = ranBars(branches, list);
    spans = searchSpans(branches);
    known = clocks(curve);
    const clocksOf = new Set(branches.flatMap((b) => [b.created_clock, b.last_clock]));
    steps.clock = [...clocksOf.add(0).add(Math.max(1, run.clock))].sort((a, b) => a - b);
    steps.place = steps.clock.map((_, i) => i);
    state = run;
    byHand.update(run, of.get(chosen));
    clock = Math.max(1, run.clock);
    // Of too many branches the axis begins with the first that is shown.
    const forked = tree.branches.filter((b) => b.branch !== 0).map((b) => b.created_clock);
    start = tree.total > tree.branches.length && forked.length > 0 ? Math.min(...forked) : 0;
    frame.draw();
    if (of.get(chosen)) return;
    put(frame.readout, tree.total > branches.length
      ? branches.length + " of " + short(tree.total) + " branches: the lineage, what lives, what ran longest, " +
        "the newest first; zoom to see others"
      : count(branches.length, "branch", "branches"));
  }
  return {root, refresh, destroy() { frame.destroy(); }};
}
