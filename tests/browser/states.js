// What the page says of a run that is paused, has ended, or failed, without a
// server: the headline is the last of everything and says where the best is; the
// branch that survived is the result and lives no more; a run that failed before
// it had trained has no empty figures and plots, but what to do; each decision has
// its time.
"use strict";

const assert = require("assert");
const {confirm, faultless, openPage, tell, watch, withAxe} = require("./person.js");

const ORIGIN = "http://states.test";
const at = (s) => new Date(Date.UTC(2026, 10, 23, 20, 0, 0) + 1000 * s).toISOString();
const METRIC = {name: "accuracy", higher_is_better: true};
const RUN = {run: "r-1", name: "r", status: "paused", status_reason: null, message: null, reason: null, queue: null,
  job: {app: "mlr", metric: METRIC}, clock: 100, clocks: 100, epochs: 3, loss: 9.9, last_epoch: {epoch: 3, loss: 0.52, metric: 0.83},
  best: {epoch: 2, loss: 0.48, metric: 0.85}, setting: {learning_rate: 0.05}, branch: 2, branches: {total: 2, live: 1}, model_info: null,
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
  return {"": run, "/curve": {lineage: failed ? NONE : LINEAGE, others: NONE}, "/schedule": {schedule: []},
    "/epochs": {epochs: failed ? [] : [1, 2, 3].map((epoch) => ({epoch, clock: 30 * epoch, loss: 1 / epoch, metric: 0.8})), next_page_token: null},
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

async function lastAndBest(browser, faults, run) {
  const page = await opens(browser, faults, run);
  await figure(page, "loss").locator(".big", {hasText: /^0\.55$/}).waitFor(); // the last point, not the trial's 9.9
  await figure(page, "loss").getByText("at the last point; best epoch 2: 0.48").waitFor();
  assert.strictEqual(await figure(page, "validation accuracy").locator(".big").textContent(), "0.83");
  await figure(page, "validation accuracy").getByText("after epoch 3; best epoch 2: 0.85; higher is better").waitFor();
  await page.close();
}

async function times(browser, faults) {
  const page = await opens(browser, faults, RUN);
  await page.locator(".feed li").first().waitFor();
  assert.deepStrictEqual(await page.locator(".feed .took").allTextContents(), ["4.5 s after search 1",
    "2.5 s into search 1; 2.0 s of it count as tuning (not what its winner trained, no pauses); 250 ms for decisions",
    "1.0 s into search 1", "500 ms after the run began"]);
  await figure(page, "tuning").getByText("2.0 s (17 %) in 1 search, of which 250 ms for decisions").waitFor();
  await page.close();
}

async function survived(browser, faults, run, wanted, not, parts) {
  const page = await opens(browser, faults, run, "/branches");
  await page.locator(".readout", {hasText: "3 branches"}).waitFor();
  await page.locator("main canvas").first().focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  for (const text of [await page.locator(".tip").textContent(), await page.locator(".readout").first().textContent()]) {
    assert.match(text, wanted);
    assert.doesNotMatch(text, not);
    for (const part of parts) assert.ok(text.includes(part), part + " in " + text);
  }
  await page.close();
}

async function asks(page, group, name, heading) {
  await page.getByRole("group", {name: group}).getByRole("button", {name, exact: true}).click();
  await page.locator("dialog").getByRole("heading", {name: heading}).waitFor();
  await faultless(page, heading);
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({state: "detached"});
}

// What is asked of a branch that was forked by hand and lives.
async function byHand(browser, faults) {
  const page = await opens(browser, faults, {...RUN, branch: 9, role: "user"}, "/branches");
  await page.locator(".readout", {hasText: "3 branches"}).waitFor();
  await page.locator("main canvas").first().focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  for (const name of ["fork", "promote", "give up"]) await asks(page, "the chosen branch", name, name + " branch 2?");
  await page.close();
}

// What is asked of a run in a state that the runs of views.js are not in.
async function steered(browser, faults) {
  const queue = {group: "all", submitted_at: null, waits: true};
  for (const [more, names] of [[{status: "training"}, ["pause", "re-tune", "snapshot", "stop"]], [{status: "held", queue}, ["continue", "stop", "delete"]],
    [{status: "queued", queue}, ["pause", "stop"]], [{status: "interrupted", queue}, ["continue", "delete"]]]) {
    const page = await opens(browser, faults, {...RUN, ...more});
    for (const name of names) await asks(page, "steer the run", name, name + " r?");
    await page.close();
  }
}

// The name of a run stays in the page's head on a phone, cut short where it is long.
async function saysWhere(browser, faults) {
  const long = "a run whose name is too long for any phone that there is";
  for (const name of ["r", long]) {
    const page = await opens(browser, faults, {...RUN, name});
    await page.setViewportSize({width: 390, height: 844});
    const here = page.locator("#crumbs .crumb-here").last();
    assert.strictEqual(await here.textContent(), name);
    const [seen, whole, high, over] = await here.evaluate((e) => [e.clientWidth, e.scrollWidth,
      document.querySelector(".top").getBoundingClientRect().height, document.documentElement.scrollWidth - innerWidth]);
    assert.ok(name === long ? whole > seen && seen > 60 : whole === seen && seen > 0, [name, seen, whole].join());
    assert.ok(high < 60 && over <= 0, "the head is " + high + " high");
    assert.strictEqual(await here.getAttribute("title"), name);
    await faultless(page, "a phone");
    if (process.env.MLTUNE_SHOTS) await page.screenshot({path: process.env.MLTUNE_SHOTS + "/crumb-" + name[0] + ".png"});
    await page.close();
  }
}

// A server that other machines reach wants a token to look, and one to write.
async function tokenWanted(browser, faults) {
  const page = await browser.newPage({viewport: {width: 1280, height: 900}}), tokens = [];
  watch(page, faults);
  await withAxe(page);
  const refused = {refused: 401, code: "token_required", detail: "a token is needed"};
  await openPage(page, ORIGIN, (path, query, request) => {
    tokens.push(request.headers().authorization);
    return tokens.at(-1) === "Bearer mine" && request.method() === "GET" ? serve({...RUN, status: "training"})(path) : refused;
  }, "#/run/r-1");
  const notice = page.locator("#notice");
  await notice.getByLabel("token").waitFor();
  assert.ok(await notice.getByLabel("token").evaluate((e) => e === document.activeElement), "it has the focus");
  await faultless(page, "a token is wanted");
  await notice.getByLabel("token").fill("mine");
  await page.keyboard.press("Enter");
  await page.locator(".runhead .chip", {hasText: "training"}).waitFor();
  await notice.waitFor({state: "hidden"});
  await page.getByRole("button", {name: "pause", exact: true}).click();
  await confirm(page, "pause");
  await page.locator("dialog").getByRole("alert").filter({hasText: "The server wants another token."}).waitFor();
  await faultless(page, "another token is wanted");
  await page.close();
}

async function failed(browser, faults) {
  const page = await opens(browser, faults, FAILED);
  const card = page.locator(".failure");
  await card.getByText("Before anything was trained: data.csv cannot be read: no such file").waitFor();
  for (const name of ["its log", "its configuration"]) await card.getByRole("link", {name}).waitFor();
  assert.ok(await page.locator(".legend").first().isHidden(), "a legend of nothing");
  assert.ok(await page.getByRole("heading", {name: "training loss"}).isHidden(), "a plot of nothing");
  const shown = await page.locator(".figures .big:visible").allTextContents();
  assert.ok(shown.length > 0 && !shown.includes("–"), "figures: " + shown);
  await faultless(page, "failed");
  await page.close();
}

async function waiting(browser, faults) {
  const page = await opens(browser, faults, {...FAILED, status: "waiting", message: null});
  await page.getByText("nothing to draw yet").first().waitFor();
  assert.ok(await page.locator(".legend").first().isHidden(), "a legend of nothing yet");
  assert.ok(await page.locator(".failure").isHidden());
  await page.close();
}

tell(async (browser, page, faults) => {
  await page.close();
  await lastAndBest(browser, faults, RUN);
  await lastAndBest(browser, faults, FINISHED);
  await times(browser, faults);
  await survived(browser, faults, FINISHED, /survived as the result/, /lives|freed/, ["0.05", "0.52", "2 KiB"]);
  await survived(browser, faults, RUN, /lives/, /as the result/, ["0.05", "2 KiB"]);
  await byHand(browser, faults);
  await steered(browser, faults);
  await tokenWanted(browser, faults);
  await saysWhere(browser, faults);
  await failed(browser, faults);
  await waiting(browser, faults);
});
