// All runs: state, progress, best, time left, what tuning costs.

import {submitRun} from "./control.js";
import {get} from "./data.js";
import {button, chip, count, duration, el, ENDED, link, number, put, runHref, runSeconds,
  short, timeLeft} from "./text.js";

const PAGE = 50;

export function part(run) {
  if (ENDED.has(run.status)) return run.status === "finished" ? 1 : null;
  const parts = [];
  if (!run.stop) return null;
  if (run.stop.max_epochs) parts.push(run.epochs / run.stop.max_epochs);
  const time = number(run.stop.max_time);
  if (Number.isFinite(time)) parts.push(runSeconds(run) / time);
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

const COLUMNS = ["compare", "run", "state", "progress", "loss", "best", "time", "left at most",
  "tuning", "trials"];
const PLACE = {run: ".head", loss: ".wide", trials: ".wide"}; // on a narrow screen

export function runsView({crumbs}) {
  const body = el("tbody"), note = el("p.quiet", "loading");
  const older = button("older runs", () => { pages++; refresh(); }, "small");
  const compare = button("compare", () => {
    location.hash = "#/compare/" + [...chosen].map(encodeURIComponent).join(",");
  });
  const submit = button("new run", () => submitRun((run) => { location.hash = runHref(run); }));
  submit.hidden = true;
  const table = el("table.stack", el("thead", el("tr", ...COLUMNS.map((c) => el("th", c)))), body);
  const root = el("section.card", el("div.head", el("h1", "runs"), el("div.buttons", submit, compare)),
    el("div.scroll", table), note, older);
  const chosen = new Set();
  let pages = 1;
  older.hidden = true;
  crumbs("runs");

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
    return box;
  }
  function enable() {
    compare.disabled = chosen.size < 2 || chosen.size > 6;
    compare.title = compare.disabled ? "choose two to six runs" : "";
  }
  function row(run) {
    const left = timeLeft(run);
    const name = el("span", link(run.name || run.run, runHref(run.run)));
    if (run.name && run.name !== run.run) name.append(el("span.quiet.id", run.run));
    const state = el("span", chip(run.status));
    if (run.queue && run.queue.waits) state.append(el("span.quiet.id", "group " + run.queue.group));
    const cells = [choose(run), name, state, progress(run), short(run.loss), best(run),
      duration(runSeconds(run)), left === null ? "–" : duration(left), tuningCost(run),
      short(run.tuning.trials)];
    return el("tr", ...cells.map((c, i) => {
      const td = el("td" + (PLACE[COLUMNS[i]] || ""), c);
      td.dataset.label = COLUMNS[i];
      return td;
    }));
  }
  async function refresh() {
    const runs = [];
    let token, total = 0;
    for (let i = 0; i < pages && token !== null; i++) {
      const list = await get("/runs", {order: "desc", page_size: PAGE, page_token: token});
      runs.push(...list.runs);
      token = list.next_page_token;
      total = list.total;
    }
    const focused = document.activeElement && document.activeElement.getAttribute("aria-label");
    body.replaceChildren(...runs.map(row));
    if (focused)
      for (const box of body.querySelectorAll("input"))
        if (box.getAttribute("aria-label") === focused) box.focus();
    put(note, total === 0 ? "no run yet" : runs.length < total
      ? "the latest " + runs.length + " of " + short(total) : "");
    older.hidden = token === null || token === undefined;
    compare.hidden = total < 2;
    submit.hidden = total > 0 && !runs.some((r) => r.queue); // only a service takes runs
    enable();
  }
  return {root, run: null, refresh, destroy() {}};
}
