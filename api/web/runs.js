// All runs: state, progress, best, time left, what tuning costs.

import {get} from "./data.js";
import {needs} from "./me.js";
import {noteBrief, tagLinks} from "./notes.js";
import {submitRun} from "./newrun.js";
import {finder, ordered, ORDERS} from "./search.js";
import {begunSeconds, button, chip, count, duration, el, ENDED, link, number, put, QUEUED, runHref,
  runSeconds, short, timeLeft} from "./text.js";

const PAGE = 100;        // of the newest runs, read each time
const MANY = 1000;       // in a page when all are read
const ROWS = 100;        // shown at first, and more at each click
const MOVING = 20;       // older runs that are read one by one
const AGAIN_MS = 300000; // after which all are read again
const TYPING_MS = 120;

export function part(run) {
  if (ENDED.has(run.status)) return run.status === "finished" ? 1 : null;
  const parts = [];
  if (!run.stop) return null;
  if (run.stop.max_epochs) parts.push(run.epochs / run.stop.max_epochs);
  const time = number(run.stop.max_time);
  if (Number.isFinite(time)) parts.push(begunSeconds(run) / time);
  const known = parts.filter(Number.isFinite);
  return known.length > 0 ? Math.min(1, Math.max(...known)) : null;
}

function progress(run) {
  const now = part(run), cell = el("div.progress");
  if (now !== null && !ENDED.has(run.status)) {
    const bar = el("progress");
    bar.max = 1;
    bar.value = now;
    bar.setAttribute("aria-label", "part of what the limits allow");
    cell.append(bar);
  }
  cell.append(el("span", count(run.epochs, "epoch")));
  return cell;
}

export function tuningCost(run) {
  const spent = runSeconds(run), tuning = number(run.tuning.seconds);
  if (!(spent > 0)) return "–";
  return duration(tuning) + " (" + Math.round(100 * Math.min(1, tuning / spent)) + " %)";
}

function best(run) {
  if (!run.best) return "–";
  const metric = run.job && run.job.metric;
  return metric && run.best.metric !== null
    ? metric.name + " " + short(run.best.metric) : "loss " + short(run.best.loss);
}

const COLUMNS = ["compare", "run", "state", "started", "progress", "loss", "best", "time", "left at most",
  "tuning", "trials"];
const PLACE = {run: ".lead", started: ".wide", loss: ".wide", trials: ".wide"}; // on a narrow screen
const DOWN = new Set(["started", "progress", "time", "tuning", "trials"]); // largest first at the first click
const STATES = {"all states": () => true, "under way": (r) => !ENDED.has(r.status) && !QUEUED.has(r.status),
  queued: (r) => QUEUED.has(r.status), finished: (r) => r.status === "finished",
  stopped: (r) => r.status === "stopped" || r.status === "interrupted", failed: (r) => r.status === "failed"};

function started(run) {
  const at = run.started_at || (run.queue && run.queue.submitted_at);
  if (!at) return "–";
  const when = new Date(at), time = el("time", when.toLocaleString([], {month: "short", day: "numeric",
    hour: "2-digit", minute: "2-digit", hour12: false}));
  time.dateTime = at;
  time.title = when.toLocaleString();
  return time;
}

// All runs of the server, the newest first. Many are read once, page by page;
// after that the newest are, those of the others that had not ended, and all
// again when their number is not that of those known, or after a while: then an
// old run may go on.
function store() {
  const known = new Map();
  let walked = -Infinity, order = [];

  async function walk(found) {
    const seen = [];
    let token;
    do {
      const list = await get("/runs", {order: "desc", page_size: token ? MANY : PAGE, page_token: token});
      for (const run of list.runs) { known.set(run.run, run); seen.push(run.run); }
      token = list.next_page_token;
      if (token && seen.length === list.runs.length && order.length === 0) { // the first time
        order = seen.slice();
        found(list.total);
      }
    } while (token);
    order = seen;
    const all = new Set(seen);
    for (const id of [...known.keys()]) if (!all.has(id)) known.delete(id);
    walked = performance.now();
  }
  // Calls found(total) with the first page, before all are there.
  async function refresh(found) {
    if (performance.now() - walked > AGAIN_MS) return walk(found);
    const list = await get("/runs", {order: "desc", page_size: PAGE});
    const fresh = list.runs.filter((r) => !known.has(r.run)).map((r) => r.run);
    for (const run of list.runs) known.set(run.run, run);
    order = [...fresh, ...order];
    const read = new Set(list.runs.map((r) => r.run));
    const moving = order.filter((id) => !read.has(id) && !ENDED.has(known.get(id).status));
    if (list.total !== order.length || moving.length > MOVING) return walk(found);
    for (const id of moving) known.set(id, await get("/runs/" + encodeURIComponent(id)));
  }
  return {refresh, runs: () => order.map((id) => known.get(id))};
}

// What is looked for stands in the address: it is there again on the way back.
const asked = () => new URLSearchParams(location.hash.split("?")[1] || "");

export function runsView({crumbs}) {
  const body = el("tbody"), note = el("p.quiet", "loading"), all = store(), rows = new Map();
  const query = asked(), chosen = new Set();
  let column = COLUMNS.includes(query.get("by")) ? query.get("by") : "started";
  let down = query.get("down") !== "0", folded = true, shown = ROWS, total = null, timer = null;
  const older = button("more runs", () => { shown += ROWS; draw(); }, "small");
  const fold = button("", () => { folded = !folded; draw(); }, "small");
  const compare = button("compare", () => {
    location.hash = "#/compare/" + [...chosen].map(encodeURIComponent).join(",");
  });
  const submit = needs(button("new run", () => submitRun((run) => { location.hash = runHref(run); }), "primary"), "run");
  submit.hidden = true;
  const find = el("input"), state = el("select");
  find.type = "search";
  find.placeholder = "name, tag, learning_rate<0.01";
  find.title = "words of the name, state, application, group, setting, tags or note; " +
    "conditions: learning_rate<0.01, accuracy>=0.9, app=nn, tag=baseline, epochs>10";
  find.setAttribute("aria-label", "find runs");
  find.value = query.get("find") || "";
  find.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(changed, TYPING_MS); });
  state.setAttribute("aria-label", "state");
  for (const name of Object.keys(STATES)) state.append(el("option", name));
  state.value = query.get("state") in STATES ? query.get("state") : "all states";
  state.addEventListener("change", changed);
  function orderBy(c) {
    down = c === column ? !down : DOWN.has(c);
    column = c;
    changed();
  }
  // A narrow screen has no room for the columns' names.
  const order = el("select.narrow"), turn = button("", () => orderBy(column), "narrow");
  order.setAttribute("aria-label", "order by");
  order.append(...COLUMNS.filter((c) => ORDERS[c]).map((c) => el("option", c)));
  order.addEventListener("change", () => orderBy(order.value));
  const heads = COLUMNS.map((c) => {
    if (!ORDERS[c]) return el("th", c);
    const th = el("th", button(c, () => orderBy(c), "sort"));
    th.scope = "col";
    return th;
  });
  const table = el("table.stack", el("thead", el("tr", ...heads)), body);
  const root = el("section.card", el("div.head", el("h1", "runs"),
    el("div.buttons.finding", find, state, order, turn, submit, compare)), el("div.scroll", table), note,
  el("div.buttons", fold, older));
  older.hidden = fold.hidden = true;
  crumbs("runs");

  function changed() {
    const now = new URLSearchParams();
    if (find.value.trim()) now.set("find", find.value.trim());
    if (state.value !== "all states") now.set("state", state.value);
    if (column !== "started" || !down) { now.set("by", column); now.set("down", down ? "1" : "0"); }
    history.replaceState(null, "", "#/" + (now.size > 0 ? "?" + now : ""));
    shown = ROWS;
    draw();
  }

  function choose(run) {
    const box = el("input");
    box.type = "checkbox";
    box.checked = chosen.has(run.run);
    box.setAttribute("aria-label", "compare " + (run.name || run.run));
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(run.run);
      else chosen.delete(run.run);
      enable();
    });
    return el("label.tick", box); // the whole of it can be touched
  }
  function enable() {
    compare.disabled = chosen.size < 2 || chosen.size > 6;
    compare.title = compare.disabled ? "choose two to six runs" : "";
  }
  // A row is made anew only where its run has changed, so that what has the
  // focus keeps it.
  function row(run) {
    const text = JSON.stringify(run), had = rows.get(run.run);
    if (had && had.text === text) return had.tr;
    const tr = made(run);
    if (had && had.tr.contains(document.activeElement)) {
      const at = [...had.tr.querySelectorAll("a, input")].indexOf(document.activeElement);
      requestAnimationFrame(() => tr.querySelectorAll("a, input")[at]?.focus());
    }
    rows.set(run.run, {text, tr});
    return tr;
  }
  function made(run) {
    const left = timeLeft(run);
    const name = el("span", link(run.name || run.run, runHref(run.run)));
    if (run.name && run.name !== run.run) name.append(el("span.quiet.id", run.run));
    if (run.tags?.length > 0) name.append(el("span.tags", ...tagLinks(run)));
    if (run.note) name.append(noteBrief(run));
    const is = el("span", chip(run.status));
    if (run.queue && run.queue.waits) is.append(el("span.quiet.id", "group " + run.queue.group));
    const cells = [choose(run), name, is, started(run), progress(run), short(run.loss), best(run),
      duration(runSeconds(run)), left === null ? "–" : duration(left), tuningCost(run),
      short(run.tuning.trials)];
    return el("tr", ...cells.map((c, i) => {
      const td = el("td" + (PLACE[COLUMNS[i]] || ""), c);
      td.dataset.label = COLUMNS[i];
      return td;
    }));
  }
  function draw() {
    const runs = all.runs(), wanted = finder(find.value);
    let found = runs.filter((r) => STATES[state.value](r) && wanted(r));
    const failed = found.filter((r) => r.status === "failed").length;
    fold.hidden = failed === 0 || state.value === "failed";
    put(fold, (folded ? "show " : "fold ") + count(failed, "failed run"));
    fold.setAttribute("aria-expanded", String(!folded));
    if (folded && !fold.hidden) found = found.filter((r) => r.status !== "failed");
    found = column === "started" && down ? found : ordered(found, column, down);
    order.value = column;
    put(turn, down ? "↓" : "↑");
    turn.setAttribute("aria-label", down ? "descending" : "ascending");
    heads.forEach((th, i) => {
      if (COLUMNS[i] === column) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    const now = found.slice(0, shown).map(row);
    if (now.length !== body.children.length || now.some((tr, i) => body.children[i] !== tr))
      body.replaceChildren(...now);
    const asks = find.value.trim() || state.value !== "all states";
    put(note, total === null ? "loading" : total === 0 ? "no run yet"
      : runs.length < total ? "the latest " + short(runs.length) + " of " + short(total) + "; the others are being read"
      : asks || now.length < found.length ? short(now.length) + " shown of " + short(found.length) +
        " found among " + count(total, "run") : count(total, "run"));
    older.hidden = found.length <= shown;
    compare.hidden = runs.length < 2;
    submit.hidden = runs.length > 0 && !runs.some((r) => r.queue); // only a service takes runs
    enable();
  }
  async function refresh() {
    await all.refresh((many) => { total = many; draw(); });
    total = all.runs().length;
    draw();
  }
  return {root, run: null, refresh, destroy() { clearTimeout(timer); }};
}
