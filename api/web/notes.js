// Tags and a note of a run: what people write to it, and find it by.

import {ask} from "./control.js";
import {get, runPath, write} from "./data.js";
import {field, place} from "./field.js";
import {needs} from "./me.js";
import {button, el, link, put} from "./text.js";

const NOTE_BYTES = 4000;

// Each tag leads to the runs that have it.
export function tagLinks(run) {
  return (run.tags || []).map((tag) => {
    const a = link(tag, "#/?find=" + encodeURIComponent("tag=" + tag));
    a.className = "tag";
    a.title = "all runs with the tag " + tag;
    return a;
  });
}

// The beginning of a note, for a list.
export function noteBrief(run) {
  if (!run.note) return null;
  const text = el("span.quiet.brief", run.note);
  text.title = run.note;
  return text;
}

const split = (text) => [...new Set(text.split(/[\s,]+/).filter(Boolean))];

async function edit(id, changed) {
  const run = await get(runPath(id)), note = el("textarea"), tags = el("input");
  tags.value = (run.tags || []).join(" ");
  tags.autocomplete = "off";
  tags.spellcheck = false;
  note.value = run.note || "";
  note.rows = 6;
  const fields = {"/tags": field("tags", tags, "words, with spaces between; at most 16"), "/note": field("note", note)};
  const says = () => put(fields["/note"].about, new TextEncoder().encode(note.value).length + " of " + NOTE_BYTES + " bytes");
  note.addEventListener("input", says);
  says();
  let message = "";
  const done = await ask("tags and note of " + (run.name || run.run), Object.values(fields).map((f) => f.root),
    {label: "save"}, async () => {
      try {
        message = (await write("PATCH", runPath(id, "/notes"), {tags: split(tags.value), note: note.value.trim() || null})).message;
      } catch (error) {
        place(error, fields);
      }
    });
  if (done) changed(message);
}

// The line below a run's head.
export function notesLine(id, changed, failed) {
  const tags = el("span.tags"), note = el("p.note");
  const b = needs(button("tags and note", () => edit(id, changed).catch((error) => failed(error.message)), "small"), "run");
  const root = el("div.notes", tags, b, note);
  return {root, update(run) {
    if (tags.textContent !== (run.tags || []).join("")) tags.replaceChildren(...tagLinks(run));
    put(note, run.note || "");
    note.hidden = !run.note;
    root.hidden = !Array.isArray(run.tags); // an older server's
  }};
}
