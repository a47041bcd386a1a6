// The settings view without a server: axes on the tunables' own scales, right after
// each redraw; importance of one search with its uncertainty; brushes; the map of two
// tunables; and words where there is nothing.
"use strict";

const assert = require("assert");
const {openPage, tell} = require("./person.js");

const ORIGIN = "http://settings.test";
const RATE = {type: "float", min: 1e-5, max: 1, scale: "log", default: 0.01};
const MOMENTUM = {type: "float", min: 0, max: 0.99, scale: "linear", default: 0.9};
const RULE = {type: "choice", values: ["sgd", "adam", "adagrad"], default: "sgd"};
const SEARCHES = [{search: 1, result: {}, max_trials: 40, tunables: {rate: RATE, momentum: MOMENTUM, rule: RULE}},
  {search: 2, result: {}, max_trials: 20, tunables: {rate: {...RATE, min: 0.02, max: 0.6}, momentum: MOMENTUM, rule: RULE}},
  {search: 3, result: {}, max_trials: 12, tunables: {rate: {...RATE, min: 0.02, max: 0.6}, momentum: MOMENTUM, rule: {...RULE, fixed: "sgd"}}}];

// Momenta lie as a logarithm's do, which must not make their axis one.
function trial(n) {
  const second = n > 40, part = (n * 7919 % 40) / 39, away = (n * 104729 % 37) / 36;
  const rate = second ? 0.02 * 30 ** part : 10 ** (-5 * part);
  return {trial: n, search: n > 60 ? 3 : second ? 2 : 1, rate, momentum: Math.min(0.99, 0.007 * 136 ** away), rule: n > 60 ? "sgd" : RULE.values[n % 3],
    speed: rate > 0.7 ? 0 : 50 * rate + away / 10, label: rate > 0.7 ? "diverged" : n % 5 ? "converging" : "unstable"};
}
const TRIALS = Array.from({length: 72}, (_, i) => trial(i + 1));

function survey(search) {
  const rows = TRIALS.filter((t) => !search || String(t.search) === search), of = (name) => rows.map((t) => t[name]);
  const slower = (t) => rows.filter((r) => r.search === t.search && r.speed < t.speed).length / rows.filter((r) => r.search === t.search).length;
  return {total: rows.length, rows: rows.length, tunables: {rate: of("rate"), momentum: of("momentum"), rule: of("rule")},
    columns: {trial: of("trial"), search: of("search"), branch: of("trial"), sampled: rows.map(() => true), label: of("label"),
      incumbent: rows.map(() => false), speed: of("speed"), standing: rows.map(slower), noise: rows.map(() => 0),
      seconds: rows.map(() => 1), clocks: rows.map(() => 9), loss: rows.map(() => 1)}};
}

const run = (name, searches) => ({run: name, name, status: "finished", queue: null, job: null, clock: 900, clocks: 900, epochs: 0, loss: 1,
  best: null, setting: {}, branch: 1, branches: {total: 1, live: 1}, values: null, tuning: {strategy: "mltuner", searches, trials: 72, seconds: 1},
  stop: null, seconds: 2, paused_seconds: 0});

function api(path, query) {
  if (path === "/version") return {name: "mltune", version: "0"};
  if (path === "/runs") return {runs: [run("r", 3), run("none", 0)], total: 2, next_page_token: null};
  return {"/runs/r": run("r", 3), "/runs/r/survey": survey(query.get("search")), "/runs/r/searches": {searches: SEARCHES, next_page_token: null},
    "/runs/none": run("none", 0)}[path] ?? null;
}

// What is written on each card's canvas at its last drawing.
function listens() {
  const written = new Map(), {clearRect, fillText} = CanvasRenderingContext2D.prototype;
  const width = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, "width");
  const anew = (canvas) => written.set(canvas, []);
  Object.defineProperty(HTMLCanvasElement.prototype, "width", {...width, set(v) { anew(this); width.set.call(this, v); }});
  CanvasRenderingContext2D.prototype.clearRect = function(...of) { anew(this.canvas); return clearRect.apply(this, of); };
  CanvasRenderingContext2D.prototype.fillText = function(text, ...at) {
    (written.get(this.canvas) || anew(this.canvas).get(this.canvas)).push(String(text));
    return fillText.call(this, text, ...at);
  };
  window.written = (title) => {
    const card = [...document.querySelectorAll("section.card")].find((s) => s.querySelector("h2").textContent === title);
    return card ? written.get(card.querySelector("canvas")) || [] : [];
  };
}

const card = (page, title) => page.locator("section.card", {has: page.getByRole("heading", {name: title, exact: true})});
const written = (page, title) => page.evaluate((t) => window.written(t), title);
async function writes(page, title, yes, no) {
  await page.waitForFunction(([t, list]) => list.every((v) => window.written(t).includes(v)), [title, yes],
    {timeout: 20000}).catch(async () => assert.fail(title + " lacks some of " + yes + ": " + await written(page, title)));
  const texts = await written(page, title);
  for (const v of no) assert.ok(!texts.includes(v), title + " has " + v + ": " + texts);
}

async function ownScales(page) {
  const choose = page.getByRole("combobox", {name: /^search/});
  await page.getByText("40 trials judged of 40").waitFor(); // one search by default
  await writes(page, "rate", ["1e-4", "0.01", "1", "rate (log)"], ["0.5", "0.2"]);
  await writes(page, "momentum", ["0", "0.5", "momentum"], ["0.01", "0.1", "momentum (log)", "1.78"]);
  await writes(page, "rule", RULE.values, ["0.5", "1.5"]);
  await writes(page, "parallel coordinates", ["rate", "1e-5", "1", "log", "0.99", "sgd", "adagrad", "adam"], []);
  await choose.selectOption("2");
  await page.getByText("20 trials judged of 20").waitFor();
  await writes(page, "rate", ["0.1", "rate (log)"], ["1e-4", "0.001", "1"]);
  await writes(page, "parallel coordinates", ["0.02", "0.6", "sgd"], ["1e-5"]);
  await choose.selectOption("3");
  await page.getByText("12 trials judged of 12").waitFor();
  assert.ok(await card(page, "rule").isHidden()); // it did not differ
  await choose.selectOption("all");
  await page.getByText("72 trials judged of 72").waitFor();
  await writes(page, "rate", ["1e-4", "0.01"], []);
  await writes(page, "parallel coordinates", ["standing", "slowest", "fastest"], ["speed"]);
}

// Of all searches too it is that of one.
async function importance(page) {
  for (const choice of ["all", "1"]) {
    await page.getByRole("combobox", {name: /^search/}).selectOption(choice);
    await card(page, "importance").getByText(/space of search 1 that .* from 40 trials/).waitFor();
    const texts = await written(page, "importance"), [first, share] = texts.slice(0, 2);
    assert.strictEqual(first, "rate", texts.join());
    assert.match(share, /^(8|9)\d % ± \d+ %$/);
    assert.ok(texts.includes("only together"), texts.join());
  }
  const alone = texts(await written(page, "importance")), all = alone.reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(all - 100) <= 2, "they add up to " + all);
}
const texts = (list) => list.filter((t) => / %/.test(t)).map((t) => parseInt(t, 10));

async function brushes(page) {
  const lines = card(page, "parallel coordinates"), canvas = lines.locator("canvas"), box = await canvas.boundingBox();
  const at = (part) => box.y + 282 - 232 * part;
  await page.mouse.move(box.x + 48, at(1.02));
  await page.mouse.down();
  await page.mouse.move(box.x + 48, at(0.9));
  await page.mouse.move(box.x + 48, at(0.8));
  await page.mouse.up();
  const kept = TRIALS.filter((t) => t.search === 1 && t.rate >= 0.1).length;
  await lines.getByText(new RegExp("^" + kept + " trials of 40 kept; the fastest of them: trial \\d+, ")).waitFor();
  await card(page, "rate").getByText("pale: put aside above").waitFor();
  await canvas.focus();
  await page.keyboard.press("Escape");
  await lines.getByText("A line a trial").waitFor();
  // The same by keys: the third axis, its lower third: one of three rules.
  for (const key of ["ArrowRight", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  await lines.getByText("axis rule from sgd to adagrad").waitFor();
  await page.keyboard.press("1");
  const sgd = TRIALS.filter((t) => t.search === 1 && t.rule === "sgd").length;
  await lines.getByText(new RegExp("^" + sgd + " trials of 40 kept")).waitFor();
  await page.keyboard.press("ArrowDown");
  await lines.getByText(/^trial \d+, .*: rate .*rule sgd; speed /).waitFor();
  await page.keyboard.press("Escape");
}

async function maps(page) {
  const map = card(page, "speed by two tunables"), canvas = map.locator("canvas");
  await writes(page, "speed by two tunables", ["rate (log)", "1e-4"], []);
  await map.getByLabel("tunable up").selectOption("rule");
  await writes(page, "speed by two tunables", ["rate (log)", "rule", ...RULE.values], []);
  await canvas.hover({position: {x: 120, y: 30}});
  await map.getByText(/^rate [\d.e-]+, rule adagrad: expected speed [\d.]+$|^trial \d+: /).waitFor();
  await map.getByLabel("tunable up").selectOption("rate");
  await map.getByText("choose two different tunables").waitFor();
}

tell(async (browser, page, faults) => {
  await page.addInitScript(listens);
  await openPage(page, ORIGIN, api, "#/run/r/settings");
  await ownScales(page);
  await importance(page);
  await brushes(page);
  await maps(page);
  await page.setViewportSize({width: 390, height: 844});
  await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
  await page.evaluate(() => { location.hash = "#/run/none/settings"; });
  await page.getByText("no trial so far: this view says").waitFor();
  assert.strictEqual(await page.locator("section.card:visible").count(), 0);
  assert.deepStrictEqual(faults, []);
});
