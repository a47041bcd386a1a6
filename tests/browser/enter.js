// The page by a one-time address: a browser comes in once, reads with the
// cookie, streams too, and scripts do not see it.
//
// Usage: node enter.js URL ADDRESS RUN
"use strict";

const assert = require("node:assert");
const { chromium } = require("playwright-core");

const [, , url, address, run] = process.argv;

(async () => {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox"]});
  try {
    const stranger = await (await browser.newContext()).newPage();
    await stranger.goto(url);
    assert.equal(await stranger.evaluate(async () => (await fetch("/api/v1/runs")).status), 401);
    const page = await (await browser.newContext()).newPage();
    await page.goto(address);
    assert.equal(page.url().replace(/#.*/, ""), url);
    assert.equal(await page.evaluate(() => document.cookie), "");
    assert.equal(await page.evaluate(async () => (await fetch("/api/v1/runs")).status), 200);
    await page.goto(url + "#/run/" + run);
    assert.equal(await page.evaluate((at) => new Promise((done) => {
      const source = new EventSource(at);
      source.onopen = () => { source.close(); done("open"); };
      source.onerror = () => { source.close(); done("refused"); };
    }), "/api/v1/runs/" + run + "/events"), "open");
    // The cookie reads and does not write.
    assert.equal(await page.evaluate(async (at) => (await fetch(at, {method: "POST"})).status,
      "/api/v1/runs/" + run + ":pause"), 401);
    assert.equal((await stranger.goto(address)).status(), 401);
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(error); process.exit(1); });
