/* What is pinned on a device, what is swapped, and who moves out. */
#include "base/rng.h"
#include "ps/server/device_plan.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

enum { ENTRIES = 12, LAYERS = 6, LEASES = 40, MB = 1000 * 1000 };

struct problem {
    struct plan_entry entry[ENTRIES];
    struct plan_lease lease[LEASES];
    size_t entries, leases;
    uint32_t layers;
    uint64_t total;
};

/* Bytes of the largest layer, of what is not pinned or buffered: counted entry
 * by entry, each once a layer. */
static uint64_t largest(const struct problem *p)
{
    uint64_t best = 0;

    for (uint32_t l = 0; l < p->layers; l++) {
        bool seen[ENTRIES] = {false};
        uint64_t sum = 0;

        for (size_t i = 0; i < p->leases; i++) {
            uint32_t e = p->lease[i].entry;

            if (p->lease[i].layer != l || seen[e])
                continue;
            seen[e] = true;
            if (!p->entry[e].pinned || p->entry[e].buffered)
                sum += p->entry[e].bytes;
        }
        best = sum > best ? sum : best;
    }
    return best;
}

static uint64_t taken(const struct problem *p)
{
    uint64_t sum = 2 * largest(p);

    for (size_t e = 0; e < p->entries; e++)
        if (p->entry[e].pinned)
            sum += p->entry[e].bytes;
    return sum;
}

static enum err solve(struct problem *p, struct plan_memory *out)
{
    return device_plan(p->entry, p->entries, p->lease, p->leases, p->layers,
                       p->total, out);
}

static void draw(struct rng *rng, struct problem *p)
{
    memset(p, 0, sizeof(*p));
    p->entries = 1 + rng_below(rng, ENTRIES);
    p->layers = 1 + (uint32_t)rng_below(rng, LAYERS);
    for (size_t e = 0; e < p->entries; e++)
        p->entry[e] = (struct plan_entry){.bytes = 1 + rng_below(rng, 100),
                                          .local = rng_below(rng, 2) == 0,
                                          .buffered = rng_below(rng, 4) == 0};
    for (size_t e = 0; e < p->entries; e++)
        p->entry[e].buffered = p->entry[e].buffered && !p->entry[e].local;
    p->leases = rng_below(rng, LEASES);
    for (size_t i = 0; i < p->leases; i++)
        p->lease[i] = (struct plan_lease){(uint32_t)rng_below(rng, p->layers),
                                          (uint32_t)rng_below(rng, p->entries)};
    p->total = rng_below(rng, 800);
}

/* Over random sequences, against sums made anew: never more than the device
 * has, and nothing is left out that would fit. */
static void pinned_is_maximal_and_within_the_limit(void **state)
{
    struct rng rng;
    unsigned solved = 0;

    (void)state;
    rng_init(&rng, 19);
    for (int k = 0; k < 20000; k++) {
        struct plan_memory m;
        struct problem p;
        enum err err;

        draw(&rng, &p);
        err = solve(&p, &m);
        assert_true(err == ERR_OK || err == ERR_LIMIT);
        assert_int_equal(m.pool, 2 * largest(&p));
        assert_int_equal(m.pinned + m.pool, taken(&p));
        assert_true((taken(&p) <= p.total) == (err == ERR_OK));
        for (size_t e = 0; e < p.entries && !err; e++) {
            if (p.entry[e].pinned)
                continue;
            p.entry[e].pinned = true;
            assert_true(taken(&p) > p.total);
            p.entry[e].pinned = false;
        }
        solved += err == ERR_OK;
    }
    assert_true(solved > 5000);
}

/* Layers of a network: input of layer l is the output of layer l - 1; its
 * parameters are buffered, as GeePS has them. */
static void network(struct problem *p, unsigned layers, uint64_t local,
                    uint64_t parameters, uint64_t total)
{
    memset(p, 0, sizeof(*p));
    p->layers = layers;
    p->total = total;
    for (unsigned l = 0; l < layers; l++) {
        p->entry[p->entries] = (struct plan_entry){local, true, false, false};
        p->lease[p->leases++] = (struct plan_lease){l, (uint32_t)p->entries++};
        p->entry[p->entries] =
            (struct plan_entry){parameters, false, true, false};
        p->lease[p->leases++] = (struct plan_lease){l, (uint32_t)p->entries++};
    }
}

/* GeePS's placement, by hand: local data first, and those of the largest layer
 * before all, since both buffers become smaller by them. */
static void local_data_of_the_largest_layer_come_first(void **state)
{
    struct plan_memory m;
    struct problem p;

    (void)state;
    network(&p, 3, 100 * MB, 40 * MB, 0);
    p.entry[2].bytes = 300 * MB; /* local, of layer 1 */
    p.total = 700 * MB;          /* 680 would be two buffers of layer 1 */
    assert_int_equal(solve(&p, &m), ERR_OK);
    assert_true(p.entry[2].pinned);
    assert_true(p.entry[0].pinned && p.entry[4].pinned);
    assert_int_equal(m.pool, 2 * 40 * MB);
    assert_true(p.entry[1].pinned && p.entry[3].pinned && p.entry[5].pinned);
}

/* Cui et al. 2016, section 4.4.3: what AdamLike keeps takes 3.67 GB and 1.06 GB
 * of buffers, 4.73 GB in all; with 35 % of that it still trains. */
static void the_papers_network_fits_where_the_paper_says(void **state)
{
    struct plan_memory m;
    struct problem p;

    (void)state;
    network(&p, 6, 2723 / 6 * MB, 948 / 6 * MB, 0);
    p.total = 4730ull * MB;
    assert_int_equal(solve(&p, &m), ERR_OK);
    for (size_t e = 0; e < p.entries; e++)
        assert_true(p.entry[e].pinned);
    p.total = 4730ull * MB * 35 / 100;
    assert_int_equal(solve(&p, &m), ERR_OK);
    assert_true(m.pinned + m.pool <= p.total);
}

/* Virtual time: a layer computes while the next one's data come and the last
 * one's go, each over its own direction of the bus. Share of the time in which
 * nothing computes. */
static double stalls(const struct problem *p, double compute_s, double bus)
{
    double now = 0, in = 0, out = 0, busy = 0, ready[2] = {0, 0};
    unsigned steps = 2 * p->layers;

    for (unsigned clock = 0; clock < 20; clock++)
        for (unsigned k = 0; k < steps; k++) {
            uint32_t l = k < p->layers ? k : steps - 1 - k;
            double bytes = 0, begin;

            for (size_t i = 0; i < p->leases; i++)
                if (p->lease[i].layer == l &&
                    !p->entry[p->lease[i].entry].pinned)
                    bytes += (double)p->entry[p->lease[i].entry].bytes;
            /* Into the buffer that the layer before last has left. */
            in = (in > ready[k % 2] ? in : ready[k % 2]) + bytes / bus;
            begin = in > now ? in : now;
            now = begin + compute_s / steps;
            busy += compute_s / steps;
            out = (out > now ? out : now) + bytes / bus;
            ready[k % 2] = out;
        }
    return (now - busy) / now;
}

/* AdamLike on 5 GB: all is pinned, and the device waits for less than the 8 %
 * that the paper measured; with a third of the memory it computes for 73 % of
 * the time at least, as there. Our assumptions: layers alike, 2 s of computing
 * a clock, 6 GB/s each way. So this holds the plan, not the paper's machine. */
static void stalls_are_as_few_as_the_papers(void **state)
{
    struct plan_memory m;
    struct problem p;

    (void)state;
    network(&p, 6, 2723 / 6 * MB, 948 / 6 * MB, 5000ull * MB);
    assert_int_equal(solve(&p, &m), ERR_OK);
    assert_true(stalls(&p, 2.0, 6e9) < 0.08);
    p.total = 4730ull * MB * 35 / 100;
    assert_int_equal(solve(&p, &m), ERR_OK);
    assert_true(m.pinned < 600ull * MB);
    assert_true(stalls(&p, 2.0, 6e9) < 0.27);
}

/* The least recently scheduled moves out, never one that stays. */
static void the_least_recently_scheduled_moves_out(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 5);
    for (int k = 0; k < 2000; k++) {
        struct plan_branch b[8];
        size_t n = rng_below(&rng, 9), got;

        for (size_t i = 0; i < n; i++)
            b[i] = (struct plan_branch){rng_below(&rng, 6),
                                        rng_below(&rng, 3) == 0};
        got = device_plan_victim(b, n);
        assert_true(got <= n);
        for (size_t i = 0; i < n; i++)
            assert_true(b[i].stays ||
                        (got < n && b[got].scheduled <= b[i].scheduled));
        assert_true(got == n || !b[got].stays);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_is_maximal_and_within_the_limit),
        cmocka_unit_test(local_data_of_the_largest_layer_come_first),
        cmocka_unit_test(the_papers_network_fits_where_the_paper_says),
        cmocka_unit_test(stalls_are_as_few_as_the_papers),
        cmocka_unit_test(the_least_recently_scheduled_moves_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
