/* mf in both forms, with one and two workers, under sgd and adagrad: what a
 * rating takes once all is loaded. All forms take turns in each round.
 *
 * `cpu` is of all threads; `wall` that of the pass; `waited` the workers' share
 * of it in waits; `sleeps` how often a worker gave its core away in a clock,
 * itself or because it was taken from it. BENCH_DATA names
 * the ratings (else generated ones of MovieLens 1M's shape), BENCH_ROUNDS the
 * rounds.
 */
#include "apps/mf/mf.h"
#include "base/clock_io.h"
#include "ps/node/host_io.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { RULES = 2, FORMS = 2, WORKERS = 2, PASSES = 3 };

static const char *const rule[RULES] = {"sgd", "adagrad"};
static const char *const form[FORMS] = {"data", "loop"};
static const char generated[] =
    "gen:ratings?users=6040&items=3706&ratings=900000&rank=16&seed=1";

struct run {
    struct host *host;
    struct node_setting setting;
    unsigned workers;
    uint64_t samples, clocks; /* of a pass */
    struct bench_series cpu, wall, waited, sleeps;
};

static void open_run(struct run *r, unsigned rules, unsigned forms,
                     unsigned workers)
{
    const char *data = getenv("BENCH_DATA");
    json_t *json = json_pack(
        "{s:{s:s, s:i, s:s, s:s, s:f}, s:{s:i}, s:{s:s, s:s}}", "app", "name",
        "mf", "rank", 32, "data", data ? data : generated, "parallel",
        form[forms], "test_fraction", 0.001, "cluster", "workers", (int)workers,
        "ps", "update_rule", rule[rules], "consistency", "bsp");
    json_t *set = json_pack("{s:f}", "learning_rate", rules ? 0.05 : 0.01);
    struct host_config c = {
        .app = &app_mf, .config = json, .folder = ".", .seed = 1};
    const struct host_facts *facts;
    struct fault f = {0};

    bench_must(json && set, "memory for the configuration");
    bench_must(host_open(&c, &r->host, &f) == ERR_OK, f.text);
    facts = host_facts(r->host);
    bench_must(node_setting_read(&facts->defaults, set, app_mf.tunables,
                                 &r->setting, &f) == ERR_OK,
               f.text);
    r->workers = workers;
    r->samples = facts->info.samples;
    r->clocks = facts->order.parts;
    bench_must(ps_fork(host_ps(r->host), 1, 0, BRANCH_TRAINING) == ERR_OK,
               "a branch");
    json_decref(json);
    json_decref(set);
}

/* Of all its workers. */
static double waits_now(const struct run *r)
{
    struct mlt_ps *ps = host_ps(r->host);
    double ns = 0;

    for (unsigned w = 0; w < r->workers; w++)
        ns += (double)ps_worker_counters(ps_worker(ps, w)).wait_ns;
    return ns;
}

static double sleeps_now(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_nvcsw + u.ru_nivcsw);
}

static void measure(struct run *r, int keep)
{
    struct host_slice slice = {.branch = 1,
                               .type = BRANCH_TRAINING,
                               .setting = &r->setting,
                               .count = PASSES * r->clocks,
                               .report_every = r->clocks};
    double n = (double)(PASSES * r->samples), sleeps = sleeps_now();
    double waits = waits_now(r);
    time_ns wall = clock_monotonic(), cpu = bench_cpu();
    struct host_result result;
    struct fault f = {0};

    bench_must(host_slice_begin(r->host, &slice, &f) == ERR_OK, f.text);
    bench_must(host_slice_end(r->host, &result, &f) == ERR_OK, f.text);
    wall = clock_monotonic() - wall;
    if (!keep)
        return;
    bench_add(&r->wall, (double)wall / n);
    bench_add(&r->waited, (waits_now(r) - waits) / ((double)wall * r->workers));
    bench_add(&r->cpu, (double)(bench_cpu() - cpu) / n);
    bench_add(&r->sleeps,
              (sleeps_now() - sleeps) / (double)(PASSES * r->clocks));
}

static void report(struct run run[FORMS][WORKERS], unsigned rules)
{
    char params[64];

    for (unsigned f = 0; f < FORMS; f++)
        for (unsigned w = 0; w < WORKERS; w++) {
            struct run *r = &run[f][w];

            snprintf(params, sizeof(params), "rule=%s form=%s workers=%u",
                     rule[rules], form[f], w + 1);
            bench_print("mf_cpu", params, &r->cpu, "ns_a_rating");
            bench_print("mf_wall", params, &r->wall, "ns_a_rating");
            bench_print("mf_waited", params, &r->waited, "of_wall");
            bench_print("mf_sleeps", params, &r->sleeps, "a_clock");
        }
    for (unsigned w = 0; w < WORKERS; w++) {
        snprintf(params, sizeof(params), "rule=%s form=loop workers=%u",
                 rule[rules], w + 1);
        bench_print_ratio("mf_cpu_of", params, "data", &run[1][w].cpu,
                          &run[0][w].cpu, 1);
    }
    for (unsigned f = 0; f < FORMS; f++) {
        snprintf(params, sizeof(params), "rule=%s form=%s", rule[rules],
                 form[f]);
        bench_print_ratio("mf_speedup", params, "one_worker", &run[f][1].wall,
                          &run[f][0].wall, 1);
        bench_print_ratio("mf_cpu_kept", params, "one_worker", &run[f][1].cpu,
                          &run[f][0].cpu, 1);
    }
}

int main(void)
{
    static struct run run[RULES][FORMS][WORKERS];

    for (unsigned round = 0; round <= bench_rounds(); round++)
        for (unsigned i = 0; i < RULES * FORMS * WORKERS; i++) {
            struct run *r = &run[i / 4][i / 2 % 2][i % 2];

            if (round == 0)
                open_run(r, i / 4, i / 2 % 2, i % 2 + 1);
            measure(r, round > 0);
        }
    for (unsigned r = 0; r < RULES; r++)
        report(run[r], r);
    for (unsigned i = 0; i < RULES * FORMS * WORKERS; i++)
        host_close(run[i / 4][i / 2 % 2][i % 2].host);
    return 0;
}
