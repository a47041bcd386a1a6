// Every view and every dialog of the page, looked at as those do who cannot see
// it, who have a phone, who like the dark:
//
//   node views.js URL TOKEN LIVE ENDED FAILED [FOLDER]
//
// axe-core finds no serious fault at any, light and dark; nothing scrolls sideways
// on a phone, and what is touched there is large enough. With FOLDER each view is
// photographed at three widths, light and dark. LIVE is a run that goes on.
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const {drawn, faultless, tell, watch, withAxe} = require("./person.js");

const [, , url, token, live, ended, failed, folder] = process.argv;
const SCHEMES = ["light", "dark"], WIDTHS = [1280, 1920, 390], PHONE = 390;
const TOUCH_PX = 40;  // what is pressed, on a phone
const TARGET_PX = 24; // any link that stands alone (WCAG 2.2, 2.5.8)

const canvas = (page) => page.waitForFunction(drawn);
const text = (t) => (page) => page.locator("main").getByText(t).first().waitFor();

// Each view: its name, its address, and when it is there.
const of = (id, tab = "") => "#/run/" + encodeURIComponent(id) + (tab ? "/" + tab : "");
const VIEWS = [
  ["runs", "#/?find=", (page) => page.locator("tbody td.lead a").first().waitFor()],
  ["overview", of(ended), canvas], ["trials", of(ended, "trials"), canvas],
  ["branches", of(ended, "branches"), async (page) => {
    await page.locator(".readout", {hasText: /branch/}).first().waitFor();
    await page.locator("canvas[role=img]").first().focus();
    await page.keyboard.press("End");
  }],
  ["settings", of(ended, "settings"), canvas], ["cluster", of(ended, "cluster"), canvas],
  ["configuration", of(ended, "config"), text("plateau_epochs")], ["log", of(ended, "log"), text(/./)],
  ["live", of(live), canvas], ["failed", of(failed), text(/./)],
  ["compare", "#/compare/" + [ended, live].map(encodeURIComponent).join(","), canvas],
  ["glossary", "#/help/staleness", (page) => page.locator("dt.asked").waitFor()],
  ["no such run", of("nothing-here"), (page) => page.getByRole("heading", {name: "no such run"}).waitFor()],
];

// What can be pressed and is too small for a finger. Links within a text are as
// high as their line, and lists of options are the phone's own.
function small([touch, target]) {
  const shown = (e) => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().width > 0 &&
    e.getBoundingClientRect().right > 0;
  const inText = (e) => getComputedStyle(e).display === "inline" && [...e.parentElement.childNodes].some((n) =>
    n.nodeType === 3 && n.textContent.trim());
  const all = [...document.querySelectorAll("button, select, input, textarea, summary, a[href]")].filter(shown);
  return all.filter((e) => !inText(e)).map((e) => {
    const box = (e.closest("label") || e).getBoundingClientRect(), least = e.tagName === "A" ? target : touch;
    return box.height + 0.5 < least || box.width + 0.5 < target
      ? e.outerHTML.slice(0, 120) + ": " + Math.round(box.width) + " x " + Math.round(box.height) : null;
  }).filter(Boolean);
}

async function fitsAPhone(page, what) {
  await page.setViewportSize({width: PHONE, height: 844});
  await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, null, {timeout: 3000})
    .catch(() => {}); // plots are drawn again after the frame; what is still too wide is said below
  const [wide, last] = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth,
    [...document.querySelectorAll("main *, dialog *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 &&
      !e.closest(".scroll, .tabs")).map((e) => e.outerHTML.slice(0, 120)).slice(0, 3)]);
  assert.ok(wide <= 0, what + " is " + wide + " too wide for a phone: " + last.join("\n"));
  const too = await page.evaluate(small, [TOUCH_PX, TARGET_PX]);
  assert.ok(too.length === 0, what + ": too small for a finger:\n" + too.join("\n"));
}

// Each button of a group opens a dialog, which is left again.
async function dialogs(page, group, where) {
  const buttons = page.getByRole("group", {name: group}).locator("button:visible:enabled");
  const names = await buttons.allTextContents();
  for (const name of names) {
    await page.setViewportSize({width: 1280, height: 900});
    await page.getByRole("group", {name: group}).getByRole("button", {name, exact: true}).click();
    const dialog = page.locator("dialog");
    await dialog.waitFor();
    await faultless(page, where + ", " + name);
    await fitsAPhone(page, where + ", " + name);
    await page.keyboard.press("Escape");
    await dialog.waitFor({state: "detached"});
  }
  return names;
}

async function looks(page, [name, hash, there]) {
  await page.setViewportSize({width: 1280, height: 900});
  await page.goto(url + hash);
  await there(page);
  await faultless(page, name);
  await fitsAPhone(page, name);
}

// Dialogs that are not opened by a group of buttons: name, address, what is there,
// the button.
const MORE = [["tags and note", of(live), canvas, "tags and note"], ["who you are", of(live), canvas, "#who"],
  ["suggest", of(live, "trials"), canvas, "suggest a setting"]];

// Each place of the page that asks something, by its file, and which of the dialogs
// that are opened here is it. A new one fails the test until it is opened, too.
const ASKS = {"account.js": ["who you are"], "byhand.js": ["fork", "promote"], "control.js": ["continue", "export", "limits"],
  "newrun.js": ["new run"], "notes.js": ["tags and note"], "suggest.js": ["suggest"]};
// Opened by prompts.js, which has the branch for it.
const ELSEWHERE = new Set(["promote"]);
// The same of views: each tab of a run, each kind of address.
const TABS = {"": "overview", trials: "trials", branches: "branches", settings: "settings", cluster: "cluster", config: "configuration", log: "log"};
const KINDS = {runView: "overview", runsView: "runs", compareView: "compare", helpView: "glossary"};

function nothingIsForgotten(opened) {
  const web = path.join(__dirname, "../../api/web"), read = (f) => fs.readFileSync(path.join(web, f), "utf8");
  const asks = Object.fromEntries(fs.readdirSync(web).filter((f) => f.endsWith(".js")).map((f) =>
    [f, (read(f).match(/await ask\(/g) || []).length]).filter(([f, n]) => n > 0 && f !== "data.js")); // where it asks the server
  assert.deepStrictEqual(Object.fromEntries(Object.entries(asks).sort()),
    Object.fromEntries(Object.entries(ASKS).map(([f, names]) => [f, names.length]).sort()), "dialogs of the page");
  for (const name of Object.values(ASKS).flat()) assert.ok(opened.has(name) || ELSEWHERE.has(name), "the dialog " + name + " is not opened");
  const views = new Set(VIEWS.map(([name]) => name));
  const tabs = [.../const TABS = \[(.*?)\];/s.exec(read("run.js"))[1].matchAll(/\["([a-z]*)"/g)].map(([, t]) => t);
  assert.deepStrictEqual(tabs, Object.keys(TABS), "tabs of a run");
  const kinds = new Set([...read("app.js").matchAll(/make: (\w+)/g)].map(([, k]) => k));
  assert.deepStrictEqual([...kinds].sort(), Object.keys(KINDS).sort(), "kinds of views");
  for (const name of [...Object.values(TABS), ...Object.values(KINDS)]) assert.ok(views.has(name), "the view " + name + " is not opened");
}

async function moreDialogs(page, opened) {
  for (const [name, hash, there, which] of MORE) {
    await page.setViewportSize({width: 1280, height: 900});
    await page.goto(url + hash);
    await there(page);
    await (which.startsWith("#") ? page.locator(which) : page.getByRole("button", {name: which, exact: true})).click();
    await page.locator("dialog").waitFor();
    await faultless(page, name);
    await fitsAPhone(page, name);
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({state: "detached"});
    opened.add(name);
  }
}

async function allDialogs(page) {
  const opened = new Set();
  await page.setViewportSize({width: 1280, height: 900});
  await page.goto(url + "#/?find=");
  await page.getByRole("button", {name: "new run"}).click();
  await page.locator("dialog details").first().waitFor();
  await page.evaluate(() => { for (const d of document.querySelectorAll("dialog details")) d.open = true; });
  await faultless(page, "new run");
  await fitsAPhone(page, "new run");
  await page.keyboard.press("Escape");
  opened.add("new run");
  await page.goto(url + of(live));
  await canvas(page);
  const names = await dialogs(page, "steer the run", "live");
  for (const name of ["continue", "stop", "limits", "export"]) assert.ok(names.includes(name), names.join());
  for (const name of names) opened.add(name);
  await page.goto(url + of(ended));
  await canvas(page);
  assert.ok((await dialogs(page, "steer the run", "ended")).includes("delete"));
  await page.goto(url + of(live, "branches"));
  await page.locator(".readout", {hasText: /branch/}).first().waitFor();
  await page.locator("canvas[role=img]").first().focus();
  await page.keyboard.press("End");
  const fork = page.getByRole("group", {name: "the chosen branch"}).getByRole("button", {name: "fork", exact: true});
  for (let i = 0; i < 100 && !(await fork.isVisible()); i++) await page.keyboard.press("ArrowUp"); // to one that lives
  const hands = await dialogs(page, "the chosen branch", "branches");
  assert.ok(hands.includes("fork"), hands.join());
  for (const name of hands) opened.add(name);
  await moreDialogs(page, opened);
  nothingIsForgotten(opened);
}

// Whether all that a view will show is there: rows in each table, lines in each plot.
function finished() {
  const all = (which) => [...document.querySelectorAll("main " + which)].filter((e) => e.checkVisibility());
  const painted = (c) => c && c.width > 0 && c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v);
  return all("p").every((p) => p.textContent !== "loading") && all("tbody").every((t) => t.rows.length > 0) &&
    all(".plot").every((p) => painted(p.querySelector("canvas"))) && all("canvas[role=img]").every(painted) &&
    all("ol.feed").every((f) => f.children.length > 0);
}

async function photographs(browser, faults) {
  for (const width of WIDTHS)
    for (const colorScheme of SCHEMES) {
      const page = await browser.newPage({viewport: {width, height: 900}, colorScheme, reducedMotion: "reduce"});
      watch(page, faults);
      for (const [name, hash, there] of VIEWS) {
        await page.goto(url + hash);
        await there(page);
        await page.waitForFunction(finished, null, {timeout: 20000}).catch(() => assert.fail(name + ", " + width + ": it is never finished"));
        await page.screenshot({path: path.join(folder, [name.replaceAll(" ", "-"), width, colorScheme].join("-") + ".png"),
          fullPage: true});
      }
      await page.goto(url + "#/?find=");
      await page.getByRole("button", {name: "new run"}).click();
      await page.locator("dialog details").first().waitFor();
      await page.screenshot({path: path.join(folder, ["new-run", width, colorScheme].join("-") + ".png")});
      await page.close();
    }
}

const QUIET = /404 \(Not Found\)/; // the browser's own word about the run that is not there

tell(async (browser, page, faults) => {
  await withAxe(page);
  await page.goto(url);
  await page.evaluate((t) => sessionStorage.setItem("mltune-token", t), token);
  const wrong = [];
  for (const view of VIEWS) await looks(page, view).catch((error) => wrong.push(error.message));
  await allDialogs(page).catch((error) => wrong.push(error.stack));
  if (folder) await photographs(browser, faults).catch((error) => wrong.push(error.stack));
  assert.ok(wrong.length === 0, wrong.join("\n\n"));
  faults.splice(0, faults.length, ...faults.filter((f) => !QUIET.test(f)));
});
