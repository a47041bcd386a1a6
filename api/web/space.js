// A tunable as an axis, on its own scale: where a value lies, 0 .. 1, and what is
// written beside it. spec: the tunable as the search has it, in the configuration's form.

import {linearTicks, logTicks} from "./axes.js";
import {short} from "./text.js";

const clamp = (v) => Math.max(0, Math.min(1, v));

function listed(name, values) {
  const texts = values.map(String), step = Math.max(1, texts.length - 1);
  const index = (v) => {
    const i = texts.indexOf(String(v));
    if (i >= 0 || typeof v !== "number") return Math.max(0, i);
    // A number beside the list: the nearest.
    return values.reduce((best, k, n) => Math.abs(k - v) < Math.abs(values[best] - v) ? n : best, 0);
  };
  const text = (i) => typeof values[i] === "number" ? short(values[i]) : texts[i] ?? "";
  const ticks = (low = 0, high = 1) => texts.map((_, i) => [texts.length < 2 ? 0.5 : i / step, text(i)])
    .filter(([at]) => at >= low && at <= high);
  return {name, kind: texts.length, scale: "listed", index, text, ticks, ends: [text(0), text(texts.length - 1)],
    place: (v) => texts.length < 2 ? 0.5 : index(v) / step};
}

// How a value between min and max goes to 0 .. 1, and back.
function mapping(scale, min, max) {
  const wide = Math.log(max / min);
  if (scale === "log") return [(v) => Math.log(v / min) / wide, (p) => min * Math.exp(p * wide)];
  // Fine near max: as a logarithm seen from the other end.
  if (scale === "reverse_log") return [(v) => 1 - Math.log((max + min - v) / min) / wide,
    (p) => max + min - min * Math.exp((1 - p) * wide)];
  return [(v) => (v - min) / (max - min), (p) => min + p * (max - min)];
}

export function axisOf(name, spec, values) {
  const there = values.filter((v) => v !== null && v !== undefined), numbers = there.filter(Number.isFinite);
  if (spec.values) return listed(name, spec.values);
  if (numbers.length < there.length) return listed(name, [...new Set(there)].sort());
  // What was tried beyond the range (a setting in use since before) is to be seen too.
  const min = Math.min(spec.min ?? Infinity, ...numbers), max = Math.max(spec.max ?? -Infinity, ...numbers);
  const scale = spec.scale !== "linear" && spec.scale && min > 0 ? spec.scale : "linear";
  if (!(max > min)) return listed(name, numbers.slice(0, 1));
  const [place, value] = mapping(scale, min, max), whole = spec.type === "int";
  const ticks = (low = 0, high = 1, most = 5) => {
    const from = value(clamp(low)), to = value(clamp(high));
    const list = scale === "log" ? logTicks(from * (1 - 1e-9), to * (1 + 1e-9), most).filter((v) => !whole || Number.isInteger(v))
      : linearTicks(from, to, most, whole);
    return list.map((v) => [clamp(place(v)), short(v, 4)]);
  };
  return {name, kind: 0, scale, ticks, ends: [short(min, 3), short(max, 3)], text: (p) => short(value(clamp(p)), 3),
    place: (v) => clamp(place(v))};
}

export const scaleText = (axis) => ({log: "log", reverse_log: "log from the top", listed: ""}[axis.scale] ?? "");
