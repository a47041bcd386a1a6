// The cluster: what each node does and holds, how fresh the rows are that
// workers read, the bandwidth between nodes, what branches share of memory.

import {drawing} from "./canvas.js";
import {merged} from "./compare.js";
import {get, runPath} from "./data.js";
import {plot} from "./plot.js";
import {bytes, count, duration, el, ENDED, number, put, short} from "./text.js";

const SILENT_MS = 30000; // a node of a long run is recorded once in ten seconds
const LINES = 6;         // nodes that have a line of their own
const BRANCHES = 40;     // with most memory of their own
const NO_READ = "no read of a row with a bound so far (bsp, ssp, essp on several nodes)";
const COLUMNS = ["node", "state", "workers", "where time went", "work", "waits", "memory", "sent",
  "received"];
const TIMES = [["work", "good"], ["wait", "second"], ["copy", "warn"], ["stalled", "bad"]];

// Swatches of colours with their meanings.
const legend = (entries) => el("p.legend", ...entries.map(([colour, text]) => el("span", el("i.swatch.bar." + colour), text)));

const sum = (values) => values.reduce((a, b) => a + b, 0);
const percent = (part) => short(part * 100, part < 0.1 ? 2 : 3) + " %";

// ---- nodes -----------------------------------------------------------------

function timeBar(node) {
  const all = sum(TIMES.map(([name]) => number(node.seconds[name])));
  const text = TIMES.map(([name]) => name + " " + percent(all > 0 ? number(node.seconds[name]) / all : 0))
    .join(", ");
  const bar = el("span.share", ...TIMES.map(([name, colour]) => {
    const part = el("span." + colour);
    part.style.flexGrow = String(all > 0 ? number(node.seconds[name]) / all : 0);
    return part;
  }));
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", text);
  bar.title = text;
  return bar;
}

// Time of waiting, and its share of all.
function waits(node) {
  const all = sum(TIMES.map(([name]) => number(node.seconds[name]))), wait = number(node.seconds.wait);
  return duration(wait) + (all > 0 ? " (" + percent(wait / all) + ")" : "");
}

// State of a node, from its latest beat and the run's state.
function state(node, run) {
  if (ENDED.has(run.status)) return ["ended", ""];
  if (!node.alive) return ["gone", ""];
  const silent = Date.parse(run.updated_at) - Date.parse(node.beat_at);
  return silent > SILENT_MS ? ["silent for " + duration(silent / 1000), "warn"] : ["alive", "good"];
}

function nodeTable() {
  const body = el("tbody"), note = el("p.quiet");
  const root = el("section.card", el("div.head", el("h2", "nodes")), el("div.scroll",
    el("table.stack", el("thead", el("tr", ...COLUMNS.map((c) => el("th", c)))), body)), note);
  note.before(legend([["good", "work"], ["second", "waiting for other workers and rows"], ["warn", "copying what branches share"],
    ["bad", "the machine stood still (beyond the usual, in clocks that took over twenty times as long)"]]));
  function update(nodes, run) {
    body.replaceChildren(...nodes.map((n) => {
      const [text, colour] = state(n, run);
      const cells = [String(n.node), el("span" + (colour ? "." + colour : ""), text), short(n.workers),
        timeBar(n), duration(number(n.seconds.work)), waits(n),
        bytes(n.memory.in_use_bytes) + " of " + bytes(n.memory.limit_bytes),
        bytes(n.traffic.bytes_sent), bytes(n.traffic.bytes_received)];
      return el("tr", ...cells.map((c, i) => {
        const td = el("td" + (i > 3 ? ".number" : ""), c);
        td.dataset.label = COLUMNS[i];
        return td;
      }));
    }));
    const sent = sum(nodes.map((n) => n.traffic.bytes_sent));
    put(note, sent > 0 ? bytes(sent) + " sent between " + count(nodes.length, "node") : nodes.length > 1
      ? "nothing was sent between the nodes so far" : "one node: nothing is sent");
  }
  return {root, update};
}

// ---- staleness -------------------------------------------------------------

// Reads by difference over all nodes: [{difference, reads, nodes: [reads]}].
function histogram(nodes) {
  const used = nodes.filter((n) => n.staleness.reads > 0);
  if (used.length === 0) return [];
  const low = Math.min(...used.map((n) => n.staleness.least));
  const high = Math.max(...used.map((n) => n.staleness.least + n.staleness.counts.length - 1), -1);
  return Array.from({length: high - low + 1}, (_, i) => {
    const each = nodes.map((n) => n.staleness.counts[low + i - n.staleness.least] || 0);
    return {difference: low + i, reads: sum(each), nodes: each};
  });
}

function explain(difference) {
  if (difference === -1) return "all clocks before the reader's own";
  if (difference < -1) return count(-1 - difference, "clock") + " behind that";
  return count(difference + 1, "clock") + " of others that the reader has not ended itself";
}

function stalenessChart(id) {
  let bars = [], nodes = [], at = -1;
  const LEFT = 46, RIGHT = 8, TOP = 18, BOTTOM = 36;
  const frame = drawing({
    title: "staleness of reads", name: id + "-staleness",
    label: "Histogram of the staleness that reads saw. Arrow keys read its bars.",
    height: () => bars.length > 0 ? 240 : 1,
    draw, pick: (x, y, clicked) => {
      const i = Math.floor((x - LEFT) / width() * bars.length);
      return bars[i] ? say(i, clicked) : undefined;
    },
    key: (e) => {
      const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: bars.length - 1}[e.key];
      return to === undefined || bars.length === 0 ? undefined
        : say(Math.max(0, Math.min(bars.length - 1, to)), true);
    },
    csv: () => [["node", "difference", "reads"], ...nodes.flatMap((n, k) =>
      bars.map((b) => [n.node, b.difference, b.nodes[k]]))],
  });
  const width = () => frame.canvas.clientWidth - LEFT - RIGHT;
  function say(i, chosen) {
    const b = bars[i], all = sum(bars.map((k) => k.reads));
    if (chosen && at !== i) { at = i; frame.draw(); }
    const each = nodes.length <= 8 ? "; by node " + nodes.map((n, k) =>
      n.node + ": " + percent(n.staleness.reads ? b.nodes[k] / n.staleness.reads : 0)).join(", ") : "";
    return "difference " + b.difference + " (" + explain(b.difference) + "): " + short(b.reads) + " reads, " +
      percent(b.reads / all) + each;
  }
  function draw(ctx, whole, height, c) {
    ctx.textBaseline = "middle";
    if (bars.length === 0) return;
    const all = sum(bars.map((b) => b.reads)), highest = Math.max(...bars.map((b) => b.reads)) / all;
    const line = [0.02, 0.05, 0.1, 0.2, 0.25].find((s) => highest <= 5 * s) || 0.25;
    const lines = Math.max(1, Math.ceil(highest / line)), most = lines * line;
    const span = whole - LEFT - RIGHT, tall = height - TOP - BOTTOM, step = span / bars.length;
    ctx.strokeStyle = c.line;
    ctx.lineWidth = 1;
    for (let i = 0; i <= lines; i++) {
      const y = Math.round(TOP + tall * (1 - i / lines)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(LEFT, y);
      ctx.lineTo(whole - RIGHT, y);
      ctx.stroke();
      ctx.textAlign = "right";
      ctx.fillStyle = c.quiet;
      ctx.fillText(percent(line * i), LEFT - 5, y);
    }
    const bar = Math.min(90, step * 0.7), every = Math.ceil(44 / step);
    bars.forEach((b, i) => {
      const h = tall * b.reads / all / most, middle = LEFT + step * (i + 0.5);
      ctx.fillStyle = b.difference >= -1 ? c.accent : c.second;
      ctx.globalAlpha = at < 0 || at === i ? 1 : 0.55;
      ctx.fillRect(middle - bar / 2, TOP + tall - h, bar, h);
      ctx.globalAlpha = 1;
      if (i % every) return;
      ctx.textAlign = "center";
      ctx.fillStyle = c.ink;
      ctx.fillText(String(b.difference), middle, height - BOTTOM + 11);
    });
    ctx.fillStyle = c.quiet;
    ctx.textAlign = "center";
    ctx.fillText("clocks seen, relative to the reader's own", LEFT + span / 2, height - 9);
  }
  return {...frame, update(list) {
    const known = bars[at] && bars[at].difference, reads = sum(list.map((n) => n.staleness.reads));
    nodes = list;
    bars = histogram(list);
    at = bars.findIndex((b) => b.difference === known);
    frame.draw();
    if (at >= 0) put(frame.readout, say(at, false));
    else put(frame.readout, reads === 0 ? NO_READ : short(reads) + " reads, mean " +
      short(sum(list.map((n) => n.staleness.sum)) / reads, 3) +
      ". Staleness: how many clocks a row lagged behind its reader when it was read. -1 has all clocks before the reader's own; each " +
      "less is one clock staler");
  }};
}

// ---- bandwidth -------------------------------------------------------------

// Megabits a second between two points of a node, at the later one.
function rates(node) {
  const x = [], y = [];
  for (let i = 1; i < node.elapsed_seconds.length; i++) {
    const seconds = node.elapsed_seconds[i] - node.elapsed_seconds[i - 1];
    if (!(seconds > 0)) continue;
    x.push(node.elapsed_seconds[i]);
    y.push((node.bytes_sent[i] - node.bytes_sent[i - 1]) * 8e-6 / seconds);
  }
  return {node: node.node, x, y};
}

// The budget of a node at each of the seconds @x, by the settings that were
// chosen: [] where none has one.
function budgets(x, choices, run) {
  const begun = Date.parse(run.started_at), steps = choices.map((c) =>
    [(Date.parse(c.at) - begun) / 1000, number(c.setting.bandwidth_mbps)]);
  if (!steps.some(([, v]) => Number.isFinite(v))) return [];
  return x.map((at) => {
    const now = steps.filter(([from]) => from <= at).at(-1);
    return now && Number.isFinite(now[1]) ? now[1] : null;
  });
}

function bandwidthPlot(id) {
  const frame = plot({title: "bandwidth used by each node", name: id + "-bandwidth",
    xLabel: "seconds since the start", yLabel: "Mbit/s sent", height: 240, x: [], series: [],
    empty: "nothing was sent between nodes so far"});
  const key = el("p.legend");
  frame.readout.before(key);
  return {...frame, update(traffic, choices, run) {
    const all = traffic.nodes.map(rates), sent = all.some((r) => r.y.some((v) => v > 0));
    const few = all.length <= LINES, lines = sent ? merged(all) : {x: [], values: []};
    const mean = lines.x.map((_, i) => {
      const here = lines.values.map((v) => v[i]).filter((v) => v !== null);
      return sum(here) / here.length;
    });
    const budget = budgets(lines.x, choices, run);
    const limit = budget.length === 0 ? [] : [{label: "budget", values: budget, colour: "warn",
      width: 1.5, dash: [6, 4], kind: "steps", points: false}];
    key.replaceChildren(...!sent ? [] : legend([...few ? all.map((r, i) => ["run" + i, "node " + r.node]) : [["accent", "mean"], ["quiet", "each node"]],
      ...limit.length > 0 ? [["warn", "budget"]] : []]).childNodes);
    frame.update({x: lines.x,
      series: [...limit, ...few ? lines.values.map((values, i) => ({label: "node " + all[i].node, values,
        colour: "run" + i, width: 1.5, points: lines.x.length <= 2 * all.length}))
        : [{label: "mean of those that told", values: mean, colour: "accent", points: false}]],
      bundles: few ? [] : [{colour: "quiet", alpha: 0.35, lines: all}],
      note: !sent ? "" : limit.length > 0 ? "dashed: a node's budget by the setting in use (trials have their own)" : "point at a line to read it",
      csv: () => [["node", "seconds", "bytes_sent", "bytes_received", "memory_bytes"],
        ...traffic.nodes.flatMap((n) => n.elapsed_seconds.map((s, i) =>
          [n.node, s, n.bytes_sent[i], n.bytes_received[i], n.memory_bytes[i]]))]});
  }};
}

// ---- memory ----------------------------------------------------------------

// Memory of branches over all nodes, those with most of their own first. Nodes
// tell it at different moments: a branch that only some of them know comes or
// goes, and is left out.
function held(nodes) {
  const of = new Map(), telling = nodes.filter((n) => n.branches.length > 0).length;
  for (const n of nodes)
    for (const b of n.branches) {
      if (!of.has(b.branch)) of.set(b.branch, {branch: b.branch, own: 0, shared: 0, nodes: 0});
      of.get(b.branch).own += b.private_bytes;
      of.get(b.branch).shared += b.shared_bytes;
      of.get(b.branch).nodes++;
    }
  return [...of.values()].filter((b) => b.nodes === telling).sort((a, b) => b.own - a.own || a.branch - b.branch);
}

// What all branches take, and would take each alone: what the nodes say of all their
// branches at one moment (docs/http/nodes.md), not a sum of those that are listed.
function memoryText(nodes) {
  const used = sum(nodes.map((n) => n.memory.in_use_bytes)), saved = sum(nodes.map((n) => n.memory.saved_bytes || 0));
  return bytes(used) + " in use by all branches, with what finds their rows" + (saved > 0 ? "; without sharing they would take " + bytes(used + saved) +
    ", " + short((used + saved) / used, 3) + " times that" : "; nothing is shared at the moment");
}

function memoryChart(id) {
  let rows = [], at = -1;
  const ROW = 20, TOP = 6, LEFT = 84, RIGHT = 76;
  const frame = drawing({
    title: "memory of branches", name: id + "-memory",
    label: "Memory that each branch shares and has of its own. Arrow keys go through the branches.",
    height: () => rows.length > 0 ? TOP + Math.min(rows.length, BRANCHES) * ROW + 6 : 40,
    draw, pick: (x, y, clicked) => {
      const i = Math.floor((y - TOP) / ROW);
      return rows[i] && i < BRANCHES ? say(i, clicked) : undefined;
    },
    key: (e) => {
      const last = Math.min(rows.length, BRANCHES) - 1;
      const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last}[e.key];
      return to === undefined || last < 0 ? undefined : say(Math.max(0, Math.min(last, to)), true);
    },
    csv: () => [["branch", "shared_bytes", "private_bytes"],
      ...rows.map((r) => [r.branch, r.shared, r.own])],
  });
  frame.scroll.classList.add("tall");
  const key = legend([["accent", "its own"], ["second", "shared with other branches"]]);
  frame.readout.before(key);
  function say(i, chosen) {
    const r = rows[i];
    if (chosen && at !== i) { at = i; frame.draw(); }
    return "branch " + r.branch + ": " + bytes(r.own) + " of its own, " + bytes(r.shared) +
      " that other branches refer to as well";
  }
  function draw(ctx, width, height, c) {
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    if (rows.length === 0) {
      ctx.fillStyle = c.quiet;
      ctx.fillText("no branch has written anything so far", 4, 20);
      return;
    }
    const most = Math.max(1, ...rows.map((r) => r.own + r.shared)), span = width - LEFT - RIGHT;
    rows.slice(0, BRANCHES).forEach((r, i) => {
      const y = TOP + i * ROW, own = span * r.own / most, shared = span * r.shared / most;
      if (i === at) {
        ctx.fillStyle = c.faint;
        ctx.fillRect(0, y, width, ROW);
      }
      ctx.fillStyle = c.ink;
      ctx.fillText("branch " + r.branch, 4, y + ROW / 2);
      ctx.fillStyle = c.accent;
      ctx.fillRect(LEFT, y + 4, own, ROW - 8);
      ctx.fillStyle = c.second;
      ctx.globalAlpha = 0.6;
      ctx.fillRect(LEFT + own, y + 4, shared, ROW - 8);
      ctx.globalAlpha = 1;
      ctx.fillStyle = c.quiet;
      ctx.fillText(bytes(r.own + r.shared), LEFT + own + shared + 6, y + ROW / 2);
    });
  }
  return {...frame, update(nodes) {
    const known = rows[at] && rows[at].branch;
    rows = held(nodes);
    key.hidden = rows.length === 0;
    at = rows.findIndex((r, i) => r.branch === known && i < BRANCHES);
    frame.draw();
    put(frame.readout, at >= 0 ? say(at, false) : rows.length === 0 ? "" : memoryText(nodes) +
      (rows.length > BRANCHES ? "; the " + BRANCHES + " with most of their own are shown" : ""));
  }};
}

// ---- the tab ---------------------------------------------------------------

export function clusterTab(id) {
  const table = nodeTable(), staleness = stalenessChart(id), bandwidth = bandwidthPlot(id);
  const memory = memoryChart(id), none = el("p.card.quiet", "No node has been heard of so far.");
  const own = el("p.card.quiet", "The program keeps its own state: it tells how much all branches take together, " +
    "and reads no rows of others.");
  const pair = el("div.pair", staleness.root, bandwidth.root);
  own.hidden = true; // until it is known what the program is
  const root = el("div.stacked", none, table.root, own, pair, memory.root);
  let config = null;

  // Those of a program that is no node of ours would stay empty.
  function choose(nodes) {
    const foreign = Boolean(config.app && config.app.command) && !nodes.some((n) => n.branches.length > 0);
    own.hidden = !foreign;
    pair.hidden = memory.root.hidden = foreign;
  }

  async function refresh(run) {
    config = config || await get(runPath(id, "/config"));
    const [list, traffic, choices] = await Promise.all([get(runPath(id, "/nodes"), {page_size: 1000}),
      get(runPath(id, "/traffic"), {max_points: 400}),
      get(runPath(id, "/schedule"), {order: "desc", page_size: 1000})]);
    none.hidden = list.nodes.length > 0;
    table.root.hidden = list.nodes.length === 0;
    table.update(list.nodes, run);
    choose(list.nodes);
    staleness.update(list.nodes);
    bandwidth.update(traffic, choices.schedule.reverse(), run);
    memory.update(list.nodes);
  }
  return {root, refresh,
    destroy() { staleness.destroy(); bandwidth.destroy(); memory.destroy(); }};
}
