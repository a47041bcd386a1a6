/* Rows at a node: which are refused before any memory is taken for them. */
#include "base/json/json.h"
#include "base/mem.h"
#include "ps/node/node_rows.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/ps_fixture.h"
#include "tests/unit/fixture/rows_whole.h"

#include <stdio.h>

/* A row more than a message can hold at four bytes a value. */
enum { ROWS = 1024, WIDTH = PROTO_BYTES_MAX / 4 / ROWS + 1 };

static struct mlt_ps *open_wide(void)
{
    struct mlt_ps *ps = fixture_ps(1, "bsp", "add");
    struct mlt_table_options opt = {.size = sizeof(opt),
                                    .name = "wide",
                                    .rows = ROWS,
                                    .width = WIDTH,
                                    .type = MLT_F32,
                                    .access = MLT_SHARED};
    struct mlt_error err;
    mlt_table table;

    if (mlt_ps_table(ps, &opt, &table, &err))
        fail_msg("%s", err.text);
    fixture_start(ps);
    return ps;
}

static struct msg_rows rows_of(uint32_t count, uint32_t values)
{
    struct msg_rows m = {.table = "wide", .count = count, .values = values};

    return m;
}

/* Rows too large to send are refused as asked for; a part of them is read. */
static void node_rows_that_no_message_holds_are_refused(void **state)
{
    struct mlt_ps *ps = open_wide();
    struct msg_rows all = rows_of(ROWS, 0), most = rows_of(ROWS, WIDTH - 1),
                    one = rows_of(1, 0);
    struct ps_rows r;
    struct fault f = {0};
    json_t *data = NULL;

    (void)state;
    assert_int_equal(node_rows_find(ps, &all, &r, &f), ERR_LIMIT);
    assert_non_null(strstr(f.text, "parts"));
    assert_int_equal(node_rows_find(ps, &most, &r, &f), ERR_OK);
    assert_int_equal(node_rows_carry_out(ps, &all, &data, &f), ERR_LIMIT);
    assert_null(data);
    assert_int_equal(node_rows_carry_out(ps, &one, &data, &f), ERR_OK);
    assert_int_equal(json_array_size(data), 1);
    assert_int_equal(json_array_size(json_array_get(data, 0)), WIDTH);
    json_decref(data);
    mlt_ps_free(ps);
}

/* Each allocation of an increment may fail: then nothing was added. Once it is
 * in the row nothing fails. */
static void node_rows_increment_is_made_or_has_failed(void **state)
{
    struct mlt_ps *ps = open_wide();
    struct msg_rows m = rows_of(1, 0);
    json_t *row = json_array(), *data = NULL;
    double *value = mem_calloc(WIDTH, sizeof(*value));
    struct fault f = {0};
    enum err err;

    (void)state;
    for (int i = 0; i < WIDTH; i++)
        json_array_append_new(row, json_real(i == 0));
    m.increment = json_pack("[o]", row);
    for (int64_t n = 1;; n++) {
        mem_fail_at(n, 0);
        err = node_rows_carry_out(ps, &m, &data, &f);
        mem_fail_at(0, 0);
        assert_null(data);
        assert_int_equal(rows_read_whole(ps, 0, "wide", 0, 1, value), ERR_OK);
        assert_true(value[0] == (err ? 0 : 1));
        if (!err)
            break;
        assert_int_equal(err, ERR_NOMEM);
        assert_true(n < 100);
    }
    json_decref(m.increment);
    mem_free(value);
    mlt_ps_free(ps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_rows_that_no_message_holds_are_refused),
        cmocka_unit_test(node_rows_increment_is_made_or_has_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
