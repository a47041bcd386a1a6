// What a random forest says of trials: how much each tunable accounts for alone
// (functional ANOVA; Hutter, Hoos and Leyton-Brown, An efficient approach for
// assessing hyperparameter importance, ICML 2014, section 4), and the speed that it
// expects by one or two of them. Pure; this module imports nothing.
//
// A point is a row of numbers, one a dimension: 0 .. 1 where kinds says 0, else the
// index of one of so many categories. Each point of 0 .. 1 and each category weighs the same.

const TREES = 64; // as in Optuna
const SEED = 20141;

// The same numbers in [0, 1) each time.
function numbers(seed) {
  let x = seed >>> 0;
  return () => { // mulberry32
    x = (x + 0x6d2b79f5) >>> 0;
    let t = Math.imul(x ^ x >>> 15, 1 | x);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
}

// The split of @rows in one dimension that takes most of the squared error away:
// {gain, left(row's value)}, or null. Rows are in the order of their values; of categories
// in that of their means, which holds the best of all splits (Breiman et al. 1984, 4.2.2).
function bestOf(rows, at, y, weight) {
  let all = 0, sum = 0, n = 0, part = 0, best = null;
  for (const i of rows) { all += weight[i]; sum += weight[i] * y[i]; }
  for (let k = 0; k + 1 < rows.length; k++) {
    const i = rows[k], a = at(i), b = at(rows[k + 1]);
    n += weight[i];
    part += weight[i] * y[i];
    if (a === b) continue;
    const gain = part * part / n + (sum - part) ** 2 / (all - n) - sum * sum / all;
    if (!best || gain > best.gain) best = {gain, k};
  }
  return best;
}

// What a dimension of a box is: [low, high], or of each category whether it is in.
const whole = (kind) => kind === 0 ? [0, 1] : new Array(kind).fill(true);
const wide = (side, kind) => kind === 0 ? side[1] - side[0] : side.reduce((n, v) => n + v, 0) / kind;

function splitNumber(d, rows, x, best) {
  const cut = (x[rows[best.k]][d] + x[rows[best.k + 1]][d]) / 2;
  return {goes: (i) => x[i][d] <= cut, sides: ([low, high]) => [[low, cut], [cut, high]]};
}

// A category that no row here has goes where most rows go.
function splitCategories(d, rows, x, best) {
  const left = new Set(rows.slice(0, best.k + 1).map((i) => x[i][d])), here = new Set(rows.map((i) => x[i][d]));
  const rest = best.k + 1 > rows.length / 2, isLeft = (c) => here.has(c) ? left.has(c) : rest;
  return {goes: (i) => left.has(x[i][d]),
    sides: (side) => [side.map((v, c) => v && isLeft(c)), side.map((v, c) => v && !isLeft(c))]};
}

function byMean(d, rows, x, y, weight) {
  const sum = new Map(), n = new Map();
  for (const i of rows) {
    const c = x[i][d];
    sum.set(c, (sum.get(c) || 0) + weight[i] * y[i]);
    n.set(c, (n.get(c) || 0) + weight[i]);
  }
  const mean = (i) => sum.get(x[i][d]) / n.get(x[i][d]);
  return [...rows].sort((a, b) => mean(a) - mean(b) || x[a][d] - x[b][d]);
}

// One tree, grown until no leaf can be split: its leaves, {value, box, weight: its part
// of the space}. orders: of each dimension the rows by value.
function grow(x, y, kinds, weight, orders, next) {
  const leaves = [], stack = [{orders, box: kinds.map(whole)}];
  while (stack.length > 0) {
    const {orders: here, box} = stack.pop(), rows = here[0];
    let best = null;
    // Of equally good splits one of any dimension: begin with any.
    const first = Math.floor(next() * kinds.length);
    for (let k = 0; k < kinds.length; k++) {
      const d = (first + k) % kinds.length;
      const list = kinds[d] === 0 ? here[d] : byMean(d, rows, x, y, weight);
      const found = bestOf(list, (i) => x[i][d], y, weight);
      if (found && (!best || found.gain > best.gain * (1 + 1e-12))) best = {...found, d, list};
    }
    if (!best || rows.every((i) => y[i] === y[rows[0]])) {
      let sum = 0, n = 0;
      for (const i of rows) { sum += weight[i] * y[i]; n += weight[i]; }
      leaves.push({value: sum / n, box, weight: box.reduce((v, side, d) => v * wide(side, kinds[d]), 1)});
      continue;
    }
    const {goes, sides} = (kinds[best.d] === 0 ? splitNumber : splitCategories)(best.d, best.list, x, best);
    sides(box[best.d]).forEach((side, right) => stack.push({
      orders: here.map((list) => list.filter((i) => goes(i) !== Boolean(right))),
      box: box.map((s, d) => d === best.d ? side : s)}));
  }
  return leaves;
}

// A forest over points @x with values @y. Each tree is of a bootstrap sample.
export function forest(x, y, kinds, trees = TREES, seed = SEED) {
  const next = numbers(seed), n = x.length, out = [];
  const sorted = kinds.map((_, d) => x.map((_p, i) => i).sort((a, b) => x[a][d] - x[b][d] || a - b));
  for (let t = 0; t < trees && n > 0 && kinds.length > 0; t++) {
    const weight = new Array(n).fill(0);
    for (let i = 0; i < n; i++) weight[Math.floor(next() * n)]++;
    out.push(grow(x, y, kinds, weight, sorted.map((list) => list.filter((i) => weight[i] > 0)), next));
  }
  return {kinds, trees: out};
}

// The mean of a tree over all else, by one dimension: [{wide, mean}], of each stretch
// between two cuts or of each category.
function marginalOf(leaves, d, kind) {
  if (kind > 0) {
    const mean = new Array(kind).fill(0);
    for (const leaf of leaves) {
      const rest = leaf.value * leaf.weight / wide(leaf.box[d], kind);
      leaf.box[d].forEach((v, c) => { if (v) mean[c] += rest; });
    }
    return mean.map((m, c) => ({low: c, wide: 1 / kind, mean: m}));
  }
  const cuts = [...new Set(leaves.flatMap((leaf) => leaf.box[d]))].sort((a, b) => a - b);
  const of = new Map(cuts.map((v, i) => [v, i])), step = new Array(cuts.length).fill(0);
  for (const leaf of leaves) {
    const [low, high] = leaf.box[d];
    if (!(high > low)) continue;
    const rest = leaf.value * leaf.weight / (high - low);
    step[of.get(low)] += rest;
    step[of.get(high)] -= rest;
  }
  let mean = 0;
  return cuts.slice(0, -1).map((low, i) => ({low, wide: cuts[i + 1] - low, mean: mean += step[i]}));
}

function variance(parts) {
  let sum = 0, squares = 0;
  for (const p of parts) { sum += p.wide * p.mean; squares += p.wide * p.mean * p.mean; }
  return Math.max(0, squares - sum * sum);
}

const average = (values) => values.reduce((a, b) => a + b, 0) / values.length;

// Of each dimension the share of the variance that it accounts for alone: {mean, spread},
// over the trees; spread is their standard deviation. The rest, 1 less all means, comes of
// dimensions that act together. [] where nothing varies.
export function shares({kinds, trees}) {
  const parts = trees.map((leaves) => {
    const all = variance(leaves.map((leaf) => ({wide: leaf.weight, mean: leaf.value})));
    return all > 0 ? kinds.map((kind, d) => Math.min(1, variance(marginalOf(leaves, d, kind)) / all)) : null;
  }).filter(Boolean);
  return parts.length === 0 ? [] : kinds.map((_, d) => {
    const of = parts.map((p) => p[d]), mean = average(of);
    return {mean, spread: Math.sqrt(average(of.map((v) => (v - mean) ** 2)))};
  });
}

// What the forest expects at each of the places @at of one dimension, over all else.
export function marginal({kinds, trees}, d, at) {
  const sum = new Array(at.length).fill(0);
  for (const leaves of trees) {
    const parts = marginalOf(leaves, d, kinds[d]);
    at.forEach((v, i) => {
      let low = 0, high = parts.length; // the last that begins at v or before
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (parts[middle].low <= v) low = middle;
        else high = middle;
      }
      sum[i] += parts[low].mean;
    });
  }
  return sum.map((v) => v / trees.length);
}

// The same by two dimensions, in cells: [row of b][column of a], of each cell's middle.
// Categories have a cell each; of others there are so many.
export function surface({kinds, trees}, a, b, cells) {
  const across = kinds[a] || cells, down = kinds[b] || cells;
  const grid = Array.from({length: down}, () => new Array(across).fill(0));
  const covered = (side, kind, n) => {
    if (kind > 0) return side.flatMap((v, c) => v ? [c] : []);
    const out = [];
    for (let i = Math.max(0, Math.ceil(side[0] * n - 0.5)); i < n && (i + 0.5) / n < side[1]; i++) out.push(i);
    return out;
  };
  for (const leaves of trees)
    for (const leaf of leaves) {
      const place = wide(leaf.box[a], kinds[a]) * wide(leaf.box[b], kinds[b]);
      if (!(place > 0)) continue;
      const value = leaf.value * leaf.weight / place / trees.length, columns = covered(leaf.box[a], kinds[a], across);
      for (const row of covered(leaf.box[b], kinds[b], down)) for (const c of columns) grid[row][c] += value;
    }
  return grid;
}
