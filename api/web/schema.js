// What a JSON schema says of a value: which alternative it is, which members it
// may have, how what is typed is read. No element is made here.

const SCALARS = new Set(["string", "number", "integer"]);

const types = (schema) => [].concat(schema.type || []);
export const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

export function typeOf(v) {
  if (v === null) return "null";
  if (Array.isArray(v)) return "array";
  if (typeof v === "number") return Number.isInteger(v) ? "integer" : "number";
  return typeof v;
}

// Whether @v looks like what @schema means: its kind and what marks it, not its
// range. The service checks the rest.
export function fits(schema, v) {
  if ("const" in schema) return v === schema.const;
  if (schema.enum) return schema.enum.includes(v);
  const is = typeOf(v), wanted = types(schema);
  if (wanted.length > 0 && !wanted.includes(is) && !(is === "integer" && wanted.includes("number"))) return false;
  if (!isObject(v)) return true;
  // A member that can have one value alone says what it is; else those it must have do.
  const marks = Object.entries(schema.properties || {}).filter(([, s]) => "const" in s);
  return marks.length > 0 ? marks.every(([n, s]) => v[n] === s.const) : (schema.required || []).every((n) => n in v);
}

export const alternatives = (schema) => schema.oneOf || schema.anyOf || null;

// The number of the alternative that @v is, of what has none the first.
export function chosen(schema, v) {
  const at = alternatives(schema).findIndex((one) => fits(one, v));
  return at < 0 ? 0 : at;
}

const isScalar = (schema) => "const" in schema || (schema.enum || []).some((v) => typeof v !== "object") ||
  (types(schema).length > 0 && types(schema).every((t) => SCALARS.has(t)));

// "choice", "switch", "scalar", "list", "object", "map", "either" or "json".
export function kindOf(schema) {
  const of = alternatives(schema);
  if (of) return of.every(isScalar) ? "scalar" : "either";
  if (schema.enum) return "choice";
  const [type] = types(schema);
  if (type === "boolean") return "switch";
  if (type === "object" && schema.properties) return "object";
  if (type === "object" && isObject(schema.additionalProperties)) return "map";
  if (type === "array" && schema.items && ["scalar", "choice"].includes(kindOf(schema.items))) return "list";
  return isScalar(schema) ? "scalar" : "json";
}

const holds = (schema, v) => Object.entries(schema.properties || {}).every(([name, s]) =>
  v[name] === undefined || fits(s, v[name])) && (schema.required || []).every((n) => v[n] !== undefined);

// The members that an object may have, @v being what it has: those of its schema,
// and those that follow from what is chosen in it ("allOf" of "if" and "then").
export function members(schema, v) {
  const of = {...schema.properties};
  for (const one of schema.allOf || []) {
    if (!one.if || !holds(one.if, v || {})) continue;
    for (const [name, s] of Object.entries(one.then.properties || {})) of[name] = {...of[name], ...s};
  }
  return of;
}

export const nameOf = (schema, i) => schema.title || (schema.enum && schema.enum.length === 1 ? String(schema.enum[0])
  : schema.type === "object" && isObject(schema.additionalProperties) ? "each by name"
    : [].concat(schema.type || [])[0] || "form " + (i + 1));

const limits = (s) => {
  const parts = [], from = s.minimum ?? s.exclusiveMinimum, to = s.maximum ?? s.exclusiveMaximum;
  if (from !== undefined) parts.push((s.exclusiveMinimum === undefined ? "at least " : "more than ") + from);
  if (to !== undefined) parts.push((s.exclusiveMaximum === undefined ? "at most " : "less than ") + to);
  return parts.join(", ");
};

// What may be typed, in words.
export function expected(schema) {
  const of = alternatives(schema) || [schema], words = [];
  for (const one of of) {
    if (one.enum) { words.push(one.enum.join(", ")); continue; }
    const type = types(one);
    const word = one.format === "seconds" ? "a time as 90s, 10m, 2h" : one.format === "bytes" ? "a size as 64MiB, 8GiB"
      : type.includes("integer") ? "a whole number" : type.includes("number") ? "a number"
        : type.includes("string") && of.length > 1 ? "a text" : "";
    const range = one.format ? "" : limits(one);
    if (word) words.push(word + (range ? " (" + range + ")" : ""));
  }
  const text = words.join(", or ");
  return schema["x-unit"] && text ? text + ", in " + schema["x-unit"] : text;
}

export const choices = (schema) => (alternatives(schema) || [schema]).flatMap((one) => one.enum || []);

// A number where one may stand and one was typed, else the text.
export function read(schema, text) {
  const all = alternatives(schema) || [schema];
  const numbers = all.some((one) => types(one).some((t) => t === "number" || t === "integer")) ||
    all.some((one) => (one.enum || []).some((v) => typeof v === "number"));
  if (numbers && text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  return text;
}

// ---- places -----------------------------------------------------------------

export const escape = (name) => name.replaceAll("~", "~0").replaceAll("/", "~1");
const parts = (pointer) => pointer.split("/").slice(1).map((p) => p.replaceAll("~1", "/").replaceAll("~0", "~"));

export function at(root, pointer) {
  return parts(pointer).reduce((v, name) => (v === null || v === undefined ? undefined : v[name]), root);
}

// A copy of @root with @value at @pointer; undefined takes it away, and the
// objects that are empty then.
export function withValue(root, pointer, value) {
  const names = parts(pointer);
  function set(v, i) {
    if (i === names.length) return value;
    const out = isObject(v) ? {...v} : {}, below = set(out[names[i]], i + 1);
    if (below === undefined) delete out[names[i]];
    else out[names[i]] = below;
    return value === undefined && i > 0 && Object.keys(out).length === 0 ? undefined : out;
  }
  return set(root, 0);
}
