/* Manifests of checkpoints as text, and their files. */
#include "ps/disk/manifest.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

/* Three tables, four workers on two nodes; parts of the nodes in @nodes. */
static void make(struct manifest *m, unsigned nodes)
{
    const struct mlt_table_options shared = {.size = sizeof(shared),
                                             .name = "weights",
                                             .rows = 1000,
                                             .width = 5,
                                             .chunk_bytes = 512};
    struct mlt_table_options own = shared, local = shared;
    struct table t;

    own.name = "users";
    own.access = MLT_EXCLUSIVE;
    own.rule = "adagrad";
    local.name = "cursor";
    local.access = MLT_LOCAL;
    local.flags = MLT_ALIKE;
    assert_int_equal(manifest_init(m, 3, 2, 4), ERR_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(table_init(&t,
                                    i == 0   ? &shared
                                    : i == 1 ? &own
                                             : &local,
                                    rule_find("sgd"), NULL),
                         ERR_OK);
        table_partition(&t, 4);
        t.placed = i == 0 ? 0xfeed1234 : 0;
        manifest_describe(&t, &m->table[i]);
    }
    m->run = UINT64_C(0xfedcba9876543210);
    m->number = 3;
    m->clock = 12345678901;
    m->branch = 17;
    for (uint32_t i = 0; i < 4; i++)
        if (nodes >> i / 2 & 1)
            m->part[i] = (struct manifest_part){true, 0xdead0000 + i,
                                                0xbead0000 + i, 1000 + i};
}

static enum err decode(const char *text, size_t len, struct manifest *m,
                       struct fault *f)
{
    return manifest_decode(text, len, "d/manifest.json", m, f);
}

/* Written text is read again, to the letter, and says the same. */
static void manifest_round_trip(void **state)
{
    struct manifest m, back;
    char *text, *again;

    (void)state;
    make(&m, 3);
    assert_int_equal(manifest_missing(&m), 4);
    text = manifest_encode(&m);
    assert_non_null(text);
    assert_int_equal(decode(text, strlen(text), &back, NULL), ERR_OK);
    again = manifest_encode(&back);
    assert_string_equal(text, again);
    assert_int_equal(back.run, m.run);
    assert_int_equal(back.clock, m.clock);
    assert_int_equal(back.part[3].seal, 0xdead0003);
    assert_int_equal(back.table[0].placed, 0xfeed1234);
    assert_int_equal(back.part[3].rows_seal, 0xbead0003);
    for (int i = 0; i < 3; i++)
        assert_true(manifest_same_rows(&m.table[i], &back.table[i]));
    assert_false(manifest_same_rows(&m.table[0], &m.table[1]));
    mem_free(text);
    mem_free(again);
    manifest_deinit(&m);
    manifest_deinit(&back);
}

/* Any one byte that is wrong, any length that is too short, and a byte too many
 * are refused with the file's name; nothing leaks. */
static void manifest_any_damage_is_refused(void **state)
{
    struct manifest m, back;
    int64_t before;
    char *text;
    size_t n;

    (void)state;
    make(&m, 3);
    text = manifest_encode(&m);
    n = strlen(text);
    before = mem_outstanding();
    for (size_t i = 0; i < n; i++) {
        struct fault f = {0};

        text[i] ^= 0x11;
        assert_int_equal(decode(text, n, &back, &f), ERR_FORMAT);
        assert_non_null(strstr(f.text, "d/manifest.json"));
        text[i] ^= 0x11;
        assert_int_equal(decode(text, i, &back, &f), ERR_FORMAT);
        assert_non_null(strstr(f.text, "d/manifest.json"));
    }
    assert_int_equal(decode(text, n + 1, &back, NULL), ERR_FORMAT);
    assert_int_equal(mem_outstanding(), before);
    mem_free(text);
    manifest_deinit(&m);
}

/* The nodes' manifests make the whole one; of another checkpoint they do not.
 */
static void manifest_joins_parts_of_one_checkpoint(void **state)
{
    struct manifest a, b;
    struct fault f;
    char file[MANIFEST_FILE_MAX];

    (void)state;
    make(&a, 1);
    make(&b, 2);
    assert_int_equal(manifest_missing(&a), 2);
    manifest_file(&a, 2, file);
    assert_string_equal(file, "node-1/shard-2");
    manifest_rows_file(&a, 2, file);
    assert_string_equal(file, "node-1/rows-2");
    b.number++;
    assert_int_equal(manifest_join(&a, &b, "d/node-1/manifest.json", &f),
                     ERR_FORMAT);
    assert_non_null(strstr(f.text, "d/node-1/manifest.json"));
    b.number--;
    b.table[1].width++;
    assert_int_equal(manifest_join(&a, &b, "x", &f), ERR_FORMAT);
    b.table[1].width--;
    b.clock++; /* of a node whose workers had run another number */
    assert_int_equal(manifest_join(&a, &b, "x", &f), ERR_OK);
    assert_int_equal(manifest_missing(&a), 4);
    assert_int_equal(a.clock, b.clock - 1); /* node 0's */
    for (int i = 0; i < 2; i++)
        b.part[i] = (struct manifest_part){0};
    assert_int_equal(manifest_join(&b, &a, "x", &f), ERR_OK);
    assert_int_equal(b.clock, a.clock);
    assert_int_equal(a.part[2].bytes, 1002);
    manifest_deinit(&a);
    manifest_deinit(&b);
}

/* Rows of the parts: those that the workers had. */
static void manifest_rows_are_those_of_the_workers(void **state)
{
    struct manifest m;
    uint64_t first, count, next = 0;

    (void)state;
    make(&m, 3);
    for (uint32_t w = 0; w < 4; w++) {
        manifest_rows(&m, 0, w, &first, &count);
        assert_int_equal(first, next);
        next += count;
        manifest_rows(&m, 2, w, &first, &count);
        assert_int_equal(first, 0);
        assert_int_equal(count, 1000);
    }
    assert_int_equal(next, 1000);
    manifest_deinit(&m);
}

/* Allocations that fail are reported and leak nothing. */
static void manifest_any_failing_allocation_is_clean(void **state)
{
    struct manifest m, back;
    int64_t before;
    bool failed;
    char *text;
    int n = 0;

    (void)state;
    make(&m, 3);
    text = manifest_encode(&m);
    do {
        enum err err;

        before = mem_outstanding();
        mem_fail_at(++n, 0);
        err = decode(text, strlen(text), &back, NULL);
        failed = mem_failed();
        mem_fail_at(0, 0);
        assert_int_equal(err, failed ? ERR_NOMEM : ERR_OK);
        if (!err)
            manifest_deinit(&back);
        assert_int_equal(mem_outstanding(), before);
    } while (failed);
    mem_free(text);
    manifest_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_round_trip),
        cmocka_unit_test(manifest_any_damage_is_refused),
        cmocka_unit_test(manifest_joins_parts_of_one_checkpoint),
        cmocka_unit_test(manifest_rows_are_those_of_the_workers),
        cmocka_unit_test(manifest_any_failing_allocation_is_clean),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
