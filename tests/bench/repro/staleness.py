#!/usr/bin/python3
"""How fresh what workers read is under `ssp` and `essp`, on real processes (figure 2
of Dai et al. 2015): the histogram of the age of the copy less the reader's clock.

    staleness.py --data DIR [--staleness 3] [--rounds 11] [--parts 8]

`mf` on MovieLens 1M, rank 32, four node processes of one worker. Both models in turn, so
that both meet the same machine; what is reported is the median over the rounds with
the range, and in how many rounds `essp` read fresher.
"""
import common

MODELS = ("ssp", "essp")


def configuration(args, model):
    return {
        "app": {"name": "mf", "data": where(args),
                "rank": 32, "test_fraction": 0.1, "clock": args.parts},
        "cluster": {"nodes": 4, "workers": 1},
        "ps": {"update_rule": "adagrad", "consistency": model},
        "tunables": {"learning_rate": {**common.LEARNING_RATE, "max": 10},
                     "staleness": {"fixed": args.staleness}},
        "tuner": {"strategy": "fixed", "initial": {"learning_rate": 0.1},
                  "retune": False},
        "stop": {"max_epochs": args.epochs, "plateau_epochs": args.epochs + 1},
        "snapshot": {"every": "1h"},
    }


def where(args):
    """Generated, or a file of the shared data."""
    return args.ratings if args.ratings.startswith("gen:") \
        else str(args.data / args.ratings)


class Round:
    """What one run's nodes told: shares of reads by difference, their mean, the
    megabytes sent, the seconds, the loss."""
    def __init__(self, args, model, seed):
        result = common.run(args, configuration(args, model), seed).result
        cluster = result["cluster"]
        seen, reads = cluster["staleness"], cluster["reads"]
        self.share = {seen["least"] + i: n / reads
                      for i, n in enumerate(seen["counts"])}
        self.mean = cluster["mean_staleness"]
        self.megabytes = cluster["bytes_sent"] / 1e6
        self.seconds = result["seconds"]
        self.loss = common.number(result["loss"])
        common.note(f"{model} {seed}: mean {self.mean:.3f}")


def main():
    args = common.arguments(
        __doc__, staleness=dict(type=int, default=3),
        rounds=dict(type=int, default=11),
        ratings=dict(default="ml1m.train90.tsv.xz",
                     help="a file of --data, or gen:ratings?..."),
        parts=dict(type=int, default=8, help="clocks a pass"),
        epochs=dict(type=int, default=15))
    rounds = {model: [] for model in MODELS}
    for i in range(args.rounds):
        for model in MODELS if i % 2 else reversed(MODELS):
            rounds[model].append(Round(args, model, 1 + i))
    fresher = sum(e.mean > s.mean
                  for s, e in zip(rounds["ssp"], rounds["essp"]))
    differences = sorted({d for of in rounds.values() for r in of
                          for d in r.share})
    print(f"Staleness {args.staleness}, {args.parts} clocks a pass, "
          f"{args.epochs} epochs, {args.rounds} rounds: `essp` read fresher in "
          f"{fresher}. {common.where(args)}")
    common.table(
        ["model"] + [str(d) for d in differences] +
        ["mean", "MB sent", "seconds", "loss"],
        [[f"`{model}`"] +
         [common.spread([100 * r.share.get(d, 0) for r in of], "{:.1f} %".format)
          for d in differences] +
         [common.spread([r.mean for r in of], "{:.2f}".format),
          common.spread([r.megabytes for r in of], "{:.1f}".format),
          common.spread([r.seconds for r in of], "{:.1f}".format),
          common.spread([r.loss for r in of], "{:.3f}".format)]
         for model, of in rounds.items()])
    common.finish(args)


if __name__ == "__main__":
    main()
