/* Loops on a simulated cluster: what their workers compute, whatever the
 * timing.
 *
 * Workers carry out a plan step by step. An iteration reads its rows at one
 * time and writes them at a later one, and others run in between. Where the
 * plan says that rows are local to a worker or go round, each worker has memory
 * of its own, and a part's rows come as a message that takes its time.
 */
#include "base/rng.h"
#include "ps/loop/parts.h"
#include "ps/loop/schedule.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/loop_random.h"

#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) /* less of the same: it is slow */
enum { SEEDS = 500 };
#else
enum { SEEDS = 5000 };
#endif

enum { WORKERS_MAX = 8, TICKS_MAX = 9, LATENCY_MAX = 40, STEPS_MAX = 64 };

typedef uint64_t cells[LOOP_RANDOM_TABLES][LOOP_RANDOM_ROWS];

struct sim_worker {
    unsigned step;
    uint64_t at, end;  /* places of the part; at == end: none is open */
    bool open, inside; /* a part; an iteration of it */
    uint64_t free_at;  /* what it does now ends then */
    uint64_t read[MLT_LOOP_TOUCHES_MAX];
};

struct cluster {
    struct loop_random r;
    struct loop_plan plan;
    struct loop_parts parts;
    struct loop_schedule schedule;
    struct rng rng;
    bool apart; /* each worker has its memory */
    struct sim_worker worker[WORKERS_MAX];
    /* When what a worker ended in a step can be seen by others; 0: not yet. */
    uint64_t seen_at[WORKERS_MAX][STEPS_MAX];
    cells memory[WORKERS_MAX];
    uint32_t began[LOOP_RANDOM_ITERATIONS];
    uint64_t count, now;
};

static struct cluster c;

/* ---- iterations ---------------------------------------------------------- */

static uint64_t *cell(cells *m, unsigned touch, uint64_t i)
{
    return &(*m)[c.r.nest.access[touch].id][loop_random_row(&c.r, touch, i)];
}

static cells *memory_of(unsigned w)
{
    return &c.memory[c.apart ? w : 0];
}

static void read_rows(cells *m, uint64_t i, uint64_t read[])
{
    for (unsigned t = 0; t < c.r.nest.accesses; t++)
        read[t] = *cell(m, t, i);
}

/* Of the rows as they were read: what was lost in between stays lost. */
static void write_rows(cells *m, uint64_t i, const uint64_t read[])
{
    const struct loop_nest *n = &c.r.nest;
    uint64_t mixed = i + 1;

    for (unsigned t = 0; t < n->accesses; t++)
        if (!n->access[t].buffered && (n->access[t].reads))
            mixed = rng_mix(mixed, read[t]);
    for (unsigned t = 0; t < n->accesses; t++)
        if (!n->access[t].buffered && n->access[t].updates)
            *cell(m, t, i) = rng_mix(read[t], mixed);
}

/* ---- where rows are ------------------------------------------------------ */

/* Whether each touch of an updated table is local, or each goes round: then
 * nobody needs memory of another. */
static bool can_be_apart(void)
{
    const struct loop_nest *n = &c.r.nest;

    if (c.plan.strategy != LOOP_1D && c.plan.strategy != LOOP_2D)
        return false;
    for (unsigned s = 0; s < n->accesses; s++)
        for (unsigned t = 0; t < n->accesses; t++)
            if (n->access[s].id == n->access[t].id && n->access[s].updates &&
                !n->access[s].buffered &&
                (c.plan.place[t] == LOOP_SERVED || n->access[t].buffered ||
                 c.plan.place[t] != c.plan.place[s]))
                return false;
    return true;
}

/* Rows of part @b that go round, from one memory to another. */
static void carry(cells *to, cells *from, size_t b)
{
    for (uint64_t p = c.parts.start[b]; p < c.parts.start[b + 1]; p++)
        for (unsigned t = 0; t < c.r.nest.accesses; t++)
            if (c.plan.place[t] == LOOP_ROTATED)
                *cell(to, t, c.parts.order[p]) =
                    *cell(from, t, c.parts.order[p]);
}

/* All rows of a time part, whoever touches them. */
static void hand_on(unsigned from, unsigned to, unsigned time)
{
    for (unsigned w = 0; w < c.plan.workers; w++)
        carry(&c.memory[to], &c.memory[from], parts_block(&c.parts, w, time));
}

/* At the end all rows are home, in memory 0: local ones come from their worker,
 * others from whoever had them last. */
static void bring_home(void)
{
    unsigned last = schedule_steps(&c.schedule) - 1;
    unsigned parts = c.plan.time_parts ? c.plan.time_parts : 1;

    for (unsigned w = 0; w < c.plan.workers && c.apart; w++) {
        int time = schedule_part(&c.schedule, w, last);
        unsigned each = parts / c.plan.workers;

        for (unsigned q = 0; q < parts; q++) {
            size_t b = parts_block(&c.parts, w, q);

            for (uint64_t p = c.parts.start[b]; p < c.parts.start[b + 1]; p++)
                for (unsigned t = 0; t < c.r.nest.accesses; t++)
                    if (c.plan.place[t] == LOOP_LOCAL)
                        *cell(&c.memory[0], t, c.parts.order[p]) =
                            *cell(&c.memory[w], t, c.parts.order[p]);
        }
        for (unsigned k = 0; c.schedule.ring && k < each; k++)
            hand_on(w, 0, ((unsigned)time + parts - k) % parts);
    }
}

/* ---- workers ------------------------------------------------------------- */

static bool may_begin(unsigned w)
{
    unsigned other = 0;
    unsigned needs = schedule_needs(&c.schedule, w, c.worker[w].step, &other);

    return !needs || (c.seen_at[other][needs - 1] &&
                      c.seen_at[other][needs - 1] <= c.now);
}

static void open_part(unsigned w)
{
    struct sim_worker *s = &c.worker[w];
    int time = schedule_part(&c.schedule, w, s->step);
    unsigned other = 0;

    s->open = true;
    s->at = s->end = 0;
    if (time < 0)
        return;
    s->at = c.parts.start[parts_block(&c.parts, w, (unsigned)time)];
    s->end = c.parts.start[parts_block(&c.parts, w, (unsigned)time) + 1];
    if (c.apart && schedule_needs(&c.schedule, w, s->step, &other))
        hand_on(other, w, (unsigned)time);
}

/* One thing more: an iteration begins, or ends, or the step does. */
static void advance(unsigned w)
{
    struct sim_worker *s = &c.worker[w];

    if (!s->open) {
        open_part(w);
    } else if (s->inside) {
        write_rows(memory_of(w), c.parts.order[s->at++], s->read);
        s->inside = false;
    } else if (s->at < s->end) {
        c.began[c.count++] = c.parts.order[s->at];
        read_rows(memory_of(w), c.parts.order[s->at], s->read);
        s->inside = true;
    } else {
        s->open = false;
        c.seen_at[w][s->step++] = c.now + 1 + rng_below(&c.rng, LATENCY_MAX);
    }
    s->free_at = c.now + 1 + rng_below(&c.rng, TICKS_MAX);
}

static void run(uint64_t seed)
{
    unsigned steps = schedule_steps(&c.schedule), done = 0;

    assert_true(steps <= STEPS_MAX && c.plan.workers <= WORKERS_MAX);
    for (c.now = 1; done < c.plan.workers; c.now++) {
        done = 0;
        for (unsigned w = 0; w < c.plan.workers; w++) {
            struct sim_worker *s = &c.worker[w];

            done += s->step == steps;
            if (s->step < steps && s->free_at <= c.now &&
                (s->open || may_begin(w)))
                advance(w);
        }
        if (c.now > 1000000)
            fail_msg("seed %llu: nobody goes on", (unsigned long long)seed);
    }
    bring_home();
}

/* ---- against a serial run ------------------------------------------------ */

static void sort_serially(void)
{
    for (uint64_t i = 1; i < c.count; i++)
        for (uint64_t j = i;
             j > 0 && loop_random_before(&c.r, c.began[j], c.began[j - 1]);
             j--) {
            uint32_t other = c.began[j];

            c.began[j] = c.began[j - 1];
            c.began[j - 1] = other;
        }
}

/* An unordered loop gives what the order gives in which its iterations began,
 * an ordered one what the loop's own order gives, to the last bit. */
static void loops_equal_a_serial_run(void **state)
{
    static cells plain;
    unsigned apart = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct depends ds;

        memset(&c, 0, sizeof(c));
        memset(plain, 0, sizeof(plain));
        loop_random_make(&c.r, seed);
        rng_init(&c.rng, seed);
        assert_int_equal(depend_find(&c.r.nest, &ds), ERR_OK);
        plan_make(&c.r.nest, &ds, c.r.workers, c.r.time_parts, &c.plan);
        assert_int_equal(parts_make(&c.r.nest, &c.plan, c.r.shuffle, &c.parts),
                         ERR_OK);
        schedule_init(&c.schedule, &c.plan);
        c.apart = can_be_apart();
        apart += c.apart && c.plan.workers > 1;
        run(seed);
        assert_int_equal(c.count, c.r.nest.iterations);
        if (c.r.nest.ordered)
            sort_serially();
        for (uint64_t i = 0; i < c.count; i++) {
            uint64_t read[MLT_LOOP_TOUCHES_MAX] = {0};

            read_rows(&plain, c.began[i], read);
            write_rows(&plain, c.began[i], read);
        }
        if (memcmp(plain, c.memory[0], sizeof(plain)) != 0)
            fail_msg("seed %llu%s", (unsigned long long)seed,
                     c.apart ? ", apart" : "");
        parts_deinit(&c.parts);
    }
    assert_true(apart > SEEDS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_equal_a_serial_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
