// Looks at a run whose program failed, as a person would:
//
//   node program.js URL RUN FOLDER
//
// Its last words stand under its name; the tab "log" shows the end of its log,
// and nothing of it is taken for a part of the page. The tab "cluster" has no
// plots that would stay empty.
"use strict";

const assert = require("assert");
const path = require("path");
const {tell, watch} = require("./person.js");

const [, , url, run, folder] = process.argv;

async function looks(page, width) {
  await page.goto(url + "#/run/" + run + "/log");
  const log = page.getByRole("log"), words = page.locator("pre.words");
  await log.getByText("ValueError: the loss is no number").waitFor();
  await words.getByText("ValueError: the loss is no number").waitFor();
  assert.ok((await log.textContent()).includes("<img src=x onerror=alert(1)>"));
  assert.strictEqual(await page.locator("main img").count(), 0);
  assert.ok(!(await log.textContent()).includes("\u001b"));
  const [top, height, all] = await log.evaluate((e) => [e.scrollTop, e.clientHeight, e.scrollHeight]);
  assert.ok(top + height > all - 24, "the end is shown");
  const tab = await page.locator(".tabs [aria-current]").boundingBox();
  assert.ok(tab.x >= 0 && tab.x + tab.width <= width, "the tab that is shown is seen");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, "the log at " + width + " pixels is " + wide + " too wide");
  await page.screenshot({path: path.join(folder, "log-" + width + ".png")});
}

async function looksAtTheCluster(page) {
  await page.goto(url + "#/run/" + run + "/cluster");
  await page.getByText("The program keeps its own state").waitFor();
  for (const name of ["staleness of reads", "bandwidth used by each node", "memory of branches"])
    assert.ok(!await page.getByRole("heading", {name}).isVisible(), name);
  await page.screenshot({path: path.join(folder, "cluster-of-a-program.png")});
}

tell(async (browser, page, faults) => {
  await looks(page, 1280);
  await looksAtTheCluster(page);
  const narrow = await browser.newPage({viewport: {width: 390, height: 900}, colorScheme: "dark"});
  watch(narrow, faults);
  await looks(narrow, 390);
  await narrow.close();
});
