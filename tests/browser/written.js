// What people write, without a server: tags and notes in the list and on a run,
// a suggested setting; each fault at its field; dialogs by the keyboard alone.
"use strict";

const assert = require("assert");
const {confirm, openPage, tell, watch} = require("./person.js");

const ORIGIN = "http://localhost:1"; // where a browser gives random keys
const RUN = {run: "new-1", name: "new", status: "tuning", status_reason: null, message: null, reason: null, tags: ["base", "<b>x"],
  note: "the first one\nwith the old data", queue: {group: "all", submitted_at: null, waits: false}, job: {app: "mlr", metric: null},
  clock: 40, clocks: 40, epochs: 1, loss: 2.1, last_epoch: null, best: null, setting: {learning_rate: 0.1, rule: "adam", batch_size: 32},
  branch: 1, branches: {total: 2, live: 2}, model_info: null, values: null,
  tuning: {strategy: "mltuner", searcher: "tpe", searches: 1, trials: 4, seconds: 1},
  stop: {max_epochs: 9, max_time: null, target_loss: null, target_metric: null, plateau_epochs: 5}, seconds: 2,
  paused_seconds: 0, first_clock_at: "2026-11-23T20:38:49.323Z", updated_at: "2026-11-23T20:38:49.323Z"};
const OTHER = {...RUN, run: "old-2", name: "old", tags: ["paper"], note: null};
const SEARCH = {run: "new-1", status: "tuning", state: "open", reason: "suggestions are tried first", tunables: {
  learning_rate: {type: "float", min: 1e-5, max: 1, scale: "log", default: 0.02}, rule: {type: "choice", values: ["sgd", "adam"]},
  batch_size: {type: "int", min: 16, max: 64, scale: "linear", default: 16}, momentum: {type: "float", min: 0, max: 1, fixed: 0.9}}};
const DROPPED = {suggestion: 2, state: "dropped", trial: null, setting: {learning_rate: 1}, reason: "training diverged with it"};

function server() {
  const sent = [], state = {run: RUN, search: SEARCH, refuse: null};
  const api = (path, query, request) => {
    if (request.method() !== "GET") {
      sent.push([request.method(), path, JSON.parse(request.postData() || "null")]);
      if (state.refuse) return state.refuse;
      if (path.endsWith("/notes")) state.run = {...state.run, ...sent.at(-1)[2]};
      return {message: "it is done"};
    }
    if (path === "/version") return {name: "mltune", version: "0"};
    if (path === "/runs") return {runs: [state.run, OTHER], total: 2, next_page_token: null};
    const rest = path.replace("/runs/new-1", ""), none = {points: 0, clock: [], seconds: [], loss: [], branch: []};
    return {"": state.run, "/curve": {lineage: none, others: none}, "/schedule": {schedule: []}, "/epochs": {epochs: []},
      "/searches": {searches: [], next_page_token: null}, "/slices": {slices: [], next_page_token: null},
      "/decisions": {decisions: [], next_page_token: null}, "/trials": {trials: [], total: 0, next_page_token: null},
      "/search": state.search, "/suggestions": {suggestions: [DROPPED], next_page_token: null}}[rest] ?? null;
  };
  api.me = () => ({name: null, role: "admin", by: "token"});
  return {api, sent, state};
}

const shot = (page, name) => process.env.MLTUNE_SHOTS ? page.screenshot({path: process.env.MLTUNE_SHOTS + "/" + name + ".png"}) : null;
const dialog = (page) => page.locator("dialog");
const names = (page) => page.locator("tbody td.lead > span > a:first-child").allTextContents();
const refusal = (...errors) => ({refused: 422, code: "invalid_body", detail: "the body is not valid", errors});

async function findsByTag(page) {
  await page.getByRole("link", {name: "<b>x", exact: true}).waitFor(); // as text, no markup
  await shot(page, "written-runs");
  await page.getByRole("link", {name: "paper", exact: true}).click();
  await page.locator("section p.quiet", {hasText: "1 shown of 1 found among 2 runs"}).waitFor();
  assert.deepStrictEqual(await names(page), ["old"]);
  const find = page.getByRole("searchbox");
  assert.strictEqual(await find.inputValue(), "tag=paper");
  for (const [asked, found] of [["tag=base", "new"], ["OLD data", "new"], ["pape", "old"]]) {
    await find.fill(asked);
    await page.getByRole("link", {name: found, exact: true}).waitFor();
    await page.locator("section p.quiet", {hasText: "1 shown of 1 found"}).waitFor();
    assert.deepStrictEqual(await names(page), [found], asked);
  }
  await find.fill("tag=bas");
  await page.locator("section p.quiet", {hasText: "0 shown of 0 found"}).waitFor();
}

async function writes(page, sent, state) {
  await page.goto(ORIGIN + "/#/run/new-1");
  await page.locator(".notes .note", {hasText: "with the old data"}).waitFor();
  const open = page.getByRole("button", {name: "tags and note"});
  await open.click();
  assert.strictEqual(await dialog(page).getByLabel("tags").inputValue(), "base <b>x");
  await dialog(page).getByText("31 of 4000 bytes").waitFor();
  await dialog(page).getByLabel("tags").fill("base, new  base");
  await dialog(page).getByLabel("note").fill("grün");
  await dialog(page).getByText("5 of 4000 bytes").waitFor();
  state.refuse = refusal({pointer: "/tags/1", detail: "expected 1 to 40 bytes"});
  await confirm(page, "save");
  await dialog(page).locator(".wrong", {hasText: "expected 1 to 40 bytes"}).waitFor();
  const tags = dialog(page).getByLabel("tags");
  assert.strictEqual(await tags.getAttribute("aria-invalid"), "true");
  assert.ok(await tags.evaluate((e) => e === document.activeElement));
  await dialog(page).getByRole("alert").filter({hasText: "see what is marked above"}).waitFor();
  state.refuse = null;
  await tags.press("Enter"); // again, by the keyboard
  await dialog(page).waitFor({state: "detached"});
  assert.deepStrictEqual(sent.splice(0).at(-1), ["PATCH", "/runs/new-1/notes", {tags: ["base", "new"], note: "grün"}]);
  await page.locator(".notes .tag", {hasText: "new"}).waitFor();
  await page.locator(".notes .note", {hasText: "grün"}).waitFor();
  assert.ok(await open.evaluate((e) => e === document.activeElement), "the focus is back");
}

async function suggests(page, sent, state) {
  await page.goto(ORIGIN + "/#/run/new-1/trials");
  await page.getByRole("button", {name: "suggest a setting"}).click();
  const rate = dialog(page).getByLabel("learning_rate", {exact: true}), batch = dialog(page).getByLabel("batch_size", {exact: true});
  await dialog(page).getByText("in the search that is open").waitFor();
  await dialog(page).getByText("1e-5 to 1, on a logarithmic scale; in use: 0.1; default: 0.02").waitFor();
  await dialog(page).getByText("fixed in this run: momentum 0.9").waitFor();
  await dialog(page).getByText("suggestion 2 (learning_rate 1): dropped: training diverged with it").waitFor();
  assert.strictEqual(await rate.inputValue(), "0.1");
  assert.ok(await rate.evaluate((e) => e === document.activeElement), "the first field");
  assert.strictEqual(await dialog(page).getByLabel("rule").inputValue(), "adam");
  await shot(page, "written-suggest");
  for (const [input, text, why] of [[rate, "2", "expected 1e-5 to 1"], [rate, "fast", "a number is expected"],
    [batch, "32.5", "a whole number is expected"], [batch, "", "a number is expected"]]) {
    const was = await input.inputValue();
    await input.fill(text);
    await confirm(page, "suggest");
    await dialog(page).locator(".wrong:visible", {hasText: why}).waitFor();
    assert.ok(await input.evaluate((e) => e === document.activeElement), why);
    await input.fill(was);
    assert.strictEqual(await dialog(page).locator(".wrong:visible").count(), 0);
  }
  assert.strictEqual(sent.length, 0);
  const slider = dialog(page).getByLabel("learning_rate, along its range");
  await slider.fill("600"); // three fifths of five decades
  assert.strictEqual(await rate.inputValue(), "0.01");
  await dialog(page).getByLabel("rule").selectOption("sgd");
  state.refuse = refusal({pointer: "/setting/batch_size", detail: "does not act in this run"});
  await confirm(page, "suggest");
  await dialog(page).locator(".wrong", {hasText: "does not act in this run"}).waitFor();
  assert.strictEqual(await batch.getAttribute("aria-invalid"), "true");
  await shot(page, "written-refused");
  state.refuse = null;
  await confirm(page, "suggest");
  await page.locator("#notice", {hasText: "it is done"}).waitFor();
  assert.deepStrictEqual(sent.splice(0).at(-1), ["POST", "/runs/new-1/trials:suggest",
    {setting: {learning_rate: 0.01, rule: "sgd", batch_size: 32}}]);
}

async function cannotSuggest(page, state) {
  const button = page.getByRole("button", {name: "suggest a setting"});
  state.search = {...SEARCH, state: "ended", reason: "the search is over"};
  await button.click();
  await page.locator("#notice", {hasText: "No setting is tried any more: the search is over"}).waitFor();
  state.search = {...SEARCH, state: "not_now", reason: "the run trains"};
  await button.click();
  await dialog(page).getByText("It waits for the next search (now: the run trains)").waitFor();
  await page.keyboard.press("Escape");
  state.run = {...state.run, tuning: {...RUN.tuning, strategy: "fixed"}};
  await page.reload();
  await page.getByText("no trial so far").waitFor();
  assert.ok(await button.isHidden());
  state.run = {...RUN};
}

// Each dialog by the keyboard: opened, read from its beginning, tabbed through,
// left; the focus is where it was, and nothing was sent.
async function byKeyboard(page, sent) {
  await page.setViewportSize({width: 900, height: 420});
  await page.goto(ORIGIN + "/#/run/new-1");
  for (const name of ["pause", "re-tune", "snapshot", "stop", "limits", "export", "tags and note"]) {
    const b = page.getByRole("button", {name, exact: true});
    await b.focus();
    await page.keyboard.press("Enter");
    await dialog(page).waitFor();
    const [inside, top, named, seen] = await dialog(page).evaluate((d) => [d.contains(document.activeElement), d.scrollTop,
      document.getElementById(d.getAttribute("aria-labelledby")).textContent,
      [...d.querySelectorAll(".buttons button")].every((k) => k.getBoundingClientRect().bottom <= innerHeight)]);
    assert.ok(inside && top === 0 && named && seen, name + ": " + [inside, top, named, seen]);
    for (let i = 0; i < 12; i++) await page.keyboard.press("Tab"); // the page below is not reached
    assert.ok(await page.evaluate(() => !document.activeElement.closest("main")), name);
    await page.keyboard.press("Escape");
    await dialog(page).waitFor({state: "detached"});
    assert.ok(await b.evaluate((e) => e === document.activeElement), name + ": the focus");
  }
  await page.getByRole("button", {name: "stop", exact: true}).click();
  await dialog(page).waitFor();
  await page.evaluate(() => { location.hash = "#/"; }); // what is asked belongs to the view that goes
  await dialog(page).waitFor({state: "detached"});
  assert.deepStrictEqual(sent, []);
}

const QUIET = /422 \(/; // the browser's own word about a refusal

tell(async (browser, page, faults) => {
  const {api, sent, state} = server();
  await openPage(page, ORIGIN, api, "#/");
  await page.evaluate(() => sessionStorage.setItem("mltune-token", "a token"));
  await findsByTag(page);
  await writes(page, sent, state);
  await suggests(page, sent, state);
  await cannotSuggest(page, state);
  await byKeyboard(page, sent);
  for (const [width, colorScheme] of [[390, "dark"], [1280, "dark"]]) {
    const other = await browser.newPage({viewport: {width, height: 900}, colorScheme});
    watch(other, faults);
    await openPage(other, ORIGIN, api, "#/run/new-1/trials");
    await other.locator(".notes .tag").first().waitFor();
    await shot(other, "written-run-" + width);
    await other.getByRole("button", {name: "suggest a setting"}).click();
    await dialog(other).waitFor();
    await shot(other, "written-suggest-" + width);
    const wide = await other.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, width + ": " + wide + " too wide");
    await other.goto(ORIGIN + "/#/");
    await other.locator("td .tag").first().waitFor();
    await dialog(other).waitFor({state: "detached"});
    await shot(other, "written-runs-" + width);
    await other.close();
  }
  assert.ok(faults.every((f) => QUIET.test(f)), faults.join("\n"));
  faults.length = 0;
});
