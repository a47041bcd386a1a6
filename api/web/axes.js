// Axes of plots: their ranges and ticks. Pure functions that end, with finite
// numbers and few ticks, whatever they are given: a plot's data may be anything.

const MOST = 1e300;  // ends of a range: their difference is a number too
const LEAST = 1e-300;
const FINE = 1e-9;   // a range is so wide at least, as a part of its larger end
const TICKS = 100;   // at most

const clamp = (low, v, high) => Math.max(low, Math.min(high, v));

// A range that shows low .. high, made wider by a part of itself at each end.
// One number has 1 around it, or with room a tenth of itself.
export function linearRange(low, high, room = 0) {
  low = clamp(-MOST, low, MOST);
  high = clamp(-MOST, high, MOST);
  if (!(low <= high)) return [0, 1]; // nothing, or not numbers
  const size = Math.max(Math.abs(low), Math.abs(high));
  const more = low < high ? (high - low) * room : room > 0 && size > LEAST ? size * 0.05 : 0.5;
  const fine = Math.max(0, size * FINE - (high - low)) / 2;
  return [low - Math.max(more, fine), high + Math.max(more, fine)];
}

// The same of a logarithmic axis, of positive numbers, always with room.
export function logRange(low, high) {
  if (!(low > 0 && low <= high)) return [0.1, 1];
  low = clamp(LEAST, low, MOST);
  high = clamp(LEAST, high, MOST);
  const room = Math.max(1.05, Math.pow(10, 0.04 * (Math.log10(high) - Math.log10(low))));
  return [Math.max(low / room, LEAST * 1e-5), Math.min(high * room, MOST * 1e5)];
}

// Round numbers from low to high, about @most at most; whole ones only if asked.
export function linearTicks(low, high, most, whole = false) {
  const least = (high - low) / clamp(1, most, TICKS);
  if (!(least > 0 && least < Infinity)) return [];
  const size = Math.max(Math.pow(10, Math.floor(Math.log10(least))), LEAST);
  const fit = [1, 2, 5, 10].map((k) => k * size).find((k) => k >= least) || 10 * size;
  const step = whole ? Math.max(1, Math.round(fit)) : fit;
  const first = Math.ceil(low / step), out = [];
  for (let i = 0; i <= TICKS && (first + i) * step <= high; i++) {
    const tick = Number(((first + i) * step).toPrecision(15));
    if (tick >= low && tick <= high && tick !== out.at(-1)) out.push(tick + 0); // never -0
  }
  return out;
}

// Powers of ten, with what lies between as far as there is room. Within less
// than a power of ten, round numbers.
export function logTicks(low, high, most) {
  const from = Math.log10(low), to = Math.log10(high), decades = to - from;
  most = clamp(1, most, TICKS);
  if (!(decades > 0 && decades < Infinity)) return [];
  const every = Math.max(1, Math.ceil(decades / most)), out = [];
  const digits = decades / 0.3 <= most ? [1, 2, 5] : decades / 0.47 <= most ? [1, 3] : [1];
  const first = Math.floor(from / every) * every;
  for (let i = 0; i <= TICKS + 1 && first + i * every <= to; i++)
    for (const digit of digits) {
      const tick = Number(digit + "e" + (first + i * every));
      if (tick >= low && tick <= high) out.push(tick);
    }
  return out.length > 1 ? out : linearTicks(low, high, most).filter((v) => v > 0);
}

// Digits that tell ticks apart.
export function tickDigits(ticks) {
  const size = Math.max(...ticks.map(Math.abs), 0);
  const step = Math.min(...ticks.slice(1).map((v, i) => Math.abs(v - ticks[i])), Infinity);
  const digits = Math.ceil(Math.log10(size / step)) + 2;
  return Number.isFinite(digits) ? clamp(5, digits, 15) : 5;
}
