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
  // In the first search the learning rate decides; later ones try only rates
  // near its winner's, and which of those stands first is chance.
  "importance is that of one search"({importance, importanceWithin}) {
    const next = numbers(1), rows = [];
    for (let search = 1; search <= 8; search++) {
      const trials = search === 1 ? 30 : 14, own = [];
      for (let i = 0; i < trials; i++) {
        const rate = search === 1 ? 10 ** (-5 * next()) : 0.1 * (1 + 0.1 * next());
        const speed = search === 1 ? -Math.abs(Math.log10(rate) + 1) + 0.3 * next() : next();
        own.push({search, speed, setting: {rate, momentum: next()}});
      }
      own.sort((a, b) => a.speed - b.speed);
      own.forEach((r, i) => { r.standing = i / (trials - 1); });
      rows.push(...own);
    }
    const within = importanceWithin(rows, ["rate", "momentum"]);
    assert.strictEqual(within.search, 1);
    assert.strictEqual(within.rows, 30);
    assert.strictEqual(within.shares[0][0], "rate");
    assert.ok(within.shares[0][1] > 0.5, "rate " + within.shares[0][1]);
    assert.ok(within.shares[1][1] < 0.2, "momentum " + within.shares[1][1]);
    const pooled = importance({rate: rows.map((r) => r.setting.rate)}, rows.map((r) => r.standing));
    assert.ok(pooled[0][1] < 0.5 * within.shares[0][1], "all searches together hide it: " + pooled[0][1]);
  },
  "of searches of one size the first counts"({importanceWithin}) {
    const rows = [2, 2, 3, 3].map((search, i) => ({search, standing: i % 2, setting: {}}));
    assert.strictEqual(importanceWithin(rows, []).search, 2);
    assert.deepStrictEqual(importanceWithin([], ["a"]), {search: null, rows: 0, shares: [["a", 0]]});
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
};

(async () => {
  const stats = await load("stats.js");
  for (const [name, test] of Object.entries(tests)) {
    try {
      test(stats);
    } catch (error) {
      console.error(name + ": " + (error.stack || error));
      process.exitCode = 1;
    }
  }
})();
