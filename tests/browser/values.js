// Looks at the further metrics of a run, as a person would:
//
//   node values.js URL RUN FOLDER
"use strict";

const assert = require("assert");
const path = require("path");
const {drawn, tell, watch} = require("./person.js");

const [, , url, run, folder] = process.argv;

async function looks(page, width) {
  await page.goto(url + "#/run/" + run);
  await page.waitForFunction(drawn);
  const choice = page.getByRole("group", {name: "further metrics that are drawn"});
  const by = (name) => page.getByRole("heading", {name, exact: true});
  await by("half").waitFor();
  await by("half, validation").waitFor();
  await by("grad/norm").waitFor();
  assert.strictEqual(await by("grad/norm, validation").count(), 0);
  await choice.getByRole("button", {name: "grad/norm"}).click();
  await by("grad/norm").waitFor({state: "detached"});
  await choice.getByRole("button", {name: "grad/norm"}).click();
  await by("grad/norm").waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, "the metrics at " + width + " pixels are " + wide + " too wide");
  await page.screenshot({path: path.join(folder, "values-" + width + ".png"), fullPage: true});
}

tell(async (browser, page, faults) => {
  await looks(page, 1280);
  const narrow = await browser.newPage({viewport: {width: 390, height: 900}, colorScheme: "dark"});
  watch(narrow, faults);
  await looks(narrow, 390);
  await narrow.close();
});
