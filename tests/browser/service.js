// A person at the dashboard of a service, in two parts with a restart of the
// service between them:
//
//   node service.js before URL TOKEN FOLDER
//   node service.js after URL TOKEN FOLDER
//
// Before: submits a run and watches it to its end, takes its model; submits another, forks a
// branch of it by hand, promotes it, gives another fork up, downloads a chart,
// stops it. After: all of that is there again, and the two are compared. What is to be there is noted in
// FOLDER/noted.json; screenshots go to FOLDER.
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const {act, confirm, download, drawn, looksRight, openTab, status, tell} = require("./person.js");

const [, , part, url, token, folder] = process.argv;
const noted = path.join(folder, "noted.json");

const job = (name, stop) => ({name,
  app: {name: "mlr", data: "gen:digits?samples=20000&size=28"},
  tunables: {learning_rate: {type: "float", min: 1e-4, max: 1, scale: "log", default: 0.05}},
  cluster: {workers: 1}, tuner: {searcher: "random", max_trials: 6}, memory: {limit: "256MiB"}, stop});

async function submits(page, config) {
  await page.goto(url + "#/");
  await page.getByRole("button", {name: "new run"}).click();
  const dialog = page.locator("dialog");
  await dialog.getByLabel("configuration").fill("{");
  if (await dialog.getByLabel("token").isVisible()) await dialog.getByLabel("token").fill(token);
  await confirm(page, "submit");
  await dialog.getByText("is not JSON").waitFor();
  await dialog.getByLabel("configuration").fill(JSON.stringify(config));
  await confirm(page, "submit");
  await dialog.waitFor({state: "detached"});
  await page.locator(".runhead h1", {hasText: config.name}).waitFor();
  return decodeURIComponent(new URL(page.url()).hash.split("/")[2]);
}

// The figures that a run ends with, as the page says them.
const figures = (page) => page.locator(".figures .big").allTextContents();

async function watchesToTheEnd(page) {
  await page.getByRole("heading", {name: "validation accuracy by epoch"}).waitFor();
  await page.getByRole("link", {name: /^what is metric\?/}).first().waitFor();
  await page.waitForFunction(drawn);
  await status(page, "finished");
  await page.locator(".figures p", {hasText: "ended: max epochs"}).waitFor();
  return figures(page);
}

// The model of a run that has ended: what it is worth, its folder and its file.
async function takesTheModel(page) {
  await page.getByRole("heading", {name: "model", exact: true}).waitFor();
  await page.locator(".model p", {hasText: /^of epoch \d+: loss .*, validation accuracy .*; arrays of /}).waitFor();
  const tar = await download(page, "download folder (tar)", path.join(folder, "model.tar"));
  for (const name of ["model.json", "weights.npy"]) assert.ok(tar.includes(name), name);
  const onnx = await download(page, "download ONNX", path.join(folder, "model.onnx"));
  assert.ok(onnx.includes("probabilities"));
  await page.screenshot({path: path.join(folder, "model.png")});
}

const byHand = (page) => page.getByRole("group", {name: "the chosen branch"});
const branches = (page) => page.locator("canvas[role=img]").first();

// Goes through the tree, from its end, to the first branch that has the button.
async function chooses(page, label) {
  await openTab(page, "branches");
  await page.locator(".readout", {hasText: /branch/}).first().waitFor(); // they have come
  await branches(page).focus();
  await page.keyboard.press("End");
  for (let i = 0; i < 500; i++) {
    const there = byHand(page).getByRole("button", {name: label, exact: true});
    if (await there.isVisible()) return there;
    await page.keyboard.press("ArrowUp");
    if (i % 50 === 49) await page.keyboard.press("End"); // the run goes on meanwhile
  }
  throw new Error("no branch can be chosen to " + label);
}

async function forks(page, rate) {
  const dialog = page.locator("dialog");
  await (await chooses(page, "fork")).click();
  await dialog.getByLabel("learning_rate").fill(String(rate));
  await dialog.getByText("learning_rate " + rate).waitFor();
  await dialog.getByText("No decision depends on it").waitFor();
  await confirm(page, "fork");
  await dialog.waitFor({state: "detached"});
  await page.locator("#notice", {hasText: "is forked"}).waitFor();
}

async function does(page, label, said) {
  await (await chooses(page, label)).click();
  await confirm(page, label);
  await page.locator("dialog").waitFor({state: "detached"});
  await page.locator("#notice", {hasText: said}).waitFor();
}

async function stops(page) {
  await act(page, "stop");
  await page.locator("dialog").getByText("ends as “stopped”").waitFor();
  await confirm(page, "stop");
  await page.locator("dialog").waitFor({state: "detached"});
  await status(page, "stopped");
  await openTab(page, "overview");
  // The tab is opened anew: its figures are dashes until they have come.
  await page.locator(".figures .big", {hasText: /trials?$/}).waitFor();
  return figures(page);
}

async function before(browser, page) {
  const seen = {};
  const short = await submits(page, job("short", {max_epochs: 6, plateau_epochs: 100}));
  seen[short] = await watchesToTheEnd(page);
  await takesTheModel(page);
  const long = await submits(page, job("long", {max_epochs: 1000000, plateau_epochs: 1000000}));
  await page.getByRole("heading", {name: "validation accuracy by epoch"}).waitFor();
  await forks(page, 0.03);
  await does(page, "give up", "branch");
  await forks(page, 0.02);
  await page.screenshot({path: path.join(folder, "branches-forked.png")});
  const csv = (await download(page, "CSV of branches over time",
    path.join(folder, "branches.csv"))).toString();
  assert.match(csv, /,user,/);
  await does(page, "promote", "branch");
  seen[long] = await stops(page);
  fs.writeFileSync(noted, JSON.stringify(seen));
}

// Both runs beside each other: as many columns of figures, lines drawn.
async function compares(page, runs) {
  await page.goto(url + "#/compare/" + runs.join(","));
  await page.getByRole("heading", {name: "compare", exact: true}).waitFor();
  await page.waitForFunction(drawn);
  for (const name of ["short", "long"])
    await page.getByRole("columnheader", {name, exact: true}).waitFor();
  await page.getByRole("rowheader", {name: "setting in use"}).waitFor();
  await page.getByRole("button", {name: "by clock"}).click();
  await page.getByRole("button", {name: "by time"}).waitFor();
  assert.strictEqual(await page.getByText("has a fault").count(), 0);
}

async function after(browser, page, faults) {
  const seen = JSON.parse(fs.readFileSync(noted));
  await page.goto(url + "#/");
  for (const name of ["short", "long"]) await page.getByRole("link", {name, exact: true}).waitFor();
  for (const run of Object.keys(seen)) {
    await page.goto(url + "#/run/" + run);
    await page.waitForFunction(drawn);
    await page.locator(".figures .big", {hasText: /trials?$/}).waitFor(); // they have come
    assert.deepStrictEqual(await figures(page), seen[run]);
    await looksRight(browser, faults, url + "#/run/" + run, folder, "after-" + run.split("-")[0] + "-");
  }
  await openTab(page, "overview");
  await page.locator(".feed", {hasText: /promote/}).waitFor();
  await compares(page, Object.keys(seen));
}

tell(part === "before" ? before : after);
