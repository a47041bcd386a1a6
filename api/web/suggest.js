// A person's suggestion: a setting to be tried before what the searcher proposes.

import {ask} from "./control.js";
import {get, runPath, write} from "./data.js";
import {field, place} from "./field.js";
import {count, el, ENDED, number, QUEUED, settingText, short} from "./text.js";

const STEPS = 1000;

// Strategies that search take suggestions.
export const takesSuggestions = (run) => !ENDED.has(run.status) && !QUEUED.has(run.status) &&
  run.tuning.strategy !== "fixed";

// Where a value lies between the bounds of its tunable, 0 to 1, and back.
function scaleOf(t) {
  const log = t.scale === "log", [low, high] = log ? [Math.log(t.min), Math.log(t.max)] : [t.min, t.max];
  return {
    part: (v) => ((log ? Math.log(v) : v) - low) / (high - low),
    value(part) {
      const at = low + part * (high - low), v = log ? Math.exp(at) : at;
      if (t.type === "int") return Math.min(t.max, Math.max(t.min, Math.round(v)));
      return Math.min(t.max, Math.max(t.min, Number(v.toPrecision(3))));
    },
  };
}

function ranged(name, t, value, hint) {
  const input = el("input"), slider = el("input"), scale = scaleOf(t);
  input.inputMode = "decimal";
  input.autocomplete = "off";
  input.value = String(value);
  slider.type = "range";
  slider.max = STEPS;
  slider.setAttribute("aria-label", name + ", along its range");
  const follow = () => {
    const part = scale.part(Number(input.value));
    if (Number.isFinite(part)) slider.value = Math.round(STEPS * part);
  };
  const f = field(name, input, hint, slider);
  input.addEventListener("input", follow);
  slider.addEventListener("input", () => { input.value = String(scale.value(slider.value / STEPS)); f.wrong(""); });
  follow();
  return {...f, read() {
    const text = input.value.trim(), v = Number(text);
    if (text === "" || !Number.isFinite(v)) return f.wrong("a number is expected");
    if (t.type === "int" && !Number.isInteger(v)) return f.wrong("a whole number is expected");
    if (v < t.min || v > t.max) return f.wrong("expected " + short(t.min) + " to " + short(t.max));
    return v;
  }};
}

function chosen(name, t, value, hint) {
  const input = el("select");
  for (const v of t.values) input.append(el("option", String(v)));
  input.value = String(value);
  return {...field(name, input, hint), read: () => t.values[input.selectedIndex]};
}

function fieldOf(name, t, used) {
  const value = used ?? t.default ?? (t.values || [t.min])[0];
  const range = t.values ? count(t.values.length, "value")
    : short(t.min) + " to " + short(t.max) + (t.scale === "log" ? ", on a logarithmic scale" : "") +
      (t.type === "int" ? ", whole" : "");
  const hint = range + (used !== undefined ? "; in use: " + short(used) : "") +
    (t.default !== undefined && t.default !== null ? "; default: " + short(t.default) : "");
  return (t.values ? chosen : ranged)(name, t, value, hint);
}

const WHEN = {
  open: () => "It is tried next, in the search that is open, before what the searcher proposes.",
  not_now: (s) => "It waits for the next search" + (s.reason ? " (now: " + s.reason + ")" : "") +
    "; “re-tune” asks for one.",
};

function became(s) {
  const is = {waiting: "waits", begun: "trial " + s.trial, known: "was tried already: trial " + s.trial,
    dropped: "dropped: " + s.reason}[s.state] || s.state;
  return el("li", "suggestion " + s.suggestion + " (" + settingText(s.setting) + "): " + is);
}

// Asks for a setting and sends it; changed(message) once it is accepted.
export async function suggest(id, changed) {
  const search = await get(runPath(id, "/search")), {setting} = await get(runPath(id));
  if (search.state === "ended") throw new Error("No setting is tried any more: " + search.reason);
  if (!search.tunables) throw new Error("What can be set is known once the first search has begun.");
  const {suggestions} = await get(runPath(id, "/suggestions"), {order: "desc", page_size: 3});
  const fields = {}, fixed = [], list = el("ul.before", ...suggestions.map(became));
  for (const [name, t] of Object.entries(search.tunables)) {
    const used = setting && setting[name] !== null ? setting[name] : undefined;
    if (t.fixed !== undefined && t.fixed !== null) fixed.push(name + " " + short(t.fixed));
    else fields[name] = fieldOf(name, t, typeof used === "string" && !t.values ? number(used) : used);
  }
  const parts = [el("p", WHEN[search.state](search)), ...Object.values(fields).map((f) => f.root),
    fixed.length > 0 ? el("p.quiet", "fixed in this run: " + fixed.join(", ")) : null,
    suggestions.length > 0 ? el("p.quiet", "before this one:") : null, list];
  list.hidden = suggestions.length === 0;
  let message = "";
  const done = await ask("suggest a setting", parts.filter(Boolean), {label: "suggest"}, async () => {
    const wanted = {};
    for (const [name, f] of Object.entries(fields)) wanted[name] = f.read();
    const bad = Object.keys(wanted).find((name) => wanted[name] === undefined);
    if (bad) {
      fields[bad].input.focus();
      throw new Error("Nothing was sent: see what is marked above.");
    }
    try {
      message = (await write("POST", runPath(id, "/trials:suggest"), {setting: wanted})).message;
    } catch (error) {
      place(error, Object.fromEntries(Object.entries(fields).map(([name, f]) => ["/setting/" + name, f])));
    }
  });
  if (done) changed(message);
}
