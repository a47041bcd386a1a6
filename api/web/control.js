// Actions that change a run. Each asks first, and says what will happen.

import {get, Refused, runPath, saveExport, token, Unreachable, write} from "./data.js";
import {learn, needs} from "./me.js";
import {button, count, duration, el, ENDED, number, put, QUEUED, short} from "./text.js";

function bestText(run) {
  if (!run.best) return "no model (no epoch has ended yet)";
  return "the best model so far (epoch " + run.best.epoch + ", loss " + short(run.best.loss) +
    (run.best.metric === null ? "" : ", " + run.job.metric.name + " " + short(run.best.metric)) + ")";
}

export const underWay = (run) => !ENDED.has(run.status) && !QUEUED.has(run.status);
// A service takes a run that was stopped or interrupted into its queue again, and
// one that failed if it has a snapshot or trials (as run_status_resumes).
export const again = (run) => Boolean(run.queue) && (["stopped", "interrupted"].includes(run.status) ||
  (run.status === "failed" && Boolean(run.snapshot || run.tuning?.trials)));

function continues(run) {
  if (run.status === "held") return ["The run waits for its turn in the queue again" +
    (run.status_reason ? " (it is held because: " + run.status_reason + ")" : "") + "."];
  if (again(run)) return ["The run goes into the queue. When its turn comes it goes on from its " +
    "last snapshot; what was trained after that is trained again."];
  return ["The run goes on where it was paused, at clock " + short(run.clock) + "."];
}

// A run does not go on with other data than it began with, unless it is told to.
const dataChanged = (run) => (run.status === "held" || again(run)) &&
  [run.status_reason, run.message].some((why) => why?.includes("--other-data"));

function stops(run) {
  if (QUEUED.has(run.status)) return ["The run is taken out of the queue and ends as “stopped”.",
    run.clocks > 0 ? "What it had trained stays in its last snapshot." : "It has not trained anything yet."];
  return ["The run ends as “stopped”. Before that a snapshot is written, and " + bestText(run) + ".",
    "Live branches (" + run.branches.live + ") are freed. It can be taken up again with: " +
    "mltune resume " + run.run];
}

function deletes(run) {
  return ["The run is forgotten: its folder with its snapshots" +
    (run.best ? " and its model (epoch " + run.best.epoch + ", loss " + short(run.best.loss) + ")" : "") +
    ", its journal and its place in this list. This cannot be undone.",
    "What it was told to write elsewhere (--out) stays."];
}

// Actions: what each asks for, and what comes of it for this run as it is now.
const ACTIONS = {
  pause: {
    label: "pause", may: (run) => underWay(run) && run.status !== "paused" || run.status === "queued",
    what: (run) => run.status === "queued"
      ? ["The run stays in the queue, but does not get its turn until it is continued."]
      : ["What runs now is cut at its next clock; then nothing runs and no time " +
      "counts, until the run is continued.",
      "Memory and workers stay taken. Nothing is lost: training goes on from clock " +
      short(run.clock) + " or soon after."],
  },
  continue: {
    label: "continue", may: (run) => ["paused", "held"].includes(run.status) || again(run),
    what: continues,
  },
  adopt: {
    label: "use other data", may: dataChanged,
    what: (run) => [run.status_reason || run.message,
      "The run goes into the queue, and goes on with the data that are there now. From when it trains with them " +
      "they are the run's data."],
    send: (id) => write("POST", runPath(id, ":continue"), {other_data: true}),
  },
  retune: {
    label: "re-tune", may: (run) => underWay(run) && run.tuning.strategy === "mltuner",
    what: (run) => ["At the next end of an epoch of training a search begins from the model as " +
      "it is then: settings are tried in branches, the one in use among them.",
      "It makes at most as many trials as the first search did (" +
      count(run.tuning.trials, "trial") + " so far, " + duration(number(run.tuning.seconds)) +
      " of tuning). The setting changes only if a trial is clearly faster."],
  },
  snapshot: {
    label: "snapshot", may: underWay,
    what: () => ["At the next end of a slice the training state is forked and written to the " +
      "state folder while training goes on. Older snapshots than the configuration keeps are removed."],
  },
  stop: {
    label: "stop", may: (run) => !ENDED.has(run.status), grave: true, what: stops,
  },
  delete: {
    label: "delete", may: (run) => !underWay(run), grave: true, what: deletes,
    send: (id) => write("DELETE", runPath(id)), leaves: true,
  },
};

// A field for the name that browsers expect beside a secret; there is none here.
export function userless() {
  const input = el("input");
  input.autocomplete = "username";
  input.hidden = true;
  return input;
}

// A dialog; resolves to true once act() has succeeded, false when it was left.
// A read is not asked for a token before the server wants one.
export function ask(title, parts, confirm, act) {
  return new Promise((resolve) => {
    const fault = el("p.bad"), box = el(confirm.wide ? "dialog.wide" : "dialog");
    fault.setAttribute("role", "alert");
    const secret = el("input");
    secret.type = "password";
    secret.autocomplete = "off";
    secret.id = "token";
    const label = el("label", "token");
    label.htmlFor = "token";
    const entry = el("form.field", userless(), label, secret,
      el("span.quiet", "yours (mltune token add), or the text of the file “token” in the state folder " +
        "(.mltune/token); this tab keeps it until it is closed"));
    entry.hidden = !confirm.entry && (confirm.reads || token.get() !== "");
    secret.addEventListener("change", () => secret.value.trim() && token.set(secret.value.trim())); // for what asks before the end
    const yes = button(confirm.label, go, confirm.grave ? "grave" : "primary");
    const no = button("cancel", () => box.close());
    const heading = el("h2", title);
    heading.id = "asked";
    box.setAttribute("aria-labelledby", "asked");
    box.append(heading, ...parts, entry, fault, el("div.buttons", no, yes));
    let done = false;
    async function go() {
      if (yes.disabled) return; // Enter again, while the first is under way
      if (!entry.hidden && (secret.value.trim() || !token.get())) token.set(secret.value.trim());
      yes.disabled = true;
      put(fault, "");
      try {
        await act();
        done = true;
        box.close();
      } catch (error) {
        if (error instanceof Refused && error.status === 401) {
          put(fault, token.get() ? "The server wants another token." : "The server wants a token.");
          token.forget();
          entry.hidden = false;
          secret.focus();
        } else if (error.code === "role_too_low") {
          learn(); // it may be another one than it was
          put(fault, "Refused: " + error.message + ". Another token may do it.");
          secret.value = "";
          entry.hidden = false;
          secret.focus();
        } else {
          put(fault, error instanceof Unreachable ? "No answer: " + error.message : error.message);
        }
      }
      yes.disabled = false;
    }
    box.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && e.target.tagName === "INPUT") { e.preventDefault(); go(); }
    });
    entry.addEventListener("submit", (e) => e.preventDefault());
    box.addEventListener("close", () => { box.remove(); resolve(done); });
    document.body.append(box);
    box.showModal();
    // What will happen is read from its beginning; the buttons stay in sight.
    (box.querySelector(".field:not([hidden]) :is(input, select, textarea)") || no).focus({preventScroll: true});
    box.scrollTop = 0;
  });
}

async function perform(id, name, changed) {
  const run = await get(runPath(id)), action = ACTIONS[name];
  let message = "";
  const done = await ask(action.label + " " + (run.name || run.run) + "?",
    action.what(run).map((text) => el("p", text)), action,
    async () => {
      message = (await (action.send ? action.send(id) : write("POST", runPath(id, ":" + name)))).message;
    });
  if (done && action.leaves) location.hash = "#/";
  else if (done) changed(message);
}

// ---- exports ---------------------------------------------------------------

const FORMATS = [["csv", "tables, as an archive (tar)"],
  ["jsonl", "every record, one a line"],
  ["tensorboard", "event files, as an archive (tar)"],
  ["mlflow", "a file store, as an archive (tar): some ten files a trial"],
  ["optuna-journal", "the log of a journal storage"]];

// The browser keeps what comes as a file, however long it is. Only where reads
// need the token, which a link cannot carry, the page fetches it whole first.
async function exportRun(id) {
  const select = el("select"), label = el("label", "format");
  select.id = "export-format";
  label.htmlFor = select.id;
  for (const [name, text] of FORMATS) {
    const option = el("option", name + ": " + text);
    option.value = name;
    select.append(option);
  }
  await ask("export " + id, [
    el("p", "Writes the run as it is now for other programs. The run goes on meanwhile."),
    el("div.field", label, select)], {label: "download", reads: true},
  () => saveExport(id, select.value));
}

// ---- limits ----------------------------------------------------------------

const LIMITS = [
  ["max_epochs", "epochs at most", "whole number", false],
  ["plateau_epochs", "epochs without improvement", "whole number", false],
  ["target_loss", "until the loss is at most", "empty: none", true],
  ["target_metric", "until the metric is at least as good as", "empty: none", true],
  ["max_time", "time at most", "as 90s, 10m, 2h; empty: none", true],
];

function limitValue(name, text, optional) {
  if (text === "" && optional) return null;
  if (name === "max_time" && !Number.isFinite(Number(text))) return text;
  const value = Number(text);
  if (text === "" || !Number.isFinite(value)) throw new Error(name + ": a number is expected");
  return value;
}

function limitChanges(inputs, stop) {
  const changes = {};
  for (const [name, , , optional] of LIMITS) {
    const text = inputs[name].value.trim();
    if (text === inputs[name].defaultValue) continue;
    changes[name] = limitValue(name, text, optional);
    if (changes[name] === stop[name]) delete changes[name];
  }
  return changes;
}

async function editLimits(id, changed) {
  const run = await get(runPath(id)), inputs = {};
  const summary = el("p", "Nothing changes yet.");
  summary.setAttribute("role", "status");
  const says = () => {
    try {
      const c = Object.entries(limitChanges(inputs, run.stop));
      put(summary, c.length === 0 ? "Nothing changes yet." : "Will change: " + c.map(([n, v]) =>
        n + " from " + (run.stop[n] === null ? "none" : run.stop[n]) + " to " +
        (v === null ? "none" : v)).join(", ") + ". " +
        (c.some(([n]) => n === "max_time") ? "The time limit acts at once" +
          (c.length > 1 ? ", the rest at the next end of an epoch." : ".")
          : "It acts at the next end of an epoch; if it is already passed then, the run ends."));
    } catch (error) {
      put(summary, error.message);
    }
  };
  const fields = LIMITS.map(([name, text, hint]) => {
    const input = el("input"), label = el("label", text);
    input.id = "limit-" + name;
    label.htmlFor = input.id;
    input.value = input.defaultValue = run.stop[name] === null ? "" : String(run.stop[name]);
    input.inputMode = name === "max_time" ? "text" : "decimal";
    input.addEventListener("input", says);
    inputs[name] = input;
    return el("div.field", label, input, el("span.quiet", hint));
  });
  let message = "";
  const done = await ask("limits of " + (run.name || run.run), [...fields, summary],
    {label: "set"}, async () => {
      const stop = limitChanges(inputs, run.stop);
      if (Object.keys(stop).length === 0) throw new Error("Nothing was changed.");
      message = (await write("PATCH", runPath(id), {stop})).message;
    });
  if (done) changed(message);
}

// The buttons for a run; update(run) shows those that can act.
export function controls(id, changed, failed) {
  const guard = (promise) => promise.catch((error) => failed(error.message));
  const all = Object.entries(ACTIONS).map(([name, action]) => [action,
    needs(button(action.label, () => guard(perform(id, name, changed)), action.grave ? "grave" : ""), "run")]);
  const limits = needs(button("limits", () => guard(editLimits(id, changed))), "run");
  const take = button("export", () => guard(exportRun(id)));
  const of = (grave) => all.filter(([action]) => Boolean(action.grave) === grave).map(([, b]) => b);
  const root = el("div.buttons", ...of(false), limits, take, ...of(true)); // what cannot be undone comes last
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "steer the run");
  return {
    root,
    update(run) {
      for (const [action, b] of all) b.hidden = !action.may(run);
      limits.hidden = !underWay(run) || !run.stop;
    },
  };
}
