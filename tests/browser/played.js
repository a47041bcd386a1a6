// One run as a server would tell of it, in whatever state, without a server.
"use strict";

const {openPage, watch, withAxe} = require("./person.js");

const ORIGIN = "http://states.test";
const at = (s) => new Date(Date.UTC(2026, 10, 23, 20, 0, 0) + 1000 * s).toISOString();
const METRIC = {name: "accuracy", higher_is_better: true};
const RUN = {run: "r-1", name: "r", status: "paused", status_reason: null, message: null, reason: null, queue: null,
  job: {app: "mlr", metric: METRIC}, clock: 100, clocks: 100, epochs: 3, loss: 9.9, last_epoch: {epoch: 3, loss: 0.52, metric: 0.83},
  best: {epoch: 2, loss: 0.48, metric: 0.85, setting: {learning_rate: 0.05}}, setting: {learning_rate: 0.05}, branch: 2, branches: {total: 2, live: 1}, model_info: null,
  values: null, tuning: {strategy: "mltuner", searcher: "tpe", searches: 1, trials: 4, seconds: 2}, stop: {max_epochs: 9, max_time: null,
    target_loss: null, target_metric: null, plateau_epochs: 5}, seconds: 12, paused_seconds: 0, started_at: at(0),
  first_clock_at: at(1), updated_at: at(12)};
const FINISHED = {...RUN, status: "finished", reason: "converged"};
const FAILED = {...RUN, status: "failed", reason: "error", message: "data.csv cannot be read: no such file", clock: 0, clocks: 0, epochs: 0,
  loss: null, last_epoch: null, best: null, setting: null, first_clock_at: null, tuning: {...RUN.tuning, searches: 0, trials: 0, seconds: 0}};
const NONE = {points: 0, clock: [], seconds: [], loss: [], branch: []};
const LINEAGE = {points: 4, clock: [30, 50, 80, 100], seconds: [3, 5, 8, 10], loss: [0.9, 0.48, 0.6, 0.55], branch: [2, 2, 2, 2]};
const SEARCH = {search: 1, max_trials: 9, started_at: at(1), ended_at: at(3.5), tunables: {},
  result: {trials: 4, winner: 2, trial_seconds: 0.4, seconds: 2, waiting_seconds: 0.25}};
const DECISIONS = [["fork", "a branch is forked", {}, 8], ["search_ended", "search 1 ends after 4 trials", {search: 1, seconds: 2, waiting_s: 0.25, winner: 2}, 3.5],
  ["trial_time", "a trial takes 0.4 s", {trial_time: 0.4}, 2], ["setting", "it begins", {}, 0.5]]
  .map(([decision, text, numbers, s], i) => ({number: 4 - i, decision, text, numbers, clock: 1, at: at(s)}));
const BRANCHES = [["converging", true, 2], ["unstable", false, 1]].map(([label, surviving, branch]) => ({branch, parent: 0, type: "training",
  role: "trial", trial: branch, search: 1, label, loss: surviving ? null : 0.7, live: surviving, surviving, setting: {learning_rate: 0.05},
  created_clock: 0, first_clock: 1, last_clock: surviving ? 100 : 40, clocks: 60, freed_reason: surviving ? null : "out"}));

const serve = (run) => (path) => {
  if (path === "/version") return {name: "mltune", version: "0"};
  if (path === "/runs") return {runs: [run, {...run, run: "r-2"}], total: 2, next_page_token: null};
  const failed = run.status === "failed" || run.status === "waiting";
  return {"": run, "/curve": {lineage: failed ? NONE : {...LINEAGE, loss: run.losses ?? LINEAGE.loss}, others: NONE}, "/schedule": run.schedule ?? {schedule: []},
    "/epochs": {epochs: failed ? [] : [1, 2, 3].map((epoch) => ({epoch, branch: 2, clock: 30 * epoch, loss: 1 / epoch, metric: epoch === 2 ? 0.85 : 0.8})), next_page_token: null},
    "/trials": {trials: [1, 2].map((n) => ({trial: n, search: 1, branch: n, incumbent: false, setting: {learning_rate: 0.05}, label: "converging",
      speed: 0.25, speed_unit: "e_folds_per_second", noise: 0, range: -1, seconds: 0.5, clocks: 40, reason: "", window_noise: 0, result: n === 1 ? null : 0.75,
      points: [{seconds: 0, loss: 2}, {seconds: 0.5, loss: 1}]})), total: 2, next_page_token: null},
    "/searches": {searches: failed ? [] : [SEARCH], next_page_token: null}, "/decisions": {decisions: failed ? [] : DECISIONS, next_page_token: null},
    "/branches/2": BRANCHES[0], "/slices": {slices: [], next_page_token: null},
    "/tree": {total: 2, branches: BRANCHES.map((b) => ({...b, role: run.role ?? b.role}))},
    "/nodes": {nodes: [{node: 0, branches: [{branch: 2, private_bytes: 2048, shared_bytes: 0}]}]}}[path.replace("/runs/r-1", "")] ?? null;
};

async function opens(browser, faults, run, tab = "") {
  const page = await browser.newPage({viewport: {width: 1280, height: 900}});
  watch(page, faults);
  await withAxe(page);
  await openPage(page, ORIGIN, serve(run), "#/run/r-1" + tab);
  await page.locator(".runhead .chip", {hasText: run.status}).waitFor();
  return page;
}

const figure = (page, name) => page.locator(".figures > div").filter({has: page.getByRole("heading", {name, exact: true})});

module.exports = {FAILED, FINISHED, ORIGIN, RUN, figure, opens, serve};
