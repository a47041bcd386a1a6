// The list of 10,000 runs, without a server: it is there at once, whole after
// some pages, found in, ordered, and in the address.
"use strict";

const assert = require("assert");
const {openPage, tell, watch} = require("./person.js");

const ORIGIN = "http://runs.test", MANY = 10000, NOW_MS = 1000;
const status = (i) => i === 12 ? "training" : i === MANY ? "tuning" : i % 10 === 3 ? "failed" : "finished";

// Run i, the newest is the last.
function run(i) {
  const ended = {epoch: 3, loss: i / MANY, metric: 1 - i / MANY, clock: 9};
  return {run: "job-" + i, name: "job" + i, status: status(i), queue: {group: "all", submitted_at: null}, seed: i,
    job: {app: i % 2 ? "nn" : "mlr", metric: {name: "accuracy", higher_is_better: true}}, clock: 9, clocks: 9,
    epochs: i % 50, loss: i / MANY, last_epoch: ended, best: ended, setting: {learning_rate: i / 1e5}, branch: 1,
    branches: {total: 2, live: 1}, tuning: {strategy: "mltuner", searcher: "tpe", searches: 1, trials: i % 7, seconds: 1},
    model: null, snapshot: null, stop: {max_epochs: 60, max_time: null}, seconds: 10, paused_seconds: 0,
    started_at: new Date(1.79e12 + i * 60000).toISOString(), first_clock_at: new Date(1.79e12 + i * 60000).toISOString()};
}

function server() {
  const deleted = new Set();
  const api = (path, query) => {
    if (path === "/version") return {name: "mltune", version: "0"};
    if (path !== "/runs") return run(Number(path.split("-")[1]));
    const size = Number(query.get("page_size") || 100), from = Number(query.get("page_token") || MANY), runs = [];
    let at = from;
    for (; at > 0 && runs.length < size; at--) if (!deleted.has(at)) runs.push(run(at));
    return {runs, total: MANY - deleted.size, next_page_token: at > 0 ? String(at) : null};
  };
  return {api, deleted};
}

const names = (page) => page.locator("tbody td.lead a").allTextContents();
const says = (page, text) => page.locator("section p.quiet", {hasText: text}).waitFor();

async function findsAndSorts(page) {
  const find = page.getByRole("searchbox", {name: "find runs"});
  await find.fill("learning_rate<0.00004 app=nn");
  await says(page, /^1 shown of 1 found among 10,000 runs$/); // job1; job3 failed
  assert.deepStrictEqual(await names(page), ["job1"]);
  await page.getByRole("button", {name: "show 1 failed run", exact: true}).click();
  await says(page, /^2 found|2 shown of 2 found/);
  assert.deepStrictEqual(await names(page), ["job3", "job1"]);
  await page.reload(); // what was looked for stands in the address
  await says(page, /^1 shown of 1 found among 10,000 runs$/);
  await find.fill("no such run at all");
  await says(page, /^0 shown of 0 found/);
  await find.fill("");
  await says(page, /^100 shown of 9,000 found among 10,000 runs$/);
  await page.getByRole("button", {name: "loss", exact: true}).click();
  assert.strictEqual(await page.locator("th[aria-sort=ascending]").textContent(), "loss");
  assert.strictEqual((await names(page))[0], "job1");
  await page.getByRole("button", {name: "loss", exact: true}).click();
  await page.locator("th[aria-sort=descending]", {hasText: "loss"}).waitFor();
  assert.strictEqual((await names(page))[0], "job10000");
  await page.getByLabel("state", {exact: true}).selectOption("failed");
  await says(page, /^100 shown of 1,000 found/);
  assert.strictEqual((await names(page))[0], "job9993");
  await page.getByRole("button", {name: "more runs"}).click();
  await says(page, /^200 shown of 1,000 found/);
  await page.getByLabel("state", {exact: true}).selectOption("under way");
  await says(page, /^2 shown of 2 found/);
  await page.getByLabel("state", {exact: true}).selectOption("all states");
}

// Without the columns' names, runs are still ordered and found.
async function onAPhone(page) {
  await says(page, /among 9,999 runs/);
  assert.ok(await page.getByRole("button", {name: "loss", exact: true}).isHidden());
  await page.getByLabel("order by").selectOption("loss");
  assert.strictEqual((await names(page))[0], "job1");
  await page.getByRole("button", {name: "ascending", exact: true}).click();
  assert.strictEqual((await names(page))[0], "job10000");
  await page.getByRole("searchbox", {name: "find runs"}).fill("learning_rate<0.00004 app=nn");
  await says(page, /^1 shown of 1 found/);
  await page.getByLabel("state", {exact: true}).selectOption("failed");
  await says(page, /^1 shown of 1 found/);
  assert.deepStrictEqual(await names(page), ["job3"]);
}

// How long the page is busy with what is typed.
function typed() {
  const find = document.querySelector("input[type=search]");
  return new Promise((done) => {
    const note = [...document.querySelectorAll("section p.quiet")].at(-1);
    let at = 0;
    new MutationObserver(() => requestAnimationFrame(() => done(performance.now() - at)))
      .observe(note, {childList: true, characterData: true, subtree: true});
    find.value = "job99";
    find.dispatchEvent(new Event("input"));
    at = performance.now();
  });
}

tell(async (browser, page, faults) => {
  const {api, deleted} = server();
  await openPage(page, ORIGIN, api, "#/");
  await page.getByRole("link", {name: "job10000", exact: true}).waitFor();
  await says(page, /^100 shown of 9,000 found among 10,000 runs$/); // folded: those that failed
  assert.strictEqual((await names(page)).length, 100);
  await findsAndSorts(page);
  const ms = await page.evaluate(typed);
  assert.ok(ms < NOW_MS, "a search takes " + ms + " ms");
  console.log("a search among " + MANY + " runs: " + Math.round(ms) + " ms, of which 120 are waited for more letters");
  deleted.add(5); // a number that is not that of the runs known: all are read again
  await page.getByRole("searchbox").fill("");
  await says(page, /among 9,999 runs/);
  for (const width of [1920, 390]) {
    const other = await browser.newPage({viewport: {width, height: 900}, colorScheme: width > 400 ? "light" : "dark"});
    watch(other, faults);
    await openPage(other, ORIGIN, api, "#/");
    await other.getByRole("link", {name: "job10000", exact: true}).waitFor();
    const [card, wide] = await other.evaluate(() => [document.querySelector("section.card").clientWidth,
      document.documentElement.scrollWidth]);
    assert.ok(wide <= width && card > width - 80, width + " pixels: the card has " + card + ", the page " + wide);
    if (width < 400) await onAPhone(other);
    if (process.env.MLTUNE_SHOTS) await other.screenshot({path: process.env.MLTUNE_SHOTS + "/runs-" + width + ".png"});
    await other.close();
  }
});
