// Who one is and may do, without a server: the page says it, dims what the role
// is too low for and tells so in words; a refusal is told where it comes.
"use strict";

const assert = require("assert");
const {confirm, openPage, tell} = require("./person.js");

const ORIGIN = "http://localhost:1";
const TOKENS = {"rita-s": {name: "rita", role: "read", by: "named_token"}, "rudi-s": {name: "rudi", role: "run", by: "named_token"},
  own: {name: null, role: "admin", by: "token"}};
const RUN = {run: "new-1", name: "new", status: "training", status_reason: null, message: null, reason: null,
  queue: {group: "all", submitted_at: null, waits: false}, job: {app: "mlr", metric: null}, clock: 40, clocks: 40, epochs: 1,
  loss: 2.1, last_epoch: null, best: null, setting: {learning_rate: 0.1}, branch: 1, branches: {total: 2, live: 2},
  model_info: null, values: null, tuning: {strategy: "mltuner", searcher: "tpe", searches: 1, trials: 4, seconds: 1},
  stop: {max_epochs: 9, max_time: null, target_loss: null, target_metric: null, plateau_epochs: 5}, seconds: 2,
  paused_seconds: 0, first_clock_at: "2026-11-23T20:38:49.323Z", updated_at: "2026-11-23T20:38:49.323Z"};

function server() {
  const sent = [];
  let revoked = false;
  const known = (request) => revoked ? undefined
    : TOKENS[(request.headers().authorization || "").replace("Bearer ", "")];
  const api = (path, query, request) => {
    if (request.method() === "POST") {
      const by = known(request);
      sent.push([path, by && by.role]);
      if (!by) return {refused: 401, code: "token_required", detail: "a token is needed"};
      if (by.role === "read") return {refused: 403, code: "role_too_low",
        detail: "the token rita has the role read; this needs the role run"};
      return {message: "it is paused"};
    }
    if (path === "/version") return {name: "mltune", version: "0"};
    if (path === "/runs") return {runs: [RUN, {...RUN, run: "new-2"}], total: 2, next_page_token: null};
    const rest = path.replace("/runs/new-1", ""), none = {points: 0, clock: [], seconds: [], loss: [], branch: []};
    return {"": RUN, "/curve": {lineage: none, others: none}, "/schedule": {schedule: []}, "/epochs": {epochs: []},
      "/searches": {searches: [], next_page_token: null}, "/slices": {slices: [], next_page_token: null},
      "/decisions": {decisions: [], next_page_token: null}}[rest] ?? null;
  };
  api.me = (request) => known(request) || {name: null, role: "read", by: "loopback"};
  return {api, sent, revoke: () => { revoked = true; }};
}

const is = (page, text) => page.locator("#who", {hasText: text}).waitFor();
const pause = (page) => page.getByRole("button", {name: "pause", exact: true});
const dialog = (page) => page.locator("dialog");

// Nobody yet: the button may be tried. A token that may not is told so, and so
// is the page from then on.
async function isRefused(page, sent) {
  await is(page, /^reading only$/);
  await pause(page).click();
  await dialog(page).getByLabel("token").fill("rita-s");
  await page.keyboard.press("Enter");
  await dialog(page).getByRole("alert").filter({hasText:
    "Refused: the token rita has the role read; this needs the role run. Another token may do it."}).waitFor();
  assert.ok(await dialog(page).getByLabel("token").isVisible());
  await is(page, /^rita · read$/);
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({state: "detached"});
  assert.deepStrictEqual(sent.splice(0), [["/runs/new-1:pause", "read"]]);
}

async function isDimmed(page, sent) {
  const why = "This needs the role run; the token rita has the role read.";
  for (const name of ["pause", "stop", "limits", "snapshot", "re-tune"]) {
    const b = page.getByRole("button", {name, exact: true});
    assert.strictEqual(await b.getAttribute("aria-disabled"), "true", name);
    assert.strictEqual(await b.getAttribute("title"), why, name);
  }
  assert.strictEqual(await page.getByRole("button", {name: "export", exact: true}).getAttribute("aria-disabled"), null);
  await pause(page).focus(); // it can be reached, and says why
  await page.keyboard.press("Enter");
  await page.locator("#notice", {hasText: why}).waitFor();
  assert.strictEqual(await dialog(page).count() + sent.length, 0);
  await page.getByRole("link", {name: "runs"}).click();
  assert.strictEqual(await page.getByRole("button", {name: "new run"}).getAttribute("title"), why);
  await page.goBack();
}

// The dialog that says who one is, and takes another token.
async function becomesAnother(page, sent) {
  await page.locator("#who").click();
  await dialog(page).getByText("This tab has the token of rita, whose role is read.").waitFor();
  await dialog(page).getByLabel("token").fill("nobody's");
  await confirm(page, "use this token");
  await dialog(page).getByRole("alert").filter({hasText: "The server knows no such token."}).waitFor();
  await is(page, /^rita · read$/);
  await dialog(page).getByLabel("token").fill("rudi-s");
  await confirm(page, "use this token");
  await dialog(page).waitFor({state: "detached"});
  await is(page, /^rudi · run$/);
  assert.strictEqual(await pause(page).getAttribute("aria-disabled"), null);
  assert.strictEqual(await pause(page).getAttribute("title"), "");
  await pause(page).click();
  await confirm(page, "pause");
  await page.locator("#notice", {hasText: "it is paused"}).waitFor();
  assert.deepStrictEqual(sent.splice(0), [["/runs/new-1:pause", "run"]]);
}

async function isNobodyAgain(page, revoke) {
  await page.locator("#who").click();
  await page.getByRole("button", {name: "forget the token"}).click();
  await dialog(page).waitFor({state: "detached"});
  await is(page, /^reading only$/);
  await page.locator("#who").click();
  await dialog(page).getByText("This server lets you read without a token").waitFor();
  assert.ok(await page.getByRole("button", {name: "forget the token"}).isHidden());
  await dialog(page).getByLabel("token").fill("own");
  await page.keyboard.press("Enter");
  await is(page, /^admin$/);
  revoke();
  await page.reload();
  await is(page, /^token not known$/);
  await page.locator("#who").click();
  await dialog(page).getByText("it was revoked, or is another server’s").waitFor();
  await page.keyboard.press("Escape");
}

const QUIET = /40[13] \(/; // the browser's own word about a refusal

tell(async (browser, page, faults) => {
  const {api, sent, revoke} = server();
  await openPage(page, ORIGIN, api, "#/run/new-1");
  await isRefused(page, sent);
  await isDimmed(page, sent);
  if (process.env.MLTUNE_SHOTS) await page.screenshot({path: process.env.MLTUNE_SHOTS + "/people-dimmed.png"});
  await page.locator("#who").click();
  await dialog(page).waitFor();
  if (process.env.MLTUNE_SHOTS) await page.screenshot({path: process.env.MLTUNE_SHOTS + "/people-who.png"});
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({state: "detached"});
  await becomesAnother(page, sent);
  await isNobodyAgain(page, revoke);
  assert.ok(faults.every((f) => QUIET.test(f)), faults.join("\n"));
  faults.length = 0;
});
