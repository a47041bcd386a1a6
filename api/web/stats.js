// Figures about trials. Pure functions of arrays.

// Ranks 1 .. n, ties in the middle.
export function ranks(values) {
  const order = values.map((v, i) => [v, i]).sort((a, b) => a[0] - b[0]);
  const out = new Array(values.length);
  for (let i = 0; i < order.length;) {
    let k = i;
    while (k < order.length && order[k][0] === order[i][0]) k++;
    for (let j = i; j < k; j++) out[order[j][1]] = (i + k + 1) / 2;
    i = k;
  }
  return out;
}

// Values in groups: categories (and few distinct numbers) each their own, many
// numbers in groups of equal size by rank.
export function groups(values, most) {
  const distinct = [...new Set(values)];
  if (distinct.length <= most || !distinct.every((v) => typeof v === "number")) {
    const index = new Map(distinct.map((v, i) => [v, i]));
    return values.map((v) => index.get(v));
  }
  const rank = ranks(values), n = values.length;
  return rank.map((r) => Math.min(most - 1, Math.floor((r - 0.5) / n * most)));
}

// How much of the variance of y the groups account for, with what chance alone
// would account for taken out (epsilon squared, Kelley 1935); 0 .. 1.
export function explained(group, y) {
  const n = y.length, sum = new Map(), size = new Map();
  const mean = y.reduce((a, b) => a + b, 0) / n;
  let total = 0, within = 0;
  y.forEach((v, i) => {
    sum.set(group[i], (sum.get(group[i]) || 0) + v);
    size.set(group[i], (size.get(group[i]) || 0) + 1);
    total += (v - mean) ** 2;
  });
  const k = size.size;
  if (k < 2 || n <= k || total === 0) return 0;
  y.forEach((v, i) => { within += (v - sum.get(group[i]) / size.get(group[i])) ** 2; });
  return Math.max(0, Math.min(1, 1 - within / (n - k) / (total / (n - 1))));
}

// Importance of each tunable: the share of the variance of the trials' standing
// that the tunable alone accounts for. columns: values by name.
export function importance(columns, standings) {
  const most = Math.max(2, Math.min(8, Math.floor(standings.length / 6)));
  return Object.entries(columns)
    .map(([name, values]) => [name, explained(groups(values, most), standings)])
    .sort((a, b) => b[1] - a[1]);
}

// Importance within one search: after it the others begin from a state that is
// already good, with settings near its winner's, so that all of them together
// hide what made the difference. rows: {search, standing, setting}. Returns
// {search, rows: how many were counted, shares: as importance's}; the search is
// the one with the most rows, of equals the first.
export function importanceWithin(rows, names) {
  const size = new Map();
  for (const r of rows) size.set(r.search, (size.get(r.search) || 0) + 1);
  let search = null;
  for (const [k, n] of size) if (search === null || n > size.get(search)) search = k;
  const own = rows.filter((r) => r.search === search);
  return {search, rows: own.length, shares: importance(Object.fromEntries(names.map((name) =>
    [name, own.map((r) => r.setting[name] ?? null)])), own.map((r) => r.standing))};
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
  // Other branches took turns: how far it is cannot be told from the clock.
  if (!(done >= 0 && done <= 1)) return {text: "epoch " + (last.epoch + 1), part: null};
  return {text: "epoch " + (last.epoch + 1) + ": " + Math.round(100 * done) + " %", part: done};
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
