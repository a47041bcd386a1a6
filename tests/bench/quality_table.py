"""The tables of quality.py, from the rows of its CSV file."""
import json
import math
import statistics

STRATEGIES = ["mltuner", "hyperband", "asha", "pbt", "complete", "optuna",
              "sklearn"]
NEAR = 0.005  # of errors and perplexities: so near to a quality is at it


def row(texts):
    """A row as it was before it was written."""
    out = dict(texts)
    for key in ("seed", "epochs", "trials", "searches", "validation"):
        out[key] = int(out[key]) if out[key] else None
    for key in ("metric", "held", "cpu_s", "tuning"):
        out[key] = float(out[key]) if out[key] else None
    out["higher"] = out["higher"] == "True"
    for key in ("setting", "course"):
        out[key] = json.loads(out[key]) if out[key] else None
    return out


def worth(value, higher):
    """The larger the better."""
    if value is None or math.isnan(value):
        return -math.inf
    return value if higher else -value


def best(rows):
    """By the run's own validation: what its user would have taken."""
    good = [r for r in rows if r["held"] is not None]
    return max(good, key=lambda r: worth(r["metric"], r["higher"]),
               default=None)


def of(rows, job, what, seed=None):
    return [r for r in rows if r["job"] == job and r["what"] == what
            and seed in (None, r["seed"])]


def chosen(rows, job, what, seed):
    """A schedule's run at the rate that the first seed's grid chose."""
    first = best(of(rows, job, what, 1))
    return next((r for r in of(rows, job, what, seed) if first
                 and r["start"] == first["start"] and r["held"] is not None),
                None)


def hand(rows, job, seed):
    """The better of the two schedules."""
    return best([r for r in (chosen(rows, job, "cosine", seed),
                             chosen(rows, job, "step", seed)) if r])


def goal(r):
    """The validation metric at which the quality of a run counts as reached."""
    if not r["higher"]:
        return r["metric"] * (1 + NEAR)
    p = r["metric"]
    return p - math.sqrt(max(p * (1 - p), 1e-4) / r["validation"])


def reached(r, target):
    """CPU seconds until then; infinite where it never is."""
    for seconds, metric in r["course"]:
        if metric >= target if r["higher"] else metric <= target:
            return seconds
    return math.inf


def quickest(rows, job, seed):
    """The fixed setting that is first at the hand's quality; None: none is."""
    by = hand(rows, job, seed)
    if by is None:
        return None
    target = goal(by)
    r = min((r for r in of(rows, job, "fixed", seed) if r["held"] is not None),
            key=lambda r: reached(r, target), default=None)
    return r if r and reached(r, target) < math.inf else None


def median(values):
    values = list(values)
    return statistics.median(values) if values else math.nan


def text(x, digits=4):
    if x is None or math.isnan(x):
        return ""
    return "never" if math.isinf(x) else f"{x:.{digits}g}"


def run_of(rows, names, known):
    """Those of the known strategies that were run."""
    seen = {r["what"] for r in rows
            if r["job"] in names and r["held"] is not None}
    return [k for k in known if k in seen]


def quality(rows, names, seeds):
    """Held-back quality by job."""
    known = run_of(rows, names, STRATEGIES)
    out = ["| job | better schedule by hand | its spread | best fixed | "
           + " | ".join(known) + " |",
           "|---|" + "---|" * (3 + len(known))]
    for job in names:
        hands = [h for h in (hand(rows, job, s) for s in seeds) if h]
        if not hands:
            continue
        fixed = [r for r in (best(of(rows, job, "fixed", s)) for s in seeds)
                 if r]
        cells = [text(median(r["held"] for r in of(rows, job, w)
                             if r["held"] is not None)) for w in known]
        kinds = {h["what"] for h in hands}
        out.append(f"| {job} | {text(median(h['held'] for h in hands))} "
                   f"{'/'.join(sorted(kinds))} | {text(spread(hands), 2)} | "
                   f"{text(median(r['held'] for r in fixed))} | "
                   + " | ".join(cells) + " |")
    return out


def spread(hands):
    """Noise of seeds: the standard deviation of the hand's own runs. At least half
    of the standard error of a share of so many, and three in a thousand of other
    metrics: of few seeds it is not known better."""
    sd = statistics.stdev(h["held"] for h in hands) if len(hands) > 2 else 0
    if hands[0]["higher"]:
        p = median(h["held"] for h in hands)
        return max(sd, math.sqrt(p * (1 - p) / hands[0]["validation"]) / 2)
    return max(sd, 0.003 * median(h["held"] for h in hands))


def cost(rows, names, seeds):
    """CPU seconds: to the hand's quality, and in all."""
    what = run_of(rows, names, STRATEGIES[:-1])
    out = ["| job | best fixed, to the hand's quality | mltuner, to it | times | "
           + " | ".join(f"{w}, in all" for w in what) + " |",
           "|---|" + "---|" * (3 + len(what))]
    for job in names:
        got = [ratio(rows, job, s) for s in seeds]
        got = [g for g in got if g]
        if not got:
            continue
        cells = [text(median(r["cpu_s"] for r in of(rows, job, w)
                             if r["held"] is not None), 3) for w in what]
        out.append(f"| {job} | {text(median(g[0] for g in got), 3)} | "
                   f"{text(median(g[1] for g in got), 3)} | "
                   f"{text(median(g[1] / g[0] for g in got), 3)} | "
                   + " | ".join(cells) + " |")
    return out


def ratio(rows, job, seed):
    """Seconds to the hand's quality: of the best fixed setting (where none comes
    there the schedule itself), and of mltuner."""
    by = hand(rows, job, seed)
    mine = [r for r in of(rows, job, "mltuner", seed) if r["held"] is not None]
    if by is None or not mine:
        return None
    target = goal(by)
    first = quickest(rows, job, seed) or by
    return max(reached(first, target), 0.01), reached(mine[0], target)


def sentences(rows, names, seeds):
    """What issue 15 asks of the bench, as numbers."""
    pairs, below = [], []
    for job in names:
        hands = [h for h in (hand(rows, job, s) for s in seeds) if h]
        for h in hands:
            for r in of(rows, job, "mltuner", h["seed"]):
                if r["held"] is None:
                    pairs.append((-math.inf, 0))
                    below.append(f"{job} {h['seed']}: failed")
                    continue
                gain = worth(r["held"], r["higher"]) \
                    - worth(median(x["held"] for x in hands), h["higher"])
                noise = spread(hands)
                pairs.append((gain, noise))
                if gain < -noise:
                    below.append(f"{job} {h['seed']} ({text(r['held'])})")
    if not pairs:
        return ["no job has both a hand-made schedule and mltuner"]
    n = len(pairs)

    def share(k):
        return f"{k} of {n} ({100 * k / n:.0f} %)"

    ratios = [(job, g[1] / g[0]) for job in names for s in seeds
              for g in [ratio(rows, job, s)] if g]
    out = ["* Job-seeds not below the better hand schedule, beyond the noise of "
           f"seeds: {share(sum(g >= -s for g, s in pairs))}; wanted 95 %.",
           "* Better than it, by whatever amount: "
           f"{share(sum(g > 0 for g, _ in pairs))}; wanted a third. "
           f"By more than the noise: {share(sum(g > s for g, s in pairs))}.",
           f"* Below: {', '.join(below) or 'none'}.",
           "* CPU time to the hand's quality over the best fixed setting's: median "
           f"{text(median(x for _, x in ratios), 3)}, at most 3 in "
           f"{sum(x <= 3 for _, x in ratios)} of {len(ratios)}, never in "
           f"{sum(math.isinf(x) for _, x in ratios)}."]
    for other in ("hyperband", "asha", "pbt", "complete", "optuna"):
        whole, first = [], []
        for r in rows:
            mine = [m for m in of(rows, r["job"], "mltuner", r["seed"])
                    if m["held"] is not None]
            if r["what"] != other or r["held"] is None or not mine \
                    or r["job"] not in names:
                continue
            whole.append(r["cpu_s"] / mine[0]["cpu_s"])
            g = ratio(rows, r["job"], r["seed"])
            if g:
                first.append(r["cpu_s"] / g[1])
        if whole:
            out.append(
                f"* CPU time of {other} in all over mltuner's in all: median "
                f"{text(median(whole), 3)} ({sum(x >= 5 for x in whole)} of "
                f"{len(whole)} at least 5); over mltuner's to the hand's "
                f"quality: {text(median(first), 3)}.")
    return out


def tables(rows, names):
    seeds = sorted({r["seed"] for r in rows})
    return "\n".join([*quality(rows, names, seeds), "",
                      *cost(rows, names, seeds), "",
                      *sentences(rows, names, seeds)])
