#!/usr/bin/python3
"""Figure 5.11 of Cui 2017: four tunables, and the same four with four more that
do nothing.

    tunables.py JOB --data DIR [--scale full] [--seeds N]

Learning rate, momentum, batch size and staleness (two workers); then copies of
them that mltune searches all the same ("free").
"""
import common
import jobs


def doubled(config):
    copies = {f"{name}_copy": {**t, "free": True}
              for name, t in config["tunables"].items()}
    return {**config, "tunables": {**config["tunables"], **copies}}


def main():
    args = common.arguments(__doc__, job=dict(choices=sorted(jobs.JOBS),
                                              default="mlr"),
                            cap=dict(type=float, help="seconds of a run"))
    job = jobs.job(args)
    cap_s = args.cap or job.cap_s
    four = jobs.with_staleness(job.config)
    figure = common.Figure(f"{job.name}: {job.metric} with 4 and 8 tunables",
                           "seconds of the run", job.metric, log_x=True,
                           legend_top=not job.higher)
    runs = {"4 tunables": [], "4 x 2 tunables": []}
    for seed in range(1, args.seeds + 1):
        for kind, config in zip(runs, (four, doubled(four))):
            config = {**config, "tuner": {"strategy": "mltuner"},
                      "stop": {**config.get("stop", {}), "max_time": cap_s}}
            r = common.run(args, config, seed)
            runs[kind].append(r)
            figure.add(kind, [(t, m) for t, m, _ in r.epochs() if t > 0],
                       common.COLORS[kind != "4 tunables"])
            common.note(f"{job.name} {kind} seed {seed}: {r.best:.4f}, first "
                        f"search {r.first_search_s():.1f} s, {r.seconds:.1f} s")
    print(f"{job.words}; 2 workers; at most {cap_s:.0f} s a run. "
          f"{common.where(args)}")
    common.table(["tunables", f"best {job.metric}", "first search, s",
                  "settings tried in it", f"seconds to {job.target}",
                  "seconds of the run"],
                 [row(job, kind, rs) for kind, rs in runs.items()])
    common.save(args, f"tunables-{job.name}", figure)
    common.finish(args)


def first_trials(r):
    for record in r.records:
        if record["kind"] == "search_ended":
            return record["trials"]
    return 0


def row(job, kind, rs):
    return [kind, common.spread([r.best for r in rs]),
            common.spread([r.first_search_s() for r in rs], "{:.1f}".format),
            common.spread([first_trials(r) for r in rs], "{:.0f}".format),
            common.spread([r.time_to(job.target, job.higher) for r in rs],
                          common.seconds),
            common.spread([r.seconds for r in rs], "{:.1f}".format)]


if __name__ == "__main__":
    main()
