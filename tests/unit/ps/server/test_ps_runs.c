/* mlt_inc_rows of rows that follow one another: stored and applied by runs. */
#include "base/log.h"
#include "base/rng.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"

#include "tests/unit/fixture/check.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 700, CLOCKS = 5, CALLS = 6, LIST_MAX = 300, WIDTH_MAX = 3 };

struct form {
    enum mlt_type type;
    uint32_t width,
        chunk_bytes; /* a word of 64 rows over several chunks, too */
};

static const struct form forms[] = {{MLT_F64, 1, 256},
                                    {MLT_F64, 1, 4096},
                                    {MLT_F32, 3, 512},
                                    {MLT_I32, 2, 512}};

struct task {
    struct form form;
    bool exact; /* sums are the same in any order */
    mlt_table table;
};

/* ---- what is added ------------------------------------------------------- */

struct list {
    size_t n;
    uint64_t row[LIST_MAX];
};

/* The rows of a call: runs, with gaps or none between them, and rows that were
 * there before; one call in three goes backwards, where no row follows. */
static void make_list(unsigned worker, int clock, int call, struct list *l)
{
    struct rng rng;
    uint64_t row, run;

    rng_init(&rng, rng_mix(rng_mix(worker, (uint64_t)clock), (uint64_t)call));
    l->n = 0;
    while (l->n < LIST_MAX) {
        row = rng_below(&rng, ROWS);
        run = rng_below(&rng, 4) ? rng_below(&rng, 150) : 1;
        for (uint64_t i = 0; i < run && row < ROWS && l->n < LIST_MAX; i++)
            l->row[l->n++] = row++;
    }
    for (size_t i = 0; call % 3 == 2 && i < l->n / 2; i++) {
        row = l->row[i];
        l->row[i] = l->row[l->n - 1 - i];
        l->row[l->n - 1 - i] = row;
    }
}

/* Representable in the table's type. */
static double delta(const struct task *t, int clock, uint64_t row, uint32_t j)
{
    float noise = fixture_noise((uint64_t)clock, row, j);

    return t->form.type == MLT_I32 || t->exact ? (double)(int)(noise * 64)
                                               : (double)noise;
}

static double add(const struct task *t, double a, double b)
{
    return t->form.type == MLT_F32 ? (double)((float)a + (float)b) : a + b;
}

static size_t store(const struct task *t, unsigned char *to, double x)
{
    float f32 = (float)x;
    int32_t i32 = (int32_t)x;
    const void *from = t->form.type == MLT_F64   ? (const void *)&x
                       : t->form.type == MLT_F32 ? (const void *)&f32
                                                 : (const void *)&i32;
    size_t bytes = t->form.type == MLT_F64 ? 8 : 4;

    memcpy(to, from, bytes);
    return bytes;
}

static int work(struct mlt_worker *w, void *arg)
{
    const struct task *t = arg;
    unsigned char deltas[LIST_MAX * WIDTH_MAX * 8];
    struct list l;
    int err = 0;

    for (int clock = 0; clock < CLOCKS && !err; clock++) {
        for (int call = 0; call < CALLS; call++) {
            size_t at = 0;

            make_list(mlt_worker_index(w), clock, call, &l);
            for (size_t i = 0; i < l.n; i++)
                for (uint32_t j = 0; j < t->form.width; j++)
                    at += store(t, deltas + at, delta(t, clock, l.row[i], j));
            mlt_inc_rows(w, t->table, l.n, l.row, deltas);
        }
        err = mlt_clock(w);
    }
    return err;
}

/* ---- beside row by row --------------------------------------------------- */

/* One worker's clocks, or all workers' one after another, row by row. */
static void expect(const struct task *t, unsigned workers,
                   double value[ROWS][WIDTH_MAX])
{
    static double sum[ROWS][WIDTH_MAX];
    static bool has[ROWS];
    struct list l;

    memset(value, 0, sizeof(double[ROWS][WIDTH_MAX]));
    for (int clock = 0; clock < CLOCKS; clock++)
        for (unsigned worker = 0; worker < workers; worker++) {
            memset(has, 0, sizeof(has));
            for (int call = 0; call < CALLS; call++) {
                make_list(worker, clock, call, &l);
                for (size_t i = 0; i < l.n; i++) {
                    uint64_t row = l.row[i];

                    for (uint32_t j = 0; j < t->form.width; j++) {
                        double by = delta(t, clock, row, j);

                        sum[row][j] = has[row] ? add(t, sum[row][j], by) : by;
                    }
                    has[row] = true;
                }
            }
            for (uint64_t row = 0; row < ROWS; row++)
                for (uint32_t j = 0; j < t->form.width && has[row]; j++)
                    value[row][j] = add(t, value[row][j], sum[row][j]);
        }
}

static void expect_alike(const char *model, unsigned workers, struct form form)
{
    static double want[ROWS][WIDTH_MAX];
    static double got[ROWS * WIDTH_MAX], parent[ROWS * WIDTH_MAX];
    struct mlt_ps *ps = fixture_ps(workers, model, "add");
    struct task t = {.form = form, .exact = workers > 1};
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "rows",
                                    .rows = ROWS,
                                    .width = form.width,
                                    .type = form.type,
                                    .access = MLT_SHARED,
                                    .chunk_bytes = form.chunk_bytes};

    assert_int_equal(mlt_ps_table(ps, &opt, &t.table, NULL), 0);
    fixture_start(ps);
    assert_int_equal(ps_fork(ps, 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(ps, 1), ERR_OK);
    fixture_run(ps, work, &t, 0);
    expect(&t, workers, want);
    assert_int_equal(rows_read_whole(ps, 1, "rows", 0, ROWS, got), ERR_OK);
    assert_int_equal(rows_read_whole(ps, 0, "rows", 0, ROWS, parent), ERR_OK);
    for (uint64_t row = 0; row < ROWS; row++)
        for (uint32_t j = 0; j < form.width; j++) {
            if (got[row * form.width + j] != want[row][j])
                fail_msg("%s, %u workers, row %u value %u: %.17g, not %.17g",
                         model, workers, (unsigned)row, j,
                         got[row * form.width + j], want[row][j]);
            assert_true(parent[row * form.width + j] == 0);
        }
    mlt_ps_free(ps);
}

/* Runs give the bits of one row after another, under every model, with one
 * worker and several, in chunks of fewer and more rows than a word has; the
 * parent of the branch keeps its own. */
static void runs_equal_row_by_row(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp", "async",
                                         "barrier"};

    (void)state;
    for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++)
        for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
            for (unsigned workers = 1; workers <= 3; workers++)
                expect_alike(models[m], workers, forms[i]);
}

/* ---- misuse -------------------------------------------------------------- */

static void sink(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    _exit(strstr(line, ctx) ? 42 : 43);
}

static int run_over_the_end(struct mlt_worker *w, void *arg)
{
    const uint64_t rows[3] = {FIXTURE_ROWS - 2, FIXTURE_ROWS - 1, FIXTURE_ROWS};
    const float deltas[3 * FIXTURE_WIDTH] = {0};

    (void)arg;
    mlt_inc_rows(w, 0, 3, rows, deltas);
    return 0;
}

/* A run that goes over the table's end is refused by the row that is not there,
 * and ends the program. */
static void run_over_the_end_aborts(void **state)
{
    int status = 0;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        struct mlt_ps *ps = fixture_ps(1, "bsp", "add");

        fixture_table(ps, "rows", MLT_F32, MLT_SHARED, 0);
        fixture_start(ps);
        log_set_sink(sink, (void *)"row 300 is out of range");
        mlt_ps_run(ps, run_over_the_end, NULL);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_equal_row_by_row),
        cmocka_unit_test(run_over_the_end_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
