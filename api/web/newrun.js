// A new run: a form made from the service's schema beside the configuration as
// JSON. Each follows the other.

import {ask} from "./control.js";
import {get, Refused, token, upload, write} from "./data.js";
import {schemaForm} from "./form.js";
import {at} from "./schema.js";
import {button, bytes, el, put} from "./text.js";

const JSON_ROWS = 24;

const pretty = (config) => JSON.stringify(config, null, 2);

// Of a service that gives none: the form does without.
const orNothing = (promise, name) => promise.then((answer) => answer[name], () => []);

// A button that puts a file of this machine into the data folder; place(name) once
// it is there.
function uploader(files, place) {
  const file = el("input"), said = el("span.quiet"), fault = el("span.bad");
  file.type = "file";
  file.hidden = true;
  said.setAttribute("role", "status");
  fault.setAttribute("role", "alert");
  file.addEventListener("change", async () => {
    const one = file.files[0];
    if (!one) return;
    put(fault, "");
    try {
      await upload(one, (sent) => put(said, bytes(sent) + " of " + bytes(one.size)));
      files.push(one.name);
      place(one.name);
    } catch (error) {
      put(said, "");
      put(fault, error instanceof Refused && error.status === 401 ? "The token is needed: type it below." : error.message);
    }
    file.value = "";
  });
  return el("div.buttons.uploading", button("upload a file", () => file.click(), "small"), file, said, fault);
}

function exampleChooser(examples, take) {
  const select = el("select"), label = el("label", "start from an example");
  select.id = "example";
  label.htmlFor = select.id;
  select.append(el("option", "choose"));
  for (const one of examples) select.append(el("option", one.name));
  select.addEventListener("change", () => {
    if (select.selectedIndex > 0) take(examples[select.selectedIndex - 1]);
  });
  return el("div.field", label, select);
}

// The whole of what is filled in: {root, text, config(), faults(list)}.
function editor(schema, files, apps) {
  const text = el("textarea"), wrong = el("p.bad"), examples = schema.examples || [];
  let config = examples[0] || {};
  const form = schemaForm({schema,
    changed(value) {
      config = value;
      text.value = pretty(value);
      put(wrong, "");
    },
    files: () => files,
    upload: (place) => uploader(files, place),
    names: (pointer) => (pointer === "/tunables"
      ? (apps.find((a) => a.name === at(config, "/app/name")) || {tunables: []}).tunables : [])});
  const label = el("label", "configuration (JSON)");
  text.rows = JSON_ROWS;
  text.spellcheck = false;
  text.id = "configuration";
  label.htmlFor = text.id;
  wrong.id = "configuration-fault";
  text.setAttribute("aria-describedby", wrong.id);
  function take(value) {
    config = value;
    text.value = pretty(value);
    put(wrong, "");
    form.show(value);
  }
  text.addEventListener("input", () => {
    try {
      config = JSON.parse(text.value);
      put(wrong, "");
      form.show(config);
    } catch (error) {
      put(wrong, "The configuration is not JSON: " + error.message);
    }
  });
  take(config);
  return {
    root: el("div.beside", el("div", exampleChooser(examples, take), form.root), el("div.field", label, text, wrong)),
    form,
    // Throws where the text is not JSON.
    config() {
      try {
        return JSON.parse(text.value);
      } catch (error) {
        put(wrong, "The configuration is not JSON: " + error.message);
        throw new Error("Nothing was sent: the text of the configuration is to be mended first.");
      }
    },
  };
}

// A problem of a check as the fault of a refusal.
const fault = ({pointer, severity, expected, found, hint}) => ({pointer, detail: (severity === "warning" ? expected
  : "expected " + expected + ", found " + found) + (hint ? "; " + hint : "")});
const said = (f) => ((f.pointer ? f.pointer + ": " : "") + f.detail);

// Hands a configuration to a service; submitted(run id) once it has it.
export async function submitRun(submitted) {
  const [schema, files, apps] = await Promise.all([get("/schema"),
    orNothing(get("/data"), "files").then((all) => all.map((f) => f.name)), orNothing(get("/apps"), "apps")]);
  const of = editor(schema, files, apps), group = el("input"), state = el("p");
  const label = el("label", "group, which takes turns with others (empty: its name)");
  group.id = "group";
  label.htmlFor = group.id;
  state.setAttribute("role", "status");
  // What the service says of it: each at its field.
  function tell(list, well) {
    const left = of.form.faults(list);
    put(state, list.length === 0 ? well : left.map(said).join("; ") ||
      "What is wrong is said beside " + (list.length === 1 ? "its field." : "the fields."));
    state.className = list.length === 0 ? "good" : "bad";
  }
  async function check() {
    try {
      const {valid, problems} = await write("POST", "/runs:validate", of.config());
      const all = problems.map(fault);
      tell(valid ? [] : all, ["The service would take it.", ...all.map((f) => "But " + said(f) + ".")].join(" "));
    } catch (error) {
      tell([{pointer: "", detail: error instanceof Refused && error.status === 401
        ? "the token is needed: type it below" : error.message}]);
    }
  }
  let run = "";
  const done = await ask("a new run", [
    el("p", "It is checked, written to the state folder and waits in the queue for its turn. " +
      "Relative paths in it start at the server's data folder."),
    of.root, el("div.field", label, group), el("div.buttons.checking", button("check", check)), state],
  {label: "submit", wide: true}, async () => {
    const query = group.value.trim() ? "?group=" + encodeURIComponent(group.value.trim()) : "";
    const config = of.config();
    try {
      run = (await write("POST", "/runs" + query, config)).run;
    } catch (error) {
      if (error instanceof Refused && error.errors.length > 0) tell(error.errors, "");
      throw error;
    }
  });
  if (done) submitted(run);
}
