// Clicks through the dashboard of a live run, as a person would:
//
//   node dashboard.js URL TOKEN FOLDER
//
// and ends the run. Exits 0 if all was as it should be; else the first thing
// that was not is on stderr. Screenshots go to FOLDER. Waits are for what the
// page shows, never for a time.
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const {chromium} = require("playwright-core");

const [, , url, token, folder] = process.argv;
const WAIT_MS = 120000;
const TABS = ["overview", "trials", "branches", "settings", "cluster"];

// What the browser itself says of an answer that is meant to be a refusal, and
// of a server that has ended.
const EXPECTED = [/401 \(Unauthorized\)/, /ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/,
  /ERR_EMPTY_RESPONSE/, /ERR_INCOMPLETE_CHUNKED_ENCODING/];

function watch(page, faults) {
  page.on("console", (m) => {
    if (m.type() === "error" && !EXPECTED.some((e) => e.test(m.text()))) faults.push(m.text());
  });
  page.on("pageerror", (e) => faults.push(String(e)));
}

// Whether some canvas of the page has something on it.
function drawn() {
  return [...document.querySelectorAll("main canvas")].some((c) => c.width > 200 &&
    c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v));
}

async function openTab(page, name) {
  await page.getByRole("navigation", {name: "parts of the run"}).getByRole("link", {name}).click();
  await page.waitForFunction(drawn);
}

async function looksRight(browser, faults) {
  for (const [width, colorScheme] of [[1280, "light"], [390, "dark"]]) {
    const page = await browser.newPage({viewport: {width, height: 900}, colorScheme});
    watch(page, faults);
    page.setDefaultTimeout(WAIT_MS);
    await page.goto(url);
    await page.waitForFunction(drawn);
    for (const tab of TABS) {
      await openTab(page, tab);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, tab + " at " + width + " pixels is " + wide + " too wide");
      await page.screenshot({path: path.join(folder, [tab, width, colorScheme].join("-") + ".png")});
    }
    await page.close();
  }
}

async function download(page, label, name) {
  const [file] = await Promise.all([page.waitForEvent("download"),
    page.getByRole("button", {name: label}).click()]);
  await file.saveAs(path.join(folder, name));
  return fs.readFileSync(path.join(folder, name));
}

async function readsAndExports(page) {
  await openTab(page, "overview");
  const plot = page.locator(".plot").first();
  await plot.focus();
  await page.keyboard.press("ArrowRight");
  await page.locator(".readout", {hasText: /^clock [\d,]+: loss/}).first().waitFor();
  const png = await download(page, "PNG of training loss", "loss.png");
  assert.strictEqual(png.subarray(1, 4).toString(), "PNG");
  const csv = (await download(page, "CSV of training loss", "loss.csv")).toString().split("\r\n");
  assert.strictEqual(csv[0], "lineage,branch,clock,seconds,loss");
  assert.ok(csv.some((line) => /^surviving,\d+,\d+,[\d.]+,[\d.]+$/.test(line)), csv[1]);

  await openTab(page, "trials");
  await page.getByRole("button", {name: /^show trial 1\b/}).click();
  await page.getByRole("heading", {name: /^trial 1 of search 1/}).waitFor();

  await openTab(page, "branches");
  await page.locator("canvas[role=img]").first().focus();
  await page.keyboard.press("End");
  await page.locator(".readout", {hasText: /^branch \d+/}).first().waitFor();

  await openTab(page, "settings");
  await page.getByRole("heading", {name: "importance"}).waitFor();
}

const act = (page, name) => page.getByRole("group", {name: "steer the run"})
  .getByRole("button", {name}).click();
const confirm = (page, name) => page.locator("dialog").getByRole("button", {name, exact: true}).click();
const status = (page, text) => page.locator(".runhead .chip", {hasText: text}).waitFor();

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

(async () => {
  const faults = [];
  const browser = await chromium.launch({executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox"]});
  try {
    const page = await browser.newPage({viewport: {width: 1280, height: 900}, acceptDownloads: true});
    watch(page, faults);
    page.setDefaultTimeout(WAIT_MS);
    await page.goto(url);
    // The first epochs are there, so that a lineage has survived.
    await page.getByRole("heading", {name: "validation accuracy by epoch"}).waitFor();
    await listsRuns(page);
    await pauses(page);
    await looksRight(browser, faults); // nothing trains meanwhile: it is quick
    await readsAndExports(page);
    await openTab(page, "overview");
    await goesOn(page);
    await limitsAndStops(page);
    assert.deepStrictEqual(faults, [], "the browser's console");
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error.stack || error);
  process.exit(1);
});
