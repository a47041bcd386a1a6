// The verdict on a trial in words.

import {count, duration, number, short} from "./text.js";

const WINDOWS = 10; // SUMMARY_WINDOWS of tuner/search/summary.h

// Which rule of the summary (tuner/search/summary.c) it broke.
function unstable(fell, noise, windows) {
  if (windows < WINDOWS) return "it has not the " + WINDOWS + " windows that tell noise from progress";
  if (!(fell > 0)) return "the loss did not fall";
  return noise >= fell / WINDOWS ? "its largest rise is a tenth of what it fell, or more" : "its progress is not sure yet";
}

// How long a trial took; one that ran but has no time that counts says none.
export const tookText = (t) => number(t.seconds) > 0 || !(t.clocks > 0) ? duration(number(t.seconds)) : "–";

// Why it got its label, from the figures that decide it.
export function verdict(t) {
  const fell = -number(t.range), noise = number(t.noise), windows = Math.max(0, t.points.length - 1);
  const figures = "over " + count(windows, "window") + " the loss " +
    (fell >= 0 ? "fell by " + short(fell) : "rose by " + short(-fell)) +
    ", the largest rise between windows was " + short(noise);
  // Journals of older versions do not say the unit.
  const unit = t.speed_unit ? " " + t.speed_unit.replace("e_folds", "e-folds").replaceAll("_", " ") : "";
  const speed = t.speed_unit === "loss_per_second"
    ? "speed = (" + short(fell) + " − " + short(noise) + ") / " + duration(number(t.seconds)) +
      " = " + short(t.speed)
    : "speed: " + short(t.speed) + unit + " over " + duration(number(t.seconds)) + ", noise taken off";
  if (t.label === "converging")
    return "Converging: " + figures + ", less than a tenth of that; " + speed + ".";
  if (t.label === "unstable") return "Unstable, since " + unstable(fell, noise, windows) + ": " + figures + "; " + speed + ".";
  if (t.label === "diverged") return t.reason ? "Diverged: " + t.reason
    : "Diverged: a loss was not a finite number, or rose above ten times what it was before the trial.";
  if (t.label === "failed") return "Failed, which says nothing of its speed: " + (t.reason || "no reason was given") + ".";
  if (t.label === "running") return "Still running: " + figures + ".";
  if (t.label === "stopped" && t.reason) return t.reason[0].toUpperCase() + t.reason.slice(1) + "."; // it says so itself
  return t.label + (t.reason ? ": " + t.reason : "");
}
