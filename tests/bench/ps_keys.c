/* Sparse keys (MLT_KEYED) on one node: what the index takes beside the values,
 * by the kernel's count, keys added a second and keys looked up a second, in
 * batches. Keys are spread over all 64 bits, added and looked up at random.
 *
 * BENCH_KEYS: how many keys (25,000,000, a quarter of 10^8). BENCH_WORKERS: how
 * many workers (1 and 2).
 */
#include "base/mem.h"
#include "base/rng.h"
#include "mltune/ps.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 512, WIDTH = 4 };

struct job {
    uint64_t keys;
    unsigned workers;
    uint64_t seed; /* of the order of looks; 0: adds */
    _Atomic uint64_t found;
};

static double resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long size, resident = 0;

    bench_must(f && fscanf(f, "%lu %lu", &size, &resident) == 2, "statm");
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Each worker its part of the keys, all in another order than they were added.
 */
static int work(struct mlt_worker *w, void *arg)
{
    struct job *job = arg;
    uint64_t n = job->keys / job->workers, found = 0;
    uint64_t first = n * mlt_worker_index(w);
    uint64_t key[BATCH], row[BATCH];
    struct perm order;
    int err = 0;

    perm_init(&order, n, job->seed + 1);
    for (uint64_t i = 0; i + BATCH <= n && !err; i += BATCH) {
        for (uint64_t j = 0; j < BATCH; j++) {
            uint64_t at = job->seed ? perm_at(&order, i + j) : i + j;

            key[j] = rng_mix(1, first + at);
        }
        err = job->seed ? mlt_find_keys(w, 0, BATCH, key, row)
                        : mlt_add_keys(w, 0, BATCH, key, row);
        for (uint64_t j = 0; j < BATCH; j++)
            found += row[j] != MLT_NO_ROW;
    }
    job->found += found;
    return err;
}

/* The same without the server: what making the keys costs. */
static double loop_seconds(const struct job *job)
{
    time_ns begin = clock_monotonic();
    uint64_t n = job->keys / job->workers, sum = 0;
    struct perm order;

    perm_init(&order, n, job->seed + 1);
    for (uint64_t i = 0; i < n; i++)
        sum += rng_mix(1, job->seed ? perm_at(&order, i) : i);
    bench_keep(&sum);
    return (double)(clock_monotonic() - begin) * 1e-9;
}

static double rate(struct mlt_ps *ps, struct job *job)
{
    time_ns begin = clock_monotonic();
    double seconds;

    job->found = 0;
    bench_must(mlt_ps_run(ps, work, job) == 0, "run");
    seconds = (double)(clock_monotonic() - begin) * 1e-9;
    bench_must(job->found + (uint64_t)BATCH * job->workers > job->keys,
               "a key was not found");
    return (double)job->found / (seconds - loop_seconds(job));
}

static struct mlt_ps *open_server(const struct job *job)
{
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "keyed",
                                      .rows = job->keys,
                                      .width = WIDTH,
                                      .access = MLT_SHARED,
                                      .flags = MLT_KEYED};
    struct mlt_error err = {0};
    struct mlt_ps *ps = NULL;
    mlt_table number;

    opt.workers = job->workers;
    opt.memory_limit = (uint64_t)1 << 40; /* few rows are touched */
    if (mlt_ps_new(&opt, &ps, &err) ||
        mlt_ps_table(ps, &table, &number, &err) || mlt_ps_start(ps, &err))
        bench_must(0, err.text);
    return ps;
}

static void measure(uint64_t keys, unsigned workers)
{
    struct bench_series bytes = {.n = 0}, adds = bytes, looks = bytes;
    const uint64_t each = (uint64_t)BATCH * workers;
    struct job job = {.keys = keys - keys % each, .workers = workers};
    char params[96];

    for (size_t round = 0; round < bench_rounds(); round++) {
        struct mlt_ps *ps = open_server(&job);
        double before = resident_bytes();

        job.seed = 0;
        bench_add(&adds, rate(ps, &job) * 1e-6);
        bench_add(&bytes, (resident_bytes() - before) / (double)keys);
        for (job.seed = 1; job.seed <= 2; job.seed++)
            bench_add(&looks, rate(ps, &job) * 1e-6);
        mlt_ps_free(ps);
    }
    snprintf(params, sizeof(params), "keys=%llu workers=%u what=index",
             (unsigned long long)keys, workers);
    bench_print("ps_keys", params, &bytes, "bytes/key");
    snprintf(params, sizeof(params), "keys=%llu workers=%u what=add",
             (unsigned long long)keys, workers);
    bench_print("ps_keys", params, &adds, "M/s");
    snprintf(params, sizeof(params), "keys=%llu workers=%u what=find",
             (unsigned long long)keys, workers);
    bench_print("ps_keys", params, &looks, "M/s");
}

int main(void)
{
    const char *keys = getenv("BENCH_KEYS"), *workers = getenv("BENCH_WORKERS");
    uint64_t n = keys ? strtoull(keys, NULL, 10) : 25000000;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (workers) {
        measure(n, (unsigned)strtoul(workers, NULL, 10));
    } else {
        measure(n, 1);
        measure(n, 2);
    }
    return 0;
}
