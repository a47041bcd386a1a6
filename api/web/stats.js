// Figures about trials. Pure functions of arrays.

// The search that has the most rows, of equals the first: after it others begin from
// a state that is already good, with settings near its winner's, so that all of them
// together would hide what made the difference. null of no rows.
export function largestSearch(rows) {
  const size = new Map();
  for (const r of rows) size.set(r.search, (size.get(r.search) || 0) + 1);
  let search = null;
  for (const [k, n] of size) if (search === null || n > size.get(search)) search = k;
  return search;
}

// The best so far at each trial, anew in each search.
export function bestSoFar(speed, search) {
  let best = -Infinity, of = null;
  return speed.map((v, i) => {
    if (search[i] !== of) { best = -Infinity; of = search[i]; }
    if (v > best) best = v;
    return best;
  });
}

// Whether positive numbers lie more evenly on a logarithmic axis: their median
// is nearer to its middle.
export function logarithmic(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[0], high = sorted.at(-1), middle = sorted[sorted.length >> 1];
  if (!(low > 0) || high / low < 10) return false;
  const off = (f) => Math.abs((f(middle) - f(low)) / (f(high) - f(low)) - 0.5);
  return off(Math.log) < off((v) => v);
}

// The top of an axis of losses, of which the largest is high and whose lines
// begin at starts. Lines that end ten times above where nearly all begin have
// diverged; an axis that shows them whole shows nothing else.
export function topOfLosses(starts, high) {
  const sorted = starts.filter(Number.isFinite).sort((a, b) => a - b);
  const usual = sorted[Math.floor((sorted.length - 1) * 0.9)];
  return usual > 0 && high > 10 * usual ? 2 * usual : high;
}

// A schedule without choices of the setting that is in use already, as when a
// run goes on.
export function changes(choices) {
  const text = (setting) => JSON.stringify(Object.entries(setting).sort());
  return choices.filter((c, i) => i === 0 || text(c.setting) !== text(choices[i - 1].setting));
}

// Values made smooth over x: a mean weighted by exp(-distance / reach), looked at
// from both sides so that it does not lag. What is not finite has no weight, and
// nothing is carried over a break [from x, to x]. Numbers, null where there is none.
export function smooth(x, values, reach, breaks = []) {
  const n = x.length, ends = new Set(breaks.map(([, to]) => to));
  const use = (v) => typeof v === "number" && Number.isFinite(v);
  if (!(reach > 0)) return values.map((v) => use(v) ? v : null);
  const sums = values.map((v) => use(v) ? v : 0), weights = values.map((v) => use(v) ? 1 : 0);
  for (const way of [1, -1]) {
    let sum = 0, weight = 0;
    for (let k = 0; k < n; k++) {
      const i = way > 0 ? k : n - 1 - k;
      // The break lies before the point at its end.
      if (k > 0) {
        const fade = ends.has(way > 0 ? x[i] : x[i + 1]) ? 0 : Math.exp(-Math.abs(x[i] - x[i - way]) / reach);
        sum *= fade;
        weight *= fade;
      }
      sums[i] += sum;
      weights[i] += weight;
      if (use(values[i])) { sum += values[i]; weight++; }
    }
  }
  return values.map((v, i) => use(v) && weights[i] > 0 ? sums[i] / weights[i] : null);
}

// The epoch at a clock, with its part that is over: epochs end at their clocks.
// Past the last one at the pace of the last. epochs: {epoch, clock}, rising.
export function epochAt(clock, epochs) {
  if (epochs.length === 0) return null;
  let low = 0, high = epochs.length; // the first that ends at the clock or later
  while (low < high) {
    const middle = (low + high) >> 1;
    if (epochs[middle].clock < clock) low = middle + 1;
    else high = middle;
  }
  const k = Math.min(low, epochs.length - 1), to = epochs[k];
  const from = k > 0 ? epochs[k - 1] : {epoch: Math.max(0, to.epoch - 1), clock: 0};
  const pace = (to.epoch - from.epoch) / Math.max(1, to.clock - from.clock);
  return Math.max(0, from.epoch + pace * (clock - from.clock));
}

// Neighbours of a feed that say the same of other numbers, newest first, together:
// [[item, ...]]. What they say is what comes after the last colon.
export function folded(items) {
  const out = [], says = (d) => d.text.includes(": ") ? d.text.slice(d.text.lastIndexOf(": ")) : null;
  for (const d of items) {
    const last = out.at(-1);
    if (last && d.decision === last[0].decision && says(d) !== null && says(d) === says(last[0])) last.push(d);
    else out.push([d]);
  }
  return out;
}

// When a decision was made: {since: seconds by the clock on the wall after the begin of the search
// that was open then, or the end of the last one, or the run's begin; of: which, search}. Of one
// that ends a search besides what counts as tuning of it {tuning, waiting, winner: whether it found one},
// which is less: neither pauses nor what the winner trained. null where no time is known.
// searches: any order.
export function decisionTime(d, searches, begun) {
  const at = Date.parse(d.at), n = d.numbers || {};
  if (!Number.isFinite(at)) return null;
  const open = searches.find((s) => d.decision === "search_ended" ? s.search === n.search
    : Date.parse(s.started_at) <= at && !(Date.parse(s.ended_at) < at));
  if (open) return {since: (at - Date.parse(open.started_at)) / 1000, of: "begin", search: open.search,
    ...d.decision === "search_ended" && Number.isFinite(n.seconds)
      ? {tuning: n.seconds, waiting: n.waiting_s || 0, winner: n.winner > 0} : {}};
  const before = searches.filter((s) => Date.parse(s.ended_at) <= at)
    .reduce((best, s) => best && Date.parse(best.ended_at) >= Date.parse(s.ended_at) ? best : s, null);
  if (before) return {since: (at - Date.parse(before.ended_at)) / 1000, of: "end", search: before.search};
  const start = Date.parse(begun);
  return start <= at ? {since: (at - start) / 1000, of: "run", search: null} : null;
}

// What a run comes to next: {text, part: 0 .. 1 or null where it is not known}.
// epochs: of the lineage, rising; search: the latest.
export function nextEvent(run, epochs, search) {
  if (run.status === "tuning" && search && !search.result) {
    const made = run.tuning.trials, most = search.max_trials;
    return run.tuning.searches > 1 || !(most > 0)
      ? {text: "search " + search.search + (most > 0 ? ", at most " + most + " trials" : ""), part: null}
      : {text: "search " + search.search + ": trial " + made + " of at most " + most, part: Math.min(1, made / most)};
  }
  const last = epochs.at(-1), before = epochs.at(-2);
  if (run.status !== "training" || !last || !before || last.epoch === before.epoch) return null;
  const long = (last.clock - before.clock) / (last.epoch - before.epoch), done = (run.clock - last.clock) / long;
  // Other branches took turns: how far it is cannot be told from the clock. An epoch that
  // has ended since the run was asked for has just begun its next one.
  if (!(done <= 1)) return {text: "epoch " + (last.epoch + 1), part: null};
  return {text: "epoch " + (last.epoch + 1) + ": " + Math.round(100 * Math.max(0, done)) + " %", part: Math.max(0, done)};
}

// Where a line is not to be drawn: where others ran for long while it stood still,
// which would say that it had trained, and where nothing ran (a pause). A few points
// of others between two that stand for many clocks say nothing. x, others: rising.
export function pauses(x, others, byTime) {
  const out = [], wide = (x.at(-1) - x[0]) * 0.03;
  const gaps = x.slice(1).map((v, i) => v - x[i]).sort((a, b) => a - b);
  const long = byTime && gaps.length > 8 ? Math.max(wide, 20 * gaps[gaps.length >> 1]) : Infinity;
  for (let i = 1, k = 0; i < x.length; i++) {
    while (k < others.length && others[k] <= x[i - 1]) k++;
    const gap = x[i] - x[i - 1], away = k + 8 < others.length && others[k + 8] < x[i];
    if ((gap > wide && away) || gap > long) out.push([x[i - 1], x[i]]);
  }
  return out;
}

// The whole axis of a run, which begins at 0 whether or not the lineage does: trials came
// before it. x, others: places, rising; least: what it reaches at least.
export const wholeAxis = (x, others, least) => [0, Math.max(least, x.at(-1) ?? 0, others.at(-1) ?? 0)];

// The same of one branch among all: the points that are not joined to the one before.
// x: its places; all: those of every branch, rising, with its own. -> a Set of indices.
export function apart(x, all, byTime) {
  const from = bound(all, x[0]), ends = new Set(pauses(x, all.slice(from), byTime).map(([, to]) => to));
  return new Set(x.map((v, i) => i).filter((i) => i > 0 && x[i] !== x[i - 1] && ends.has(x[i])));
}

// How many of rising values lie below v.
function bound(all, v) {
  let low = 0, high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle] < v) low = middle + 1;
    else high = middle;
  }
  return low;
}
