// What a run was begun with: its data, and its configuration, completed and as it
// was given.

import {get, Refused, runPath, saveText} from "./data.js";
import {button, el, put} from "./text.js";

// Members of "app" that name data.
const DATA = [["data", "data"], ["test", "validation data"], ["vocab", "words"]];
const TRIES_MAX = 5;
const FORMS = [["completed", "completed"], ["given", "as given"]];

// Name and text of what there is to say of the data.
function facts(run, config) {
  const app = config.app || {}, job = run.job, out = [];
  for (const [key, text] of DATA) if (typeof app[key] === "string") out.push([text, app[key]]);
  if (job) out.push(["samples to train", job.samples.toLocaleString("en")]);
  if (job && job.validation_samples > 0) {
    out.push(["samples to validate", job.validation_samples.toLocaleString("en") +
      (app.test === undefined && app.test_fraction > 0
        ? ", " + Math.round(app.test_fraction * 1000) / 10 + " % of the data" : "")]);
  }
  if (job && job.metric) {
    out.push(["metric", job.metric.name + ", " + (job.metric.higher_is_better ? "higher" : "lower") + " is better" +
      (config.metric ? " (chosen)" : "")]);
  }
  if (!job) out.push(["samples", "known once the data are loaded"]);
  return out;
}

const short = (x) => x === null ? "" : String(Math.round(x * 1e4) / 1e4);
const whole = (n) => n.toLocaleString("en");

// What there is to say of a column beside its kind and what it lacks.
function columnText(c) {
  if (c.classes) {
    return c.classes.map((of) => of.name + " (" + whole(of.samples) + ")").join(", ") +
      (c.classes_left_out ? " and " + whole(c.classes_left_out) + " more" : "");
  }
  if (c.categories !== undefined) return c.categories === 1 ? "1 category" : whole(c.categories) + " categories";
  return c.min === null ? "" : short(c.min) + " to " + short(c.max) + ", mean " + short(c.mean);
}

// The summary @data of the training samples as a table, a row a column.
function columnTable(data) {
  const columns = data.columns || (data.classes ? [{...data, name: "class", kind: "label", missing: 0}] : []);
  const body = el("tbody"), head = ["column", "kind", "missing", ""];
  columns.forEach((c, i) => {
    const texts = [c.name === null ? String(i + 1) : c.name, c.kind, whole(c.missing), columnText(c)];
    body.append(el("tr", ...texts.map((text, k) => {
      const cell = el("td", text);
      cell.dataset.label = head[k];
      return cell;
    })));
  });
  const table = el("table.stack", el("thead", el("tr", ...head.map((text) => el("th", text)))), body);
  return data.columns_left_out ? el("div", table, el("p.quiet", whole(data.columns_left_out) + " more columns")) : table;
}

// A summary without columns, such as of ratings: its figures by their names.
function plainFacts(data) {
  const list = el("dl.facts");
  for (const [name, value] of Object.entries(data)) {
    const text = Number.isInteger(value) ? whole(value) : typeof value === "number" ? short(value) : value;
    if (typeof text === "string") list.append(el("dt", name), el("dd", text));
  }
  return list;
}

export function configTab(id, {failed}) {
  const text = el("pre.config"), note = el("p.quiet"), list = el("dl.facts");
  const choice = el("select"), label = el("label", "form ", choice);
  const keep = button("download", () => saveText(id + "-" + choice.value + ".json", text.textContent));
  const held = el("section.card", el("div.head", el("h2", "training samples")));
  const root = el("div.stacked",
    el("section.card", el("div.head", el("h2", "data")), list), held,
    el("section.card", el("div.head", el("h2", "configuration"), el("div.tools", label, keep)), note, text));
  let shown = null, said = "", tries = 0;
  held.hidden = true;
  text.tabIndex = 0;
  text.setAttribute("role", "region");
  text.setAttribute("aria-label", "the configuration as JSON");
  for (const [value, name] of FORMS) choice.append(new Option(name, value));
  choice.addEventListener("change", () => show().catch((error) => failed(error.message)));

  async function show() {
    const form = choice.value;
    let config = null;
    try {
      config = await get(runPath(id, "/config"), {form});
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      if (form !== choice.value) return;
      put(text, "");
      put(note, error.message);
      keep.hidden = true;
      return;
    }
    if (form !== choice.value) return;
    keep.hidden = false;
    put(note, form === "given" ? "what was written, with what was set on the command line"
      : "with every default filled in: it begins the same run again");
    put(text, JSON.stringify(config, null, 2));
  }
  // What the samples hold is told once, right after they are loaded; some never say.
  async function describe() {
    const data = (await get(runPath(id, "/data"))).data;
    tries = data ? TRIES_MAX : tries + 1;
    if (!data) return;
    held.append(data.columns || data.classes ? columnTable(data) : plainFacts(data));
    held.hidden = false;
  }
  async function refresh(run) {
    if (shown === null) {
      shown = await get(runPath(id, "/config"));
      await show();
    }
    if (tries < TRIES_MAX && run.job) await describe();
    const now = facts(run, shown), words = JSON.stringify(now);
    if (words === said) return;
    said = words;
    list.replaceChildren(...now.flatMap(([name, value]) => [el("dt", name), el("dd", value)]));
  }
  return {root, refresh, destroy() {}};
}
