// How long each view of a large run takes in Chromium: from its address to the
// first picture with data, and to draw all its pictures anew.
//
//   node paint.js URL RUN OTHER [ROUNDS]
//
// Prints `name params value unit`, the median and the worst of the rounds; each
// round has a browser context of its own, so that nothing is cached. cpu is what the
// page's main thread took, which does not count what else the machine does. No test:
// tests/bench/dashboard_page.py starts it.
"use strict";

const {tell} = require("./person.js");

const [, , url, run, other, rounds = "5"] = process.argv;

// Each view: name, address, what stands there once its data do, and what is done
// to it beside a change of colours: an element and an event.
const RUN = "#/run/" + run;
const VIEWS = [
  ["runs", "#/?find=", "tbody td.lead a"],
  ["overview", RUN, ".plot canvas", ["smooth", ".slider input", "input"]],
  ["trials", RUN + "/trials", "tbody tr[data-trial]"],
  ["branches", RUN + "/branches", "section.card:has(.tall) > .readout:not(:empty)", ["point", ".tall canvas", "pointermove"]],
  ["settings", RUN + "/settings", ".stacked:not([hidden]) > .card canvas[height]:not([height='0'])",
    ["choose", ".stacked canvas", "keydown"]],
  ["cluster", RUN + "/cluster", ".card .plot, .card table, .card.quiet:not([hidden])"],
  ["compare", "#/compare/" + run + "," + other, ".plot canvas"],
];

// Before any script of the page: notes when the view's data were first painted. A
// frame after the one that finds them has them on the screen.
function noteFirst(selector) {
  window.firstData = new Promise((found) => {
    const look = () => {
      const e = document.querySelector(selector);
      if (e && e.getBoundingClientRect().width > 0) requestAnimationFrame(() => found(performance.now()));
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}

// Milliseconds until the frame after @act is drawn.
async function redraw([selector, event]) {
  const settled = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  await settled();
  const e = document.querySelector(selector), box = e.getBoundingClientRect();
  const made = {pointermove: () => new PointerEvent("pointermove", {bubbles: true, clientX: box.left + box.width / 2,
    clientY: box.top + Math.min(box.height, innerHeight) / 2}),
  keydown: () => new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}),
  input: () => { e.value = (Number(e.value) + 1) % 6; return new Event("input", {bubbles: true}); },
  click: () => new MouseEvent("click", {bubbles: true})}[event]();
  const begin = performance.now();
  e.dispatchEvent(made);
  const script = performance.now() - begin;
  await new Promise((done) => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = done; c.port2.postMessage(0); }));
  return [script, performance.now() - begin];
}

function median(all) {
  const sorted = [...all].sort((a, b) => a - b);
  return sorted[sorted.length >> 1];
}

function say(view, what, all) {
  const at = `view=${view} what=${what}`, ms = (v) => v.toFixed(1);
  console.log(`page ${at} of=median ${ms(median(all))} ms\npage ${at} of=worst ${ms(Math.max(...all))} ms`);
}

// Asks for the milliseconds of processor time that the page's main thread has taken.
async function processorTime(context, page) {
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable", {timeDomain: "threadTicks"});
  return async () => {
    const {metrics} = await session.send("Performance.getMetrics");
    return 1000 * metrics.find((m) => m.name === "TaskDuration").value;
  };
}

async function measure(browser, [view, hash, selector, ...acts]) {
  const of = {};
  const note = (what, value) => (of[what] ||= []).push(value);
  for (let i = 0; i < Number(rounds); i++) {
    const context = await browser.newContext({viewport: {width: 1280, height: 900}}), page = await context.newPage();
    page.on("pageerror", (error) => { throw error; });
    const cpu = await processorTime(context, page);
    await page.addInitScript(noteFirst, selector);
    await page.goto(url + hash);
    note("first_data", await page.evaluate(() => window.firstData));
    note("cpu_first_data", await cpu());
    note("first_paint", await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN));
    const slow = await page.evaluate(() => performance.getEntriesByType("resource").filter((e) => e.name.includes("/api/"))
      .map((e) => e.responseEnd - e.startTime));
    note("slowest_request", Math.max(...slow));
    await page.waitForLoadState("load");
    for (const [what, target, event] of [["colours", "#theme", "click"], ...acts]) {
      const before = await cpu(), [script, frame] = await page.evaluate(redraw, [target, event]);
      note("redraw_" + what, frame);
      note("script_" + what, script);
      note("cpu_redraw_" + what, await cpu() - before);
    }
    await context.close();
  }
  for (const [what, all] of Object.entries(of)) say(view, what, all);
}

tell(async (browser) => {
  for (const view of VIEWS) await measure(browser, view);
});
