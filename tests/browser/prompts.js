// Every prompt that a run's state or its branches bring, the one for a token, and a
// run's name on a phone, without a server: axe-core finds no serious fault in any.
"use strict";

const assert = require("assert");
const {confirm, faultless, openPage, tell, watch, withAxe} = require("./person.js");
const {ORIGIN, RUN, opens, serve} = require("./played.js");

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
    [{status: "held", queue, status_reason: "t.csv has other content; mltune continue RUN --other-data"}, ["use other data"]],
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

tell(async (browser, page, faults) => {
  await page.close();
  await byHand(browser, faults);
  await steered(browser, faults);
  await tokenWanted(browser, faults);
  await saysWhere(browser, faults);
});
