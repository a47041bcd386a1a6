// What a search's trials say about its tunables: from the answers of the server to what
// the settings view draws. Nothing here draws.

import {forest, shares} from "./fanova.js";
import {axisOf} from "./space.js";
import {largestSearch} from "./stats.js";
import {number} from "./text.js";

const FOREST = 300; // trials that the forest is grown from, at most: it takes 0.2 s

// The trials of a survey that were judged. One that diverged has the speed 0.
export function judgedOf(survey) {
  const c = survey.columns, names = Object.keys(survey.tunables);
  return Array.from({length: survey.rows}, (_, i) => ({
    trial: c.trial[i], search: c.search[i], label: c.label[i], sampled: c.sampled[i], standing: c.standing[i],
    speed: c.label[i] === "diverged" ? 0 : number(c.speed[i]), seconds: c.seconds[i],
    setting: Object.fromEntries(names.map((n) => [n, survey.tunables[n][i]]))}))
    .filter((r) => r.standing !== null && Number.isFinite(r.speed));
}

// An axis for each tunable; only what differs is worth one. specs: the tunables of the search.
export function axesOf(judged, specs) {
  const names = Object.keys(judged.length > 0 ? judged[0].setting : {});
  return names.filter((n) => new Set(judged.map((r) => r.setting[n])).size > 1)
    .map((n) => axisOf(n, specs[n] || {}, judged.map((r) => r.setting[n])));
}

// What the trials of one search say: {search, rows, names, shares, model, axes}. A trial
// that diverged has no speed: 0 is what the tuner takes it for.
export function learnt(rows, axes) {
  const search = largestSearch(rows), own = rows.filter((r) => r.search === search);
  const every = Math.max(1, own.length / FOREST), some = [];
  for (let i = 0; Math.floor(i) < own.length; i += every) some.push(own[Math.floor(i)]);
  const known = axes.filter((a) => some.every((r) => (r.setting[a.name] ?? null) !== null));
  const model = forest(some.map((r) => known.map((a) => a.kind > 0 ? a.index(r.setting[a.name]) : a.place(r.setting[a.name]))),
    some.map((r) => r.label === "diverged" ? 0 : r.speed), known.map((a) => a.kind));
  return {search, rows: some.length, names: known.map((a) => a.name), shares: shares(model), model, axes: known};
}
