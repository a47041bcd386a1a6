/* The order in which the sums of workers are added up. */
#include "ps/rows/sum_tree.h"

#include "base/rng.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

enum { WORKERS_MAX = 24 };

/* Of workers that have a sum, those below @n from @first on, n a power of two:
 * each half by itself. */
static bool reference(const float value[], const bool has[], uint32_t first,
                      uint32_t n, float *sum)
{
    float right;
    bool any;

    if (first >= WORKERS_MAX)
        return false;
    if (n == 1) {
        *sum = value[first];
        return has[first];
    }
    any = reference(value, has, first, n / 2, sum);
    if (!reference(value, has, first + n / 2, n / 2, &right))
        return any;
    *sum = any ? *sum + right : right;
    return true;
}

/* What nodes of @workers each send, and a shard makes of it. */
static bool by_nodes(const float value[], const bool has[], uint32_t workers,
                     float *out)
{
    float copy[WORKERS_MAX], *sum;
    struct sum_tree shard, block;

    memcpy(copy, value, sizeof(copy));
    sum_tree_init(&shard, MLT_F32, 1);
    for (uint32_t i = 0, n; i < WORKERS_MAX; i += n) {
        n = sum_tree_block(i, (i / workers + 1) * workers);
        sum_tree_init(&block, MLT_F32, 1);
        for (uint32_t k = i; k < i + n; k++)
            if (has[k])
                sum_tree_add(&block, k - i, &copy[k], k % 3 == 0);
        sum = sum_tree_end(&block);
        if (sum)
            sum_tree_add(&shard, i, sum, false);
    }
    sum = sum_tree_end(&shard);
    if (sum)
        *out = *sum;
    return sum != NULL;
}

/* However many nodes the workers are spread over, and whichever of them have a
 * sum: the same bits. */
static void sum_tree_is_the_same_over_any_number_of_nodes(void **state)
{
    static const uint32_t workers[] = {1, 2, 3, 4, 6, 8, 12, 24};
    unsigned orders = 0;
    struct rng rng;

    (void)state;
    rng_init(&rng, 16);
    for (int round = 0; round < 2000; round++) {
        float value[WORKERS_MAX], expected, got, plain = 0;
        bool has[WORKERS_MAX], any;

        for (int i = 0; i < WORKERS_MAX; i++) {
            value[i] = (float)(rng_uniform(&rng) - 0.5) *
                       (rng_below(&rng, 2) ? 1e6F : 1);
            has[i] = rng_below(&rng, 4) < (uint64_t)(round % 5);
            plain += has[i] ? value[i] : 0;
        }
        any = reference(value, has, 0, 32, &expected);
        for (size_t k = 0; k < sizeof(workers) / sizeof(*workers); k++) {
            assert_int_equal(by_nodes(value, has, workers[k], &got), any);
            if (any)
                assert_memory_equal(&got, &expected, sizeof(got));
        }
        orders += any && plain != expected;
    }
    assert_true(orders > 100); /* it does make a difference */
}

/* Blocks are aligned over all nodes, and whole. */
static void sum_tree_blocks_are_aligned(void **state)
{
    (void)state;
    assert_int_equal(sum_tree_block(0, 1), 1);
    assert_int_equal(sum_tree_block(0, 3), 2);
    assert_int_equal(sum_tree_block(2, 3), 1);
    assert_int_equal(sum_tree_block(3, 6), 1);
    assert_int_equal(sum_tree_block(4, 6), 2);
    assert_int_equal(sum_tree_block(4, 8), 4);
    assert_int_equal(sum_tree_block(12, 16), 4);
    assert_int_equal(sum_tree_block(8, 64), 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sum_tree_is_the_same_over_any_number_of_nodes),
        cmocka_unit_test(sum_tree_blocks_are_aligned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
