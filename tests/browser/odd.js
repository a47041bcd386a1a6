// What a page must not say, without a server: a run that is not there has no
// buttons, a trial that diverges sets no headline and no axis, a page without JavaScript does not load for ever, verdicts give the
// reason that counts, the beginning can be forked in a first search, and a
// dialog opens at its beginning.
"use strict";

const assert = require("assert");
const {openPage, tell, watch} = require("./person.js");

const ORIGIN = "http://odd.test";
const RUN = {run: "new-1", name: "new", status: "tuning", status_reason: null, message: null, reason: null, queue: null,
  job: {app: "mlr", metric: null}, clock: 40, clocks: 40, epochs: 0, loss: 2.1, last_epoch: null, best: null,
  setting: null, branch: null, branches: {total: 2, live: 2}, model_info: null, values: null,
  tuning: {strategy: "mltuner", searcher: "tpe", searches: 1, trials: 4, seconds: 1}, stop: {max_epochs: 9, max_time: null,
    target_loss: null, target_metric: null, plateau_epochs: 5}, seconds: 2, paused_seconds: 0,
  first_clock_at: "2026-11-23T20:38:49.323Z", updated_at: "2026-11-23T20:38:49.323Z"};
const SEARCH = {search: 1, result: null, max_trials: 30, tunables: {learning_rate: {type: "float", min: 1e-5, max: 1, default: 0.02},
  rule: {type: "choice", values: ["sgd", "adam"]}}};

const trial = (n, label, losses, more) => ({trial: n, search: 1, branch: n, incumbent: false, setting: {learning_rate: 0.1 * n},
  label, speed: 0, speed_unit: "e_folds_per_second", noise: 0, range: losses.at(-1) - losses[0], seconds: 0.5, clocks: 40,
  points: losses.map((loss, i) => ({seconds: i / 20, loss})), ...more});
const eleven = (last) => Array.from({length: 11}, (_, i) => 2 + (last - 2) * i / 10);
const TRIALS = [trial(1, "unstable", eleven(1).slice(0, 4)), trial(2, "unstable", eleven(2.5)),
  trial(3, "unstable", eleven(1), {noise: 0.4}), trial(4, "diverged", [2], {seconds: 0, clocks: 2240}),
  trial(5, "failed", [2], {reason: "CUDA out of memory", seconds: 0, clocks: 0}),
  trial(6, "stopped", eleven(1), {reason: "stopped at 70 % of its time: it will not win"})];

function api(path) {
  if (path === "/version") return {name: "mltune", version: "0"};
  if (path === "/runs") return {runs: [RUN, {...RUN, run: "new-2"}], total: 2, next_page_token: null};
  const [, name, rest] = /^\/runs\/([^/]*)(.*)$/.exec(path);
  if (name !== RUN.run) return null;
  const none = {points: 0, clock: [], seconds: [], loss: [], branch: []};
  const others = {points: 3, clock: [1, 2, 3, 11, 12, 13], seconds: [1, 2, 3, 11, 12, 13], loss: [2.1, 2, 1.9, 2.1, 5e27, null],
    branch: [1, 1, 1, 2, 2, 2]};
  return {"": RUN, "/searches": {searches: [SEARCH], next_page_token: null}, "/slices": {slices: [], next_page_token: null},
    "/trials": {trials: TRIALS, total: 4, next_page_token: null}, "/curve": {lineage: none, others},
    "/tree": {total: 1, branches: [{branch: 1, parent: null, type: "training", role: "trial", trial: 1, live: true,
      surviving: false, setting: {}, created_clock: 0, first_clock: 1, last_clock: 40, clocks: 40, freed_reason: null}]},
    "/survey": {total: 0, rows: 0, columns: {trial: [], label: [], loss: []}, tunables: {}}, "/nodes": {nodes: []},
    "/schedule": {schedule: []}, "/epochs": {epochs: []}, "/decisions": {decisions: [], next_page_token: null}}[rest] ?? null;
}

async function unknownRun(page) {
  await openPage(page, ORIGIN, api, "#/run/new-1");
  await page.getByRole("heading", {name: "new", exact: true}).waitFor();
  await page.evaluate(() => { location.hash = "#/run/nothing-here"; });
  await page.getByRole("heading", {name: "no such run"}).waitFor();
  assert.strictEqual(await page.getByRole("group", {name: "steer the run"}).count(), 0);
  assert.match(await page.locator("#crumbs").textContent(), /nothing-here$/);
  assert.ok(await page.locator("#notice").isHidden());
}

// A service that begins reads its runs first: the page waits, and says that none is missing.
async function notReadYet(page) {
  let asked = 0;
  const early = (path) => path.startsWith("/runs") && asked++ < 2
    ? {refused: 503, code: "not_ready", detail: "the service reads its runs; try again"} : api(path);
  await openPage(page, "http://early.test", early, "#/run/new-1");
  await page.locator("#notice", {hasText: /^the service reads its runs; try again/}).waitFor();
  assert.strictEqual(await page.getByRole("heading", {name: "no such run"}).count(), 0);
  await page.getByRole("heading", {name: "new", exact: true}).waitFor();
  await page.locator("#notice").waitFor({state: "hidden"});
}

async function searching(page) {
  await page.getByText("searching: no setting is in use yet").waitFor();
  await page.getByText("nothing but trials so far").waitFor();
  await page.getByText("search 1: trial 4 of at most 30").waitFor();
  assert.strictEqual(await page.locator(".figures .big").first().textContent(), "–"); // not the trial's 5e27
  await page.getByText("beyond the axis").waitFor();
  const choose = page.getByLabel("axis of the training loss");
  assert.ok(await choose.locator("option", {hasText: "epoch"}).isDisabled());
  await choose.selectOption("time");
  await page.getByLabel("smooth").fill("0");
  assert.ok(await page.getByText("its points").isHidden());
}

// Each word that has a "?" is one of the glossary, and is there.
async function helps(page) {
  const mark = page.getByRole("link", {name: /^what is label\? the verdict on a trial/});
  await page.goto(ORIGIN + "/#/run/new-1/trials");
  await mark.waitFor();
  const texts = await page.locator("a.help").evaluateAll((all) => all.map((a) => a.parentNode.textContent));
  assert.ok(texts.length >= 6, texts.join());
  await mark.click();
  await page.locator("dt.asked", {hasText: "label"}).waitFor();
  assert.ok(await page.locator("dd").count() > 50);
}

async function verdicts(page) {
  await page.goto(ORIGIN + "/#/run/new-1/trials");
  for (const [n, says] of [[1, /^Unstable, since it has not the 10 windows/], [2, /^Unstable, since the loss did not fall/],
    [3, /^Unstable, since its largest rise is a tenth/], [4, /^Diverged: a loss was not a finite number, or rose/],
    [5, /^Failed, which says nothing of its speed: CUDA out of memory\.$/],
    [6, /^Stopped at 70 % of its time: it will not win\.$/]]) {
    await page.getByRole("button", {name: "show trial " + n}).click();
    await page.locator("p", {hasText: says}).waitFor();
  }
  const row = page.locator("tr[data-trial='4'] td");
  assert.deepStrictEqual((await row.allTextContents()).slice(-2), ["2,240", "–"]);
  await page.locator("tr[data-trial='5'] td", {hasText: "CUDA out of memory"}).waitFor();
}

async function forksTheBeginning(page) {
  await page.goto(ORIGIN + "/#/run/new-1/branches");
  await page.locator(".readout", {hasText: "2 branches"}).waitFor();
  await page.locator("canvas[role=img]").first().focus();
  await page.keyboard.press("Home");
  await page.getByRole("button", {name: "fork", exact: true}).click();
  assert.strictEqual(await page.getByLabel("learning_rate").inputValue(), "0.02");
  assert.strictEqual(await page.getByLabel("rule").inputValue(), "sgd");
  await page.getByRole("button", {name: "cancel"}).click();
}

async function dialogsBegin(page) {
  await page.setViewportSize({width: 900, height: 420});
  await page.goto(ORIGIN + "/#/run/new-1");
  await page.getByRole("button", {name: "limits"}).click();
  const [top, high, seen] = await page.locator("dialog").evaluate((d) => [d.scrollTop, d.scrollHeight - d.clientHeight,
    d.querySelector(".buttons").getBoundingClientRect().bottom <= innerHeight]);
  assert.ok(high > 0 && top === 0 && seen, "of " + high + " it is scrolled by " + top + ", its buttons " + seen);
}

async function withoutScript(browser) {
  const context = await browser.newContext({javaScriptEnabled: false}), page = await context.newPage();
  await openPage(page, ORIGIN, api);
  await page.getByRole("link", {name: "API", exact: true}).waitFor(); // Chromium shows no noscript where only playwright turned scripts off
  for (const text of ["loading", "theme: auto"]) assert.ok(await page.getByText(text).isHidden(), text);
  await context.close();
}

const QUIET = /404 \(Not Found\)/; // the browser's own word about the run that is not there

tell(async (browser, page, faults) => {
  await unknownRun(page);
  assert.ok(faults.every((f) => QUIET.test(f)), faults.join("\n"));
  await page.close(); // it would ask for that run again
  faults.length = 0;
  const early = await browser.newPage();
  watch(early, faults);
  await notReadYet(early);
  assert.ok(faults.every((f) => / 503 /.test(f)), faults.join("\n")); // the browser's own word
  await early.close();
  faults.length = 0;
  const other = await browser.newPage();
  watch(other, faults);
  await openPage(other, ORIGIN, api, "#/run/new-1");
  await searching(other);
  await helps(other);
  await verdicts(other);
  await forksTheBeginning(other);
  await dialogsBegin(other);
  await withoutScript(browser);
});
