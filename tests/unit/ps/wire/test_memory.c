/* What node processes take, as the kernel counts it, beside what mlt_ps_plan
 * told before they started. */
#include "base/rng.h"
#include "mltune/ps.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* shadow memory is not in the plan */
#else
enum { SANITIZED = 0 };
#endif

#define MIB (1024.0 * 1024.0)

/* A table of 64 MiB. */
enum {
    ROWS = 1 << 20,
    WIDTH = 16,
    WORKERS = 2,
    TENTH = 10,
    BATCH = 256,
    NARROW_BATCH = 4096,
    NODES_MAX = 4
};

/* What the nodes run. */
struct job {
    unsigned nodes;
    const char *model;
    uint64_t rows;
    uint32_t width;
    unsigned flags;
    double touched;
    mlt_work *work;
};

/* Seen by all processes. */
struct taken {
    double mib[NODES_MAX];
    struct mlt_ps_memory plan[NODES_MAX];
};

static int pass(struct mlt_worker *w)
{
    static const float ones[WIDTH];
    const void *at[BATCH];
    uint64_t row[BATCH];
    size_t n = 0;
    int code = 0;

    for (uint64_t r = 0; r <= ROWS && !code; r++) {
        if (r < ROWS && rng_mix(r, mlt_worker_index(w)) % TENTH == 0)
            row[n++] = r;
        if (n < BATCH && r < ROWS)
            continue;
        code = mlt_get_rows(w, 0, n, row, at);
        for (size_t i = 0; i < n; i++)
            mlt_inc_row(w, 0, row[i], ones);
        n = 0;
    }
    return code ? code : mlt_clock(w);
}

static int touch_a_tenth(struct mlt_worker *w, void *arg)
{
    int code = 0;

    (void)arg;
    for (int clock = 0; clock < 2 && !code; clock++)
        code = pass(w);
    return code;
}

static double high_water_mib(void)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (f)
        fclose(f);
    return kib / 1024;
}

static int be_node(unsigned node, const struct job *job, const char *folder,
                   struct taken *taken)
{
    struct mlt_table_options table = {.size = sizeof(table),
                                      .name = "rows",
                                      .rows = job->rows,
                                      .width = job->width,
                                      .rule = "add",
                                      .flags = job->flags};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    double before = high_water_mib();
    struct mlt_ps *ps;
    mlt_table t;
    int code;

    taken->plan[node].size = sizeof(taken->plan[node]);
    opt.workers = WORKERS;
    opt.consistency = job->model;
    opt.memory_limit = (uint64_t)4 << 30;
    opt.nodes = job->nodes;
    opt.node = node;
    opt.meet = job->nodes > 1 ? folder : NULL;
    opt.access = "off"; /* no lists of what was read */
    code = mlt_ps_new(&opt, &ps, NULL);
    if (code)
        return code;
    code = mlt_ps_table(ps, &table, &t, NULL);
    if (!code)
        code = mlt_ps_plan(ps, job->touched, &taken->plan[node]);
    if (!code)
        code = mlt_ps_start(ps, NULL);
    if (!code)
        code = mlt_ps_run(ps, job->work, NULL);
    mlt_ps_free(ps);
    taken->mib[node] = high_water_mib() - before;
    return code;
}

static void run_nodes(const struct job *job, struct taken *taken)
{
    char folder[] = "/tmp/mltune-memory-XXXXXX";
    int status;

    assert_non_null(mkdtemp(folder));
    for (unsigned i = 0; i < job->nodes; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            _exit(be_node(i, job, folder, taken) != 0);
    }
    for (unsigned i = 0; i < job->nodes; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* A node takes what was told: by more than a third it errs nowhere, but for
 * some MiB of libraries, stacks and lists, and frames, of which the most is
 * told. */
static void expect_planned(const struct job *job)
{
    struct taken *taken = mmap(NULL, sizeof(*taken), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(taken != MAP_FAILED);
    run_nodes(job, taken);
    for (unsigned n = 0; n < job->nodes; n++) {
        const struct mlt_ps_memory *m = &taken->plan[n];
        double parts = (double)(m->branch + m->updates + m->caches + m->sums +
                                m->access + m->fixed) /
                       MIB;
        double frames = (double)m->frames / MIB;

        print_message("%u nodes, %s: %.0f MiB, planned %.0f (branch %.0f, "
                      "updates %.0f, caches %.0f, sums %.0f, fixed %.0f) and "
                      "frames %.0f\n",
                      job->nodes, job->model, taken->mib[n], parts,
                      (double)m->branch / MIB, (double)m->updates / MIB,
                      (double)m->caches / MIB, (double)m->sums / MIB,
                      (double)m->fixed / MIB, frames);
        if (SANITIZED)
            continue;
        assert_true(taken->mib[n] > parts * 2 / 3 - 8);
        assert_true(taken->mib[n] < parts * 4 / 3 + frames + 16);
    }
    munmap(taken, sizeof(*taken));
}

/* Where a tenth of the rows is touched. */
static void memory_is_what_was_planned(void **state)
{
    static const char *const models[] = {"bsp", "ssp"};

    (void)state;
    for (unsigned nodes = 1; nodes <= 2; nodes++)
        for (int i = 0; i < 2; i++)
            expect_planned(&(struct job){nodes, models[i], ROWS, WIDTH, 0,
                                         1.0 / TENTH, touch_a_tenth});
}

enum { NARROW_ROWS = 1 << 19 };

static int touch_narrow(struct mlt_worker *w, void *arg)
{
    static const float one = 1;
    const void *at[NARROW_BATCH];
    uint64_t row[NARROW_BATCH];
    int code = 0;

    (void)arg;
    for (int clock = 0; clock < 2 && !code; clock++) {
        for (uint64_t r = 0; r < NARROW_ROWS && !code; r += NARROW_BATCH) {
            for (size_t i = 0; i < NARROW_BATCH; i++)
                row[i] = r + i;
            code = mlt_get_rows(w, 0, NARROW_BATCH, row, at);
            for (size_t i = 0; i < NARROW_BATCH; i++)
                mlt_inc_row(w, 0, row[i], &one);
        }
        if (!code)
            code = mlt_clock(w);
    }
    return code;
}

/* Own sums on their way (MLT_READ_MY_WRITES), which are dearest where rows are
 * of one float and all are touched. */
static void memory_of_own_updates_is_planned(void **state)
{
    (void)state;
    expect_planned(&(struct job){1, "ssp", NARROW_ROWS, 1, MLT_READ_MY_WRITES,
                                 1, touch_narrow});
    expect_planned(&(struct job){2, "async", NARROW_ROWS, 1, MLT_READ_MY_WRITES,
                                 1, touch_narrow});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_what_was_planned),
        cmocka_unit_test(memory_of_own_updates_is_planned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
