#include "ps/loop/depend.h"
#include "tests/unit/fixture/check.h"

/* A loop of @dims dimensions of ten indices each, without touches. */
static struct loop_nest nest_of(unsigned dims)
{
    struct loop_nest n = {.dims = dims};

    for (unsigned d = 0; d < dims; d++)
        n.extent[d] = 10;
    return n;
}

/* Touch of table @id with up to three subscripts; its axes have 20 places. */
static void touches(struct loop_nest *n, mlt_table id, unsigned touch,
                    const struct mlt_subscript at[3])
{
    struct loop_access *a = &n->access[n->accesses++];

    *a = (struct loop_access){.table = "t",
                              .id = id,
                              .width = 1,
                              .rows = 1,
                              .reads = touch & MLT_READS,
                              .updates = touch & MLT_UPDATES,
                              .buffered = touch & MLT_BUFFERED};
    while (a->axes < 3 && at[a->axes].kind != MLT_SUBSCRIPT_NONE) {
        a->at[a->axes] = at[a->axes];
        a->at[a->axes].size = 20;
        a->rows *= 20;
        a->axes++;
    }
}

static void touch_1(struct loop_nest *n, mlt_table id, unsigned touch,
                    struct mlt_subscript at)
{
    struct mlt_subscript all[3] = {at};

    touches(n, id, touch, all);
}

#define AT(...) ((struct mlt_subscript)__VA_ARGS__)
enum { READ = MLT_READS, WRITE = MLT_UPDATES, BOTH = READ | WRITE };

/* The vectors, one after the other. */
static void expect(const struct loop_nest *n, const char *want)
{
    struct depends ds;
    char text[1024] = "";
    size_t len = 0;

    assert_int_equal(depend_find(n, &ds), ERR_OK);
    for (unsigned i = 0; i < ds.count; i++)
        len +=
            depend_text(&ds.vector[i], n->dims, text + len, sizeof(text) - len);
    assert_string_equal(text, want);
}

/* Wei 2018, figure 3.7: matrix factorization. Iterations (i, j) of one user
 * differ in the item alone, those of one item in the user alone. */
static void depend_of_matrix_factorization(void **state)
{
    struct loop_nest n = nest_of(2);

    (void)state;
    touch_1(&n, 0, BOTH, AT(MLT_INDEX(0, 0)));
    touch_1(&n, 1, BOTH, AT(MLT_INDEX(1, 0)));
    expect(&n, "(0, +)(+, 0)");
}

/* Wei 2018, figure 3.8a: A[j] alone leaves dimension j free. */
static void depend_of_one_table_by_one_index(void **state)
{
    struct loop_nest n = nest_of(2);

    (void)state;
    touch_1(&n, 0, BOTH, AT(MLT_INDEX(1, 0)));
    expect(&n, "(+, 0)");
}

/* A stencil, A[i, j] from A[i - 1, j + 1] and A[i, j - 1]: distances (1, -1)
 * and (0, 1), the case for skewing. */
static void depend_of_a_stencil_is_its_distances(void **state)
{
    struct loop_nest n = nest_of(2);
    struct mlt_subscript write[3] = {MLT_INDEX(0, 1), MLT_INDEX(1, 1)};
    struct mlt_subscript above[3] = {MLT_INDEX(0, 0), MLT_INDEX(1, 2)};
    struct mlt_subscript left[3] = {MLT_INDEX(0, 1), MLT_INDEX(1, 0)};

    (void)state;
    touches(&n, 0, WRITE, write);
    touches(&n, 0, READ, above);
    touches(&n, 0, READ, left);
    expect(&n, "(1, -1)(0, 1)");
}

/* Footnote 5: what is not one index plus a constant is infinity in all
 * dimensions: a row chosen by the data, a fixed row, another index. */
static void depend_of_what_is_not_an_index_is_infinite(void **state)
{
    const char *all = "(+, any)(0, +)";
    struct loop_nest data = nest_of(2), fixed = nest_of(2), other = nest_of(2);

    (void)state;
    touch_1(&data, 0, BOTH, AT(MLT_FROM_DATA));
    expect(&data, all);
    touch_1(&fixed, 0, WRITE, AT(MLT_FIXED(3)));
    expect(&fixed, all);
    touch_1(&other, 0, READ, AT(MLT_INDEX(0, 0)));
    touch_1(&other, 0, WRITE, AT(MLT_INDEX(1, 0)));
    expect(&other, "(+, any)(0, +)(+, 0)");
}

/* An infinity before a number: the pair may differ either way in the first
 * dimension, so the number comes with both signs. */
static void depend_leads_with_what_is_positive(void **state)
{
    struct loop_nest n = nest_of(2);

    (void)state;
    touch_1(&n, 0, WRITE, AT(MLT_INDEX(1, 3)));
    touch_1(&n, 0, READ, AT(MLT_INDEX(1, 0)));
    expect(&n, "(+, 0)(+, 3)(+, -3)(0, 3)");
}

/* Reads alone, buffered updates, different tables, fixed rows that differ,
 * subscripts that never meet and distances beyond the extent: nothing. */
static void depend_of_what_never_meets_is_none(void **state)
{
    struct loop_nest n = nest_of(2);
    struct mlt_subscript twice[3] = {MLT_INDEX(0, 0), MLT_INDEX(0, 0)};
    struct mlt_subscript off[3] = {MLT_INDEX(0, 0), MLT_INDEX(0, 1)};
    struct mlt_subscript own[3] = {MLT_INDEX(0, 0), MLT_INDEX(1, 0)};
    struct mlt_subscript far[3] = {MLT_INDEX(0, 0), MLT_INDEX(1, 10)};

    (void)state;
    touch_1(&n, 0, READ, AT(MLT_FROM_DATA));
    touch_1(&n, 0, WRITE | MLT_BUFFERED, AT(MLT_FROM_DATA));
    touch_1(&n, 1, READ, AT(MLT_INDEX(0, 0)));
    touch_1(&n, 1, READ, AT(MLT_INDEX(1, 0)));
    touches(&n, 2, READ, twice);
    touches(&n, 2, WRITE | MLT_BUFFERED, twice);
    touches(&n, 3, WRITE, own);
    touches(&n, 3, READ, far);
    expect(&n, "");
    touches(&n, 4, READ, twice);
    touches(&n, 4, WRITE, off);
    expect(&n, "(0, +)"); /* off meets itself; twice never meets off */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depend_of_matrix_factorization),
        cmocka_unit_test(depend_of_one_table_by_one_index),
        cmocka_unit_test(depend_of_a_stencil_is_its_distances),
        cmocka_unit_test(depend_of_what_is_not_an_index_is_infinite),
        cmocka_unit_test(depend_leads_with_what_is_positive),
        cmocka_unit_test(depend_of_what_never_meets_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
