// A new run by the form beside the JSON, at a service with a data folder:
//
//   node newrun.js URL TOKEN FOLDER
//
// The fields are those of the schema that the service has; form and JSON follow
// each other; what the service finds wrong stands at its field; a file is sent.
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");
const {confirm, status, tell, watch} = require("./person.js");

const [, , url, token, folder] = process.argv;

const field = (page, pointer) => page.locator(`[id="f${pointer}"]`);
const faultAt = (page, pointer) => page.locator(`[id="f${pointer}-fault"]`);
const json = async (page) => JSON.parse(await page.getByLabel("configuration (JSON)").inputValue());

async function opens(page) {
  await page.goto(url + "#/?find="); // a service with one run would show that one
  await page.getByRole("button", {name: "new run"}).click();
  await field(page, "/name").waitFor();
}

const unfold = (page, pointer) => page.evaluate((id) => {
  for (let e = document.getElementById(id); e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
}, "f" + pointer);

// Every member of the schema has its field, with its default and its help.
async function asTheSchemaSays(page) {
  const schema = await (await page.request.get(url + "api/v1/schema")).json();
  await page.getByLabel("start from an example").selectOption("demo");
  assert.deepStrictEqual(await json(page), schema.examples.find((e) => e.name === "demo"));
  let n = 0;
  for (const [group, {properties}] of Object.entries(schema.properties))
    for (const [name, one] of Object.entries(properties || {})) {
      if (group === "app" || one.properties) continue;
      const control = field(page, "/" + group + "/" + name);
      assert.strictEqual(await control.count(), 1, group + "." + name);
      n++;
      if (!(await control.evaluate((c) => "placeholder" in c)) || one.default === undefined) continue;
      assert.strictEqual(await control.getAttribute("placeholder"), String(one.default), group + "." + name);
    }
  assert.ok(n > 25, n + " fields");
  const mlr = schema.properties.app.oneOf.find((o) => o.title === "mlr");
  for (const name of Object.keys(mlr.properties).filter((m) => m !== "name"))
    assert.strictEqual(await field(page, "/app/" + name).count(), 1, "app." + name);
  await unfold(page, "/cluster/launcher");
  await unfold(page, "/ps/consistency");
  const models = schema.properties.ps.properties.consistency.anyOf;
  assert.deepStrictEqual(await field(page, "/ps/consistency#").locator("option").allTextContents(),
    ["not given", ...models[0].enum, ...models.slice(1).map((m) => m.title)]);
  assert.match(await page.locator('[id="f/cluster/nodes-help"]').textContent(), /a whole number \(at least 1, at most 64\)/);
}

async function bothWays(page) {
  const text = page.getByLabel("configuration (JSON)");
  await unfold(page, "/stop/max_epochs");
  await field(page, "/stop/max_epochs").fill("7");
  await field(page, "/stop/max_time").fill("");
  assert.deepStrictEqual((await json(page)).stop, {max_epochs: 7});
  await field(page, "/stop/max_epochs").fill("");
  assert.ok(!("stop" in await json(page)), "nothing is left of an object without members");
  await text.fill(JSON.stringify({...await json(page), seed: 9, ps: {float16: true}}));
  assert.strictEqual(await field(page, "/seed").inputValue(), "9");
  assert.strictEqual(await field(page, "/ps/float16").inputValue(), "0");
  await unfold(page, "/ps/float16");
  await field(page, "/ps/float16").selectOption({label: "false"});
  assert.strictEqual((await json(page)).ps.float16, false);
  await text.fill("{");
  await page.getByText("The configuration is not JSON").waitFor();
  await page.getByLabel("start from an example").selectOption("demo");
  await page.getByText("The configuration is not JSON").waitFor({state: "hidden"});
}

// What follows from a choice: the app's own settings, those of a strategy, tunables.
async function structure(page) {
  await field(page, "/app#").selectOption({label: "nn"});
  await field(page, "/app/preset").selectOption({label: "lenet5"});
  assert.deepStrictEqual((await json(page)).app,
    {name: "nn", data: "gen:digits?samples=20000&size=28", preset: "lenet5"});
  await unfold(page, "/tuner/strategy");
  assert.strictEqual(await field(page, "/tuner/strategy_settings/reduction").count(), 0);
  await field(page, "/tuner/strategy").selectOption({label: "hyperband"});
  await field(page, "/tuner/strategy_settings").waitFor();
  await page.getByLabel("name of another of tunables", {exact: true}).fill("dropout");
  await page.keyboard.press("Enter");
  await field(page, "/tunables/dropout/min").fill("0");
  await field(page, "/tunables/dropout/values").fill("1\n2.5\nx");
  assert.deepStrictEqual((await json(page)).tunables.dropout, {min: 0, values: [1, 2.5, "x"]});
  await page.getByRole("button", {name: "take dropout away"}).click();
  assert.ok(!("dropout" in (await json(page)).tunables));
  await field(page, "/tunables#").selectOption({label: "auto"});
  assert.strictEqual((await json(page)).tunables, "auto");
}

async function faults(page) {
  const dialog = page.locator("dialog");
  await page.getByLabel("start from an example").selectOption("demo");
  await field(page, "/app/data").fill("../secret");
  await unfold(page, "/cluster/workers");
  await field(page, "/cluster/workers").fill("many");
  const text = page.getByLabel("configuration (JSON)");
  await text.fill(JSON.stringify({...await json(page), sede: 1}));
  await dialog.getByRole("button", {name: "check"}).click();
  await dialog.getByText("the token is needed").waitFor();
  await dialog.getByLabel("token", {exact: true}).fill(token);
  await page.evaluate(() => { for (const d of document.querySelectorAll("dialog details")) d.open = false; });
  await dialog.getByRole("button", {name: "check"}).click();
  await faultAt(page, "/app/data").getByText(/within the service's data folder/).waitFor();
  await faultAt(page, "/cluster/workers").getByText(/expected .*whole number.*found/).waitFor();
  assert.strictEqual(await field(page, "/cluster/workers").getAttribute("aria-invalid"), "true");
  await dialog.getByText(/\/sede: .*did you mean "seed"/).waitFor(); // no field has it
  await confirm(page, "submit"); // a refusal says the same
  await faultAt(page, "/app/data").getByText(/within the service's data folder/).waitFor();
  await page.screenshot({path: path.join(folder, "newrun-faults.png")});
}

async function sends(page) {
  await page.getByLabel("start from an example").selectOption("demo");
  await field(page, "/name").fill("by form");
  const file = path.join(folder, "mine.csv");
  const rows = Array.from({length: 400}, (_, i) => [i % 7, i % 5, i % 7 > i % 5 ? "yes" : "no"].join(","));
  fs.writeFileSync(file, "a,b,y\n" + rows.join("\n") + "\n");
  await page.locator("dialog input[type=file]").first().setInputFiles(file);
  await page.waitForFunction(() => document.getElementById("f/app/data").value === "mine.csv");
  const names = await page.evaluate(() => [...document.getElementById("f/app/data").list.options].map((o) => o.value));
  assert.deepStrictEqual(names, ["sub", "sub/there.csv", "mine.csv"]);
  await unfold(page, "/stop/max_epochs");
  await field(page, "/stop/max_epochs").fill("2");
  await page.keyboard.press("Enter"); // hands nothing in
  assert.strictEqual(await page.locator("dialog").count(), 1);
  await page.locator("dialog").getByRole("button", {name: "check"}).click();
  await page.getByText("The service would take it.").waitFor();
  await confirm(page, "submit");
  await page.locator("dialog").waitFor({state: "detached"});
  await page.locator(".runhead h1", {hasText: "by form"}).waitFor();
  await status(page, "finished");
}

tell(async (browser, page, all) => {
  await opens(page);
  await asTheSchemaSays(page);
  await bothWays(page);
  await structure(page);
  await faults(page);
  assert.ok(all.length === 1 && /422/.test(all[0]), all.join("\n")); // the browser's own word about the refusal
  all.length = 0;
  await sends(page);
  const narrow = await browser.newPage({viewport: {width: 390, height: 844}, colorScheme: "dark"});
  watch(narrow, all);
  await opens(narrow);
  const wide = await narrow.locator("dialog").evaluate((d) => d.scrollWidth - d.clientWidth);
  assert.ok(wide <= 0, "the form is " + wide + " too wide");
  await narrow.screenshot({path: path.join(folder, "newrun-390.png")});
});
