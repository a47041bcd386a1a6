#include "ps/nodes/revision.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"

enum { WIDTH = 3, ROWS = 6, NODES = 3, STEPS = 4000, EVERYTHING = 1 << 20 };

static struct revision *open_revision(uint32_t snapshots_max)
{
    struct revision_options opt = {ROWS, NODES, WIDTH, snapshots_max};
    struct revision *r = NULL;

    assert_int_equal(revision_new(&opt, &r), ERR_OK);
    return r;
}

/* A row's sum after its @n-th change: differs everywhere. */
static void sum_after(uint64_t row, uint32_t n, float sum[WIDTH])
{
    for (int j = 0; j < WIDTH; j++)
        sum[j] = (float)(1000 * row + 10 * n) + (float)j;
}

static void change(struct revision *r, uint64_t row, uint32_t n)
{
    float sum[WIDTH];

    sum_after(row, n, sum);
    revision_change(r, row, sum);
}

static void assert_sum(const struct revision *r, uint64_t row, uint32_t version,
                       uint32_t n)
{
    const float *got = revision_sum(r, row, version);
    float want[WIDTH];

    sum_after(row, n, want);
    assert_non_null(got);
    assert_memory_equal(got, want, sizeof(want));
}

/* A version that a node has is remembered when the row changes; one that nobody
 * has costs nothing, and several nodes' one snapshot. */
static void revision_remembers_what_is_held(void **state)
{
    struct revision *r = open_revision(EVERYTHING);
    uint32_t first, second;

    (void)state;
    change(r, 2, 0);
    assert_int_equal(revision_stats(r).snapshots, 0);
    first = revision_give(r, 0, 2, 1);
    assert_int_equal(revision_give(r, 1, 2, 1), first);
    assert_null(revision_sum(r, 2, first)); /* as it is now */
    change(r, 2, 1);
    change(r, 2, 2);
    assert_int_equal(revision_stats(r).snapshots, 1);
    assert_sum(r, 2, first, 1);
    second = revision_give(r, 0, 2, 2);
    assert_true(second > first && revision_was(r, 2, second));
    assert_false(revision_was(r, 2, second + 1));
    assert_null(revision_sum(r, 2, second));
    assert_null(revision_sum(r, 2, 0));
    revision_free(r);
}

/* A snapshot goes when every node that had the version has another and has said
 * that it computes on the first no more. */
static void revision_forgets_what_nobody_holds(void **state)
{
    struct revision *r = open_revision(EVERYTHING);
    uint32_t old;

    (void)state;
    old = revision_give(r, 0, 1, 1);
    revision_give(r, 1, 1, 1);
    change(r, 1, 0);
    revision_give(r, 0, 1, 5);
    revision_give(r, 1, 1, 7);
    assert_sum(r, 1, old, 0);
    revision_release(r, 0, 5);
    revision_release(r, 1, 6); /* before the new one came */
    assert_int_equal(revision_stats(r).snapshots, 1);
    revision_release(r, 1, 7);
    assert_int_equal(revision_stats(r).snapshots, 0);
    assert_null(revision_sum(r, 1, old));
    revision_free(r);
}

/* At the limit a version goes on, and what came since counts as seen; once
 * there is room it is as ever. */
static void revision_limit_is_kept(void **state)
{
    struct revision *r = open_revision(1);
    uint32_t a, b;

    (void)state;
    a = revision_give(r, 0, 0, 1);
    b = revision_give(r, 0, 1, 1);
    assert_false(revision_full(r));
    change(r, 0, 0);
    assert_true(revision_full(r));
    change(r, 1, 0);
    assert_int_equal(revision_stats(r).snapshots, 1);
    assert_int_equal(revision_stats(r).missed, 1);
    assert_sum(r, 0, a, 0);
    assert_null(revision_sum(r, 1, b));
    revision_give(r, 0, 0, 2);
    revision_release(r, 0, 2);
    assert_false(revision_full(r));
    change(r, 1, 1);
    assert_sum(r, 1, b, 1); /* what it was when room came */
    revision_reset(r);
    assert_int_equal(revision_stats(r).snapshots, 0);
    assert_null(revision_sum(r, 1, b));
    revision_free(r);
}

/* ---- at random, against one that forgets nothing ------------------------- */

enum { GIVEN_MAX = STEPS };

struct given {
    uint64_t row, frame,
        until;           /* until: frame that replaced it, or UINT64_MAX */
    uint32_t version, n; /* n: changes before */
    uint32_t node;
    bool let_go;
};

struct model {
    struct revision *r;
    struct rng rng;
    uint32_t n[ROWS];
    uint64_t frame[NODES];
    struct given given[GIVEN_MAX];
    size_t count;
};

static struct given *last_given(struct model *m, uint32_t node, uint64_t row)
{
    for (size_t i = m->count; i-- > 0;)
        if (m->given[i].node == node && m->given[i].row == row)
            return &m->given[i];
    return NULL;
}

static void give(struct model *m, uint32_t node, uint64_t row)
{
    struct given *before = last_given(m, node, row);
    uint32_t version = revision_give(m->r, node, row, ++m->frame[node]);

    if (before && before->version == version)
        return;
    if (before)
        before->until = m->frame[node];
    m->given[m->count++] = (struct given){
        row, m->frame[node], UINT64_MAX, version, m->n[row], node, false};
}

static void release(struct model *m, uint32_t node)
{
    uint64_t through = m->frame[node] - rng_below(&m->rng, m->frame[node] + 1);

    revision_release(m->r, node, through);
    for (size_t i = 0; i < m->count; i++)
        if (m->given[i].node == node && m->given[i].until <= through)
            m->given[i].let_go = true;
}

/* Every version that may still be named gives the sum as it was, and there are
 * no more snapshots than such versions. */
static void check(const struct model *m)
{
    uint32_t needed = 0;

    for (size_t i = 0; i < m->count; i++) {
        const struct given *g = &m->given[i];
        bool counted = false;

        if (g->let_go)
            continue;
        assert_true(revision_was(m->r, g->row, g->version));
        if (g->n == m->n[g->row]) {
            assert_null(revision_sum(m->r, g->row, g->version));
            continue;
        }
        assert_sum(m->r, g->row, g->version, g->n);
        for (size_t k = 0; k < i; k++)
            counted |= !m->given[k].let_go && m->given[k].row == g->row &&
                       m->given[k].version == g->version;
        needed += !counted;
    }
    assert_int_equal(revision_stats(m->r).snapshots, needed);
}

static void revision_equals_one_that_forgets_nothing(void **state)
{
    static struct model m;

    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        memset(&m, 0, sizeof(m));
        m.r = open_revision(EVERYTHING);
        rng_init(&m.rng, seed);
        for (int step = 0; step < 400; step++) {
            uint64_t row = rng_below(&m.rng, ROWS);
            uint32_t node = (uint32_t)rng_below(&m.rng, NODES);

            switch (rng_below(&m.rng, 4)) {
            case 0:
                change(m.r, row, m.n[row]);
                m.n[row]++;
                break;
            case 1:
                release(&m, node);
                break;
            default:
                give(&m, node, row);
            }
            check(&m);
        }
        revision_free(m.r);
    }
}

/* Whatever node says nothing: what it may name is bounded, its oldest versions
 * are forgotten and taken for the oldest that are left. */
static void revision_silent_node_is_bounded(void **state)
{
    struct revision *r = open_revision(EVERYTHING);
    uint32_t first = revision_give(r, 0, 3, 1), last = first, kept;

    (void)state;
    for (uint32_t i = 0; i < STEPS; i++) {
        change(r, 3, i);
        last = revision_give(r, 0, 3, i + 2);
    }
    kept = revision_stats(r).snapshots;
    assert_true(kept < 100 && revision_stats(r).missed == STEPS - kept);
    assert_sum(r, 3, last - 1, STEPS - 1);
    assert_sum(r, 3, first, STEPS - kept);
    revision_free(r);
}

/* Without memory nothing is lost but delays. */
static void revision_without_memory_goes_on(void **state)
{
    struct revision_options opt = {ROWS, NODES, WIDTH, EVERYTHING};
    int64_t before = mem_outstanding();
    struct revision *r = NULL;

    (void)state;
    for (int64_t nth = 1;; nth++) {
        enum err err;

        mem_fail_at(nth, 1);
        err = revision_new(&opt, &r);
        mem_fail_at(0, 0);
        if (!err)
            break;
        assert_int_equal(err, ERR_NOMEM);
        assert_int_equal(mem_outstanding(), before);
    }
    for (int64_t nth = 1; nth < 4; nth++) {
        revision_reset(r);
        revision_give(r, 0, 0, 1);
        mem_fail_at(nth, 1);
        change(r, 0, 0);
        revision_give(r, 0, 0, 2);
        mem_fail_at(0, 0);
        revision_release(r, 0, 2);
        assert_int_equal(revision_stats(r).snapshots, 0);
    }
    assert_true(revision_stats(r).missed > 0);
    revision_free(r);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revision_remembers_what_is_held),
        cmocka_unit_test(revision_forgets_what_nobody_holds),
        cmocka_unit_test(revision_limit_is_kept),
        cmocka_unit_test(revision_equals_one_that_forgets_nothing),
        cmocka_unit_test(revision_silent_node_is_bounded),
        cmocka_unit_test(revision_without_memory_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
