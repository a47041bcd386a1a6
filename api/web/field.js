// Fields of a dialog: a label, what is typed, a hint, and what is wrong with it,
// each where the field is.

import {el, put} from "./text.js";

let numbers = 0;

// {root, input, wrong(text)}; wrong("") takes it away. @beside: more inputs for
// the same value.
export function field(text, input, hint = "", ...beside) {
  const label = el("label", text), fault = el("span.bad.wrong"), about = el("span.quiet", hint);
  input.id = "field-" + ++numbers;
  label.htmlFor = input.id;
  fault.id = input.id + "-wrong";
  about.id = input.id + "-about";
  input.setAttribute("aria-describedby", fault.id + " " + about.id);
  fault.hidden = true;
  const wrong = (why) => {
    put(fault, why);
    fault.hidden = !why;
    if (why) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  input.addEventListener("input", () => wrong(""));
  return {root: el("div.field", label, input, ...beside, fault, about), input, wrong, about};
}

// Shows each fault of @error, as the server lists them, at the field whose
// pointer it begins with ({pointer: field}), and goes to the first one. Throws
// what is left to be told for the whole.
export function place(error, fields) {
  const left = [], found = [];
  for (const {pointer, detail} of error.errors || []) {
    const at = Object.keys(fields).find((p) => pointer === p || pointer.startsWith(p + "/"));
    if (!at) left.push((pointer + " " + detail).trim());
    else {
      fields[at].wrong(detail);
      found.push(fields[at]);
    }
  }
  if (found.length === 0) throw error;
  found[0].input.focus();
  throw new Error(left.length > 0 ? left.join("; ") : "Nothing was sent on: see what is marked above.");
}
