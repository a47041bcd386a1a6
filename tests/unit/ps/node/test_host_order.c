/* The order of samples: epochs are permutations, siblings meet the same ones,
 * shares cover a clock. */
#include "base/rng.h"
#include "ps/node/order.h"

#include <math.h>

#include "tests/unit/fixture/check.h"

static struct order order_of(uint64_t samples, uint64_t parts, unsigned workers)
{
    struct mlt_app_info info = {.samples = samples,
                                .validation_samples = samples / 3,
                                .order = MLT_ORDER_SAMPLES,
                                .parts = parts};
    struct order o;

    assert_int_equal(order_init(&o, &info, workers, 9, NULL), ERR_OK);
    return o;
}

/* Runs one epoch from @at with the given batch and writes down which samples
 * were met in which order; returns the clocks. */
static uint64_t run_epoch(const struct order *o, struct cursor *at,
                          uint64_t batch, uint64_t out[])
{
    double epoch = at->epoch;
    uint64_t clocks = 0, n = 0;

    while (at->epoch == epoch) {
        struct order_clock c;
        uint64_t covered = 0;

        order_clock_at(o, at, batch, &c);
        for (unsigned w = 0; w < o->workers; w++) {
            uint64_t first, count;

            order_share(o, &c, w, &first, &count);
            assert_int_equal(first, c.first + covered);
            assert_true(count <= order_share_max(o, batch));
            order_samples(o, c.epoch, first, count, out + n);
            covered += count;
            n += count;
        }
        assert_int_equal(covered, c.count);
        assert_true(c.count > 0);
        order_advance(o, &c, at);
        clocks++;
        assert_int_equal(at->clock, c.clock + 1);
    }
    assert_int_equal(n, o->samples);
    return clocks;
}

/* Every epoch meets every sample once, whatever batch size, workers and parts;
 * another epoch has another order; batches of any size and any number of
 * workers meet the samples in the same order. */
static void order_epoch_is_one_permutation(void **state)
{
    static const uint64_t batches[] = {1, 7, 64, 1000, 5000};
    static uint64_t first[1000], again[1000];
    unsigned char seen[1000];
    uint64_t b, i;
    unsigned w;

    (void)state;
    for (w = 1; w < 5; w++)
        for (b = 0; b < 5; b++) {
            struct order o = order_of(1000, 0, w);
            struct cursor at = {0};
            uint64_t clocks = run_epoch(&o, &at, batches[b], again);
            uint64_t each = batches[b] * w;

            assert_int_equal(clocks, (1000 + each - 1) / each);
            if (w == 1 && b == 0)
                memcpy(first, again, sizeof(first));
            assert_memory_equal(first, again, sizeof(first));
        }
    memset(seen, 0, sizeof(seen));
    for (i = 0; i < 1000; i++)
        seen[first[i]]++;
    for (i = 0; i < 1000; i++)
        assert_int_equal(seen[i], 1);
    {
        struct order o = order_of(1000, 0, 1);
        struct cursor at = {.epoch = 1};

        run_epoch(&o, &at, 10, again);
        assert_int_equal(at.epoch, 2);
        assert_true(memcmp(first, again, sizeof(first)) != 0);
    }
}

/* With parts, an epoch has that many clocks, whatever the batch size, of sizes
 * that differ by one at most, over the same order as batches have. */
static void order_parts_cut_the_same_epoch(void **state)
{
    static uint64_t batch[1003], part[1003];
    struct order o = order_of(1003, 0, 2), p = order_of(1003, 100, 2);
    struct cursor a = {0}, b = {0}, c = {0};
    struct order_clock clock;
    uint64_t least = UINT64_MAX, most = 0;

    (void)state;
    run_epoch(&o, &a, 64, batch);
    assert_int_equal(run_epoch(&p, &b, 64, part), 100);
    assert_memory_equal(batch, part, sizeof(batch));
    while (c.epoch == 0) {
        order_clock_at(&p, &c, 1, &clock);
        least = clock.count < least ? clock.count : least;
        most = clock.count > most ? clock.count : most;
        order_advance(&p, &clock, &c);
    }
    assert_int_equal(least, 10);
    assert_int_equal(most, 11);
}

/* MLT_ORDER_PARTS: each part once an epoch, in an order of its own, and the
 * clocks' samples add up. */
static void order_of_parts_is_permuted(void **state)
{
    struct mlt_app_info info = {
        .samples = 1000, .order = MLT_ORDER_PARTS, .parts = 30};
    uint64_t parts[2][30], sum = 0, i;
    struct cursor at = {0};
    struct order_clock c;
    struct order o;
    unsigned seen[30] = {0};

    (void)state;
    assert_int_equal(order_init(&o, &info, 2, 9, NULL), ERR_OK);
    for (i = 0; i < 60; i++) {
        order_clock_at(&o, &at, 64, &c);
        parts[i / 30][i % 30] = c.part;
        assert_true(c.part < 30);
        seen[c.part]++;
        sum += c.count;
        order_advance(&o, &c, &at);
    }
    assert_int_equal(sum, 2000);
    assert_int_equal(at.epoch, 2);
    assert_int_equal(at.clock, 60);
    for (i = 0; i < 30; i++)
        assert_int_equal(seen[i], 2);
    assert_true(memcmp(parts[0], parts[1], sizeof(parts[0])) != 0);
}

/* A change of batch size in the midst of an epoch goes on where the cursor
 * stands: the epoch still meets every sample once. */
static void order_batch_size_may_change_midway(void **state)
{
    struct order o = order_of(500, 0, 3);
    unsigned char seen[500] = {0};
    struct cursor at = {0};
    uint64_t out[500], i, n;
    struct order_clock c;
    struct rng r;

    (void)state;
    rng_init(&r, 5);
    while (at.epoch == 0) {
        order_clock_at(&o, &at, 1 + rng_below(&r, 40), &c);
        order_samples(&o, 0, c.first, c.count, out);
        for (i = 0; i < c.count; i++)
            seen[out[i]]++;
        order_advance(&o, &c, &at);
    }
    for (n = 0; n < 500; n++)
        assert_int_equal(seen[n], 1);
}

/* A testing clock is the whole validation set, shared out. */
static void order_testing_clock_is_all(void **state)
{
    struct order o = order_of(100, 0, 4);
    struct cursor at = {3, 20, 77};
    struct order_clock c;
    uint64_t first, count;

    (void)state;
    order_testing(&o, &at, &c);
    assert_int_equal(c.count, 33);
    assert_int_equal(c.epoch, 3);
    assert_int_equal(c.clock, 77);
    order_share(&o, &c, 3, &first, &count);
    assert_int_equal(first, 25);
    assert_int_equal(count, 8);
}

/* Seeds of clocks and workers differ from each other and are the same again. */
static void order_clock_seeds_are_distinct(void **state)
{
    struct order o = order_of(100, 0, 4);

    (void)state;
    assert_true(order_clock_seed(&o, 5, 1) == order_clock_seed(&o, 5, 1));
    assert_true(order_clock_seed(&o, 5, 1) != order_clock_seed(&o, 5, 2));
    assert_true(order_clock_seed(&o, 5, 1) != order_clock_seed(&o, 6, 1));
    assert_true(order_clock_seed(&o, 1, 5) != order_clock_seed(&o, 5, 1));
}

/* Facts that make no order are refused in words. */
static void order_impossible_facts_are_refused(void **state)
{
    struct mlt_app_info bad[] = {
        {.samples = 0},
        {.samples = (uint64_t)1 << 60},
        {.samples = 10, .validation_samples = UINT64_MAX},
        {.samples = 10, .order = MLT_ORDER_PARTS},
        {.samples = 10, .parts = 11},
        {.samples = 10, .order = (enum mlt_order)7},
    };
    struct fault f;
    struct order o;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        f.text[0] = 0;
        assert_int_equal(order_init(&o, &bad[i], 1, 1, &f), ERR_APP);
        assert_true(f.text[0]);
    }
}

/* Sizes near the ends of the range neither overflow nor lose a sample. */
static void order_huge_sizes_do_not_overflow(void **state)
{
    uint64_t n = (uint64_t)1 << 52, first, count;
    struct order o = order_of(n, n - 1, 7), b = order_of(n, 0, 7);
    struct cursor at = {.position = (double)(n - 2)};
    struct order_clock c;

    (void)state;
    order_clock_at(&o, &at, 1, &c);
    assert_int_equal(c.first + c.count, n);
    at.position = 0;
    order_clock_at(&b, &at, (uint64_t)1 << 30, &c);
    assert_int_equal(c.count, (uint64_t)7 << 30);
    order_clock_at(&b, &at, n, &c);
    assert_int_equal(c.count, n);
    order_share(&b, &c, 6, &first, &count);
    assert_int_equal(first + count, n);
    assert_true(order_share_max(&b, UINT64_MAX) >= count);
}

/* Epochs are so many clocks as they have, whatever the batch, and parts of an
 * epoch are rounded up; nothing overflows. */
static void order_clocks_of_epochs(void **state)
{
    struct order batches = order_of(100, 0, 3), parts = order_of(100, 7, 3);
    uint64_t met[100];

    (void)state;
    for (uint64_t batch = 1; batch < 120; batch++) {
        struct cursor at = {0};

        assert_int_equal(order_clocks(&batches, 1, batch),
                         run_epoch(&batches, &at, batch, met));
        assert_int_equal(order_clocks(&parts, 1, batch), 7);
    }
    assert_int_equal(order_clocks(&batches, 2.5, 10), 10);
    assert_int_equal(order_clocks(&batches, 0.01, 10), 1);
    assert_int_equal(order_clocks(&batches, 0, 10), 0);
    assert_int_equal(order_clocks(&parts, 0.5, 10), 4);
    assert_int_equal(order_clocks(&batches, 2, UINT64_MAX), 2);
    assert_true(order_clocks(&batches, 1e300, 1) < UINT64_C(1) << 53);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_epoch_is_one_permutation),
        cmocka_unit_test(order_parts_cut_the_same_epoch),
        cmocka_unit_test(order_of_parts_is_permuted),
        cmocka_unit_test(order_batch_size_may_change_midway),
        cmocka_unit_test(order_testing_clock_is_all),
        cmocka_unit_test(order_clock_seeds_are_distinct),
        cmocka_unit_test(order_impossible_facts_are_refused),
        cmocka_unit_test(order_huge_sizes_do_not_overflow),
        cmocka_unit_test(order_clocks_of_epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
