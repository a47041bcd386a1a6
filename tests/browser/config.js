// Looks at what a run was begun with, as a person would:
//
//   node config.js URL RUN FOLDER
//
// The tab "configuration" tells the data and the metric, and shows the
// configuration completed and as given; each can be kept as a file.
"use strict";

const assert = require("assert");
const path = require("path");
const {download, tell, watch} = require("./person.js");

const [, , url, run, folder] = process.argv;

async function looks(page, width, colour) {
  await page.goto(url + "#/run/" + run + "/config");
  const json = page.getByRole("region", {name: "the configuration as JSON"});
  await json.getByText('"plateau_epochs"').waitFor();
  const facts = page.locator("dl.facts");
  for (const text of ["train.csv", "320", "80", "macro_f1, higher is better (chosen)"])
    await facts.getByText(text).first().waitFor();
  await page.getByRole("heading", {name: "training samples"}).waitFor();
  const columns = page.locator("section.card", {hasText: "training samples"}).locator("tbody tr");
  assert.strictEqual(await columns.count(), 4);
  assert.match(await columns.nth(1).textContent(), /^bnumber40/);
  assert.match(await columns.nth(2).textContent(), /^plancategory02 categories$/);
  assert.match(await columns.nth(3).textContent(), /^ylabel0no \(\d+\), yes \(\d+\)$/);
  const tab = await page.locator(".tabs [aria-current]").boundingBox();
  assert.ok(tab.x >= 0 && tab.x + tab.width <= width, "the tab that is shown is seen");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, "the configuration at " + width + " pixels is " + wide + " too wide");
  await page.screenshot({path: path.join(folder, "config-" + width + "-" + colour + ".png"), fullPage: true});
}

tell(async (browser, page, faults) => {
  await looks(page, 1280, "light");
  const whole = JSON.parse(await download(page, "download", path.join(folder, "whole.json")));
  assert.strictEqual(whole.stop.plateau_epochs, 5);
  await page.getByLabel("form").selectOption("as given");
  await page.getByText("what was written").waitFor();
  const given = JSON.parse(await download(page, "download", path.join(folder, "given.json")));
  assert.deepStrictEqual(Object.keys(given).sort(), ["app", "metric", "stop"]);
  assert.deepStrictEqual(given.stop, {max_epochs: 2});
  const narrow = await browser.newPage({viewport: {width: 390, height: 900}, colorScheme: "dark"});
  watch(narrow, faults);
  await looks(narrow, 390, "dark");
  await narrow.close();
});
