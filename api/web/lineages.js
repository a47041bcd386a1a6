// The tree of branches as a time line: its lineages and the rows they take.
// Pure functions.

// The beginning, branch 0, is there before the first record: it is drawn as the
// parent of those that name none.
export function withRoot(branches) {
  if (branches.length === 0 || branches.some((b) => b.branch === 0)) return branches;
  const root = {branch: 0, parent: null, type: "init", role: "beginning", live: true,
    surviving: true, trial: null, search: null, label: null, loss: null, setting: {}, created_clock: 0, first_clock: 0,
    last_clock: 0, clocks: 0, freed_reason: null};
  return [root, ...branches.map((b) => b.parent === null ? {...b, parent: 0} : b)];
}

// Lineages, the surviving one first, then as they begin. Each is a branch that goes
// on from none here, with what goes on from it: of the surviving ones the child that
// survives, of others the one that ran longest of those forked when it had ended.
// Every branch is in one lineage. branches: parents before their children.
export function lineages(branches) {
  const children = new Map(), until = new Map(), heirs = new Set(), heirOf = new Map();
  for (const b of branches) children.set(b.branch, []);
  for (const b of branches) if (children.has(b.parent)) children.get(b.parent).push(b);
  for (const b of [...branches].reverse()) {
    const all = children.get(b.branch);
    until.set(b.branch, Math.max(b.last_clock, ...all.map((c) => until.get(c.branch))));
    const may = all.filter((c) => b.surviving ? c.surviving : c.created_clock >= b.last_clock);
    const heir = may.reduce((best, c) => best && until.get(best.branch) >= until.get(c.branch) ? best : c, null);
    if (heir) { heirs.add(heir.branch); heirOf.set(b.branch, heir); }
  }
  const out = [];
  for (const b of branches) {
    if (heirs.has(b.branch)) continue;
    const of = [];
    for (let at = b; at; at = heirOf.get(at.branch)) of.push(at);
    out.push({surviving: of.some((k) => k.surviving), of});
  }
  return out.sort((a, b) => b.surviving - a.surviving || a.of[0].created_clock - b.of[0].created_clock ||
    a.of[0].branch - b.of[0].branch);
}

// Places lineages in rows: the surviving one has the first for itself, each other
// takes the first row that is free from its beginning to its end. extent(branch) ->
// [from, to], in pixels. Returns the rows: [{branch, from, to}] each, from left to right.
export function inRows(lines, extent, gap) {
  const rows = [], ends = [];
  for (const line of lines) {
    const bars = line.of.map((b) => { const [from, to] = extent(b); return {b, from, to}; });
    const from = Math.min(...bars.map((k) => k.from)), to = Math.max(...bars.map((k) => k.to));
    let at = line.surviving ? -1 : ends.findIndex((end) => end + gap <= from);
    if (at < 0) at = ends.push(0) - 1;
    if (!rows[at]) rows[at] = [];
    rows[at].push(...bars);
    ends[at] = line.surviving ? Infinity : to;
  }
  return rows;
}

// Where the bar at @place {row, index} leads by an arrow key: along its row, or to
// the bar of the next row that is nearest in time. Returns a place of @rows.
export function neighbour(rows, {row, index}, key) {
  if (key === "ArrowLeft") return {row, index: Math.max(0, index - 1)};
  if (key === "ArrowRight") return {row, index: Math.min(rows[row].length - 1, index + 1)};
  const to = row + (key === "ArrowDown" ? 1 : -1);
  if (!rows[to]) return {row, index};
  const {from, to: end} = rows[row][index];
  const away = (k) => Math.max(0, k.from - end, from - k.to);
  // Of those that are as near, the last: of the surviving lineage what trains now.
  return {row: to, index: rows[to].reduce((best, k, i) => away(k) <= away(rows[to][best]) ? i : best, 0)};
}

// Values of a line of points at any place between: x rising. Beyond its ends, the
// nearest point's.
export function between(x, y, at) {
  let low = 0, high = x.length - 1;
  if (high < 0) return at;
  if (at <= x[0]) return y[0];
  if (at >= x[high]) return y[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] <= at) low = middle;
    else high = middle;
  }
  return x[high] > x[low] ? y[low] + (y[high] - y[low]) * (at - x[low]) / (x[high] - x[low]) : y[low];
}
