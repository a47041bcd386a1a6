/* Random loops over simulated nodes: each has its own rows, frames take their
 * time on each way and keep their order, workers go on in a random order as far
 * as they may; against the serial run.
 */
#include "tests/sim/loop_trips.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_random.h"

#include <string.h>

enum { SEEDS = 3000, NODES = 4, WORKERS = 8, FRAMES = 4096, STEPS = 64 };

struct note { /* a frame: the rows of an event, and that it is over */
    uint32_t worker, events, rows;
    struct {
        uint32_t touch;
        uint64_t row;
        double value;
    } * row;
};
struct way {
    struct note note[FRAMES];
    unsigned sent, got;
};

static struct sim {
    struct loop_random r;
    struct depends ds;
    struct loop_plan plan;
    struct loop_parts parts;
    struct loop_schedule schedule;
    struct loop_nest nest; /* keys in the order of the parts */
    uint32_t key[LOOP_RANDOM_ITERATIONS * MLT_LOOP_DIMS_MAX];
    bool carried[MLT_LOOP_TOUCHES_MAX];
    unsigned same[MLT_LOOP_TOUCHES_MAX];
    uint32_t nodes;
    unsigned each;
    uint64_t salt;
    struct trips trips[NODES];
    double value[NODES][LOOP_RANDOM_TABLES][LOOP_RANDOM_ROWS];
    double plain[LOOP_RANDOM_TABLES][LOOP_RANDOM_ROWS];
    uint32_t known[NODES][WORKERS]; /* events of each that a node has heard */
    unsigned ended[WORKERS];
    struct way way[NODES][NODES];
    uint32_t began[LOOP_RANDOM_ITERATIONS];
    unsigned count;
} s;

/* Homes are scattered: the hardest case. */
static uint32_t home(const void *self, unsigned touch, uint64_t row)
{
    const struct sim *sim = self;

    return (
        uint32_t)(rng_mix(rng_mix(sim->salt, sim->nest.access[touch].id), row) %
                  sim->nodes);
}

static void work_on(double (*table)[LOOP_RANDOM_ROWS], uint32_t id)
{
    const struct loop_nest *n = &s.r.nest;
    double sum = id + 1;

    for (unsigned t = 0; t < n->accesses; t++)
        if (s.carried[t] && n->access[t].reads)
            sum += table[n->access[t].id][loop_random_row(&s.r, t, id)] * 0.5;
    for (unsigned t = 0; t < n->accesses; t++)
        if (s.carried[t] && n->access[t].updates) {
            double *at = &table[n->access[t].id][loop_random_row(&s.r, t, id)];

            *at = *at * 0.75 + sum * 1e-3;
        }
}

static void end_event(unsigned worker, unsigned event)
{
    uint32_t node = worker / s.each;
    const struct trips *t = &s.trips[node];
    uint64_t place = (uint64_t)(worker % s.each) * t->events + event;

    for (uint32_t to = 0; to < s.nodes; to++) {
        struct way *way = &s.way[node][to];
        struct note *note = &way->note[way->sent];
        uint64_t n = 0;

        if (!(t->tell[place] >> to & 1))
            continue;
        assert_true(to != node && way->sent < FRAMES);
        way->sent++;
        *note = (struct note){worker, event + 1, 0, NULL};
        note->row = mem_calloc(4096, sizeof(*note->row));
        for (uint64_t p = t->parcel_at[place]; p < t->parcel_at[place + 1]; p++)
            for (uint64_t i = 0;
                 t->parcel[p].to == to && i < t->parcel[p].count; i++) {
                unsigned touch = t->parcel[p].touch;
                uint64_t row = t->row[t->parcel[p].first + i];

                assert_true(n < 4096);
                note->row[n].touch = touch;
                note->row[n].row = row;
                n++;
            }
        note->rows = (uint32_t)n;
        if (rng_mix(s.salt, place) % 2 == 0) /* read now, or when it leaves */
            for (uint32_t i = 0; i < n; i++)
                note->row[i].value =
                    s.value[node][s.nest.access[note->row[i].touch].id]
                           [note->row[i].row];
        else
            note->events |= 1U << 31;
    }
}

/* A row goes once with an event to a node. */
static void sent_once(const struct note *note)
{
    for (uint32_t i = 0; i < note->rows; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_false(note->row[i].row == note->row[j].row &&
                         s.nest.access[note->row[i].touch].id ==
                             s.nest.access[note->row[j].touch].id);
}

static void deliver(uint32_t from, uint32_t to)
{
    struct way *way = &s.way[from][to];
    struct note *note = &way->note[way->got++];

    sent_once(note);
    for (uint32_t i = 0; i < note->rows; i++) {
        unsigned id = s.nest.access[note->row[i].touch].id;

        s.value[to][id][note->row[i].row] =
            note->events >> 31 ? s.value[from][id][note->row[i].row]
                               : note->row[i].value;
    }
    s.known[to][note->worker] = note->events & ~(1U << 31);
    mem_free(note->row);
}

static bool has_come(uint32_t node, uint64_t place)
{
    const struct trips *t = &s.trips[node];

    for (uint64_t i = t->need_at[place]; i < t->need_at[place + 1]; i++)
        if (s.known[node][t->need[i].worker] < t->need[i].events)
            return false;
    return true;
}

static bool may_step(unsigned worker, unsigned first, unsigned n)
{
    uint32_t node = worker / s.each;
    unsigned other = 0, step = s.ended[worker], needs;

    if (step >= first + n)
        return false;
    needs = worker < s.plan.workers
                ? schedule_needs(&s.schedule, worker, step, &other)
                : 0;
    if (needs && other / s.each == node && s.ended[other] < needs)
        return false;
    return has_come(node, (uint64_t)(step - first) * s.each + worker % s.each);
}

static void do_step(unsigned worker, unsigned first)
{
    unsigned step = s.ended[worker];
    int part =
        worker < s.plan.workers ? schedule_part(&s.schedule, worker, step) : -1;

    if (part >= 0) {
        size_t b = parts_block(&s.parts, worker, (unsigned)part);

        for (uint64_t i = s.parts.start[b]; i < s.parts.start[b + 1]; i++) {
            work_on(s.value[worker / s.each], s.parts.order[i]);
            s.began[s.count++] = s.parts.order[i];
        }
    }
    s.ended[worker] = step + 1;
    end_event(worker, step + 1 - first);
}

static void run_segment(unsigned first, unsigned n, struct rng *rng,
                        uint64_t seed)
{
    unsigned all = s.nodes * s.each, idle = 0;
    bool over = false;

    memset(s.known, 0, sizeof(s.known));
    memset(s.way, 0, sizeof(s.way));
    for (uint32_t i = 0; i < s.nodes; i++) {
        struct trips_place at = {s.nodes, i, s.each, home, &s};

        assert_int_equal(trips_make(&s.nest, &s.parts, &s.schedule, &at,
                                    s.carried, s.same, first, n, &s.trips[i]),
                         ERR_OK);
        assert_true(s.trips[i].moved == s.trips[0].moved);
        s.known[i][0] = 0;
    }
    for (unsigned w = 0; w < all; w++)
        s.ended[w] = first;
    for (uint32_t i = 0; i < s.nodes; i++)
        end_event(i * s.each, 0);
    while (!over) {
        unsigned w = (unsigned)rng_below(rng, all);
        uint32_t a = (uint32_t)rng_below(rng, s.nodes);
        uint32_t b = (uint32_t)rng_below(rng, s.nodes);

        if (++idle > 100000)
            fail_msg("seed %llu: stuck", (unsigned long long)seed);
        if (may_step(w, first, n) && rng_below(rng, 2))
            do_step(w, first), idle = 0;
        if (s.way[a][b].got < s.way[a][b].sent)
            deliver(a, b), idle = 0;
        over = true;
        for (unsigned i = 0; i < all; i++)
            over &= s.ended[i] == first + n;
        for (uint32_t i = 0; i < s.nodes; i++)
            for (uint32_t j = 0; j < s.nodes; j++)
                over &= s.way[i][j].got == s.way[i][j].sent;
    }
    for (uint32_t i = 0; i < s.nodes; i++) {
        assert_true(has_come(i, (uint64_t)n * s.each));
        trips_deinit(&s.trips[i]);
    }
}

static void compare(uint64_t seed)
{
    const struct loop_nest *n = &s.r.nest;

    assert_int_equal(s.count, n->iterations);
    for (uint64_t i = 1; i < n->iterations && n->ordered; i++)
        for (uint64_t j = i;
             j > 0 && loop_random_before(&s.r, s.began[j], s.began[j - 1]);
             j--) {
            uint32_t other = s.began[j];

            s.began[j] = s.began[j - 1];
            s.began[j - 1] = other;
        }
    for (uint64_t i = 0; i < n->iterations; i++)
        work_on(s.plain, s.began[i]);
    for (unsigned t = 0; t < n->accesses; t++)
        for (uint64_t row = 0; s.carried[t] && row < n->access[t].rows; row++)
            if (s.value[home(&s, t, row)][n->access[t].id][row] !=
                s.plain[n->access[t].id][row])
                fail_msg("seed %llu: table %u, row %llu",
                         (unsigned long long)seed, n->access[t].id,
                         (unsigned long long)row);
    s.count = 0;
}

static void check(uint64_t seed)
{
    struct loop_nest *n = &s.r.nest;
    struct rng rng;
    unsigned steps;

    memset(&s, 0, sizeof(s));
    rng_init(&rng, seed * 77);
    loop_random_make(&s.r, seed);
    s.salt = seed;
    s.nodes = 1 + (uint32_t)rng_below(&rng, NODES);
    s.each = 1 + (unsigned)rng_below(&rng, WORKERS / NODES);
    assert_int_equal(depend_find(n, &s.ds), ERR_OK);
    plan_make(n, &s.ds, s.nodes * s.each, s.r.time_parts, &s.plan);
    schedule_init(&s.schedule, &s.plan);
    assert_int_equal(parts_make(n, &s.plan, s.r.shuffle, &s.parts), ERR_OK);
    s.nest = *n;
    s.nest.key = s.key;
    for (uint64_t i = 0; i < n->iterations; i++)
        memcpy(s.key + i * n->dims, nest_key(n, s.parts.order[i]),
               n->dims * sizeof(*s.key));
    for (unsigned t = 0; t < n->accesses; t++) {
        s.same[t] = t;
        for (unsigned u = n->accesses; u-- > 0;)
            if (n->access[u].id == n->access[t].id) {
                s.same[t] = u;
                s.carried[t] |= n->access[u].updates && !n->access[u].buffered;
            }
    }
    for (unsigned t = 0; t < n->accesses; t++) /* as servers refuse it */
        if (n->access[t].buffered && s.carried[t]) {
            parts_deinit(&s.parts);
            return;
        }
    for (unsigned t = 0; t < n->accesses; t++)
        s.carried[t] &= !n->access[t].buffered;
    steps = schedule_steps(&s.schedule);
    for (int pass = 0; pass < 2; pass++) {
        run_segment(0, steps, &rng, seed);
        compare(seed);
    }
    for (unsigned i = 0; i < steps; i++)
        run_segment(i, 1, &rng, seed);
    compare(seed);
    parts_deinit(&s.parts);
}

/* However frames are late and workers slow: each row is home, and holds what
 * the serial order gives; passes whole, and in steps after each of which all is
 * home. Nobody waits for ever, nothing is sent that nobody waits for in vain.
 */
static void trips_equal_a_serial_run(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        check(seed);
    assert_int_equal(mem_outstanding(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trips_equal_a_serial_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
