// The cluster view without a server: figures that agree with each other, a legend for
// each colour, what staleness is, what was sent, and words where there is nothing.
"use strict";

const assert = require("assert");
const {openPage, tell} = require("./person.js");

const ORIGIN = "http://cluster.test", KIB = 1024;
const run = (name) => ({run: name, name, status: "training", queue: null, job: null, clock: 9, clocks: 9, epochs: 0, loss: 1, best: null,
  setting: {}, branch: 1, branches: {total: 3, live: 3}, values: null, tuning: {strategy: "mltuner", searches: 1, trials: 2, seconds: 1},
  stop: null, seconds: 2, paused_seconds: 0, started_at: "2026-11-23T20:00:00Z", updated_at: "2026-11-23T20:00:09Z"});
// What is listed of branches is less than what is in use: so it was when the page added it up.
const node = (n, more) => ({node: n, alive: true, beat_at: "2026-11-23T20:00:09Z", workers: 2,
  memory: {in_use_bytes: 100 * KIB, limit_bytes: 1e9, saved_bytes: 50 * KIB},
  branches: [{branch: 1, shared_bytes: 20 * KIB, private_bytes: 30 * KIB}, {branch: 2, shared_bytes: 20 * KIB, private_bytes: 0}],
  seconds: {work: 6, wait: 3, copy: 0.5, stalled: 0.5}, traffic: {bytes_sent: 3 * KIB, bytes_received: 3 * KIB},
  staleness: {least: -2, counts: [10, 30], sum: -50, reads: 40}, ...more});
const ALONE = node(0, {memory: {in_use_bytes: 8 * KIB, limit_bytes: 1e9, saved_bytes: 0}, branches: [],
  traffic: {bytes_sent: 0, bytes_received: 0}, staleness: {least: -1, counts: [], sum: 0, reads: 0}});
const NODES = {two: [node(0), node(1)], alone: [ALONE], none: []};

function api(path) {
  if (path === "/version") return {name: "mltune", version: "0"};
  if (path === "/runs") return {runs: Object.keys(NODES).map(run), total: 3, next_page_token: null};
  const [, name, rest] = /^\/runs\/([^/]*)(.*)$/.exec(path), nodes = NODES[name];
  const points = nodes.map((n) => ({node: n.node, elapsed_seconds: [0, 1, 2], bytes_sent: [0, 1, 2].map((k) => k * n.traffic.bytes_sent / 2),
    bytes_received: [0, 1, 2], memory_bytes: [1, 2, 3]}));
  return {"": run(name), "/config": {app: {name: "mlr"}}, "/nodes": {nodes, next_page_token: null},
    "/traffic": {elapsed_seconds: 2, nodes: points}, "/schedule": {schedule: []}}[rest] ?? null;
}

const card = (page, title) => page.locator("section.card", {has: page.getByRole("heading", {name: title, exact: true})});

async function agrees(page) {
  const memory = card(page, "memory of branches");
  await memory.getByText("200 KiB in use by all branches, with what finds their rows; without sharing they would take 300 KiB, 1.5 times that").waitFor();
  for (const text of ["its own", "shared with other branches"]) await memory.locator(".legend", {hasText: text}).waitFor();
  const nodes = card(page, "nodes");
  assert.ok((await nodes.locator("tbody tr").first().textContent()).includes("3.0 s (30 %)"));
  await nodes.getByText("6 KiB sent between 2 nodes").waitFor();
  for (const text of [/^work$/, "waiting for other workers", "copying what", "the machine stood still"])
    await nodes.locator(".legend span", {hasText: text}).waitFor();
  for (const text of ["node 0", "node 1"]) await card(page, "bandwidth used by each node").locator(".legend span", {hasText: text}).waitFor();
  await card(page, "staleness of reads").getByText("how many clocks a row lagged behind its reader").waitFor();
  for (const name of [/^what is staleness\?/, /^what is bandwidth budget\?/]) await page.getByRole("link", {name}).waitFor();
  // Each swatch has a colour of its own.
  const colours = await page.locator(".legend .swatch").evaluateAll((all) => all.map((e) => [e.className, getComputedStyle(e).color]));
  const ink = await page.evaluate(() => getComputedStyle(document.body).color);
  for (const [name, colour] of colours) assert.notStrictEqual(colour, ink, name);
}

async function saysWhatIsNot(page) {
  await page.goto(ORIGIN + "/#/run/alone/cluster");
  await page.getByText("one node: nothing is sent").waitFor();
  await page.getByText("nothing was sent between nodes so far").waitFor();
  await page.getByText("no read of a row with a bound so far").waitFor();
  assert.strictEqual(await card(page, "memory of branches").locator(".legend").isVisible(), false);
  await page.goto(ORIGIN + "/#/run/none/cluster");
  await page.getByText("No node has been heard of so far.").waitFor();
}

tell(async (browser, page, faults) => {
  await openPage(page, ORIGIN, api, "#/run/two/cluster");
  await agrees(page);
  await saysWhatIsNot(page);
  assert.deepStrictEqual(faults, []);
});
