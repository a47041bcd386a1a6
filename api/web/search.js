// Finding and ordering among many runs. Pure functions of the runs as the
// server lists them; this module imports nothing.

const finite = (x) => typeof x === "number" && Number.isFinite(x) ? x : null;

// Seconds of a run that count: those it was paused do not.
const spent = (run) => run.first_clock_at ? finite(run.seconds - run.paused_seconds) : null;

const bestOf = (run) => !run.best ? null : finite(run.best.metric) ?? finite(run.best.loss);

// What each column is ordered by: a number, a text, or null where there is none.
export const ORDERS = {
  run: (run) => (run.name || run.run).toLowerCase(),
  state: (run) => run.status,
  started: (run) => run.started_at || (run.queue && run.queue.submitted_at) || null,
  progress: (run) => run.epochs,
  loss: (run) => finite(run.loss),
  best: bestOf,
  time: spent,
  tuning: (run) => finite(run.tuning.seconds),
  trials: (run) => run.tuning.trials,
};

// The runs by a column; what has no value comes last either way, of equals the
// one that the server lists first.
export function ordered(runs, column, down) {
  const of = ORDERS[column];
  if (!of) return runs;
  const sign = down ? -1 : 1;
  return runs.map((run, i) => [of(run), i, run]).sort(([a, i], [b, k]) => {
    if (a === null || b === null) return a === b ? i - k : a === null ? 1 : -1;
    return a < b ? -sign : a > b ? sign : i - k;
  }).map(([, , run]) => run);
}

// The numbers and words of a run that a condition may name: its setting's
// tunables, its metric by name, and these.
function named(run, name) {
  const metric = run.job && run.job.metric && run.job.metric.name;
  if (run.setting && name in run.setting) return run.setting[name];
  if (run.best && name === metric) return run.best.metric;
  switch (name) {
  case "app": return run.job && run.job.app;
  case "group": return run.queue && run.queue.group;
  case "status": return run.status;
  case "tag": return run.tags;
  case "searcher": case "strategy": return run.tuning[name];
  case "epochs": case "seed": return run[name];
  default: return ORDERS[name] ? ORDERS[name](run) : undefined;
  }
}

const TESTS = {
  "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b,
};

function condition(name, op, text) {
  const wanted = Number(text);
  return (run) => {
    const value = named(run, name);
    if (value === null || value === undefined) return false;
    if (Array.isArray(value)) return op === "=" && value.some((v) => v.toLowerCase() === text);
    if (op !== "=") return typeof value === "number" && text !== "" && TESTS[op](value, wanted);
    if (typeof value !== "number") return String(value).toLowerCase() === text;
    // As many digits as are typed are compared: 0.04 finds 0.03975.
    const digits = text.replace(/e.*$/, "").replace(/[-.]/g, "").replace(/^0+/, "").length;
    return value === wanted || Number(value.toPrecision(Math.max(1, Math.min(17, digits)))) === wanted;
  };
}

function word(text) {
  return (run) => [run.run, run.name, run.status, run.job && run.job.app, run.queue && run.queue.group, run.note,
    ...(run.tags || []), ...Object.entries(run.setting || {}).map(([name, value]) => name + " " + value)]
    .some((t) => t && t.toLowerCase().includes(text));
}

// Whether a run is what @text asks for: each of its words is in the run's name,
// state, application, group, setting, tags or note, and each condition
// (learning_rate<0.01, accuracy>=0.9, app=nn, tag=baseline) holds.
export function finder(text) {
  const tests = text.toLowerCase().trim().split(/\s+/).filter(Boolean).map((part) => {
    const [, name, op, rest] = /^([a-z][\w.]*)(<=|>=|<|>|=)(.*)$/.exec(part) || [];
    return name ? condition(name, op, rest) : word(part);
  });
  return (run) => tests.every((t) => t(run));
}
