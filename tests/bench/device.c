/* Branches whose state of 1 GiB lies on a device (or MLTUNE_STATE_MIB): a fork,
 * the branch's first clock, which copies the image, and a later clock of the
 * same branch. `switch` is the first one's time beyond that of a later one.
 * A clock sets each update to one number and applies the rule.
 *
 * MLTUNE_SPACE=cuda:0 (or host, fake).
 */
#include "mltune/device.h"
#include "base/log.h"
#include "ps/server/ps.h"
#include "ps/space/space.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { TABLES = 4, WIDTH = 4096, ROW_BYTES = 2 * WIDTH * 4, MIB = 1024 };

static uint64_t rows;

static int one_clock(struct mlt_worker *w, void *arg)
{
    struct space_stream *st = mlt_ps_stream(ps_worker_user(w));

    (void)arg;
    for (mlt_table t = 0; t < TABLES; t++) {
        struct mlt_lease lease;
        float *sums;
        int add;

        if (mlt_read(w, t, &lease) || mlt_update(w, t, &sums, &add))
            return 1;
        st->space->ops->fill(st, sums, rows * WIDTH * sizeof(float), 0x3c000000,
                             4);
        mlt_clock_table(w, t);
        mlt_read_done(w, t);
    }
    return mlt_clock(w) ? 1 : 0;
}

/* Milliseconds of a slice of one clock, to the end of the device's work. */
static double clock_ms(struct mlt_ps *ps)
{
    struct space_stream *st = mlt_ps_stream(ps);
    time_ns begun = clock_monotonic();

    bench_must(mlt_ps_run(ps, one_clock, NULL) == 0, "run a clock");
    bench_must(st->space->ops->stream_sync(st, 60000, NULL) == ERR_OK,
               "end the device's work");
    return 1e-6 * (double)(clock_monotonic() - begun);
}

static struct mlt_ps *set_up(const char *device, struct mlt_error *e)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_ps *ps = NULL;

    opt.workers = 1;
    opt.update_rule = "nesterov";
    opt.memory_limit = TABLES * rows * ROW_BYTES * 8;
    bench_must(mlt_ps_new(&opt, &ps, e) == 0, e->text);
    if (mlt_ps_device(ps, device, 0, e)) {
        mlt_ps_free(ps);
        return NULL;
    }
    for (int t = 0; t < TABLES; t++) {
        char name[8];
        struct mlt_table_options table = {.size = sizeof(table),
                                          .name = name,
                                          .rows = rows,
                                          .width = WIDTH,
                                          .type = MLT_F32,
                                          .access = MLT_SHARED,
                                          .flags = MLT_OWN_CLOCK};
        mlt_table number;

        snprintf(name, sizeof(name), "t%d", t);
        bench_must(mlt_ps_table(ps, &table, &number, e) == 0 &&
                       mlt_ps_on_device(ps, number, e) == 0,
                   e->text);
    }
    bench_must(mlt_ps_start(ps, e) == 0, e->text);
    ps_worker_set_user(ps_worker(ps, 0), ps);
    return ps;
}

int main(void)
{
    static struct bench_series fork, first, later, change;
    const char *device = getenv("MLTUNE_SPACE"),
               *mib = getenv("MLTUNE_STATE_MIB");
    unsigned state = mib ? (unsigned)atoi(mib) : MIB;
    struct mlt_error e;
    struct mlt_ps *ps;
    char params[64];
    branch_id at = 1;

    bench_must(state >= 1 && state <= 65536, "MLTUNE_STATE_MIB is 1 to 65536");
    log_set_level(LOG_ERROR);
    rows = ((uint64_t)state << 20) / TABLES / ROW_BYTES;
    snprintf(params, sizeof(params), "state=%uMiB", state);
    ps = set_up(device ? device : "cuda:0", &e);
    if (!ps) {
        bench_skip("device", params, "%s", e.text);
        return 0;
    }
    bench_must(ps_fork(ps, at, 0, BRANCH_TRAINING) == ERR_OK &&
                   ps_activate(ps, at) == ERR_OK,
               "fork");
    clock_ms(ps);
    for (size_t i = 0; i <= bench_rounds(); i++) {
        time_ns begun = clock_monotonic(), forked;
        double one, two;

        bench_must(ps_fork(ps, at + 1, at, BRANCH_TRAINING) == ERR_OK, "fork");
        forked = clock_monotonic();
        bench_must(ps_activate(ps, at + 1) == ERR_OK, "activate");
        one = clock_ms(ps);
        two = clock_ms(ps);
        bench_must(ps_drop(ps, at++) == ERR_OK, "drop");
        if (i == 0)
            continue; /* the first one takes memory of the device */
        bench_add(&fork, 1e-3 * (double)(forked - begun));
        bench_add(&first, one);
        bench_add(&later, two);
        bench_add(&change, one - two);
    }
    bench_print("device_fork", params, &fork, "us");
    bench_print("device_first_clock", params, &first, "ms");
    bench_print("device_later_clock", params, &later, "ms");
    bench_print("device_switch", params, &change, "ms");
    mlt_ps_free(ps);
    return 0;
}
