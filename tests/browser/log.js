// The tab "log" with a server that is played: node log.js
//
// A process that was switched away from is not shown, and the last lines of a
// run that ends are, whenever its end is told.
"use strict";

const assert = require("assert");
const {openModules, tell} = require("./person.js");

const logs = ["zero\n", null]; // of each process
let held = null;               // answers to be given later, while there is an array

function answer(route) {
  const url = new URL(route.request().url());
  if (url.pathname.endsWith("/config"))
    return route.fulfill({json: {cluster: {nodes: 2}}});
  const log = logs[Number(url.searchParams.get("node"))], offset = Number(url.searchParams.get("offset"));
  if (log === null)
    return route.fulfill({status: 404, json: {code: "log_not_found", detail: "no log"}});
  const from = Math.max(0, offset < 0 ? log.length + offset : offset), body = log.slice(from);
  return route.fulfill({body, contentType: "text/plain",
    headers: {"log-offset": String(from), "log-next-offset": String(from + body.length)}});
}

// An answer is what was there when it was asked for.
function asked(route) {
  if (held === null) return answer(route);
  const now = [...logs];
  return new Promise((done) => held.push(() => {
    const later = logs.splice(0, 2, ...now);
    done(answer(route));
    logs.splice(0, 2, ...later);
  }));
}

async function until(what, condition) {
  const end = Date.now() + 60000;
  while (!await condition()) {
    assert.ok(Date.now() < end, what);
    await new Promise((done) => setTimeout(done, 20));
  }
}

tell(async (browser, page, faults) => {
  await openModules(page, "http://page.test");
  await page.route("http://page.test/api/**", asked);
  const text = page.getByRole("log"), note = page.locator("section p.quiet");
  const shows = (words) => text.filter({hasText: words}).waitFor();
  const refresh = (status) => page.evaluate((s) => { window.tab.refresh({status: s}); }, status);
  await page.evaluate(async () => {
    const {logTab} = await import("/log.js");
    window.tab = logTab("run-1", {failed: (message) => console.error(message)});
    document.getElementById("main").append(window.tab.root);
  });
  await refresh("training");
  await shows("zero");

  // One that has no log yet, then has one.
  await page.getByLabel("process").selectOption("1");
  await note.filter({hasText: "There is no log yet: this process has not been started."}).waitFor();
  assert.strictEqual(await text.textContent(), "");
  logs[1] = "";
  await note.filter({hasText: "It has written nothing so far."}).waitFor();
  logs[1] = "one\n";
  await shows("one");

  // Switched away from while it is asked for, and back again.
  await page.getByLabel("process").selectOption("0");
  await shows("zero");
  held = [];
  logs[0] += "more\n";
  await until("it is asked", () => held.length === 1);
  await page.getByLabel("process").selectOption("1");
  assert.strictEqual(await text.textContent(), "");
  await page.getByLabel("process").selectOption("0");
  held.splice(0).forEach((give) => give());
  await until("it is asked", () => held.length === 1);
  assert.strictEqual(await text.textContent(), "");
  let late = held;
  held = null;
  late.forEach((give) => give());
  await until("all of it", async () => await text.textContent() === "zero\nmore\n");

  // The run ends while it is asked for; what it wrote since then is shown.
  held = [];
  await until("it is asked", () => held.length === 1);
  logs[0] += "last words\n";
  await refresh("failed");
  await new Promise((done) => setTimeout(done, 100)); // that it has asked for the run
  late = held;
  held = null;
  late.forEach((give) => give());
  await shows("last words");
  // A program ends a moment after its run; then nothing more is asked.
  logs[0] += "traceback\n";
  await shows("traceback");
  await page.waitForTimeout(5000);
  held = [];
  await page.waitForTimeout(3000);
  assert.strictEqual(held.length, 0);
  held = null;

  // One that had never written, one that had never been started: of a run that has ended nothing is still to come.
  for (const [log, says] of [["", "It wrote nothing: the run has ended, and this log is empty."], [null, "There is no log: this process was never started."]]) {
    logs[1] = log;
    await page.getByLabel("process").selectOption("0");
    await shows("traceback");
    await page.getByLabel("process").selectOption("1");
    await note.filter({hasText: says}).waitFor();
  }
  assert.deepStrictEqual(faults.splice(0).filter((f) => !/404/.test(f)), []);
});
