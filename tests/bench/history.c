/* What versions of a table cost (mltune/history.h): a worker changes some rows
 * of a table of 100,000 x 32 floats in each clock, at random places; without
 * history, with history that nobody uses, and with a version taken in each
 * clock, of which the last two are held. CPU time of the process, rounds in
 * turns, medians.
 */
#include "mltune/history.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 100000, WIDTH = 32, CLOCKS = 40, KINDS = 3 };

static const char *const kind_name[KINDS] = {"without", "unused", "taken"};
static const unsigned changed[] = {1000, 10000};

struct work {
    unsigned rows; /* that change in a clock */
    bool takes;
    double clock_us;
    struct mlt_history_stats stats;
    struct mlt_ps *ps;
};

static int work(struct mlt_worker *w, void *arg)
{
    struct work *k = arg;
    const float one[WIDTH] = {1};
    uint64_t version = 0, before = 0;
    struct rng rng;
    time_ns begin;
    int err = 0;

    rng_init(&rng, 7);
    begin = bench_cpu();
    for (int c = 0; c < CLOCKS && !err; c++) {
        if (k->takes) {
            if (before)
                err = mlt_release_version(w, 0, before);
            before = version;
            if (!err)
                err = mlt_take_version(w, 0, &version);
        }
        for (unsigned i = 0; i < k->rows; i++)
            mlt_inc_row(w, 0, rng_below(&rng, ROWS), one);
        if (!err)
            err = mlt_clock(w);
    }
    k->clock_us = (double)(bench_cpu() - begin) * 1e-3 / CLOCKS;
    return err ? err : mlt_ps_history_stats(k->ps, 0, &k->stats);
}

static void once(int kind, unsigned rows, struct work *k)
{
    const struct mlt_table_options table = {.size = sizeof(table),
                                            .name = "weights",
                                            .rows = ROWS,
                                            .width = WIDTH,
                                            .type = MLT_F32,
                                            .access = MLT_SHARED,
                                            .rule = "add"};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_error err;
    struct mlt_ps *ps;
    mlt_table t;

    opt.workers = 1;
    opt.memory_limit = (uint64_t)256 << 20;
    if (mlt_ps_new(&opt, &ps, &err) || mlt_ps_table(ps, &table, &t, &err) ||
        (kind && mlt_ps_history(ps, t, (uint64_t)256 << 20, &err)) ||
        mlt_ps_start(ps, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    *k = (struct work){
        .rows = rows, .takes = kind == 2, .stats.size = sizeof(k->stats)};
    k->ps = ps;
    if (mlt_ps_run(ps, work, k) || mlt_ps_switch(ps, 0) ||
        mlt_ps_run(ps, work, k)) /* the second: all chunks are private */
        exit(1);
    mlt_ps_free(ps);
}

static void measure(unsigned rows)
{
    struct bench_series us[KINDS] = {0};
    struct work k = {0};
    char params[64];

    for (size_t round = 0; round < bench_rounds(); round++)
        for (int kind = 0; kind < KINDS; kind++) {
            once(kind, rows, &k);
            bench_add(&us[kind], k.clock_us);
        }
    for (int kind = 0; kind < KINDS; kind++) {
        snprintf(params, sizeof(params), "versions=%s rows=%u", kind_name[kind],
                 rows);
        bench_print("history_clock", params, &us[kind], "us");
    }
    snprintf(params, sizeof(params), "versions=taken rows=%u", rows);
    bench_print_ratio("history_clock", params, "without", &us[2], &us[0], 1);
    /* k is of the last kind: versions were taken. */
    printf("history_copies rows=%u %.0f copies/version\n", rows,
           (double)k.stats.copies / CLOCKS);
    printf("history_bytes rows=%u copy=%.0f %.0f bytes\n", rows,
           WIDTH * 4.0 + MLT_HISTORY_ROW_BYTES, (double)k.stats.bytes);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(changed) / sizeof(*changed); i++)
        measure(changed[i]);
    return 0;
}
