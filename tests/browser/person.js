// Helpers for stories of a person at the dashboard: a browser, its faults, and
// what is clicked and waited for. Waits are for what the page shows, never for a
// time.
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const {chromium} = require("playwright-core");

const WAIT_MS = Number(process.env.MLTUNE_WAIT_MS || 120000);
const TABS = ["overview", "trials", "branches", "settings", "cluster"];

// No sandbox: the tests may be root's. The others keep it from asking hosts of
// Google's, and a graphics card that is not there, at each start.
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// Words of the browser itself about an answer that is meant to be a refusal, and
// of a server that has ended.
const EXPECTED = [/401 \(Unauthorized\)/, /ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/,
  /ERR_EMPTY_RESPONSE/, /ERR_INCOMPLETE_CHUNKED_ENCODING/,
  /willReadFrequently/]; // the tests look at pixels

function watch(page, faults) {
  page.on("console", (m) => {
    if (!EXPECTED.some((e) => e.test(m.text()))) faults.push(m.text());
  });
  page.on("pageerror", (e) => faults.push(e.stack || String(e)));
  page.setDefaultTimeout(WAIT_MS);
}

// Whether some canvas of the page has something on it.
function drawn() {
  return [...document.querySelectorAll("main canvas")].some((c) => c.width > 200 &&
    c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v));
}

// axe-core in @page, for faultless(). It is not a part of the page, which takes no
// script but its own.
const withAxe = (page) => page.addInitScript({path: require.resolve("axe-core/axe.min.js")});

const GRAVE = new Set(["serious", "critical"]);

// axe-core finds no serious fault at what is shown, light and dark.
async function faultless(page, what) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({colorScheme, reducedMotion: "reduce"});
    const {violations} = await page.evaluate(() => window.axe.run(document, {resultTypes: ["violations"]}));
    const said = violations.filter((v) => GRAVE.has(v.impact)).map((v) => v.id + " (" + v.impact + "): " + v.help + "\n" +
      v.nodes.slice(0, 4).map((n) => "    " + n.html.slice(0, 160) + "\n      " + n.any.concat(n.all).map((a) => a.message).join("; ")).join("\n"));
    assert.ok(said.length === 0, what + ", " + colorScheme + ":\n" + said.join("\n"));
  }
}

const WEB = path.join(__dirname, "../../api/web");
const TYPES = {".js": "text/javascript", ".css": "text/css"};

// Opens a page at @origin that has the page's modules, without a server.
async function openModules(page, origin) {
  const body = '<!doctype html><link rel="stylesheet" href="/vendor/uplot.css">' +
    '<link rel="stylesheet" href="/style.css"><script src="/vendor/uplot.js"></script><main id="main"></main>';
  await page.route(origin + "/**", (route) => {
    const name = new URL(route.request().url()).pathname;
    return route.fulfill(name === "/" ? {contentType: "text/html", body}
      : {contentType: TYPES[path.extname(name)], body: fs.readFileSync(path.join(WEB, name))});
  });
  await page.goto(origin + "/");
}

// Opens the whole page at @origin with @api(path, query, request) in place of a
// server: its answer, {refused: status, ...problem}, or null: 404. @api.me(request)
// says who asks.
async function openPage(page, origin, api, hash = "") {
  const file = (name) => fs.readFileSync(path.join(WEB, /^uplot/.test(name) ? "vendor" : "", name));
  await page.route(origin + "/**", (route) => {
    const {pathname, searchParams} = new URL(route.request().url());
    if (pathname === "/") return route.fulfill({contentType: "text/html", body: file("index.html")});
    if (pathname === "/web/glossary.md") return route.fulfill({contentType: "text/plain",
      body: fs.readFileSync(path.join(WEB, "../../docs/glossary.md"))});
    if (pathname.startsWith("/web/")) return route.fulfill({
      contentType: TYPES[path.extname(pathname)], body: file(pathname.slice(5))});
    if (pathname.endsWith("/events")) return route.fulfill({contentType: "text/event-stream", body: "retry: 600000\n\n"});
    const asked = pathname.replace("/api/v1", "");
    const answer = asked === "/me" ? api.me?.(route.request()) ?? {name: null, role: "read", by: "loopback"}
      : api(asked, searchParams, route.request());
    if (answer?.refused) return route.fulfill({status: answer.refused, json: answer});
    return route.fulfill(answer === null ? {status: 404, json: {detail: "not there", code: "run_not_found"}}
      : {json: answer});
  });
  await page.goto(origin + "/" + hash);
}

async function openTab(page, name) {
  await page.getByRole("navigation", {name: "parts of the run"}).getByRole("link", {name}).click();
  await page.waitForFunction(drawn);
}

// All tabs of a run at @url, wide and narrow, light and dark: none wider than
// the screen. Screenshots go to @folder.
async function looksRight(browser, faults, url, folder, prefix = "") {
  for (const [width, colorScheme] of [[1280, "light"], [390, "dark"]]) {
    const page = await browser.newPage({viewport: {width, height: 900}, colorScheme});
    watch(page, faults);
    await page.goto(url);
    await page.waitForFunction(drawn);
    for (const tab of TABS) {
      await openTab(page, tab);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, tab + " at " + width + " pixels is " + wide + " too wide");
      await page.screenshot({path: path.join(folder, prefix + [tab, width, colorScheme].join("-") + ".png")});
    }
    await page.close();
  }
}

async function download(page, label, file) {
  const [got] = await Promise.all([page.waitForEvent("download"),
    page.getByRole("button", {name: label}).click()]);
  await got.saveAs(file);
  return fs.readFileSync(file);
}

const act = (page, name) => page.getByRole("group", {name: "steer the run"})
  .getByRole("button", {name}).click();
const confirm = (page, name) => page.locator("dialog").getByRole("button", {name, exact: true}).click();
const status = (page, text) => page.locator(".runhead .chip", {hasText: text}).waitFor();

// Tells @story(browser, page, faults); the process ends with 1 and the first
// thing that was not as it should be, if there was one.
function tell(story) {
  (async () => {
    const faults = [];
    const browser = await chromium.launch({executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
      args: FLAGS});
    try {
      const page = await browser.newPage({viewport: {width: 1280, height: 900}, acceptDownloads: true});
      watch(page, faults);
      await story(browser, page, faults);
      assert.deepStrictEqual(faults, [], "the browser's console");
    } finally {
      await browser.close();
    }
  })().catch((error) => {
    console.error(error.stack || error);
    process.exit(1);
  });
}

module.exports = {act, confirm, download, drawn, faultless, looksRight, openModules, openPage, openTab, status, tell, watch, withAxe};
