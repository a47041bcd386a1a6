// Someone looks at a run of a service that was installed from the package:
//
//   node story.js during ADDRESS RUN FOLDER
//   node story.js after ADDRESS RUN FOLDER
//
// ADDRESS is the one-time address that `mltune open` prints. During: the run
// trains, its loss is drawn and more of it comes. After: it is there, with its end,
// and its model can be had. Screenshots go to FOLDER.
"use strict";

const assert = require("assert");
const path = require("path");
const {download, drawn, status, tell} = require("./person.js");

const [, , part, address, run, folder] = process.argv;

const clocks = (page) => page.evaluate(async (at) =>
  (await (await fetch(at)).json()).clocks, "/api/v1/runs/" + run);

async function during(page) {
  await status(page, "training");
  await page.waitForFunction(drawn);
  const before = await clocks(page);
  await page.waitForFunction(async ([at, least]) =>
    (await (await fetch(at)).json()).clocks > least, ["/api/v1/runs/" + run, before]);
}

async function after(page) {
  await status(page, "finished");
  await page.waitForFunction(drawn);
  await page.getByRole("heading", {name: "model", exact: true}).waitFor();
  const onnx = await download(page, "download ONNX", path.join(folder, "page.onnx"));
  assert.ok(onnx.includes("probabilities"));
}

tell(async (browser, page) => {
  await page.goto(address);
  await page.locator(".runhead h1", {hasText: "outcome"}).waitFor();
  await {during, after}[part](page);
  await page.screenshot({path: path.join(folder, "story-" + part + ".png")});
});
