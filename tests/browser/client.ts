// A client that knows the interface by the types that are generated from its description, and by
// nothing else: compiled strictly, then run as node client.js URL TOKEN. It submits a run, follows
// its events, asks it to stop and reads what came of it, which it prints.

import createClient from "openapi-fetch";
import type {components, paths} from "./api.js";

type Configuration = components["schemas"]["configuration"];
type Happened = components["schemas"]["event"];
type Status = components["schemas"]["run_status"];

declare const process: {argv: string[]};

const [base, token] = process.argv.slice(2);
const client = createClient<paths>({baseUrl: base, headers: {Authorization: `Bearer ${token}`}});
const give_up_at = Date.now() + 120_000;

function must<T>(answer: {data?: T; error?: components["schemas"]["problem"]}): T {
  if (answer.error) throw new Error(`${answer.error.code}: ${answer.error.detail}`);
  if (answer.data === undefined) throw new Error("an answer without a body");
  return answer.data;
}

const configuration: Configuration = {
  name: "typed",
  app: {name: "mlr", data: "gen:digits?samples=2000&size=12"},
  tunables: {learning_rate: {type: "float", min: 1e-5, max: 1, scale: "log"}},
  tuner: {searcher: "random", trial_clocks: 20},
  stop: {max_epochs: 1000000, plateau_epochs: 1000000},
};

// @ts-expect-error: a limit that the configuration's schema does not have
const misspelt: Configuration["stop"] = {max_epoch: 3};
// @ts-expect-error: a status that no run has
const unknown: Status = "trainning";
void [misspelt, unknown];

const seen = {trials: 0, epochs: 0, labels: new Set<string>(), decisions: 0};

// What an event says depends on its kind, and the types say so.
function take(happened: Happened): boolean {
  switch (happened.kind) {
    case "trial_ended":
      seen.trials++;
      seen.labels.add(happened.label);
      return false;
    case "epoch_ended":
      seen.epochs += happened.surviving ? 1 : 0;
      return happened.surviving;
    case "decision":
      seen.decisions += happened.text ? 1 : 0;
      return false;
    default:
      return false;
  }
}

async function until_epoch(run: string): Promise<void> {
  for (let after = 0; Date.now() < give_up_at; ) {
    const page = must(await client.GET("/api/v1/runs/{run}/events", {params: {path: {run}, query: {after}}}));
    if (typeof page === "string") throw new Error("a stream, where the past was asked for");
    if (page.events.map((e) => take(e.data)).includes(true)) return;
    after = page.next_after;
    await new Promise((resume) => setTimeout(resume, 50));
  }
  throw new Error("no epoch ended in time");
}

async function ended(run: string): Promise<components["schemas"]["run"]> {
  while (Date.now() < give_up_at) {
    const now = must(await client.GET("/api/v1/runs/{run}", {params: {path: {run}}}));
    if (now.status === "stopped" || now.status === "failed") return now;
    await new Promise((resume) => setTimeout(resume, 50));
  }
  throw new Error("the run did not end in time");
}

const checked = must(await client.POST("/api/v1/runs:validate", {body: configuration}));
const {run} = must(await client.POST("/api/v1/runs", {body: configuration}));
await until_epoch(run);
const asked = must(await client.POST("/api/v1/runs/{run}:stop", {params: {path: {run}}, body: {}}));
const now = await ended(run);
const trials = must(await client.GET("/api/v1/runs/{run}/trials", {params: {path: {run}}}));
const given = must(await client.GET("/api/v1/runs/{run}/config", {params: {path: {run}}}));
const none = await client.GET("/api/v1/runs/{run}", {params: {path: {run: "no-such-run"}}});

console.log(JSON.stringify({
  valid: checked.valid, run, command: asked.command, status: now.status, reason: now.reason,
  epochs: now.epochs, tried: trials.total, name: given.name, refused: none.error?.code,
  seen: {...seen, labels: [...seen.labels]},
}));
