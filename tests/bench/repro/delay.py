#!/usr/bin/python3
"""Update rules under real delay: what the initial learning rate does to each when
gradients come late (figure 7 of Wei et al. 2015, in small).

    delay.py --data DIR [--rules sgd,adagrad,adarevision] [--staleness 3]

`mf` on MovieLens 100k, four node processes of one worker, `ssp`; so what is late, and
by how much, is the machine's, and each line is run several times. The figure of
quality is the training loss (mean squared error) of the last epoch.
"""
import math

import common

RATES = [0.001, 0.005, 0.02, 0.1, 0.5, 1, 2]


def configuration(args, rule, rate):
    return {
        "app": {"name": "mf", "data": str(args.data / "ml-100k.u.data.gz"),
                "rank": 16, "test_fraction": 0.1, "clock": args.parts},
        "cluster": {"nodes": 4, "workers": 1},
        "ps": {"update_rule": rule, "consistency": "ssp"},
        "tunables": {
            "learning_rate": {**common.LEARNING_RATE, "max": 10},
            "staleness": {"fixed": args.staleness}},
        "tuner": {"strategy": "fixed", "initial": {"learning_rate": rate},
                  "retune": False},
        "stop": {"max_epochs": args.epochs, "plateau_epochs": args.epochs + 1},
        "snapshot": {"every": "1h"},
    }


def loss(args, rule, rate, seed):
    """The last epoch's; infinite where the run failed (diverged)."""
    r = common.run(args, configuration(args, rule, rate), seed)
    value = common.number(r.result.get("loss"))
    failed = r.result["status"] != "finished" or math.isnan(value)
    out = math.inf if failed else value
    common.note(f"{rule} {rate:g} seed {seed}: {out:.4f}")
    return out


def cell(values):
    if all(math.isinf(v) for v in values):
        return "diverged"
    return common.spread(values, "{:.3f}".format)


def main():
    args = common.arguments(
        __doc__, rules=dict(default="sgd,adagrad,adarevision"),
        staleness=dict(type=int, default=3),
        parts=dict(type=int, default=4, help="clocks a pass"),
        epochs=dict(type=int, default=20))
    figure = common.Figure("mf, 4 nodes: loss by initial rate, late gradients",
                           "initial learning rate", "mean squared error",
                           log_x=True, legend_top=True)
    rows = []
    for rule, color in zip(args.rules.split(","), common.COLORS):
        found = [(rate, [loss(args, rule, rate, seed)
                         for seed in range(1, args.seeds + 1)])
                 for rate in RATES]
        figure.add(rule, [(rate, v) for rate, values in found for v in values],
                   color, "dots")
        rows.append([f"`{rule}`"] + [cell(values) for _, values in found])
    print(f"Staleness {args.staleness}, {args.parts} clocks a pass, "
          f"{args.epochs} epochs. {common.where(args)}")
    common.table(["rule"] + [f"{rate:g}" for rate in RATES], rows)
    common.save(args, "delay-mf", figure)
    common.finish(args)


if __name__ == "__main__":
    main()
