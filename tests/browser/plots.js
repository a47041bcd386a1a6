// Plots of whatever data: node plots.js
//
// Every kind of plot is given every kind of x and y, is zoomed and pointed at
// by keys, and given the next data. The page must not throw, nor come to no end.
"use strict";

const assert = require("assert");
const {openModules, tell} = require("./person.js");

const HANG_MS = 270000; // all of them take 10 s on a machine with nothing else to do
// Runs in the page; returns how many plots were drawn.
async function drawsAll() {
  const {plot} = await import("/plot.js");
  const BIG = 1.7e308, TINY = 5e-324;
  const xs = {none: [], zero: [0], one: [1], big: [1e9], equal: [3, 3, 3], zeros: [0, 0], whole: [0, 1, 2, 3],
    near: [1.2, 1.2000000000000002], far: [0, 1e9, 1e15], huge: [-BIG, 0, BIG], tiny: [0, TINY, 1e-300],
    nan: [NaN, NaN], gaps: [null, 1, null], words: ["inf", "nan", 2], late: [1e17, 1e17 + 16, 1e17 + 32], back: [3, 2, 1]};
  const ys = {none: [], nulls: [null, null, null], nan: ["nan", "nan", "inf"], one: [0.5], equal: [2, 2, 2],
    zero: [0, 0, 0], near: [1.2, 1.2000000000000002, 1.2], big: [1e300, 1e300, 1e300], tiny: [1e-300, 2e-300, 0],
    both: [1e-300, 1e300, -1e300], ends: [-BIG, BIG, TINY], least: [TINY, TINY, TINY], negative: [-1, -2, -3],
    mixed: [-5, null, 5], nines: [0.0096, 0.5, 2], nines2: [9.9e-20, 1e-7, 9.7], late: [1e17, 1e17 + 16, 1e17],
    whole: [64, 64, 128], wide: [1, 1e32, 9.9e32], flat: [0.1, 0.1 + 1e-17, 0.1]};
  const line = (values, more = {}) => ({label: "a", values, colour: "accent", ...more});
  const kinds = {
    plain: (x, y) => ({series: [line(y)]}),
    whole: (x, y) => ({xWhole: true, yWhole: true, series: [line(y, {kind: "steps", points: false})]}),
    losses: (x, y) => ({losses: true, xRange: [0, x.at(-1)], marks: x, series: [line(y, {breaks: [[x[0], x[1]]]})],
      bundles: [{colour: "quiet", lines: [{x, y: y.map(Number)}, {x: [], y: []}, {x: x.slice(0, 1), y: [1]}]}]}),
    dots: (x, y) => ({xRange: [x[0], x[0]], series: [line(y, {kind: "dots"}), line(y, {kind: "dots", size: 6})]}),
    bands: (x, y) => ({series: [line(y), line(y.map((v) => v + 1)), line(y, {dash: [5, 5]})],
      bands: [{series: [1, 2], colour: "faint"}]}),
    two: (x, y) => ({logWhen: () => true, series: [line(y), line(x, {label: "b"})]}),
  };
  const main = document.getElementById("main");
  let drawn = 0, seen = 0;
  const faults = [];
  addEventListener("error", (e) => faults.push(e.error ? e.error.stack : e.message));
  for (const [kind, make] of Object.entries(kinds))
    for (const log of [false, true])
      for (const width of kind === "plain" || kind === "losses" ? ["700px", "40px"] : ["700px"]) {
        const p = plot({title: "t", name: "n", xLabel: "x", yLabel: "y", height: 150, logAllowed: true, log, x: [], series: []});
        p.root.style.width = width;
        main.append(p.root);
        for (const [xName, x] of Object.entries(xs))
          for (const [yName, y] of Object.entries(ys)) {
            const what = [kind, log ? "log" : "linear", width, xName, yName].join(" ");
            try {
              p.update({xRange: undefined, marks: [], bundles: [], bands: [], x, ...make(x, x.map((v, i) => y[i] ?? null))});
              await null; // uPlot draws in a microtask
              const host = p.root.querySelector(".plot");
              host.focus();
              const keys = seen % 4 === 0 ? ["ArrowRight", "+", "+", "-", "ArrowLeft", "+"] : ["+"];
              for (const key of keys)
                host.dispatchEvent(new KeyboardEvent("keydown", {key}));
              for (let i = 0; yName === "whole" && i < 60; i++) host.dispatchEvent(new KeyboardEvent("keydown", {key: "+"}));
              await null;
              host.dispatchEvent(new KeyboardEvent("keydown", {key: "0"}));
              await null;
            } catch (error) {
              faults.push(what + ": " + error.stack);
            }
            if (p.root.querySelector("canvas")) drawn++;
            if (++seen % 50 === 0) await new Promise((done) => setTimeout(done)); // errors are told
            if (faults.length > 0) return {drawn, fault: what + ": " + faults[0]};
          }
        p.destroy();
        p.root.remove();
      }
  return {drawn, fault: ""};
}

tell(async (browser, page) => {
  await openModules(page, "http://page.test");
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("a plot comes to no end")), HANG_MS); });
  const {drawn, fault} = await Promise.race([page.evaluate(drawsAll), late]);
  clearTimeout(timer);
  assert.strictEqual(fault, "");
  assert.ok(drawn > 2500, "only " + drawn + " plots were drawn");
});
