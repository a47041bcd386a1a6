/* The index of keys. */
#include "ps/rows/key_index.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/unit/fixture/check.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 20000 };

static void give(struct key_index *k, uint64_t key, uint64_t row)
{
    assert_int_equal(key_index_reserve(k, key_hash(key)), ERR_OK);
    key_index_add(k, key, key_hash(key), row);
}

/* A key of the @i-th of four kinds: as counters, as pointers, as hashes, and
 * those that differ in the upper half alone. 0 and all ones are among them. */
static uint64_t key_at(uint64_t i)
{
    switch (i % 4) {
    case 0:
        return i / 4 - 1;
    case 1:
        return 0x7f0000000000u + i * 64;
    case 2:
        return rng_mix(7, i);
    default:
        return i << 40 | 5;
    }
}

/* Against a plain array: each key has the row that it was given, whatever came
 * after it and in whatever order; others have none. */
static void keys_keep_their_rows(void **state)
{
    static bool given[KEYS];
    struct key_index k;
    struct rng rng;
    uint64_t count = 0, row;

    (void)state;
    memset(given, 0, sizeof(given));
    rng_init(&rng, 16);
    assert_int_equal(key_index_init(&k, KEYS), ERR_OK);
    for (int step = 0; step < 3 * KEYS; step++) {
        uint64_t i = rng_below(&rng, KEYS), key = key_at(i);
        bool found = key_index_find(&k, key, key_hash(key), &row);

        key_index_prefetch_segment(&k, key_hash(key));
        key_index_prefetch(&k, key_hash(key));
        assert_int_equal(found, given[i]);
        if (found)
            assert_int_equal(row, i);
        else
            give(&k, key, i);
        count += !found;
        given[i] = true;
    }
    assert_int_equal(key_index_count(&k), count);
    for (uint64_t i = 0; i < KEYS; i++) {
        assert_int_equal(
            key_index_find(&k, key_at(i), key_hash(key_at(i)), &row), given[i]);
        if (given[i])
            assert_int_equal(row, i);
    }
    key_index_deinit(&k);
}

/* Copies of all segments have each key once. */
static void key_copies_have_each_once(void **state)
{
    static struct key_entry copy[KEYS];
    static unsigned seen[KEYS];
    struct key_index k;
    uint64_t n = 0;

    (void)state;
    memset(seen, 0, sizeof(seen));
    assert_int_equal(key_index_init(&k, KEYS), ERR_OK);
    for (uint64_t i = 0; i < KEYS; i++)
        give(&k, key_at(i), i);
    for (uint64_t s = 0; s < k.segments; s++) {
        assert_true(n + key_index_used(&k, s) <= KEYS);
        key_index_copy(&k, s, copy + n);
        n += key_index_used(&k, s);
    }
    assert_int_equal(n, KEYS);
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t row = copy[i].row - 1;

        assert_true(row < KEYS && seen[row]++ == 0);
        assert_int_equal(key_entry_key(&copy[i]), key_at(row));
    }
    key_index_deinit(&k);
}

static uint64_t bytes_of(const struct key_index *k)
{
    uint64_t n = k->segments * sizeof(*k->segment);

    for (uint64_t i = 0; i < k->segments; i++)
        n += atomic_load(&k->segment[i].room) * sizeof(struct key_entry);
    return n;
}

/* At no size does it take more than it says: at most 18.2 bytes a key where
 * there are many. An index that was made for fewer keys takes more all the
 * same. */
static void key_index_takes_what_it_says(void **state)
{
    static const uint64_t made_for[] = {KEYS, 1};

    (void)state;
    for (size_t m = 0; m < 2; m++) {
        struct key_index k;

        assert_int_equal(key_index_init(&k, made_for[m]), ERR_OK);
        for (uint64_t i = 0; i < KEYS; i++) {
            give(&k, rng_mix(3, i), i);
            if (m == 0 && i + 1 == KEYS)
                assert_true(bytes_of(&k) <= key_index_bytes(KEYS));
            if (m == 1 && i % 16 == 0)
                assert_true(bytes_of(&k) <= key_index_bytes(i + 1));
        }
        key_index_deinit(&k);
    }
    assert_true(key_index_bytes(100000000) < 1820000000);
}

/* Keys that fall to one node are spread over its segments as all are. */
static void key_shares_are_spread(void **state)
{
    enum { NODES = 4, SEGMENTS = 64, EACH = 1 << 17 };
    struct key_index k;
    static unsigned of[SEGMENTS];
    unsigned nodes[NODES] = {0};

    (void)state;
    memset(of, 0, sizeof(of));
    assert_int_equal(key_index_init(&k, SEGMENTS * 2048 - 1), ERR_OK);
    assert_int_equal(k.segments, SEGMENTS);
    for (uint64_t key = 0; key < EACH; key++) {
        uint64_t hash = key_hash(key), node = key_share(hash, NODES);

        nodes[node]++;
        if (node == 3)
            of[key_index_segment(&k, hash)]++;
    }
    for (int i = 0; i < NODES; i++)
        assert_true(abs((int)nodes[i] - EACH / NODES) < 1000); /* 6 sigma */
    for (int i = 0; i < SEGMENTS; i++)
        assert_true(abs((int)of[i] - EACH / NODES / SEGMENTS) < 160); /* 7 */
    key_index_deinit(&k);
}

/* Each allocation may fail: nothing is lost, and what was refused is taken
 * later. */
static void key_index_without_memory_keeps_what_it_has(void **state)
{
    int64_t before = mem_outstanding();
    struct key_index k;
    uint64_t row, refused = 0;

    (void)state;
    mem_fail_at(1, 0);
    assert_int_equal(key_index_init(&k, KEYS), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_true(mem_outstanding() == before);
    assert_int_equal(key_index_init(&k, KEYS), ERR_OK);
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t hash = key_hash(i);

        mem_fail_at(1, 0);
        if (key_index_reserve(&k, hash) == ERR_NOMEM) {
            mem_fail_at(0, 0);
            refused++;
            for (uint64_t j = 0; j < i; j++)
                assert_true(key_index_find(&k, j, key_hash(j), &row) &&
                            row == j);
            assert_false(key_index_find(&k, i, hash, &row));
            assert_int_equal(key_index_reserve(&k, hash), ERR_OK);
        }
        mem_fail_at(0, 0);
        key_index_add(&k, i, hash, i);
    }
    assert_true(refused > 20);
    key_index_deinit(&k);
    assert_true(mem_outstanding() == before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_keep_their_rows),
        cmocka_unit_test(key_copies_have_each_once),
        cmocka_unit_test(key_index_takes_what_it_says),
        cmocka_unit_test(key_shares_are_spread),
        cmocka_unit_test(key_index_without_memory_keeps_what_it_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
