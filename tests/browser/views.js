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

async function allDialogs(page) {
  await page.setViewportSize({width: 1280, height: 900});
  await page.goto(url + "#/?find=");
  await page.getByRole("button", {name: "new run"}).click();
  await page.locator("dialog details").first().waitFor();
  await page.evaluate(() => { for (const d of document.querySelectorAll("dialog details")) d.open = true; });
  await faultless(page, "new run");
  await fitsAPhone(page, "new run");
  await page.keyboard.press("Escape");
  await page.goto(url + of(live));
  await canvas(page);
  const names = await dialogs(page, "steer the run", "live");
  for (const name of ["continue", "stop", "limits", "export"]) assert.ok(names.includes(name), names.join());
  await page.goto(url + of(ended));
  await canvas(page);
  assert.ok((await dialogs(page, "steer the run", "ended")).includes("delete"));
  await page.goto(url + of(live, "branches"));
  await page.locator(".readout", {hasText: /branch/}).first().waitFor();
  await page.locator("canvas[role=img]").first().focus();
  await page.keyboard.press("End");
  const fork = page.getByRole("group", {name: "the chosen branch"}).getByRole("button", {name: "fork", exact: true});
  for (let i = 0; i < 100 && !(await fork.isVisible()); i++) await page.keyboard.press("ArrowUp"); // to one that lives
  assert.ok((await dialogs(page, "the chosen branch", "branches")).includes("fork"));
}

async function photographs(browser, faults) {
  for (const width of WIDTHS)
    for (const colorScheme of SCHEMES) {
      const page = await browser.newPage({viewport: {width, height: 900}, colorScheme, reducedMotion: "reduce"});
      watch(page, faults);
      for (const [name, hash, there] of VIEWS) {
        await page.goto(url + hash);
        await there(page);
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
  if (folder) await photographs(browser, faults);
  assert.ok(wrong.length === 0, wrong.join("\n\n"));
  faults.splice(0, faults.length, ...faults.filter((f) => !QUIET.test(f)));
});
