// Tests of what the page reckons, without a browser: node figures.js
"use strict";

const assert = require("assert");
const fs = require("fs");
const path = require("path");

const web = path.join(__dirname, "../../api/web");
const load = (name) => import("data:text/javascript;base64," +
  fs.readFileSync(path.join(web, name)).toString("base64"));

// A generator of numbers in [0, 1), the same ones each time.
function numbers(seed) {
  let x = seed;
  return () => (x = (x * 1103515245 + 12345) % 2147483648) / 2147483648;
}

const tests = {
  "of searches of one size the first counts"({largestSearch}) {
    assert.strictEqual(largestSearch([2, 3, 3, 2].map((search) => ({search}))), 2);
    assert.strictEqual(largestSearch([2, 3, 3].map((search) => ({search}))), 3);
    assert.strictEqual(largestSearch([]), null);
  },
  "losses that diverged do not stretch the axis"({topOfLosses}) {
    const starts = [2.3, 2.31, 2.29, 2.3, 2.32];
    assert.strictEqual(topOfLosses(starts, 4e27), 2 * 2.31);
    assert.strictEqual(topOfLosses([...starts, NaN, undefined, null], 4e27), 2 * 2.31);
    // A loss that is only worse than at the beginning is shown.
    assert.strictEqual(topOfLosses(starts, 9), 9);
    assert.strictEqual(topOfLosses([], 9), 9);
    // Losses that are not positive (log likelihoods) have no such measure.
    assert.strictEqual(topOfLosses([-5, -6], 100), 100);
  },
  "an axis begins at 0, before the lineage's first point"({wholeAxis}) {
    assert.deepStrictEqual(wholeAxis([50, 60], [3, 40], 1), [0, 60]);
    assert.deepStrictEqual(wholeAxis([], [3, 40], 1), [0, 40]);
    assert.deepStrictEqual(wholeAxis([], [], 1), [0, 1]);
    assert.deepStrictEqual(wholeAxis([null], [], 1), [0, 1]); // no epoch has ended
  },
  "a run that goes on with its setting has chosen none"({changes}) {
    const at = (clock, setting) => ({clock, setting});
    assert.deepStrictEqual(changes([at(0, {a: 1, b: "x"}), at(5, {b: "x", a: 1}), at(7, {a: 2, b: "x"}), at(8, {a: 1, b: "x"}),
      at(9, {a: 1, b: "x"}), at(9, {a: 1})]).map((c) => c.clock), [0, 7, 8, 9]);
    assert.deepStrictEqual(changes([]), []);
  },
  "ranges are finite and wide enough to divide"({linearRange, logRange}) {
    for (const low of ODD) for (const high of ODD) for (const room of [0, 0.05]) {
      const [a, b] = linearRange(low, high, room), said = [low, high, room].join();
      assert.ok(Number.isFinite(b - a) && b - a >= 0.99e-9 * Math.max(Math.abs(a), Math.abs(b)), said);
      if (low <= high && Math.abs(low) <= 1e300 && Math.abs(high) <= 1e300)
        assert.ok(a <= low && high <= b, said);
      const [c, d] = logRange(low, high);
      assert.ok(c > 0 && d / c > 1.05 && Number.isFinite(d), said);
    }
    assert.deepStrictEqual(linearRange(2, 12), [2, 12]);
    assert.deepStrictEqual(linearRange(7, 7), [6.5, 7.5]);
  },
  "ticks are few, in order and within, whatever the range"({linearRange, logRange, linearTicks, logTicks, tickDigits}) {
    for (const low of ODD) for (const high of ODD) for (const most of [-1, 0, 1, 2, 7.5, 40, 1e9, NaN])
      for (const [range, ticks] of [[linearRange, linearTicks], [linearRange, (a, b, n) => linearTicks(a, b, n, true)],
        [logRange, logTicks], [(a, b) => [a, b], linearTicks], [(a, b) => [a, b], logTicks]]) {
        const [a, b] = range(low, high), out = ticks(a, b, most), said = [a, b, most, out].join();
        assert.ok(out.length <= 102, said);
        out.forEach((v, i) => assert.ok(v >= a && v <= b && (i === 0 || v > out[i - 1]), said));
        assert.ok(tickDigits(out) >= 5 && tickDigits(out) <= 15, said);
      }
  },
  "ticks are round"({linearTicks, logTicks, tickDigits}) {
    assert.deepStrictEqual(linearTicks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
    assert.deepStrictEqual(linearTicks(-0.1, 0.11, 4), [-0.1, 0, 0.1]);
    assert.deepStrictEqual(linearTicks(0.2, 3.1, 10, true), [1, 2, 3]);
    assert.deepStrictEqual(linearTicks(0, 1e6, 5, true), [0, 2e5, 4e5, 6e5, 8e5, 1e6]);
    // uPlot's own went on for ever here: 0.0096 + 0.001 is more than 0.01.
    assert.deepStrictEqual(logTicks(0.0096, 2, 8), [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]);
    assert.deepStrictEqual(logTicks(0.0096, 2, 4), [0.01, 0.1, 1]);
    assert.deepStrictEqual(logTicks(1e-8, 1e4, 5), [1e-6, 0.001, 1, 1000]);
    assert.deepStrictEqual(logTicks(3, 3.5, 5), [3, 3.1, 3.2, 3.3, 3.4, 3.5]);
    assert.strictEqual(tickDigits([100001, 100002]), 8);
    assert.strictEqual(tickDigits([1, 2]), 5);
  },
};

const finds = {
  "runs are found by words and conditions"({finder}) {
    const run = (name, setting, best, more = {}) => ({run: name + "-1", name, status: "finished", setting, best: {metric: best, loss: 1},
      job: {app: "nn", metric: {name: "accuracy"}}, queue: {group: "alice"}, tuning: {searcher: "tpe", trials: 3}, epochs: 4, ...more});
    const runs = [run("digits", {learning_rate: 0.03975, rule: "adam"}, 0.91), run("cifar", {learning_rate: 0.5}, 0.6),
      run("empty", {}, null, {best: null, job: null, queue: null, status: "failed"})];
    const names = (text) => runs.filter(finder(text)).map((r) => r.name).join(" ");
    for (const [text, wanted] of [["", "digits cifar empty"], ["DIG", "digits"], ["fail", "empty"], ["alice nn", "digits cifar"],
      ["learning_rate<0.1", "digits"], ["learning_rate=0.04", "digits"], ["learning_rate=0.05", ""], ["learning_rate=0.5", "cifar"],
      ["accuracy>=0.6 accuracy<0.9", "cifar"], ["rule=adam", "digits"], ["rule=ada", ""], ["rule>1", ""], ["app=nn epochs=4", "digits cifar"],
      ["nothing=1", ""], ["learning_rate<", ""], ["<", ""], ["trials=3 searcher=tpe", "digits cifar empty"]])
      assert.strictEqual(names(text), wanted, text);
  },
  "runs are ordered, what has no value last either way"({ordered}) {
    const run = (name, loss) => ({name, loss});
    const runs = [run("b", "nan"), run("a", 2), run("C", 1), run("d", null), run("e", 2)];
    const names = (by, down) => ordered(runs, by, down).map((r) => r.name).join("");
    assert.strictEqual(names("loss", false), "Caebd");
    assert.strictEqual(names("loss", true), "aeCbd");
    assert.strictEqual(names("run", false), "abCde");
    assert.strictEqual(names("no column", false), "baCde");
  },
};
const overview = {
  "a line is smooth, does not lag, and carries nothing over a break"({smooth}) {
    const x = Array.from({length: 201}, (_, i) => i), next = numbers(3);
    const even = smooth(x, x.map((v) => 5 - v / 100 + (next() - 0.5)), 10);
    for (let i = 40; i < 160; i++) assert.ok(Math.abs(even[i] - (5 - i / 100)) < 0.3, i + ": " + even[i]);
    const step = smooth(x, x.map((v) => v < 100 ? 1 : 9), 10, [[99, 100]]);
    assert.ok(Math.abs(step[99] - 1) < 1e-9 && Math.abs(step[100] - 9) < 1e-9, step[99] + ", " + step[100]);
    assert.deepStrictEqual(smooth([0, 1, 2], [1, NaN, "inf"], 0), [1, null, null]);
    assert.deepStrictEqual(smooth([0, 1, 2], [1, NaN, 1], 5), [1, null, 1]);
    assert.deepStrictEqual(smooth([], [], 5), []);
  },
  "a clock is a place among epochs"({epochAt}) {
    const epochs = [{epoch: 1, clock: 100}, {epoch: 2, clock: 300}];
    assert.deepStrictEqual([0, 50, 100, 200, 300, 400].map((c) => epochAt(c, epochs)), [0, 0.5, 1, 1.5, 2, 2.5]);
    assert.strictEqual(epochAt(5, []), null);
  },
  "no line is drawn across a pause"({pauses}) {
    const x = Array.from({length: 50}, (_, i) => i < 25 ? i : i + 60), others = Array.from({length: 30}, (_, i) => 30 + i);
    assert.deepStrictEqual(pauses(x, others, false), [[24, 85]]); // others ran
    assert.deepStrictEqual(pauses(x, [], true), [[24, 85]]);      // nobody did
    assert.deepStrictEqual(pauses(x, [], false), []);             // clocks do not pass then
    assert.deepStrictEqual(pauses([], [], true), []);
  },
  "nor of a branch that waited for others"({apart}) {
    const one = [0, 1, 2, 40, 41], two = Array.from({length: 37}, (_, i) => 3 + i);
    const all = [...one, ...two].sort((a, b) => a - b);
    assert.deepStrictEqual([...apart(one, all, false)], [3]); // others ran between
    assert.deepStrictEqual([...apart(two, all, false)], []);
    assert.deepStrictEqual([...apart([100, 200, 300], [1, 2, 100, 200, 300], false)], []);
    assert.deepStrictEqual([...apart([5], [5], true)], []);
  },
  "decisions that say the same are one; others, and those without a reason, are not"({folded}) {
    const d = (decision, text) => ({decision, text}), all = [d("setting", "goes on with 1: the cooldown"), d("setting", "goes on with 2: the cooldown"),
      d("out", "trial 3 is out: the cooldown"), d("out", "trial 3 is out"), d("out", "trial 4 is out")];
    assert.deepStrictEqual(folded(all).map((f) => f.length), [2, 1, 1, 1]);
    assert.deepStrictEqual(folded(all).flat(), all);
  },
  "what a run comes to next"({nextEvent}) {
    const epochs = [{epoch: 4, clock: 100}, {epoch: 5, clock: 200}], tuning = {searches: 1, trials: 3};
    assert.deepStrictEqual(nextEvent({status: "tuning", tuning}, [], {search: 1, max_trials: 30, result: null}),
      {text: "search 1: trial 3 of at most 30", part: 0.1});
    assert.deepStrictEqual(nextEvent({status: "training", clock: 225, tuning}, epochs, null), {text: "epoch 6: 25 %", part: 0.25});
    assert.deepStrictEqual(nextEvent({status: "training", clock: 900, tuning}, epochs, null), {text: "epoch 6", part: null});
    assert.deepStrictEqual(nextEvent({status: "training", clock: 190, tuning}, epochs, null), {text: "epoch 6: 0 %", part: 0});
    assert.strictEqual(nextEvent({status: "paused", clock: 225, tuning}, epochs, null), null);
    assert.strictEqual(nextEvent({status: "training", clock: 225, tuning}, [], null), null);
  },
};
// Points spread over the whole space, so that the forest can learn nearly all of it.
function spread(kinds, n, of) {
  const next = numbers(7), x = Array.from({length: n}, () => kinds.map((k) => k > 0 ? Math.floor(k * next()) : next()));
  return [x, x.map(of), kinds];
}
const near = (value, wanted, most, said) => assert.ok(Math.abs(value - wanted) <= most, said + ": " + value + " for " + wanted);
const forests = {
  // 3 a + b: the variances of its parts are 9 / 12 and 1 / 12; c does nothing.
  "importance is each part's share of the variance"({forest, shares}) {
    const [a, b, c] = shares(forest(...spread([0, 0, 0], 600, ([p, q]) => 3 * p + q)));
    near(a.mean, 0.9, 0.03, "a");
    near(b.mean, 0.1, 0.03, "b");
    near(c.mean, 0, 0.01, "c");
    for (const s of [a, b, c]) assert.ok(s.spread >= 0 && s.spread < 0.05, "spread " + s.spread);
  },
  // One of three categories gives 1: variance 2 / 9, and a's is 1 / 12.
  "categories weigh the same, however often they were tried"({forest, shares}) {
    const of = ([p, c]) => p + (c === 1 ? 1 : 0), [x, , kinds] = spread([0, 3], 600, of);
    const some = x.filter(([, c], i) => c !== 1 || i % 4 === 0);
    const [a, b] = shares(forest(some, some.map(of), kinds));
    near(b.mean, (2 / 9) / (2 / 9 + 1 / 12), 0.04, "category");
    near(a.mean, (1 / 12) / (2 / 9 + 1 / 12), 0.04, "number");
  },
  // (2 a - 1) (2 b - 1) has no part of one dimension alone.
  "what acts only together is no one's"({forest, shares, marginal, surface}) {
    const model = forest(...spread([0, 0], 800, ([p, q]) => (2 * p - 1) * (2 * q - 1)));
    for (const s of shares(model)) assert.ok(s.mean < 0.06, "alone " + s.mean);
    for (const v of marginal(model, 0, [0, 0.3, 1])) near(v, 0, 0.1, "marginal");
    const grid = surface(model, 0, 1, 10); // [row of b][column of a]
    near(grid[9][9], 0.81, 0.15, "both high");
    near(grid[0][9], -0.81, 0.15, "one high");
  },
  "a map's rows are the second dimension, categories have a cell each"({forest, surface, marginal}) {
    const model = forest(...spread([0, 3], 300, ([p, c]) => p + 10 * c)), grid = surface(model, 0, 1, 4);
    assert.deepStrictEqual(grid.map((line) => line.length), [4, 4, 4]);
    grid.forEach((line, c) => line.forEach((v, k) => near(v, (k + 0.5) / 4 + 10 * c, 0.3, c + " " + k)));
    marginal(model, 1, [0, 1, 2]).forEach((v, c) => near(v, 0.5 + 10 * c, 0.1, "category " + c));
  },
  "the same trials give the same figures; none, or equal ones, give none"({forest, shares}) {
    const once = () => shares(forest(...spread([0, 2], 40, ([p, c]) => p * c)));
    assert.deepStrictEqual(once(), once());
    assert.deepStrictEqual(shares(forest([], [], [0, 0])), []);
    assert.deepStrictEqual(shares(forest([[0.1], [0.9]], [5, 5], [0])), []);
    assert.deepStrictEqual(shares(forest([[], []], [1, 2], [])), []);
    // One value of x with several of y: no split, no share, and an end.
    assert.deepStrictEqual(shares(forest([[0.5], [0.5]], [1, 2], [0])), []);
  },
};
Object.assign(tests, finds, overview, forests);

const ODD = [NaN, undefined, null, "inf", -Infinity, Infinity, -Number.MAX_VALUE, Number.MAX_VALUE, -1e300, -1e9,
  -3, -1e-300, -0, 0, Number.MIN_VALUE, 1e-300, 1e-12, 0.0096, 0.95, 1, 1 + Number.EPSILON, 1.2, 7, 12345,
  1e9, 1e9 + 1, 2 ** 53, 1e17, 1e17 + 16, 1e33, 1e300];

(async () => {
  const page = {...await load("stats.js"), ...await load("axes.js"), ...await load("search.js"),
    ...await load("fanova.js")};
  for (const [name, test] of Object.entries(tests)) {
    try {
      test(page);
    } catch (error) {
      console.error(name + ": " + (error.stack || error));
      process.exitCode = 1;
    }
  }
})();
