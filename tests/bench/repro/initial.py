#!/usr/bin/python3
"""Figure 5.10 of Cui 2017: from settings drawn at random, the first tuning off,
does re-tuning alone come to what the first tuning would have?

    initial.py JOB --data DIR [--scale full] [--seeds N]

Each seed is trained twice: tuned from the start, and from its random setting.
"""
import math
import random

import common
import jobs


def draw(tunable, rng):
    """A value of a tunable, uniform in its scale."""
    if "values" in tunable:
        return rng.choice(tunable["values"])
    if tunable.get("scale") == "log":
        return math.exp(rng.uniform(math.log(tunable["min"]),
                                    math.log(tunable["max"])))
    return rng.uniform(tunable["min"], tunable["max"])


def main():
    args = common.arguments(__doc__, job=dict(choices=sorted(jobs.JOBS),
                                              default="mlp"),
                            cap=dict(type=float, help="seconds of a run"))
    job = jobs.job(args)
    cap_s = args.cap or job.cap_s
    figure = common.Figure(f"{job.name}: {job.metric} from random settings",
                           "seconds of the run", job.metric, log_x=True,
                           legend_top=not job.higher)
    rows, hits = [], 0
    for seed in range(1, args.seeds + 1):
        rng = random.Random(seed)
        start = {name: draw(t, rng)
                 for name, t in job.config["tunables"].items()}
        pair = {}
        for kind, config in (("tuned", job.configured("mltuner")),
                             ("random start",
                              job.configured("mltuner", initial=start))):
            config["stop"] = {**config.get("stop", {}), "max_time": cap_s}
            r = pair[kind] = common.run(args, config, seed)
            figure.add(kind, [(t, m) for t, m, _ in r.epochs() if t > 0],
                       common.COLORS[kind != "tuned"])
            common.note(f"{job.name} {kind} seed {seed}: {r.best:.4f} in "
                        f"{r.seconds:.1f} s")
        rows.append(row(job, seed, start, pair))
        ratio = pair["random start"].best / pair["tuned"].best
        hits += ratio >= 0.99 if job.higher else ratio <= 1.01
    print(f"{job.words}; at most {cap_s:.0f} s a run. {common.where(args)}")
    common.table(["seed", "initial setting", "its best", "tuned first",
                  "ratio", "searches", "seconds", "seconds, tuned first"], rows)
    print(f"{hits} of {args.seeds} within 1 % of the run that was tuned first\n")
    common.save(args, f"initial-{job.name}", figure)
    common.finish(args)


def row(job, seed, start, pair):
    r, tuned = pair["random start"], pair["tuned"]
    return [seed, ", ".join(f"{k} {v:.3g}" for k, v in start.items()),
            f"{r.best:.4f}", f"{tuned.best:.4f}", f"{r.best / tuned.best:.4f}",
            r.result["tuning"]["searches"], f"{r.seconds:.1f}",
            f"{tuned.seconds:.1f}"]


if __name__ == "__main__":
    main()
