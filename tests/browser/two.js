// Two runs that train at the same time:
//
//   node two.js URL TOKEN NAME RUN NAME RUN
//
// Two pages, one at each, and a third that goes from one to the other: each shows
// its own run's name, address, setting, figures and buttons, and none of the
// other's; what is done to one leaves the other as it is. axe-core finds no serious
// fault, the console is empty.
"use strict";

const assert = require("assert");
const {act, confirm, drawn, faultless, openTab, status, tell, watch, withAxe} = require("./person.js");

const [, , url, token, ...given] = process.argv;
const RUNS = [{name: given[0], id: given[1]}, {name: given[2], id: given[3]}];
const steer = (page) => page.getByRole("group", {name: "steer the run"});
const button = (page, name) => steer(page).getByRole("button", {name, exact: true});
const of = (run) => url + "#/run/" + encodeURIComponent(run.id);
const fetched = (page, run) => page.evaluate(async (id) => (await fetch("/api/v1/runs/" + id)).json(), run.id);
const epochsShown = (page) => page.locator(".figures .big").nth(2).textContent()
  .then((t) => Number(t.replaceAll(",", "")));

async function comes(browser, faults, run) {
  const page = await browser.newPage({viewport: {width: 1280, height: 900}});
  watch(page, faults);
  await withAxe(page);
  await page.goto(url);
  await page.evaluate((t) => sessionStorage.setItem("mltune-token", t), token);
  await page.goto(of(run));
  return page;
}

// The page is of @run and of it alone.
async function isOf(page, run, other) {
  await page.locator(".runhead h1", {hasText: run.name}).waitFor();
  await page.waitForFunction(drawn);
  assert.strictEqual(await page.locator(".runhead h1").textContent(), run.name);
  assert.match(await page.locator("#crumbs").textContent(), new RegExp(run.name + "$"));
  assert.ok((await page.title()).includes(run.name) && !(await page.title()).includes(other.name));
  const main = await page.locator("main").textContent();
  assert.ok(!main.includes(other.name) && !main.includes(other.id), "nothing of " + other.name + " is shown at " + run.name);
  const pill = page.locator(".pills span", {hasText: "learning_rate"});
  await pill.waitFor();
  const now = await fetched(page, run);
  assert.strictEqual(await pill.locator("b").textContent(), String(now.setting.learning_rate));
}

// Its figures move on, between what its server said before and says after.
async function goesOn(page, run) {
  const first = await epochsShown(page);
  await page.waitForFunction((was) => Number([...document.querySelectorAll(".figures .big")][2].textContent
    .replaceAll(",", "")) > was, first);
  const shown = await epochsShown(page), now = await fetched(page, run);
  assert.ok(shown <= now.epochs, run.name + " shows epoch " + shown + " of " + now.epochs);
}

tell(async (browser, page, faults) => {
  await page.close();
  const [a, b] = RUNS, pages = [await comes(browser, faults, a), await comes(browser, faults, b)];
  await isOf(pages[0], a, b);
  await isOf(pages[1], b, a);
  await Promise.all(RUNS.map((run, i) => goesOn(pages[i], run)));
  for (const [i, run] of RUNS.entries()) await faultless(pages[i], run.name);
  // What is done to one is done to that one.
  await act(pages[0], "pause");
  await pages[0].locator("dialog h2", {hasText: "pause " + a.name + "?"}).waitFor();
  await confirm(pages[0], "pause");
  await pages[0].locator("dialog").waitFor({state: "detached"});
  await status(pages[0], "paused");
  await button(pages[0], "continue").waitFor();
  assert.ok(await button(pages[0], "pause").isHidden());
  await goesOn(pages[1], b);
  await status(pages[1], "training");
  assert.ok(await button(pages[1], "pause").isVisible() && await button(pages[1], "continue").isHidden());
  // One page that goes from one to the other, and back.
  const third = await comes(browser, faults, a);
  for (const tab of ["branches", "overview"]) {
    await status(third, "paused");
    await openTab(third, tab);
    await third.goto(of(b));
    await isOf(third, b, a);
    await status(third, "training");
    assert.ok(await button(third, "continue").isHidden() && await button(third, "pause").isVisible());
    await third.goBack();
    if (tab !== "overview") await openTab(third, "overview");
    await isOf(third, a, b);
  }
  await button(third, "continue").waitFor();
  await act(third, "continue");
  await confirm(third, "continue");
  await status(pages[0], "training");
  await goesOn(pages[0], a);
  for (const p of [...pages, third]) await p.close();
});
