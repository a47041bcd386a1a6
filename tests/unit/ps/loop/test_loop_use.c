/* One small loop as its users meet it: what it says, what it refuses, how it
 * ends. */
#include "base/log.h"
#include "base/mem.h"
#include "mltune/loop.h"
#include "mltune/model.h"
#include "ps/server/ps.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_fixture.h"
#include "tests/unit/fixture/ps_fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BRANCH = 1 };

/* ---- one loop, in detail ------------------------------------------------- */

enum { USERS = 30, ITEMS = 20, RATINGS = 200, ABSENCES = 50 };

static uint32_t pairs[RATINGS][2];
static float stars[RATINGS];

/* users and items exclusive, seen shared. */
static void small_tables(struct mlt_ps *ps)
{
    for (unsigned i = 0; i < RATINGS; i++) {
        pairs[i][0] = i * 7 % USERS;
        pairs[i][1] = i * i % ITEMS;
        stars[i] = (float)(i % 5);
    }
    loop_fixture_table(ps, "users", USERS, MLT_EXCLUSIVE);
    loop_fixture_table(ps, "items", ITEMS, MLT_EXCLUSIVE);
    loop_fixture_table(ps, "seen", ITEMS, MLT_SHARED);
}

static struct mlt_ps *small_ps(unsigned workers)
{
    struct mlt_ps *ps = fixture_ps(workers, "bsp", "sgd");

    small_tables(ps);
    return ps;
}

static const struct mlt_touch both[2] = {
    {0, MLT_READS | MLT_UPDATES, {MLT_INDEX(0, 0)}},
    {1, MLT_READS | MLT_UPDATES, {MLT_INDEX(1, 0)}}};

static struct mlt_loop_options small_options(void)
{
    struct mlt_loop_options o = MLT_LOOP_OPTIONS;

    o.name = "mf";
    o.dims = 2;
    o.extent[0] = USERS;
    o.extent[1] = ITEMS;
    o.iterations = RATINGS;
    o.key = &pairs[0][0];
    o.value = stars;
    o.value_bytes = sizeof(float);
    o.touch = both;
    o.touches = 2;
    return o;
}

static int may_always(const struct mlt_model_view *v, void *arg)
{
    (void)v;
    (void)arg;
    return 1;
}

/* A loop's own waits and a user's predicates know nothing of each other: both
 * could wait for ever. */
static void loop_refuses_a_users_model(void **state)
{
    static const struct mlt_model_ops mine = {.version = MLT_MODEL_VERSION,
                                              .name = "mine",
                                              .summary = "all may read",
                                              .may_read = may_always};
    struct mlt_ps *ps = small_ps(2);
    struct mlt_loop_options o = small_options();
    struct mlt_loop *loop;
    struct mlt_error err;

    (void)state;
    assert_int_equal(mlt_ps_set_model(ps, &mine, NULL, &err), 0);
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "loop mf: loops do not run under the "
                                     "consistency model mine of a user's"));
    mlt_ps_free(ps);
}

/* The plan says in words what was found, and shows the ring. */
static void loop_text_tells_the_plan(void **state)
{
    struct mlt_ps *ps = small_ps(2);
    struct mlt_loop_options o = small_options();
    struct mlt_loop *loop = loop_fixture_new(ps, &o);
    const char *text = mlt_loop_text(loop);

    (void)state;
    assert_non_null(strstr(text, "loop mf: 200 iterations over 30 x 20 "
                                 "indices, unordered, 2 workers\n"));
    assert_non_null(strstr(text, "  (0, +)  table users, touches 0 and 0\n"
                                 "  (+, 0)  table items, touches 1 and 1\n"
                                 "strategy: two dimensions: iterations that "
                                 "differ in both share no row;"));
    assert_non_null(strstr(text, "space: index 0 in 2 parts, one a worker; "));
    assert_non_null(strstr(text, "time: index 1 in 4 parts; "));
    assert_non_null(strstr(text, "touch 0, table users, reads and updates: "
                                 "local to a worker\n"
                                 "touch 1, table items, reads and updates: "
                                 "goes from worker to worker\n"
                                 "moved in a pass: 80 values\n"
                                 "time parts by step, of 4:\n"
                                 "  worker 0 |   0   1   2   3\n"
                                 "  worker 1 |   2   3   0   1\n"));
    mlt_loop_free(loop);
    mlt_ps_free(ps);
}

/* Options of another size are those of another header. */
static void loop_refuses_another_version(void **state)
{
    struct mlt_ps *ps = small_ps(1);
    struct mlt_loop_options o = small_options();
    struct mlt_loop *loop = NULL;
    struct mlt_error err = {0, ""};
    int64_t before = mem_outstanding();

    (void)state;
    o.size--;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_VERSION);
    assert_non_null(strstr(err.text, "another version of mltune/loop.h"));
    assert_null(loop);
    assert_int_equal(mem_outstanding(), before);
    mlt_ps_free(ps);
}

/* Each declaration that cannot be: refused, in words that say what and where.*/
static void loop_refuses_what_cannot_be(void **state)
{
    static const struct {
        struct mlt_touch touch;
        const char *says;
    } bad[] = {
        {{0, MLT_READS, {MLT_INDEX(0, 1)}},
         "loop mf: touch 0, of table users: subscript 30 in iteration"},
        {{0, MLT_READS, {MLT_INDEX(0, -1)}},
         "touch 0, of table users: subscript -1 in iteration"},
        {{0, MLT_READS, {MLT_INDEX(2, 0)}},
         "index 2, expected less than the loop's 2 dimensions"},
        {{0, MLT_READS, {MLT_FIXED(30)}}, "subscript 30 in iteration 0"},
        {{9, MLT_READS, {MLT_FIXED(0)}}, "touch 0: no table 9"},
        {{0, 0, {MLT_FIXED(0)}}, "expected MLT_READS, MLT_UPDATES or both"},
        {{0, MLT_READS, {{MLT_SUBSCRIPT_NONE, 0, 0, 0}}}, "no subscript"},
        {{0, MLT_READS, {MLT_INDEX_OF(7, 0, 0), MLT_FIXED_OF(4, 0)}},
         "its axes have 28 places, the table 30 rows"},
        {{0, MLT_READS, {MLT_INDEX(0, 0), MLT_FIXED(0)}}, "has no size"},
        {{0, MLT_UPDATES | MLT_BUFFERED, {MLT_FROM_DATA}},
         "table users is exclusive: buffered updates are of a shared table"},
        {{2, MLT_UPDATES, {MLT_INDEX(1, 0)}},
         "table seen is shared: rows that a loop updates in place are of an "
         "exclusive table"},
        {{2, MLT_READS | MLT_UPDATES | MLT_BUFFERED, {MLT_INDEX(1, 0)}},
         "MLT_BUFFERED goes with MLT_UPDATES alone"},
    };
    struct mlt_ps *ps = small_ps(2);
    struct mlt_loop_options o = small_options();
    struct mlt_loop *loop;
    struct mlt_error err;

    (void)state;
    o.touches = 1;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        o.touch = &bad[i].touch;
        assert_int_not_equal(mlt_loop_new(ps, &o, &loop, &err), 0);
        if (!strstr(err.text, bad[i].says))
            fail_msg("\"%s\", expected \"%s\"", err.text, bad[i].says);
    }
    o = small_options();
    o.extent[0] = 29;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_INVAL);
    assert_non_null(strstr(err.text, "index 0 is 29, expected less than its "
                                     "extent 29"));
    o = small_options();
    o.key = NULL;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_INVAL);
    assert_non_null(strstr(err.text, "200 iterations without keys"));
    o = small_options();
    o.dims = 5;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_INVAL);
    o = small_options();
    o.apart = MLT_LOOP_APART_MAX + 1;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_INVAL);
    assert_non_null(strstr(err.text, "65 iterations apart: expected at most "
                                     "64"));
    o.apart = 2;
    o.ordered = 1;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_INVAL);
    assert_non_null(strstr(err.text,
                           "2 iterations apart: an ordered loop keeps "
                           "its order"));
    o = small_options();
    o.iterations = UINT32_MAX;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "4294967295 iterations: expected at most "
                                     "2^32 - 2"));
    mlt_ps_free(ps);
}

/* Sixteen touches of one table whose constants all differ by other numbers, in
 * four dimensions: refused, with the limit and what to do. */
static void loop_refuses_too_many_dependences(void **state)
{
    static const uint32_t key[4];
    struct mlt_touch touch[MLT_LOOP_TOUCHES_MAX];
    struct mlt_loop_options o = MLT_LOOP_OPTIONS;
    struct mlt_ps *ps = fixture_ps(2, "bsp", "sgd");
    uint64_t rows = 1ULL << MLT_LOOP_TOUCHES_MAX;
    struct mlt_loop *loop;
    struct mlt_error err;

    (void)state;
    loop_fixture_table(ps, "far", rows, MLT_EXCLUSIVE);
    for (unsigned t = 0; t < MLT_LOOP_TOUCHES_MAX; t++)
        touch[t] = (struct mlt_touch){
            0, MLT_READS | MLT_UPDATES, {MLT_INDEX(3, 1LL << t)}};
    o.dims = 4;
    for (unsigned d = 0; d < 4; d++)
        o.extent[d] = rows;
    o.key = key;
    o.iterations = 1;
    o.touch = touch;
    o.touches = MLT_LOOP_TOUCHES_MAX;
    assert_int_equal(mlt_loop_new(ps, &o, &loop, &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "more than 512 dependence vectors: "));
    assert_non_null(strstr(err.text, "MLT_BUFFERED"));
    mlt_ps_free(ps);
}

/* Whichever allocation fails, the loop is refused and nothing is left. */
static void loop_without_memory_leaves_nothing(void **state)
{
    struct mlt_ps *ps = small_ps(3);
    struct mlt_loop_options o = small_options();
    int64_t before = mem_outstanding();

    (void)state;
    o.apart = 4;
    for (int64_t nth = 1;; nth++) {
        struct mlt_loop *loop = NULL;
        struct mlt_error err;
        int code;

        mem_fail_at(nth, 0);
        code = mlt_loop_new(ps, &o, &loop, &err);
        if (!mem_failed()) {
            assert_int_equal(code, 0);
            mlt_loop_free(loop);
            mem_fail_at(0, 0);
            break;
        }
        assert_int_equal(code, ERR_NOMEM);
        assert_non_null(strstr(err.text, "out of memory"));
        assert_int_equal(mem_outstanding(), before);
    }
    assert_int_equal(mem_outstanding(), before);
    mlt_ps_free(ps);
}

static int failing_body(const struct mlt_block *b, void *arg)
{
    (void)arg;
    return mlt_worker_index(b->worker) == 1 ? ERR_APP : 0;
}

static int idle_body(const struct mlt_block *b, void *arg)
{
    b->total[0] += (double)b->n;
    (void)arg;
    return 0;
}

/* A body's error ends the pass of all workers, who wait for each other, with
 * that code; another branch goes on. */
static void loop_ends_with_the_bodys_error(void **state)
{
    static const struct mlt_total count = {NULL, 0};
    struct mlt_ps *ps = small_ps(3);
    struct mlt_loop_options o = small_options();
    struct mlt_loop *loop;

    (void)state;
    o.total = &count;
    o.totals = 1;
    loop = loop_fixture_new(ps, &o);
    fixture_start(ps);
    assert_int_equal(ps_fork(ps, BRANCH, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(mlt_loop_run(loop, failing_body, NULL), ERR_APP);
    assert_int_equal(ps_activate(ps, BRANCH), ERR_OK);
    assert_int_equal(mlt_loop_run(loop, idle_body, NULL), 0);
    assert_true(mlt_loop_total(loop, 0) == RATINGS);
    mlt_loop_free(loop);
    mlt_ps_free(ps);
}

/* ---- a worker that does not come ----------------------------------------- */

enum missing { RETURNS, RETURNS_LATE, ENDS_A_CLOCK, RETURNS_SECOND };

struct absence {
    struct mlt_loop *loop;
    enum missing how;
    _Atomic unsigned passes; /* that others are about to begin */
};

/* Worker 1 leaves out a pass, before or after the others have come to it. */
static int some_pass(struct mlt_worker *w, void *arg)
{
    struct absence *a = arg;
    int err = 0;

    if (a->how == RETURNS_SECOND)
        err = mlt_loop_pass(w, a->loop, idle_body, NULL);
    if (err)
        return err;
    if (mlt_worker_index(w) != 1) {
        atomic_fetch_add(&a->passes, 1);
        return mlt_loop_pass(w, a->loop, idle_body, NULL);
    }
    while (a->how == RETURNS_LATE && atomic_load(&a->passes) < 2)
        ;
    return a->how == ENDS_A_CLOCK ? mlt_clock(w) : 0;
}

static void check_absence(const char *model, enum missing how, const char *does)
{
    struct mlt_ps *ps = fixture_ps(3, model, "sgd");
    struct mlt_loop_options o = small_options();
    struct absence a = {.how = how};
    struct mlt_error err = {0, ""};

    small_tables(ps);
    a.loop = loop_fixture_new(ps, &o);
    fixture_start(ps);
    for (unsigned i = 1; i <= ABSENCES; i++) {
        assert_int_equal(ps_fork(ps, i, 0, BRANCH_TRAINING), ERR_OK);
        assert_int_equal(ps_activate(ps, i), ERR_OK);
        atomic_store(&a.passes, 0);
        assert_int_equal(mlt_ps_run(ps, some_pass, &a), ERR_APP);
        assert_int_equal(mlt_ps_model_error(ps, &err), ERR_APP);
        assert_non_null(strstr(err.text, does));
        assert_non_null(strstr(err.text, " without the pass of loop mf, in "
                                         "which worker "));
        assert_int_equal(ps_activate(ps, 0), ERR_OK);
        assert_int_equal(ps_drop(ps, i), ERR_OK);
    }
    assert_int_equal(ps_fork(ps, ABSENCES + 1, 0, BRANCH_TRAINING), ERR_OK);
    assert_int_equal(ps_activate(ps, ABSENCES + 1), ERR_OK);
    assert_int_equal(mlt_loop_run(a.loop, idle_body, NULL), 0);
    assert_int_equal(mlt_ps_model_error(ps, &err), 0);
    mlt_loop_free(a.loop);
    mlt_ps_free(ps);
}

static void count_line(void *ctx, enum log_level level, const char *line)
{
    assert_int_equal(level, LOG_ERROR);
    assert_non_null(strstr(line, "loop_pass_missed what=\"worker 1 "));
    ++*(unsigned *)ctx;
}

/* A pass to which not all workers come ends for those who wait in it, and says
 * who is missing from which loop; the server goes on. */
static void loop_names_who_does_not_come(void **state)
{
    static const char *const model[] = {"bsp", "ssp", "async"};
    static const char back[] = "worker 1 is back from its work";
    unsigned lines = 0;

    (void)state;
    log_set_sink(count_line, &lines);
    for (unsigned m = 0; m < 3; m++) {
        check_absence(model[m], RETURNS, back);
        check_absence(model[m], RETURNS_LATE, back);
        check_absence(model[m], RETURNS_SECOND, back);
    }
    check_absence("bsp", ENDS_A_CLOCK, "worker 1 ends its clock");
    check_absence("ssp", ENDS_A_CLOCK, back);
    log_set_sink(NULL, NULL);
    assert_int_equal(lines, 11 * ABSENCES);
}

struct differing {
    struct mlt_loop *loop[2];
    bool steps;
};

/* Each worker another loop; or another step. */
static int differing_pass(struct mlt_worker *w, void *arg)
{
    struct differing *d = arg;
    unsigned i = mlt_worker_index(w);

    return d->steps ? mlt_loop_step(w, d->loop[0], i, idle_body, NULL)
                    : mlt_loop_pass(w, d->loop[i], idle_body, NULL);
}

/* Workers that begin different passes would wait for each other for ever: the
 * run ends, and names both. */
static void loop_names_passes_that_differ(void **state)
{
    struct mlt_ps *ps = small_ps(2);
    struct mlt_loop_options o = small_options();
    struct differing d = {.steps = false};
    struct mlt_error err;

    (void)state;
    d.loop[0] = loop_fixture_new(ps, &o);
    o.name = "other";
    d.loop[1] = loop_fixture_new(ps, &o);
    fixture_start(ps);
    for (unsigned i = 1; i <= ABSENCES; i++) {
        d.steps = i % 2;
        assert_int_equal(ps_fork(ps, i, 0, BRANCH_TRAINING), ERR_OK);
        assert_int_equal(ps_activate(ps, i), ERR_OK);
        assert_int_equal(mlt_ps_run(ps, differing_pass, &d), ERR_APP);
        assert_int_equal(mlt_ps_model_error(ps, &err), ERR_APP);
        assert_true(strstr(err.text, "worker 0 begins ") ||
                    strstr(err.text, "worker 1 begins "));
        if (d.steps) {
            assert_non_null(strstr(err.text, "step 0 of loop mf"));
            assert_non_null(strstr(err.text, "step 1 of loop mf"));
        } else {
            assert_non_null(strstr(err.text, "steps 0 to 3 of loop mf"));
            assert_non_null(strstr(err.text, "steps 0 to 3 of loop other"));
        }
        assert_int_equal(ps_activate(ps, 0), ERR_OK);
        assert_int_equal(ps_drop(ps, i), ERR_OK);
    }
    assert_int_equal(mlt_loop_run(d.loop[0], idle_body, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        mlt_loop_free(d.loop[i]);
    mlt_ps_free(ps);
}

struct canceling {
    struct mlt_ps *ps;
    _Atomic unsigned blocks[2];
};

/* Ends the run as another thread would, and knows nothing of it. */
static int canceling_body(const struct mlt_block *b, void *arg)
{
    struct canceling *c = arg;

    c->blocks[mlt_worker_index(b->worker)]++;
    ps_run_cancel(c->ps, ERR_APP);
    return 0;
}

/* A run that is over is seen before the next part, also where that one waits
 * for nobody. */
static void loop_begins_no_part_of_a_run_that_is_over(void **state)
{
    struct mlt_ps *ps = small_ps(2);
    struct mlt_loop_options o = small_options();
    struct canceling c = {.ps = ps};
    struct mlt_loop *loop = loop_fixture_new(ps, &o);

    (void)state;
    fixture_start(ps);
    assert_int_equal(mlt_loop_run(loop, canceling_body, &c), ERR_APP);
    assert_true(c.blocks[0] + c.blocks[1] >= 1);
    assert_true(c.blocks[0] <= 1 && c.blocks[1] <= 1);
    mlt_loop_free(loop);
    mlt_ps_free(ps);
}

/* What two workers do of whom one fails while the other waits to read. */
struct reading {
    struct mlt_ps *ps;
    uint32_t ticket; /* before the run */
    _Atomic unsigned blocks[2];
};

/* Worker 1 fails once worker 0 has ended a clock. */
static int reading_body(const struct mlt_block *b, void *arg)
{
    static const float one[LOOP_FIXTURE_WIDTH] = {1, 1};
    struct reading *r = arg;
    unsigned w = mlt_worker_index(b->worker);

    r->blocks[w]++;
    for (size_t i = 0; i < b->n; i++) {
        const float *row = mlt_loop_row(b, 0, i);

        assert_non_null(row);
        assert_non_null(mlt_loop_row_at(b, 0, i, b->key[i]));
        mlt_loop_add(b, 1, i, b->key[i], one);
    }
    while (w == 1 && ps_ticket(r->ps) == r->ticket)
        if (!ps_await(b->worker, r->ticket))
            break;
    return w == 1 ? ERR_APP : 0;
}

/* Under staleness 0 worker 0's second clock waits for worker 1's first, which
 * never ends: its body is not called, rather than given no row. */
static void loop_gives_no_body_a_row_that_is_not_there(void **state)
{
    static const struct mlt_touch touch[2] = {
        {0, MLT_READS, {MLT_INDEX(0, 0)}},
        {0, MLT_UPDATES | MLT_BUFFERED, {MLT_INDEX(0, 0)}}};
    struct mlt_ps *ps = fixture_ps(2, "ssp", "sgd");
    struct mlt_loop_options o = MLT_LOOP_OPTIONS;
    struct reading r = {.ps = ps};
    struct mlt_loop *loop;

    (void)state;
    loop_fixture_table(ps, "seen", ITEMS, MLT_SHARED);
    o.extent[0] = ITEMS;
    o.touch = touch;
    o.touches = 2;
    o.buffer = 1;
    loop = loop_fixture_new(ps, &o);
    fixture_start(ps);
    r.ticket = ps_ticket(ps);
    assert_int_equal(mlt_loop_run(loop, reading_body, &r), ERR_APP);
    assert_int_equal(r.blocks[0], 1);
    assert_int_equal(r.blocks[1], 1);
    mlt_loop_free(loop);
    mlt_ps_free(ps);
}

/* ---- misuse -------------------------------------------------------------- */

#ifdef MLT_DEBUG

enum { FIRST_LATER = 3, LATER = 40 }; /* tables declared after the loop */

static void sink(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    _exit(strstr(line, ctx) ? 42 : 43);
}

/* Declares so many that the server moves its list. */
static void add_later_tables(struct mlt_ps *ps)
{
    for (unsigned i = 0; i < LATER; i++) {
        char name[16];

        snprintf(name, sizeof(name), "later%u", i);
        loop_fixture_table(ps, name, ITEMS, i % 2 ? MLT_LOCAL : MLT_SHARED);
    }
}

/* Whether the body is stopped with a message that has @says, in a child. */
static bool aborts(mlt_loop_body *body, const char *says)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct mlt_ps *ps = small_ps(2);
        struct mlt_loop_options o = small_options();
        struct mlt_loop *loop = loop_fixture_new(ps, &o);

        add_later_tables(ps);
        fixture_start(ps);
        log_set_sink(sink, (void *)says);
        mlt_loop_run(loop, body, NULL);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
}

static int undeclared_row(const struct mlt_block *b, void *arg)
{
    (void)arg;
    mlt_loop_row_at(b, 1, 0, (b->key[1] + 1) % ITEMS);
    return 0;
}

static int undeclared_table(const struct mlt_block *b, void *arg)
{
    (void)arg;
    mlt_get_row(b->worker, 2, 5);
    return 0;
}

static int undeclared_later_table(const struct mlt_block *b, void *arg)
{
    (void)arg;
    mlt_get_row(b->worker, FIRST_LATER + LATER - 2, 5);
    return 0;
}

/* Local tables need no declaration, whenever they come. */
static int later_local_table(const struct mlt_block *b, void *arg)
{
    (void)arg;
    mlt_row(b->worker, FIRST_LATER + LATER - 1, 5);
    return 0;
}

/* What a body did not declare: loop, table and row are named. */
static void loop_names_what_was_not_declared(void **state)
{
    (void)state;
    assert_true(aborts(undeclared_row, "of table items by touch 1, which does "
                                       "not declare it"));
    assert_true(aborts(undeclared_table, "loop mf: its body touches row 5 of "
                                         "table seen, which it does not "
                                         "declare"));
    assert_true(aborts(undeclared_later_table, "touches row 5 of table later38,"
                                               " which it does not declare"));
    assert_false(aborts(later_local_table, ""));
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_text_tells_the_plan),
        cmocka_unit_test(loop_refuses_another_version),
        cmocka_unit_test(loop_refuses_what_cannot_be),
        cmocka_unit_test(loop_refuses_a_users_model),
        cmocka_unit_test(loop_refuses_too_many_dependences),
        cmocka_unit_test(loop_without_memory_leaves_nothing),
        cmocka_unit_test(loop_ends_with_the_bodys_error),
        cmocka_unit_test(loop_names_who_does_not_come),
        cmocka_unit_test(loop_names_passes_that_differ),
        cmocka_unit_test(loop_begins_no_part_of_a_run_that_is_over),
        cmocka_unit_test(loop_gives_no_body_a_row_that_is_not_there),
#ifdef MLT_DEBUG /* others do not check it */
        cmocka_unit_test(loop_names_what_was_not_declared),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
