// A form made from a JSON schema: each member a field with its default, its help
// and its choices. What is not given is left out of the value.

import {alternatives, at, choices, chosen, escape, expected, isObject, kindOf, members, nameOf, read, typeOf,
  withValue} from "./schema.js";
import {button, count, el, put} from "./text.js";

const NONE = "";
const SAID_MAX = 60; // letters of a value beside its name

const shown = (v) => (v === undefined ? "" : typeof v === "string" ? v : JSON.stringify(v));
const brief = (v) => { const text = shown(v); return text.length > SAID_MAX ? text.slice(0, SAID_MAX) + "…" : text; };

function option(value, text) {
  const o = el("option", text);
  o.value = value;
  return o;
}

// of: {schema, changed(value), files() -> names for "x-file", upload(place) -> an
// element for such a field, names(pointer) -> names to choose from in a map}.
export function schemaForm(of) {
  const root = el("div.form"), open = new Map();
  let value = {}, lists = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", "fields of the run");

  // Enter ends what is typed, and hands nothing in.
  root.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || e.target.tagName !== "INPUT") return;
    e.preventDefault();
    e.stopPropagation();
    e.target.dispatchEvent(new Event("change", {bubbles: true}));
  });

  function set(pointer, to, again) {
    value = withValue(value, pointer, to) ?? {};
    of.changed(value);
    if (again) draw();
  }

  // A list of what may be typed, for an input.
  function offers(input, names) {
    if (names.length === 0) return null;
    const list = el("datalist", ...names.map((n) => option(String(n), "")));
    list.id = "offers" + ++lists;
    input.setAttribute("list", list.id);
    return list;
  }

  // ---- one field ------------------------------------------------------------

  // A control with its name, what the schema says of it and what is wrong with it.
  function field(pointer, name, schema, needed, control, ...more) {
    const label = el("label", name, needed ? el("span.quiet", " (needed)") : null), fault = el("p.bad.fault");
    const text = [schema.description, expected(schema)].filter(Boolean).join(" · "), help = el("span.quiet", text);
    control.id = "f" + pointer;
    label.htmlFor = control.id;
    help.id = control.id + "-help";
    fault.id = control.id + "-fault";
    control.setAttribute("aria-describedby", text ? help.id : "");
    if (needed) control.setAttribute("aria-required", "true");
    const box = el("div.field", label, control, ...more, text ? help : null, fault);
    box.dataset.at = pointer;
    return box;
  }

  function pick(pointer, schema, now, options) {
    const select = el("select"), none = schema.default === undefined ? "not given" : "not given: " + shown(schema.default);
    select.append(option(NONE, none), ...options.map(([v, text], i) => option(String(i), text ?? shown(v))));
    const i = options.findIndex(([v]) => v === now);
    select.value = i < 0 ? NONE : String(i);
    select.addEventListener("change", () =>
      set(pointer, select.value === NONE ? undefined : options[Number(select.value)][0], true));
    return select;
  }

  function typed(pointer, schema, now) {
    const input = el("input"), offered = schema["x-file"] ? of.files() : choices(schema);
    input.autocomplete = "off";
    input.spellcheck = false;
    input.value = shown(now);
    if (schema.default !== undefined) input.placeholder = shown(schema.default);
    input.addEventListener("input", () =>
      set(pointer, input.value === "" ? undefined : read(schema, input.value), false));
    return [input, offers(input, offered),
      schema["x-file"] && of.upload ? of.upload((name) => set(pointer, name, true)) : null];
  }

  function area(pointer, now, write, parse, rows) {
    const text = el("textarea");
    text.rows = rows;
    text.spellcheck = false;
    text.value = write(now);
    text.addEventListener("input", () => {
      try {
        set(pointer, text.value.trim() === "" ? undefined : parse(text.value), false);
        text.setCustomValidity("");
        say(pointer, "");
      } catch (error) {
        text.setCustomValidity(error.message);
        say(pointer, "not JSON: " + error.message);
      }
    });
    return text;
  }

  function lines(pointer, schema, now) {
    const items = Array.isArray(now) ? now : [];
    return area(pointer, items, (v) => v.map(shown).join("\n"),
      (text) => text.split("\n").map((l) => l.trim()).filter(Boolean).map((l) => read(schema.items, l)),
      Math.min(8, items.length + 1));
  }

  // ---- groups ---------------------------------------------------------------

  // What can be folded: its state is kept when the form is drawn again.
  function group(pointer, name, note, begins, ...inside) {
    const fault = el("p.bad.fault"), summary = el("summary", el("span", name), " ", el("span.quiet", note));
    const box = el("details.group", summary, fault, ...inside);
    fault.id = "f" + pointer + "-fault";
    summary.id = "f" + pointer;
    box.dataset.at = pointer;
    box.open = open.get(pointer) ?? begins;
    box.addEventListener("toggle", () => open.set(pointer, box.open));
    return box;
  }

  const given = (v) => (isObject(v) && Object.keys(v).length > 0 ? count(Object.keys(v).length, "member") + " given" : "not given");

  function inside(pointer, schema, now, skipped = []) {
    return Object.entries(members(schema, now)).filter(([name]) => !skipped.includes(name)).map(([name, one]) =>
      part(pointer + "/" + escape(name), name, one, isObject(now) ? now[name] : undefined,
        (schema.required || []).includes(name)));
  }

  // An object whose members have any name: those there are, and one more.
  function map(pointer, schema, now) {
    const name = el("input"), names = of.names(pointer).filter((n) => !(isObject(now) && n in now));
    const list = offers(name, names);
    const add = () => {
      const to = name.value.trim();
      if (!to || (isObject(now) && to in now)) return;
      open.set(pointer + "/" + escape(to), true);
      set(pointer + "/" + escape(to), {}, true);
    };
    const plus = button("add", add, "small");
    plus.setAttribute("aria-label", "add to " + pointer.slice(1));
    name.id = "f" + pointer + "-new";
    name.setAttribute("aria-label", "name of another of " + pointer.slice(1));
    name.placeholder = "name";
    name.addEventListener("change", add);
    const members = Object.entries(isObject(now) ? now : {}).map(([n, v]) => {
      const at = pointer + "/" + escape(n), one = part(at, n, schema.additionalProperties, v, false);
      one.append(button("take " + n + " away", () => set(at, undefined, true), "small"));
      return one;
    });
    return [...members, el("div.buttons.adding", name, list, plus)];
  }

  // One of several forms: first which, then what it has.
  function either(pointer, name, schema, now, needed) {
    const all = alternatives(schema), i = now === undefined ? -1 : chosen(schema, now);
    const options = all.flatMap((one, k) => (kindOf(one) === "choice" ? one.enum.map((v) => [k, v, shown(v)])
      : [[k, undefined, nameOf(one, k)]]));
    const select = el("select");
    if (!needed || i < 0) select.append(option(NONE, "not given"));
    select.append(...options.map(([, , text], k) => option(String(k), text)));
    const which = options.findIndex(([k, v]) => k === i && (v === undefined || v === now));
    select.value = i < 0 ? NONE : String(which);
    select.addEventListener("change", () => {
      if (select.value === NONE) return set(pointer, undefined, true);
      const [k, v] = options[Number(select.value)];
      set(pointer, v ?? begun(all[k], now), true);
    });
    const one = i < 0 ? null : all[i], kind = one && kindOf(one);
    const marks = one ? Object.entries(one.properties || {}).filter(([, s]) => "const" in s).map(([n]) => n) : [];
    const below = kind === "object" ? inside(pointer, one, now, marks) : kind === "map" ? map(pointer, one, now) : [];
    const help = {description: (one && one.description) || schema.description};
    return group(pointer, name, which < 0 ? "not given" : options[which][2], true,
      field(pointer + "#", "which " + name, help, needed, select), ...below);
  }

  // What an alternative begins with: its marks, and what the last one had that it may have.
  function begun(schema, before) {
    if (typeOf({}) !== schema.type) return schema.default ?? "";
    const out = {};
    for (const [name, s] of Object.entries(schema.properties || {}))
      if ("const" in s) out[name] = s.const;
      else if (isObject(before) && before[name] !== undefined && name !== "name") out[name] = before[name];
    return out;
  }

  function part(pointer, name, schema, now, needed) {
    switch (kindOf(schema)) {
    case "either": return either(pointer, name, schema, now, needed);
    case "object": return group(pointer, name, of.names(pointer.slice(0, pointer.lastIndexOf("/"))).length > 0
      ? brief(now) : given(now), now !== undefined && pointer.lastIndexOf("/") === 0, ...inside(pointer, schema, now));
    case "map": return group(pointer, name, given(now), now !== undefined, ...map(pointer, schema, now));
    case "choice": return field(pointer, name, schema, needed, pick(pointer, schema, now, schema.enum.map((v) => [v])));
    case "switch": return field(pointer, name, schema, needed,
      pick(pointer, schema, now, [[true, "true"], [false, "false"]]));
    case "list": return field(pointer, name, {...schema.items, description: (schema.description || "") + " · one a line"},
      needed, lines(pointer, schema, now));
    case "scalar": return field(pointer, name, schema, needed, ...typed(pointer, schema, now));
    default: return field(pointer, name, {description: (schema.description || "") + " · JSON"}, needed,
      area(pointer, now, (v) => (v === undefined ? "" : JSON.stringify(v, null, 1)), JSON.parse, now === undefined ? 1 : 4));
    }
  }

  // ---- the whole ------------------------------------------------------------

  function draw() {
    const focus = document.activeElement && root.contains(document.activeElement) ? document.activeElement.id : "";
    root.replaceChildren(...inside("", of.schema, value));
    if (focus) document.getElementById(focus)?.focus();
  }

  // Says what is wrong at a place, or where it would be. False: nowhere.
  function say(pointer, text) {
    for (let to = pointer; to !== ""; to = to.slice(0, to.lastIndexOf("/"))) {
      const box = [...root.querySelectorAll("[data-at]")].find((b) => b.dataset.at === to);
      if (!box) continue;
      const fault = box.querySelector(":scope > .fault"), control = document.getElementById("f" + to);
      const before = text && fault.textContent ? fault.textContent + "; " : "";
      put(fault, text ? before + (to === pointer ? "" : pointer + ": ") + text : "");
      control.setAttribute("aria-invalid", String(text !== ""));
      for (let up = box; text && up; up = up.parentElement.closest("details")) if (up.tagName === "DETAILS") up.open = true;
      return true;
    }
    return false;
  }

  return {
    root,
    show(to) { value = to; draw(); },
    at: (pointer) => at(value, pointer),
    // Shows faults, [{pointer, detail}], and takes those before away; returns those
    // that have no place here.
    faults(list) {
      for (const f of root.querySelectorAll(".fault")) put(f, "");
      for (const c of root.querySelectorAll("[aria-invalid]")) c.removeAttribute("aria-invalid");
      const left = list.filter((f) => !say(f.pointer, f.detail));
      root.querySelector("[aria-invalid=true]")?.scrollIntoView({block: "nearest"});
      return left;
    },
  };
}
