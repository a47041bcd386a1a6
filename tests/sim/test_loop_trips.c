/* Random loops over simulated nodes, each with its courier and its own rows:
 * frames are small, leave and come when they like but keep their order, workers
 * go on in a random order as far as they may; against the serial run.
 */
#include "ps/loop/trips.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_random.h"

#include <string.h>

enum { SEEDS = 3000, NODES = 4, WORKERS = 8, FRAMES = 4096, ROOM = 512 };

struct way { /* frames from one node to another, in their order */
    struct {
        unsigned char *bytes; /* owned */
        size_t n;
    } frame[FRAMES];
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
    struct table table[LOOP_RANDOM_TABLES];
    uint32_t id[MLT_LOOP_TOUCHES_MAX];
    struct courier *courier[NODES];
    struct courier_pass pass[NODES];
    double value[NODES][LOOP_RANDOM_TABLES][LOOP_RANDOM_ROWS];
    double plain[LOOP_RANDOM_TABLES][LOOP_RANDOM_ROWS];
    bool begun[NODES], told[NODES], over[NODES];
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

static void *place_of(void *self, unsigned touch, uint64_t row, bool write)
{
    uint32_t node = (uint32_t)((struct courier_pass *)self - s.pass);

    (void)write;
    return &s.value[node][s.nest.access[touch].id][row];
}

/* A frame leaves. */
static bool send(uint32_t from, uint32_t to)
{
    struct way *way = &s.way[from][to];
    unsigned char bytes[ROOM];
    size_t n = courier_next(s.courier[from], to, bytes, sizeof(bytes));

    if (!n)
        return false;
    assert_true(from != to && way->sent < FRAMES);
    frame_stamp(bytes, from, 1, way->sent + 1);
    way->frame[way->sent].bytes = mem_alloc(n);
    memcpy(way->frame[way->sent].bytes, bytes, n);
    way->frame[way->sent++].n = n;
    return true;
}

static void deliver(uint32_t from, uint32_t to)
{
    struct way *way = &s.way[from][to];
    unsigned char *bytes = way->frame[way->got].bytes;
    struct fault fault = {0};
    struct frame f;

    assert_int_equal(frame_decode(bytes, way->frame[way->got].n, &f, &fault),
                     ERR_OK);
    if (courier_step(s.courier[to], &f, &fault) != ERR_OK)
        fail_msg("%s", fault.text);
    mem_free(bytes);
    way->got++;
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
    return s.begun[node] && courier_is_going(s.courier[node]) &&
           courier_has_come(s.courier[node], (uint64_t)(step - first) * s.each +
                                                 worker % s.each);
}

static void do_step(unsigned worker)
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
    courier_passed(s.courier[worker / s.each], worker % s.each);
}

/* What of a pass a node says next, where it may: that it begins it, its totals,
 * that it is over. */
static bool go_on(uint32_t node, unsigned first, unsigned n)
{
    struct courier *c = s.courier[node];
    double own[WORKERS], all[WORKERS];
    struct fault fault;

    if (!s.begun[node]) {
        assert_int_equal(courier_begin(c, &s.pass[node], &fault), ERR_OK);
        return s.begun[node] = true;
    }
    for (unsigned i = 0; i < s.each; i++) {
        if (s.ended[node * s.each + i] < first + n)
            return false;
        own[i] = node * s.each + i;
    }
    if (!s.told[node] && courier_has_come(c, (uint64_t)n * s.each)) {
        courier_tell_totals(c, own);
        return s.told[node] = true;
    }
    if (s.over[node] || !courier_is_over(c))
        return false;
    courier_end(c, all);
    for (unsigned w = 0; w < s.nodes * s.each; w++)
        assert_true(all[w] == w);
    return s.over[node] = true;
}

static bool is_over(void)
{
    for (uint32_t i = 0; i < s.nodes; i++)
        if (!s.over[i])
            return false;
    return true;
}

/* Nodes begin when they like: one may have begun the next pass while others
 * end this one. */
static void run_segment(unsigned first, unsigned n, struct rng *rng,
                        uint64_t seed)
{
    unsigned all = s.nodes * s.each, idle = 0;

    memset(s.begun, 0, sizeof(s.begun));
    memset(s.told, 0, sizeof(s.told));
    memset(s.over, 0, sizeof(s.over));
    memset(s.way, 0, sizeof(s.way));
    for (uint32_t i = 0; i < s.nodes; i++) {
        struct trips_place at = {s.nodes, i, s.each, home, &s};

        assert_int_equal(trips_make(&s.nest, &s.parts, &s.schedule, &at,
                                    s.carried, s.same, first, n, &s.trips[i]),
                         ERR_OK);
        assert_true(s.trips[i].moved == s.trips[0].moved);
        s.pass[i] = (struct courier_pass){
            "sim", 1,         &s.trips[i], s.nest.accesses, 1,
            s.id,  s.carried, place_of,    &s.pass[i]};
    }
    for (unsigned w = 0; w < all; w++)
        s.ended[w] = first;
    while (!is_over()) {
        unsigned w = (unsigned)rng_below(rng, all);
        uint32_t a = (uint32_t)rng_below(rng, s.nodes);
        uint32_t b = (uint32_t)rng_below(rng, s.nodes);

        if (++idle > 100000)
            fail_msg("seed %llu: stuck", (unsigned long long)seed);
        if (may_step(w, first, n) && rng_below(rng, 2))
            do_step(w), idle = 0;
        if (rng_below(rng, 2) && go_on(a, first, n))
            idle = 0;
        if (a != b && rng_below(rng, 2) && send(a, b))
            idle = 0;
        if (s.way[a][b].got < s.way[a][b].sent)
            deliver(a, b), idle = 0;
    }
    for (uint32_t i = 0; i < s.nodes; i++)
        for (uint32_t j = 0; j < s.nodes; j++)
            assert_true(s.way[i][j].got == s.way[i][j].sent);
    for (uint32_t i = 0; i < s.nodes; i++)
        trips_deinit(&s.trips[i]);
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

static void new_couriers(void)
{
    for (unsigned i = 0; i < LOOP_RANDOM_TABLES; i++)
        s.table[i] = (struct table){.rows = s.r.rows[i],
                                    .width = 1,
                                    .type = MLT_F64,
                                    .access = MLT_EXCLUSIVE,
                                    .value_bytes = sizeof(double),
                                    .row_bytes = sizeof(double)};
    for (unsigned t = 0; t < s.nest.accesses; t++)
        s.id[t] = s.nest.access[t].id;
    for (uint32_t i = 0; i < s.nodes; i++) {
        const struct courier_options o = {i, s.nodes, s.each, s.table,
                                          LOOP_RANDOM_TABLES};

        assert_int_equal(courier_new(&o, &s.courier[i]), ERR_OK);
        assert_true(courier_frame_bytes(s.courier[i]) <= ROOM);
        courier_enter_slice(s.courier[i], 1);
    }
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
    new_couriers();
    steps = schedule_steps(&s.schedule);
    for (int pass = 0; pass < 2; pass++) {
        run_segment(0, steps, &rng, seed);
        compare(seed);
    }
    for (unsigned i = 0; i < steps; i++)
        run_segment(i, 1, &rng, seed);
    compare(seed);
    for (uint32_t i = 0; i < s.nodes; i++)
        courier_free(s.courier[i]);
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
