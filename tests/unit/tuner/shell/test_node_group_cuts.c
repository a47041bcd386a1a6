/* Slices that several programs end where the tuner says: the group's side of
 * `hold`, alone and with simulated programs that wait for one another. */
#include "base/mem.h"
#include "base/rng.h"
#include "tuner/shell/node_group.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/fixture/check.h"

enum { NODES_MAX = 5, SLICES = 12, WIRE_MAX = 256 };

#if defined(__SANITIZE_THREAD__) /* one thread: little to find, and slow */
enum { SEEDS = 1000 };
#else
enum { SEEDS = 20000 };
#endif

static struct node_group *new_group(uint32_t nodes, enum proto_cuts cuts)
{
    struct msg m = {.kind = MSG_CONFIG, .op = 1};
    struct node_group *g;
    bool leaves;

    assert_int_equal(node_group_new(nodes, &g), ERR_OK);
    assert_int_equal(node_group_ask(g, &m, &leaves), ERR_OK);
    for (uint32_t i = 0; i < nodes; i++) {
        m = (struct msg){.kind = MSG_READY, .op = 1, .ready.cuts = cuts};
        assert_int_equal(node_group_take(g, i, &m, NULL), ERR_OK);
    }
    assert_true(node_group_next(g, &m));
    return g;
}

static bool ask(struct node_group *g, struct msg m)
{
    bool leaves;

    assert_int_equal(node_group_ask(g, &m, &leaves), ERR_OK);
    return leaves;
}

static struct msg schedule(op_id op, uint64_t count)
{
    return (struct msg){
        .kind = MSG_SCHEDULE, .op = op, .schedule = {1, op * 1000, count, 1}};
}

static struct msg cut(op_id op, op_id target)
{
    return (struct msg){.kind = MSG_CUT, .op = op, .cut.target = target};
}

static enum err answer(struct node_group *g, uint32_t node, op_id op,
                       uint64_t clocks, struct fault *f)
{
    struct msg m = {.kind = MSG_DONE, .op = op, .done.clocks = clocks};

    return node_group_take(g, node, &m, f);
}

static struct msg posted(struct node_group *g, enum msg_kind kind, op_id op)
{
    struct msg m;

    assert_true(node_group_post(g, &m));
    assert_string_equal(msg_kind_name(m.kind), msg_kind_name(kind));
    assert_int_equal(m.op, op);
    return m;
}

static void nothing_posted(struct node_group *g)
{
    struct msg m;

    assert_false(node_group_post(g, &m));
}

/* Programs that end slices by themselves get the cut as it is. */
static void cuts_own_pass(void **state)
{
    struct node_group *g = new_group(2, CUTS_OWN);

    (void)state;
    assert_true(ask(g, schedule(2, 50)));
    assert_true(ask(g, cut(3, 2)));
    nothing_posted(g);
    node_group_free(g);
}

/* A cut becomes a hold under its number; the farthest of all is the end; the
 * core gets its answer. */
static void cuts_agreed_end_at_the_farthest(void **state)
{
    struct node_group *g = new_group(3, CUTS_AGREED);
    struct msg m;

    (void)state;
    assert_true(ask(g, schedule(2, 50)));
    assert_false(ask(g, cut(3, 2)));
    assert_int_equal(posted(g, MSG_HOLD, 3).hold.target, 2);
    answer(g, 0, 3, 7, NULL);
    answer(g, 2, 3, 9, NULL);
    nothing_posted(g);
    assert_false(node_group_next(g, &m));
    answer(g, 1, 3, 8, NULL);
    m = posted(g, MSG_CUT, 0);
    assert_int_equal(m.cut.target, 2);
    assert_int_equal(m.cut.clocks, 9);
    assert_true(node_group_next(g, &m));
    assert_int_equal(m.op, 3);
    assert_int_equal(m.done.clocks, 0);
    node_group_free(g);
}

/* A node that had run the slice to its last clock before the hold came says
 * nothing of use then: the end is the last clock. */
static void cuts_agreed_end_where_one_has_ended(void **state)
{
    struct node_group *g = new_group(2, CUTS_AGREED);

    (void)state;
    ask(g, schedule(2, 50));
    ask(g, cut(3, 2));
    posted(g, MSG_HOLD, 3);
    answer(g, 0, 2, 50, NULL); /* the slice */
    answer(g, 0, 3, 0, NULL);
    answer(g, 1, 3, 49, NULL);
    assert_int_equal(posted(g, MSG_CUT, 0).cut.clocks, 50);
    node_group_free(g);
}

/* A cut that comes when the slice is over everywhere passes: each node says
 * that it is too late. One that the end overtakes names none. */
static void cuts_agreed_may_be_too_late(void **state)
{
    struct node_group *g = new_group(2, CUTS_AGREED);
    struct msg m;

    (void)state;
    ask(g, schedule(2, 50));
    ask(g, schedule(3, 50));
    answer(g, 0, 2, 50, NULL);
    answer(g, 1, 2, 50, NULL);
    assert_true(ask(g, cut(4, 2)));
    assert_false(ask(g, cut(5, 3)));
    posted(g, MSG_HOLD, 5);
    answer(g, 0, 3, 50, NULL);
    answer(g, 1, 3, 50, NULL);
    answer(g, 0, 5, 50, NULL);
    answer(g, 1, 5, 50, NULL);
    nothing_posted(g);
    while (node_group_next(g, &m))
        assert_int_not_equal(m.op, 0);
    node_group_free(g);
}

/* Answers that no program may give are found, in words. */
static void cuts_agreed_nonsense_is_found(void **state)
{
    struct node_group *g = new_group(2, CUTS_AGREED);
    struct msg m = {.kind = MSG_FAILED, .op = 3, .failed.code = ERR_INVAL};
    struct fault f = {0};

    (void)state;
    ask(g, schedule(2, 50));
    ask(g, cut(3, 2));
    assert_int_equal(answer(g, 0, 3, 51, &f), ERR_PROTO);
    assert_non_null(strstr(f.text, "more than was asked for"));
    assert_int_equal(node_group_take(g, 1, &m, &f), ERR_PROTO);
    assert_non_null(strstr(f.text, "cannot hold"));
    node_group_free(g);
}

/* Nodes must have one way of ending slices. */
static void cuts_ways_must_be_one(void **state)
{
    struct msg m = {.kind = MSG_CONFIG, .op = 1};
    struct node_group *g;
    struct fault f = {0};

    (void)state;
    assert_int_equal(node_group_new(2, &g), ERR_OK);
    ask(g, m);
    m = (struct msg){.kind = MSG_READY, .op = 1};
    assert_int_equal(node_group_take(g, 0, &m, &f), ERR_OK);
    m = (struct msg){.kind = MSG_READY, .op = 1, .ready.cuts = CUTS_AGREED};
    assert_int_equal(node_group_take(g, 1, &m, &f), ERR_PROTO);
    node_group_free(g);
}

/* ---- programs that wait for one another ---------------------------------- */

/* Messages on their way, in order. */
struct wire {
    struct msg m[WIRE_MAX];
    size_t len;
};

static void put(struct wire *w, struct msg m)
{
    assert_true(w->len < WIRE_MAX);
    w->m[w->len++] = m;
}

static struct msg get(struct wire *w)
{
    struct msg m = w->m[0];

    assert_true(w->len > 0);
    memmove(w->m, w->m + 1, --w->len * sizeof(m));
    return m;
}

/* A slice as a program has it. */
struct slice {
    op_id op;
    uint64_t count, end; /* where it ends, as far as is known */
    bool held;
};

struct program {
    struct slice slice[SLICES]; /* that came; [now] runs */
    size_t slices, now;
    uint64_t begun, finished; /* clocks of that one */
};

struct world {
    struct rng r;
    uint32_t nodes;
    struct program p[NODES_MAX];
    struct wire to[NODES_MAX], from[NODES_MAX];
    struct node_group *g;
    uint64_t ran[SLICES]; /* clocks that the group said, by slice */
    size_t done;
    op_id op;
};

/* Program @p takes a message of the tuner's; answers leave on @out. */
static void program_take(struct program *p, const struct msg *m,
                         struct wire *out)
{
    struct msg done = {.kind = MSG_DONE, .op = m->op};

    if (m->kind == MSG_SCHEDULE) {
        p->slice[p->slices++] =
            (struct slice){m->op, m->schedule.count, m->schedule.count, false};
        return;
    }
    for (size_t i = p->now; i < p->slices; i++) {
        struct slice *s = &p->slice[i];

        if (m->kind == MSG_HOLD && s->op == m->hold.target) {
            s->held = true;
            done.done.clocks = i == p->now ? p->begun : 0;
        }
        if (m->kind == MSG_CUT && s->op == m->cut.target) {
            s->held = false;
            s->end = m->cut.clocks;
        }
    }
    if (m->op)
        put(out, done);
}

/* A clock is finished when all programs have begun it. */
static bool all_begun(const struct world *w, const struct program *p)
{
    for (uint32_t i = 0; i < w->nodes; i++)
        if (w->p[i].now < p->now ||
            (w->p[i].now == p->now && w->p[i].begun < p->begun))
            return false;
    return true;
}

/* One step of program @p, if it can make one. */
static bool program_step(struct world *w, struct program *p, struct wire *out)
{
    struct slice *s = &p->slice[p->now];

    if (p->now == p->slices)
        return false;
    if (p->begun > p->finished) {
        if (!all_begun(w, p))
            return false;
        p->finished++;
        return true;
    }
    if (s->held)
        return false;
    if (p->begun < s->end) {
        p->begun++;
        return true;
    }
    assert_int_equal(p->begun, s->end);
    put(out, (struct msg){
                 .kind = MSG_DONE, .op = s->op, .done.clocks = p->finished});
    p->now++;
    p->begun = p->finished = 0;
    return true;
}

static void to_all(struct world *w, struct msg m)
{
    for (uint32_t i = 0; i < w->nodes; i++)
        put(&w->to[i], m);
}

static void send_out(struct world *w, struct msg m)
{
    if (ask(w->g, m))
        to_all(w, m);
    while (node_group_post(w->g, &m))
        to_all(w, m);
}

static void group_take(struct world *w, uint32_t node)
{
    struct msg m = get(&w->from[node]);
    struct fault f = {0};

    if (node_group_take(w->g, node, &m, &f) != ERR_OK)
        fail_msg("%s", f.text);
    while (node_group_post(w->g, &m))
        to_all(w, m);
    while (node_group_next(w->g, &m))
        if (m.op >= 100 && m.op < 100 + SLICES)
            w->ran[w->done++] = m.done.clocks;
}

/* Something that can happen happens; false: nothing can. */
static bool world_step(struct world *w)
{
    uint32_t first = (uint32_t)rng_below(&w->r, 3 * w->nodes);

    for (uint32_t i = 0; i < 3 * w->nodes; i++) {
        uint32_t k = (first + i) % (3 * w->nodes), node = k / 3;

        if (k % 3 == 0 && w->to[node].len) {
            struct msg m = get(&w->to[node]);

            program_take(&w->p[node], &m, &w->from[node]);
            return true;
        }
        if (k % 3 == 1 && w->from[node].len) {
            group_take(w, node);
            return true;
        }
        if (k % 3 == 2 && program_step(w, &w->p[node], &w->from[node]))
            return true;
    }
    return false;
}

static void simulate(uint64_t seed)
{
    struct world w = {.op = 200};
    uint64_t count[SLICES];
    size_t sent = 0, cuts = 0;

    rng_init(&w.r, seed);
    w.nodes = 2 + (uint32_t)rng_below(&w.r, NODES_MAX - 1);
    w.g = new_group(w.nodes, CUTS_AGREED);
    for (;;) {
        uint64_t what = rng_below(&w.r, 30);

        if (what == 0 && sent < SLICES && sent < w.done + 3) {
            count[sent] = 1 + rng_below(&w.r, 40);
            send_out(&w, schedule(100 + sent, count[sent]));
            sent++;
        } else if (what == 1 && cuts < sent) {
            /* The running one, as the core does, or one that waits. */
            if (cuts < w.done)
                cuts = w.done;
            if (cuts < sent)
                send_out(&w, cut(++w.op, 100 + cuts++));
        } else if (!world_step(&w) && sent == SLICES) {
            break;
        }
    }
    if (w.done != SLICES)
        fail_msg("seed %llu: %zu of %d slices ended", (unsigned long long)seed,
                 w.done, SLICES);
    for (size_t i = 0; i < SLICES; i++)
        assert_true(w.ran[i] <= count[i]);
    node_group_free(w.g);
}

/* Programs of which each waits for the others in every clock, messages in any
 * order that two ends allow: every slice ends, on all after the same clock. */
static void cuts_agreed_never_deadlock(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        simulate(seed);
}

static enum err agree(void)
{
    struct msg m = {.kind = MSG_CONFIG, .op = 1};
    struct node_group *g = NULL;
    bool leaves;
    enum err err = node_group_new(1, &g);

    if (!err)
        err = node_group_ask(g, &m, &leaves);
    m = (struct msg){.kind = MSG_READY, .op = 1, .ready.cuts = CUTS_AGREED};
    if (!err)
        err = node_group_take(g, 0, &m, NULL);
    m = schedule(2, 50);
    if (!err)
        err = node_group_ask(g, &m, &leaves);
    m = cut(3, 2);
    if (!err)
        err = node_group_ask(g, &m, &leaves);
    if (!err)
        err = answer(g, 0, 3, 1, NULL);
    node_group_free(g);
    return err;
}

/* Memory that is refused anywhere leaves nothing behind. */
static void cuts_allocation_failures_leave_nothing(void **state)
{
    int64_t before = mem_outstanding();
    enum err err = ERR_NOMEM;

    (void)state;
    for (int64_t nth = 1; err; nth++) {
        mem_fail_at(nth, 0);
        err = agree();
        mem_fail_at(0, 0);
        assert_int_equal(mem_outstanding(), before);
        if (err)
            assert_int_equal(err, ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_own_pass),
        cmocka_unit_test(cuts_agreed_end_at_the_farthest),
        cmocka_unit_test(cuts_agreed_end_where_one_has_ended),
        cmocka_unit_test(cuts_agreed_may_be_too_late),
        cmocka_unit_test(cuts_agreed_nonsense_is_found),
        cmocka_unit_test(cuts_ways_must_be_one),
        cmocka_unit_test(cuts_agreed_never_deadlock),
        cmocka_unit_test(cuts_allocation_failures_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
