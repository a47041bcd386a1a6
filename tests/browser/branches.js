// The time line of 10 and of 1,000 branches, without a server: a lineage keeps its
// row, lineages that follow one another share one, colours say how it went, a
// fork is a line, and a branch that is pointed at says setting, loss and memory.
"use strict";

const assert = require("assert");
const {openModules, openPage, tell} = require("./person.js");

const ORIGIN = "http://tree.test";
const LABELS = ["converging", "unstable", "diverged", "stopped"];
const TRIALS = 9, CLOCKS = 10; // of a search; of a trial

// Searches of nine trials, of which the fourth wins and goes on; time goes half as
// fast from the middle on.
function history(many) {
  const branches = [], tips = [null];
  let clock = 0;
  for (let trial = 1; branches.length < many; trial++) {
    const nth = (trial - 1) % TRIALS, parent = tips.at(-1 - (nth > 3)) ?? null;
    const b = {branch: trial, parent, type: "training", role: "trial", trial, search: 1 + Math.floor((trial - 1) / TRIALS),
      label: LABELS[trial % 4], loss: trial === 6 ? "nan" : trial / 8, live: false, surviving: nth === 3,
      setting: {rate: trial / many, rule: "adam"}, created_clock: clock, first_clock: clock + 1, last_clock: clock += CLOCKS,
      clocks: CLOCKS, freed_reason: "out"};
    branches.push(b);
    if (nth === 3) tips.push(trial);
    if (nth === TRIALS - 1 || branches.length === many) {
      const tip = branches[tips.at(-1) - 1];
      tip.last_clock = clock += 5 * CLOCKS;
      tip.clocks += 5 * CLOCKS;
    }
  }
  Object.assign(branches[tips.at(-1) - 1], {live: true, freed_reason: null});
  return {branches, clock, tip: tips.at(-1)};
}

function server(many) {
  const {branches, clock, tip} = history(many);
  const run = {run: "r", name: "r", status: "training", queue: null, job: null, clock, clocks: clock, epochs: 0,
    loss: 1, best: null, setting: {rate: 0.1}, branch: tip, branches: {total: many, live: 1}, values: null, tuning: {strategy: "mltuner",
      searches: 1, trials: many, seconds: 1}, stop: null, seconds: 2, paused_seconds: 0};
  const clocks = Array.from({length: 101}, (_, i) => Math.round(clock * i / 100)), asked = {};
  const lineage = {points: 101, clock: clocks, seconds: clocks.map((c) => c < clock / 2 ? c / 10 : c / 5 - clock / 20),
    loss: clocks.map(() => 1), branch: clocks.map(() => 1)};
  return {asked, tip, clock, api: (path, query) => {
    if (path === "/version") return {name: "mltune", version: "0"};
    if (path === "/runs") return {runs: [run, run], total: 2, next_page_token: null};
    if (path.endsWith("/tree")) asked.branches = Number(query.get("max_branches"));
    return {"": run, "/tree": {total: many, branches}, "/slices": {slices: [], next_page_token: null},
      "/curve": {lineage, others: {points: 0, clock: [], seconds: [], loss: [], branch: []}},
      "/nodes": {nodes: [0, 1].map((node) => ({node, branches: [{branch: tip, private_bytes: 1024, shared_bytes: 9}]}))}}[path.slice(7)] ?? null;
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

const shot = (page, name) => process.env.MLTUNE_SHOTS ? page.screenshot({path: process.env.MLTUNE_SHOTS + "/" + name + ".png"}) : null;

// Points at the first place of the canvas where the line below says what is wanted. The place is looked for in the page:
// a real pointer takes 20 ms a place.
async function pointAt(page, wanted, height) {
  const canvas = page.locator("main canvas").first(), readout = page.locator(".readout").first();
  const place = await canvas.evaluate((e, {source, high}) => {
    const line = document.querySelector(".readout"), {left, top, width} = e.getBoundingClientRect();
    for (let y = 50; y < high; y += 8)
      for (let x = 8; x < width - 8; x += 8) {
        e.dispatchEvent(new PointerEvent("pointermove", {clientX: left + x, clientY: top + y, bubbles: true}));
        if (new RegExp(source).test(line.textContent)) return {x, y};
      }
    return null;
  }, {source: wanted.source, high: height});
  assert.ok(place, "nothing says " + wanted);
  await canvas.hover({position: place});
  assert.match(await readout.textContent(), wanted);
}

async function shows(browser, many, highest) {
  const page = await browser.newPage({viewport: {width: 1280, height: 900}}), {api, asked, tip} = server(many);
  await openPage(page, ORIGIN, api, "#/run/r/branches");
  await page.locator(".readout", {hasText: many + 1 + " branches"}).or(
    page.locator(".readout", {hasText: "1,001 branches"})).first().waitFor();
  assert.ok(asked.branches >= 1000, "asks for " + asked.branches);
  const {of, height} = await page.evaluate(painted);
  for (const [colour, pixels] of Object.entries(of)) assert.ok(pixels > 5, colour + ": " + pixels);
  assert.ok(height <= highest, many + " branches are " + height + " pixels high");
  await shot(page, "branches-" + many);
  const canvas = page.locator("main canvas").first(), readout = page.locator(".readout").first();
  const box = page.locator(".tip");
  assert.ok(await box.isHidden());
  await canvas.focus();
  await page.keyboard.press("Home");
  assert.match(await readout.textContent(), /^branch 0: the state before/);
  // Along the first row: the lineage. A thousand keys through the browser's own queue take minutes.
  await page.keyboard.press("ArrowRight");
  await canvas.evaluate((e, times) => {
    for (let i = 0; i < times; i++) e.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
  }, many - 1);
  assert.match(await readout.textContent(), new RegExp("^branch " + tip + ",.*surviving lineage.*2 KiB of its own; lives; rate "));
  assert.match(await box.textContent(), /lives.*rate.*ruleadam.*loss.*memory2 KiB of its own/);
  await page.keyboard.press("End");
  assert.match(await readout.textContent(), new RegExp("^branch " + many + ", "));
  await shot(page, "branches-" + many + "-chosen");
  if (many > 10) return page.close();
  await pointAt(page, /^branch 5, .*trial 5; from branch 0 .*unstable, loss 0\.625; freed: out; rate 0\.5/, height);
  assert.match(await box.textContent(), /^trial 5.*unstable.*rate0\.5.*loss0\.625.*memorygiven back.*frombranch 0/);
  await page.mouse.move(0, 0);
  await box.waitFor({state: "hidden"});
  await canvas.focus();
  await page.keyboard.press("End");
  await box.waitFor();
  await page.setViewportSize({width: 390, height: 844});
  await box.waitFor({state: "hidden"}); // where it stood is elsewhere now
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "too wide for a phone");
  await shot(page, "branches-" + many + "-phone");
  await page.close();
}

// Over time the half in which time goes slower takes two thirds; over clocks it does not.
async function overTime(browser) {
  const page = await browser.newPage({viewport: {width: 1280, height: 900}});
  await openPage(page, ORIGIN, server(10).api, "#/run/r/branches");
  await page.locator(".readout", {hasText: "11 branches"}).waitFor();
  const canvas = page.locator("main canvas").first(), look = () => canvas.evaluate((e) => e.toDataURL());
  const time = await look();
  await page.getByLabel("axis of the branches").selectOption("clock");
  assert.notStrictEqual(await look(), time);
  const clock = await look();
  await page.getByLabel("axis of the branches").selectOption("forks");
  assert.ok(![clock, time].includes(await look()));
  await shot(page, "branches-forks");
  await page.getByLabel("axis of the branches").selectOption("time");
  assert.strictEqual(await look(), time);
  await page.close();
}

async function reckons(browser, many, mostRows) {
  const page = await browser.newPage(), {branches, tip} = history(many);
  await openModules(page, ORIGIN);
  const told = await page.evaluate(async ([all, width]) => {
    const m = await import("/lineages.js"), lines = m.lineages(m.withRoot(all)), clock = Math.max(...all.map((b) => b.last_clock));
    const rows = m.inRows(lines, (b) => [b.created_clock * width / clock,
      Math.max(b.created_clock * width / clock + 9, b.last_clock * width / clock)], 3);
    return {lines: lines.map((l) => l.of.map((b) => b.branch)), rows: rows.map((r) => r.map((k) => [k.b.branch, k.from, k.to])),
      between: [-1, 0, 5, 10, 11].map((at) => m.between([0, 10], [100, 300], at))};
  }, [branches, 1200]);
  assert.deepStrictEqual(told.lines.flat().sort((a, b) => a - b), [0, ...branches.map((b) => b.branch)], "each in one lineage");
  assert.strictEqual(told.lines[0].at(-1), tip);
  assert.ok(told.lines[0].every((b) => b === 0 || branches[b - 1].surviving));
  assert.deepStrictEqual(told.rows[0].map(([b]) => b), told.lines[0], "the surviving one has its row for itself");
  assert.ok(told.rows.length <= mostRows, told.rows.length + " rows");
  for (const row of told.rows.slice(1)) row.reduce((end, [b, from, to]) => { assert.ok(from >= end + 3, "branch " + b); return to; }, -9);
  assert.deepStrictEqual(told.between, [100, 100, 200, 300, 300]);
  await page.close();
}

tell(async (browser, page, faults) => {
  await reckons(browser, 10, 4);
  await reckons(browser, 1000, 20);
  await shows(browser, 10, 250);
  await shows(browser, 1000, 700);
  await overTime(browser);
  assert.deepStrictEqual(faults, []);
});
