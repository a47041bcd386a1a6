// Branches by hand: a fork with another setting, its promotion, its end.

import {ask, underWay} from "./control.js";
import {get, runPath, write} from "./data.js";
import {needs} from "./me.js";
import {button, count, el, put, settingText, short} from "./text.js";

const path = (id, branch, verb = "") => runPath(id, "/branches/" + branch + verb);

// Typed text as the tunable's kind of value.
function typed(text, was) {
  const value = Number(text);
  return typeof was === "number" && text !== "" && Number.isFinite(value) ? value : text;
}

function field(labelText, value, hint = "") {
  const input = el("input"), label = el("label", labelText);
  input.id = "fork-" + labelText;
  label.htmlFor = input.id;
  input.value = input.defaultValue = String(value);
  return {input, root: el("div.field", label, input, hint ? el("span.quiet", hint) : null)};
}

// What to begin from: the branch's own setting. The beginning, which no record
// names, and kept branches have none: there it is what is in use, and in a first
// search, before anything is, the defaults of the space.
async function settingOf(id, number) {
  const own = number === 0 ? {} : (await get(path(id, number))).setting;
  if (Object.keys(own || {}).length > 0) return own;
  const {setting} = await get(runPath(id));
  if (Object.keys(setting || {}).length > 0) return setting;
  const {searches: [search]} = await get(runPath(id, "/searches"), {order: "desc", page_size: 1});
  return Object.fromEntries(Object.entries(search ? search.tunables : {})
    .map(([name, t]) => [name, t.fixed ?? t.default ?? (t.values || [t.min])[0]]));
}

async function fork(id, number, changed) {
  const from = await settingOf(id, number);
  const fields = Object.entries(from).map(([name, value]) => [name, value, field(name, value)]);
  const epochs = field("epochs", 1, "to the end of so many; the one it begins in is the first");
  const summary = el("p"), result = {message: ""};
  summary.setAttribute("role", "status");
  const setting = () => Object.fromEntries(fields
    .filter(([, , f]) => f.input.value.trim() !== f.input.defaultValue)
    .map(([name, value, f]) => [name, typed(f.input.value.trim(), value)]));
  const says = () => {
    const other = setting(), n = Number(epochs.input.value);
    put(summary, "A branch of the whole training state is forked from branch " + number +
      (Object.keys(other).length > 0 ? " with " + settingText(other) : " with the same setting") +
      ". It runs for " + (n >= 1 ? count(n, "epoch") : "…") + ", taking turns with the training, " +
      "which is slower meanwhile. No decision depends on it; then it waits to be promoted or given up.");
  };
  for (const {input} of [...fields.map(([, , f]) => f), epochs]) input.addEventListener("input", says);
  says();
  const done = await ask("fork branch " + number + "?",
    [...fields.map(([, , f]) => f.root), epochs.root, summary], {label: "fork"}, async () => {
      const n = Number(epochs.input.value);
      if (!Number.isInteger(n) || n < 1) throw new Error("epochs: a whole number from 1 is expected");
      result.message = (await write("POST", path(id, number, ":fork"), {setting: setting(), epochs: n})).message;
    });
  if (done) changed(result.message);
}

async function plainly(id, number, verb, label, texts, changed) {
  let message = "";
  const done = await ask(label + " branch " + number + "?", texts.map((t) => el("p", t)),
    {label, grave: verb === ":free"}, async () => {
      message = (await write("POST", path(id, number, verb))).message;
    });
  if (done) changed(message);
}

async function promote(id, number, changed) {
  const run = await get(runPath(id));
  await plainly(id, number, ":promote", "promote", [
    "From the next clock on the run trains branch " + number + " in place of " +
      (run.branch === null ? "what it trains now" : "branch " + run.branch + ", which is freed") +
      ". A search that is under way ends without a winner.",
    run.best ? "The best model so far (epoch " + run.best.epoch + ", loss " + short(run.best.loss) +
      ") stays the best until an epoch is better." : "There is no best model so far."], changed);
}

const giveUp = (id, number, changed) => plainly(id, number, ":free", "give up", [
  "Branch " + number + " is freed: its state is lost, its memory is there for others."], changed);

// Buttons for the branch that is chosen; update(run, branch | undefined).
export function branchControls(id, changed, failed) {
  let chosen = null;
  const act = (what) => () => what(id, chosen, changed).catch((error) => failed(error.message));
  const all = {fork: button("fork", act(fork), "small"), promote: button("promote", act(promote), "small"),
    free: button("give up", act(giveUp), "small")};
  for (const b of Object.values(all)) needs(b, "run");
  const name = el("span.quiet"), root = el("div.tools", name, ...Object.values(all));
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "the chosen branch");
  return {
    root,
    update(run, branch) {
      chosen = branch ? branch.branch : null;
      root.hidden = !branch || !branch.live || !underWay(run);
      if (root.hidden) return;
      put(name, "branch " + branch.branch);
      all.fork.hidden = ["testing", "probe"].includes(branch.type);
      all.promote.hidden = all.fork.hidden || branch.branch === run.branch;
      all.free.hidden = branch.role !== "user";
    },
  };
}
