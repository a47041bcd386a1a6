// What the page says of a run that is paused, has ended, or failed, without a
// server: the headline is the last of everything and says where the best is; the
// branch that survived is the result and lives no more; a run that failed before
// it had trained has no empty figures and plots, but what to do; each decision has
// its time; of many settings the oldest that is drawn is not said to be the first.
"use strict";

const assert = require("assert");
const {faultless, tell} = require("./person.js");
const {FAILED, FINISHED, RUN, figure, opens} = require("./played.js");

async function lastAndBest(browser, faults, run) {
  const page = await opens(browser, faults, run);
  await figure(page, "loss").locator(".big", {hasText: /^0\.55$/}).waitFor(); // the last point, not the trial's 9.9
  await figure(page, "loss").getByText("at the last point; best epoch 2: 0.48").waitFor();
  assert.strictEqual(await figure(page, "validation accuracy").locator(".big").textContent(), "0.83");
  await figure(page, "validation accuracy").getByText("after epoch 3; best epoch 2: 0.85; higher is better").waitFor();
  await page.getByText("best 0.85 after epoch 2; higher is better", {exact: true}).waitFor();
  await page.close();
}

// The best model may be none of the line that is drawn.
async function bestBeside(browser, faults) {
  const page = await opens(browser, faults, {...FINISHED, best: {...RUN.best, metric: 0.9}});
  await page.getByText("best 0.9 after epoch 2, of a branch beside this line; higher is better", {exact: true}).waitFor();
  if (process.env.SHOT) await page.screenshot({path: process.env.SHOT, fullPage: true});
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

// A surviving lineage that leaves the axis is marked where it does; one that is beyond it
// for the most part is what the axis shows.
async function leavesTheAxis(browser, faults) {
  for (const [losses, marked] of [[[2.3, 0.48, 0.6, 5e27], true], [[2.3, 0.48, 0.6, "nan"], true], [[2.3, 0.48, 0.6, 0.5], false],
    [[2.3, 5e27, 6e27, 7e27], false]]) {
    const page = await opens(browser, faults, {...RUN, losses}), mark = page.getByText("beyond the axis");
    await figure(page, "loss").locator(".big", {hasText: /\d/}).waitFor();
    await (marked ? mark.waitFor() : page.waitForFunction(() => document.querySelector("main canvas")?.width > 0));
    assert.strictEqual(await mark.isVisible(), marked, losses.join());
    await page.close();
  }
}

// The oldest of many settings that are drawn is no beginning.
async function manyChanges(browser, faults, more) {
  const schedule = Array.from({length: 1000}, (_, i) => ({clock: 100 - i / 11, branch: 2, reason: "r" + i,
    setting: {learning_rate: 1 / (1000 - i), momentum: 0.5}}));
  const page = await opens(browser, faults, {...RUN, schedule: {schedule, next_page_token: more ? "t" : null}});
  await page.getByText(more ? "the same in the latest 1,000 changes: momentum 0.5" : /^the same since clock [0-9.]+: momentum 0\.5$/).waitFor();
  await page.getByText("now 0.001" + (more ? "; the latest 1,000 changes, earlier ones are not drawn" : ""), {exact: true}).waitFor();
  await page.close();
}

// Where a contest decides, trials have what it goes by, and no speed.
async function decides(browser, faults, strategy, column, cells) {
  const page = await opens(browser, faults, {...RUN, tuning: {...RUN.tuning, strategy}}, "/trials");
  await page.locator("tbody tr").nth(1).waitFor();
  await page.locator("th", {hasText: new RegExp("^" + column + "$")}).waitFor();
  assert.deepStrictEqual(await page.locator("tbody td[data-label='" + column + "']").allTextContents(), cells);
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
  await bestBeside(browser, faults);
  await times(browser, faults);
  await survived(browser, faults, FINISHED, /survived as the result/, /lives|freed/, ["0.05", "0.52", "2 KiB"]);
  await survived(browser, faults, RUN, /lives/, /as the result/, ["0.05", "2 KiB"]);
  await leavesTheAxis(browser, faults);
  await decides(browser, faults, "mltuner", "speed", ["0.25", "0.25"]);
  await decides(browser, faults, "hyperband", "accuracy", ["–", "0.75"]);
  await manyChanges(browser, faults, true);
  await manyChanges(browser, faults, false);
  await failed(browser, faults);
  await waiting(browser, faults);
});
