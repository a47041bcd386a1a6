// The tree of 10 and of 1,000 branches, without a server: each has its row, its
// colour says how it went, and a branch that is pointed at says setting, loss
// and memory. With 1,000 the names of rows give way, not the picture.
"use strict";

const assert = require("assert");
const {openPage, tell} = require("./person.js");

const ORIGIN = "http://tree.test";
const LABELS = ["converging", "unstable", "diverged", "stopped"];

function server(many) {
  const run = {run: "r", name: "r", status: "training", queue: null, job: null, clock: 10 * many, clocks: 10 * many, epochs: 0,
    loss: 1, best: null, setting: {rate: 0.1}, branch: many, branches: {total: many, live: 1}, values: null, tuning: {strategy: "mltuner",
      searches: 1, trials: many - 1, seconds: 1}, stop: null, seconds: 2, paused_seconds: 0};
  const branches = Array.from({length: many}, (_, i) => ({branch: i + 1, parent: null, type: "training", role: "trial", trial: i + 1,
    live: i + 1 === many, surviving: i + 1 === many, setting: {rate: (i + 1) / many}, created_clock: 10 * i, first_clock: 10 * i + 1,
    last_clock: 10 * i + 10, clocks: 10, freed_reason: "out"}));
  const trials = branches.map((b) => b.trial);
  const survey = {total: many, rows: many, tunables: {}, columns: {trial: trials, label: trials.map((t) => LABELS[t % 4]),
    loss: trials.map((t) => t === 6 ? "nan" : t / 8)}};
  const asked = {};
  return {asked, api: (path, query) => {
    if (path === "/version") return {name: "mltune", version: "0"};
    if (path === "/runs") return {runs: [run, run], total: 2, next_page_token: null};
    if (path.endsWith("/tree")) asked.branches = Number(query.get("max_branches"));
    return {"": run, "/tree": {total: many, branches}, "/slices": {slices: [], next_page_token: null}, "/survey": survey,
      "/nodes": {nodes: [0, 1].map((node) => ({node, branches: [{branch: many, private_bytes: 1024, shared_bytes: 9}]}))}}[path.slice(7)] ?? null;
  }};
}

// How many pixels of the canvas have each colour of the style sheet.
function painted() {
  const canvas = document.querySelector("main canvas"), css = getComputedStyle(document.documentElement);
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, of = {};
  for (const name of ["accent", "good", "warn", "bad", "second"]) {
    const [r, g, b] = css.getPropertyValue("--" + name).match(/\d+/g).map(Number);
    of[name] = 0;
    for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) of[name]++;
  }
  return {of, height: canvas.clientHeight};
}

async function shows(browser, many, highest) {
  const page = await browser.newPage({viewport: {width: 1280, height: 900}}), {api, asked} = server(many);
  await openPage(page, ORIGIN, api, "#/run/r/branches");
  await page.locator(".readout", {hasText: many + 1 + " branches"}).or(
    page.locator(".readout", {hasText: "1,001 branches"})).first().waitFor();
  assert.ok(asked.branches >= 1000, "asks for " + asked.branches);
  const {of, height} = await page.evaluate(painted);
  for (const [colour, pixels] of Object.entries(of)) assert.ok(pixels > 5, colour + ": " + pixels);
  assert.ok(height >= 5 * many && height <= highest, many + " branches are " + height + " pixels high");
  if (process.env.MLTUNE_SHOTS) await page.screenshot({path: process.env.MLTUNE_SHOTS + "/branches-" + many + ".png"});
  const canvas = page.locator("main canvas").first(), row = (height - 34) / (many + 1);
  const readout = page.locator(".readout").first(), says = async (n, text) => {
    await canvas.hover({position: {x: 400, y: 26 + (n + 0.5) * row}});
    assert.match(await readout.textContent(), text);
  };
  await says(5, /^branch 5, .*trial 5; from branch 0 .*unstable, loss 0\.625; freed: out; rate /);
  await says(6, /^branch 6, .*diverged; freed/); // its loss was no number
  await canvas.focus();
  await page.keyboard.press("End");
  assert.match(await readout.textContent(), new RegExp("^branch " + many + ",.*surviving lineage.*2 KiB of its own; lives; rate 1$"));
  await page.close();
}

tell(async (browser, page, faults) => {
  await shows(browser, 10, 250);
  await shows(browser, 1000, 5100);
  assert.deepStrictEqual(faults, []);
});
