#include "base/mem.h"
#include "tests/unit/fixture/check.h"

/* Memory allocated counts as outstanding until it is freed, whatever call it
 * came from. */
static void mem_every_allocation_is_counted_until_freed(void **state)
{
    int64_t before = mem_outstanding();
    void *p[4];

    (void)state;
    p[0] = mem_alloc(10);
    p[1] = mem_calloc(3, 7);
    p[2] = mem_aligned(64, 100);
    p[3] = mem_strdup("text");
    for (int i = 0; i < 4; i++)
        assert_non_null(p[i]);
    assert_int_equal(mem_outstanding(), before + 4);
    p[0] = mem_realloc(p[0], 1000);
    assert_int_equal(mem_outstanding(), before + 4);
    for (int i = 0; i < 4; i++)
        mem_free(p[i]);
    mem_free(NULL);
    assert_int_equal(mem_outstanding(), before);
}

/* Zero bytes and products that overflow are failures, not tiny blocks. */
static void mem_impossible_sizes_give_null(void **state)
{
    (void)state;
    assert_null(mem_alloc(0));
    assert_null(mem_calloc(0, 8));
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
}

static void mem_aligned_block_is_aligned(void **state)
{
    void *p = mem_aligned(4096, 10);

    (void)state;
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 4096, 0);
    mem_free(p);
}

/* Exactly the nth allocation fails, and later ones work again. */
static void mem_fail_at_n_fails_once(void **state)
{
    void *a, *b, *c;

    (void)state;
    mem_fail_at(2, 0);
    a = mem_alloc(1);
    b = mem_alloc(1);
    c = mem_alloc(1);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_int_equal(mem_failed(), 1);
    mem_fail_at(0, 0);
    mem_free(a);
    mem_free(c);
}

static void mem_fail_forever_fails_all_after(void **state)
{
    void *a;

    (void)state;
    mem_fail_at(2, 1);
    a = mem_alloc(1);
    assert_non_null(a);
    for (int i = 0; i < 3; i++)
        assert_null(mem_alloc(1));
    mem_fail_at(0, 0);
    assert_int_equal(mem_failed(), 0);
    mem_free(a);
}

/* A failed growth leaves array and capacity as they were. */
static void mem_grow_failure_changes_nothing(void **state)
{
    int *items = NULL;
    size_t capacity = 0;

    (void)state;
    assert_int_equal(mem_grow((void **)&items, &capacity, sizeof(int), 3), 0);
    assert_true(capacity >= 3);
    items[2] = 42;
    mem_fail_at(1, 0);
    assert_int_equal(mem_grow((void **)&items, &capacity, sizeof(int), 1000),
                     -1);
    mem_fail_at(0, 0);
    assert_true(capacity < 1000);
    assert_int_equal(items[2], 42);
    assert_int_equal(mem_grow((void **)&items, &capacity, sizeof(int), 1000),
                     0);
    assert_int_equal(items[2], 42);
    mem_free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mem_every_allocation_is_counted_until_freed),
        cmocka_unit_test(mem_impossible_sizes_give_null),
        cmocka_unit_test(mem_aligned_block_is_aligned),
        cmocka_unit_test(mem_fail_at_n_fails_once),
        cmocka_unit_test(mem_fail_forever_fails_all_after),
        cmocka_unit_test(mem_grow_failure_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
