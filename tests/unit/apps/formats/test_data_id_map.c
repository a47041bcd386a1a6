#include "apps/formats/id_map.h"
#include "base/mem.h"
#include "base/rng.h"

#include "tests/unit/fixture/check.h"

/* Every id gets one number, in order of appearance, and is found again, small
 * ones and large ones alike. */
static void id_map_numbers_ids_in_order_of_appearance(void **state)
{
    enum { N = 20000 };
    struct id_map m = {0};
    struct perm perm;
    uint32_t number;
    int64_t i;

    (void)state;
    perm_init(&perm, N, 3);
    for (i = 0; i < N; i++) {
        int64_t id = (int64_t)perm_at(&perm, (uint64_t)i) * 1000003;

        assert_int_equal(id_map_find(&m, id), ID_NONE);
        assert_int_equal(id_map_add(&m, id, &number), ERR_OK);
        assert_int_equal(number, i);
    }
    for (i = 0; i < N; i++) {
        int64_t id = (int64_t)perm_at(&perm, (uint64_t)i) * 1000003;

        assert_int_equal(id_map_find(&m, id), i);
        assert_int_equal(id_map_add(&m, id, &number), ERR_OK);
        assert_int_equal(number, i);
        assert_int_equal(m.id[i], id);
    }
    assert_int_equal(m.count, N);
    assert_int_equal(id_map_find(&m, 1), ID_NONE);
    assert_int_equal(id_map_find(&m, -5), ID_NONE);
    assert_int_equal(id_map_find(&m, INT64_MAX), ID_NONE);
    id_map_deinit(&m);
    assert_int_equal(id_map_find(&m, 0), ID_NONE);
}

/* A map from an array holds it as it is; repeated and negative ids are refused
 * and leave nothing. */
static void id_map_from_an_array_checks_it(void **state)
{
    static const int64_t good[] = {5, 0, INT64_MAX}, twice[] = {5, 6, 5},
                         negative[] = {5, -1};
    int64_t before = mem_outstanding();
    struct id_map m = {0};

    (void)state;
    assert_int_equal(id_map_init(&m, twice, 3), ERR_EXIST);
    assert_int_equal(id_map_init(&m, negative, 2), ERR_INVAL);
    assert_int_equal(mem_outstanding(), before);
    assert_int_equal(id_map_init(&m, good, 3), ERR_OK);
    assert_int_equal(id_map_find(&m, INT64_MAX), 2);
    assert_int_equal(id_map_find(&m, 0), 1);
    id_map_deinit(&m);
    assert_int_equal(mem_outstanding(), before);
}

/* One large id costs little; ids that lie close together come to index an
 * array, those that came before it reached them, too. */
static void id_map_arrays_reach_as_far_as_they_are_filled(void **state)
{
    enum { N = 4000, APART = 7 };
    struct id_map m = {0};
    struct perm perm;
    uint32_t number;

    (void)state;
    assert_int_equal(id_map_add(&m, ID_MAP_DIRECT_MAX - 1, &number), ERR_OK);
    assert_true(id_map_bytes(&m) < 1024);
    assert_int_equal(m.direct_len, 0);
    perm_init(&perm, N, 5);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(
            id_map_add(&m, (int64_t)perm_at(&perm, i) * APART, &number),
            ERR_OK);
    assert_true(m.hashed > 1 && m.hashed < N / 2);
    assert_true(m.direct_len >= (N - 1) * APART);
    for (uint64_t i = 0; i < N; i++) {
        int64_t id = (int64_t)perm_at(&perm, i) * APART;

        assert_int_equal(id_map_find(&m, id), i + 1);
        assert_int_equal(id_map_find(&m, id + 1), ID_NONE);
        assert_int_equal(id_map_add(&m, id, &number), ERR_OK);
        assert_int_equal(number, i + 1);
    }
    assert_int_equal(id_map_find(&m, ID_MAP_DIRECT_MAX - 1), 0);
    assert_int_equal(m.count, N + 1);
    id_map_deinit(&m);
}

/* A failed allocation leaves the map as it was: the id can be added later. */
static void id_map_survives_allocation_failure(void **state)
{
    struct id_map m = {0};
    int64_t id;
    int failures = 0;

    (void)state;
    for (id = 0; id < 300; id++) {
        int64_t wide = id % 2 ? id : id + 10000000;
        uint32_t number = 77;

        mem_fail_at(1, 0);
        if (id_map_add(&m, wide, &number)) {
            failures++;
            assert_int_equal(number, 77);
            assert_int_equal(id_map_find(&m, wide), ID_NONE);
            mem_fail_at(0, 0);
            assert_int_equal(id_map_add(&m, wide, &number), ERR_OK);
        }
        mem_fail_at(0, 0);
        assert_int_equal(number, id);
        assert_int_equal(m.count, id + 1);
    }
    assert_true(failures >= 4);
    id_map_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id_map_numbers_ids_in_order_of_appearance),
        cmocka_unit_test(id_map_from_an_array_checks_it),
        cmocka_unit_test(id_map_arrays_reach_as_far_as_they_are_filled),
        cmocka_unit_test(id_map_survives_allocation_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
