#!/usr/bin/python3
"""Figures 5.3 and 5.8 of Cui 2017: MLtuner against other ways to tune, and
against a hand-made schedule that knows the answer.

    strategies.py JOB --data DIR [--scale full] [--seeds N]

Every strategy trains the same job with the same seeds, in turns, until it ends
by itself or its time is over. Time to target counts all tuning.
"""
import math

import common
import jobs

STRATEGIES = ["mltuner", "hand-made", "hyperband", "asha", "complete"]


def configuration(job, strategy, cap_s):
    config = (job.hand_made() if strategy == "hand-made"
              else job.configured(strategy))
    stop = {**config.get("stop", {}), "max_time": cap_s}
    if strategy not in ("mltuner", "hand-made"):
        # They do not end by themselves in this time, and what they would find
        # later says nothing about the time to the target.
        stop["target_metric"] = job.target
    return {**config, "stop": stop}


def main():
    args = common.arguments(__doc__, job=dict(choices=sorted(jobs.JOBS),
                                              default="lenet5"),
                            cap=dict(type=float, help="seconds of a run"),
                            images=dict(type=int,
                                        help="training images (lenet5)"),
                            only=dict(help="strategies, with commas"))
    job = jobs.job(args)
    cap_s = args.cap or job.cap_s
    strategies = args.only.split(",") if args.only else STRATEGIES
    runs = {s: [] for s in strategies}
    for seed in range(1, args.seeds + 1):
        for s in strategies:
            r = common.run(args, configuration(job, s, cap_s), seed)
            runs[s].append(r)
            common.note(f"{job.name} {s} seed {seed}: best {r.best:.4f}, "
                        f"{common.seconds(r.time_to(job.target, job.higher))} "
                        f"s to target, {r.seconds:.1f} s, {r.cpu_s:.1f} s CPU")
    report(args, job, cap_s, runs)
    common.finish(args)


def report(args, job, cap_s, runs):
    figure = common.Figure(f"{job.name}: best {job.metric} so far",
                           "seconds of the run", job.metric, log_x=True,
                           legend_top=not job.higher)
    rows = []
    times = {s: sorted(r.time_to(job.target, job.higher) for r in rs)
             for s, rs in runs.items()}
    for (s, rs), color in zip(runs.items(), common.COLORS):
        for r in rs:
            points = common.best_so_far(r.epochs(), job.higher)
            figure.add(s, [(x, y) for x, y in points if x > 0], color, "step")
        rows.append([f"`{s}`", common.spread(times[s], common.seconds),
                     ratio(times, s), common.spread([r.best for r in rs]),
                     common.spread([r.seconds for r in rs], "{:.1f}".format),
                     common.spread([r.cpu_s for r in rs], "{:.1f}".format)])
    print(f"{job.words}; target {job.metric} {job.target}, each run at most "
          f"{cap_s:.0f} s. {common.where(args)}")
    common.table(["strategy", "seconds to target, median (range)",
                  "against mltuner", f"best {job.metric}", "seconds of the run",
                  "CPU seconds"], rows)
    name = f"strategies-{job.name}"
    common.save(args, f"{name}-{args.images}" if args.images else name, figure)


def ratio(times, s):
    """Median time to target over mltuner's; a bound where it was not reached."""
    if "mltuner" not in times:
        return "-"
    mine = times["mltuner"][(len(times["mltuner"]) - 1) // 2]
    other = times[s][(len(times[s]) - 1) // 2]
    if math.isinf(mine):
        return "-"
    return "never" if math.isinf(other) else f"{other / mine:.2f}"


if __name__ == "__main__":
    main()
