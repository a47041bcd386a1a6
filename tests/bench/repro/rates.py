#!/usr/bin/python3
"""Figures 5.6 and 5.7 of Cui 2017: what the initial learning rate does to each
adaptive rule, and which rate MLtuner picks.

    rates.py JOB --data DIR [--scale full] [--rules adagrad,adam,...]

Each rule is trained to its plateau from rates on a log grid over 1e-5 .. 1, the
other tunables at their usual values; then MLtuner tunes the initial rate alone
(5.4.3: no re-tuning). The figure shows the quality reached, or for mf the time to
a training loss.
"""
import math

import common
import jobs

RULES = ["sgd", "nesterov", "adagrad", "rmsprop", "adadelta", "adam",
         "adarevision"]


def configuration(job, rule, cap_s, tuner):
    tunables = {"learning_rate": common.LEARNING_RATE}
    for name, fixed in (("momentum", 0.9), ("batch_size", 64)):
        if name in job.config["tunables"]:
            tunables[name] = {"fixed": fixed}
    if rule not in ("sgd", "nesterov"):
        tunables.pop("momentum", None)
    stop = {"plateau_epochs": 5, **job.config.get("stop", {}),
            "max_time": cap_s}
    return {**job.config, "ps": {"update_rule": rule}, "tunables": tunables,
            "stop": stop, "tuner": tuner}


def main():
    args = common.arguments(
        __doc__, job=dict(choices=sorted(jobs.JOBS), default="mlp"),
        rules=dict(default=",".join(RULES)),
        rates=dict(type=int, help="rates a rule (6; full: 11)"),
        cap=dict(type=float, help="seconds of a run"))
    job = jobs.job(args)
    cap_s = args.cap or job.cap_s
    n = args.rates or (11 if args.full else 6)
    grid = [10 ** (-5 + 5 * i / (n - 1)) for i in range(n)]
    quality = common.Figure(f"{job.name}: best {job.metric} by initial rate",
                            "initial learning rate", job.metric, log_x=True,
                            legend_top=not job.higher)
    time = common.Figure(f"{job.name}: seconds to {job.metric} {job.target}",
                         "initial learning rate", "seconds", log_x=True,
                         log_y=True)
    rows = []
    for rule, color in zip(args.rules.split(","), common.COLORS):
        rows.append(one_rule(args, job, rule, color, grid, cap_s, quality,
                             time))
    print(f"{job.words}; at most {cap_s:.0f} s a run. {common.where(args)}")
    common.table(["rule", "best of the grid", "at rate",
                  "rates within 1 %", "MLtuner, median (range)",
                  "picked rate", "seconds to target: best of the grid",
                  "MLtuner, tuning included"], rows)
    common.save(args, f"rates-{job.name}", quality)
    common.save(args, f"rates-time-{job.name}", time)
    common.finish(args)


def one_rule(args, job, rule, color, grid, cap_s, quality, time):
    sign = 1 if job.higher else -1
    found = []
    for rate in grid:
        tuner = {"strategy": "fixed", "initial": {"learning_rate": rate}}
        r = common.run(args, configuration(job, rule, cap_s, tuner), 1)
        found.append((rate, r.best, r.time_to(job.target, job.higher)))
        common.note(f"{job.name} {rule} {rate:.2g}: {r.best:.4f}, "
                    f"{common.seconds(found[-1][2])} s to target")
    known = [f for f in found if math.isfinite(f[1])]
    best = max(known, key=lambda f: sign * f[1])
    near = sum(abs(f[1] - best[1]) <= 0.01 * abs(best[1]) for f in known)
    picked = [mltuner(args, job, rule, cap_s, seed)
              for seed in range(1, args.seeds + 1)]
    quality.add(rule, [f[:2] for f in known], color)
    quality.add("MLtuner's", [p[:2] for p in picked], color, "cross")
    time.add(rule, [(f[0], f[2]) for f in found], color)
    time.add("MLtuner's", [(p[0], p[2]) for p in picked], color, "cross")
    return [f"`{rule}`", f"{best[1]:.4f}", f"{best[0]:.2g}",
            f"{near} of {len(grid)}", common.spread([p[1] for p in picked]),
            common.spread([p[0] for p in picked], "{:.2g}".format),
            common.seconds(min(f[2] for f in found)),
            common.spread([p[2] for p in picked], common.seconds)]


def mltuner(args, job, rule, cap_s, seed):
    tuner = {"strategy": "mltuner", "retune": False}
    r = common.run(args, configuration(job, rule, cap_s, tuner), seed)
    rate = r.first_setting()["learning_rate"]
    out = (rate, r.best, r.time_to(job.target, job.higher))
    common.note(f"{job.name} {rule} mltuner seed {seed}: rate {rate:.2g}, "
                f"{r.best:.4f}, {common.seconds(out[2])} s to target")
    return out


if __name__ == "__main__":
    main()
