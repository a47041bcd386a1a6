// Clicks through the dashboard of a live run, as a person would:
//
//   node dashboard.js URL TOKEN FOLDER
//
// and ends the run. Exits 0 if all was as it should be; else the first thing
// that was not is on stderr. Screenshots go to FOLDER.
"use strict";

const assert = require("assert");
const path = require("path");
const {act, confirm, download, drawn, looksRight, openTab, status, tell} = require("./person.js");

const [, , url, token, folder] = process.argv;

async function readsAndExports(page) {
  await openTab(page, "overview");
  const plot = page.locator(".plot").first();
  await plot.focus();
  await page.keyboard.press("ArrowRight");
  await page.locator(".readout", {hasText: /^clock [\d,]+: loss/}).first().waitFor();
  const png = await download(page, "PNG of training loss", path.join(folder, "loss.png"));
  assert.strictEqual(png.subarray(1, 4).toString(), "PNG");
  const csv = (await download(page, "CSV of training loss",
    path.join(folder, "loss.csv"))).toString().split("\r\n");
  assert.strictEqual(csv[0], "lineage,branch,clock,seconds,loss");
  assert.ok(csv.some((line) => /^surviving,\d+,\d+,[\d.]+,[\d.]+$/.test(line)), csv[1]);

  await openTab(page, "trials");
  await page.getByRole("button", {name: /^show trial 1\b/}).click();
  await page.getByRole("heading", {name: /^trial 1 of search 1/}).waitFor();

  await openTab(page, "branches");
  await page.locator(".readout", {hasText: /branch/}).first().waitFor(); // they have come
  await page.locator("canvas[role=img]").first().focus();
  await page.keyboard.press("End");
  await page.locator(".readout", {hasText: /^branch \d+/}).first().waitFor();

  await openTab(page, "settings");
  await page.getByRole("heading", {name: "importance"}).waitFor();
}

async function pauses(page) {
  const dialog = page.locator("dialog");
  await act(page, "pause");
  await dialog.getByText("nothing runs and no time counts").waitFor();
  await dialog.getByLabel("token").fill("not this one");
  await confirm(page, "pause");
  await dialog.getByText("another token").waitFor();
  await dialog.getByLabel("token").fill(token);
  await page.keyboard.press("Enter");
  await status(page, "paused");
}

async function goesOn(page) {
  const clock = page.locator(".figures p", {hasText: /^clock/}), before = await clock.textContent();
  await act(page, "continue"); // the tab has the token now
  await confirm(page, "continue");
  await status(page, /training|tuning/);
  await page.waitForFunction((text) => [...document.querySelectorAll(".figures p")]
    .some((p) => p.textContent.startsWith("clock") && p.textContent !== text), before);
}

async function limitsAndStops(page) {
  const dialog = page.locator("dialog");
  await act(page, "limits");
  await dialog.getByLabel("epochs at most").fill("900000");
  await dialog.getByText("max_epochs from 1000000 to 900000").waitFor();
  await confirm(page, "set");
  await page.locator("#notice", {hasText: "max_epochs 900000"}).waitFor();

  await act(page, "stop");
  await dialog.getByText("mltune resume").waitFor();
  await page.keyboard.press("Escape"); // left: nothing happens
  await dialog.waitFor({state: "detached"});
  await act(page, "stop");
  await confirm(page, "stop");
  await dialog.waitFor({state: "detached"});
}

async function listsRuns(page) {
  await page.getByRole("link", {name: "runs"}).click();
  await page.getByRole("link", {name: "endless"}).click();
  await page.waitForFunction(drawn);
}

tell(async (browser, page, faults) => {
  await page.goto(url);
  // The first epochs are there, so that a lineage has survived.
  await page.getByRole("heading", {name: "validation accuracy by epoch"}).waitFor();
  await listsRuns(page);
  await pauses(page);
  await looksRight(browser, faults, url, folder); // nothing trains meanwhile: it is quick
  await readsAndExports(page);
  await openTab(page, "overview");
  await goesOn(page);
  await limitsAndStops(page);
});
