/* Words for what is not read. */
#include "apps/data/data_refusal.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

#define WHY(kind, bytes) data_refusal_of(kind, bytes, sizeof(bytes) - 1).why

/* Each kind that nothing loads says why, and what to do. */
static void refusal_has_words_for_each_kind(void **state)
{
    static const enum data_kind kinds[] = {DATA_TEXT, DATA_BINARY, DATA_EMPTY};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct data_refusal r = data_refusal_of(kinds[i], "", 0);

        assert_true(strlen(r.why) > 5);
        assert_true(strlen(r.advice) > 20);
    }
    assert_true(strlen(data_table_advice) > 20);
}

/* A format is known by its mark, and not by a part of it. */
static void refusal_knows_formats_by_their_marks(void **state)
{
    char tar[512] = "name";

    (void)state;
    memcpy(tar + 257, "ustar", 5);
    assert_non_null(strstr(WHY(DATA_BINARY, "PAR1\x15"), "Parquet"));
    assert_non_null(strstr(WHY(DATA_BINARY, "\x93NUMPY\x01"), "NumPy"));
    assert_non_null(strstr(WHY(DATA_BINARY, "PK\x03\x04"), "zip"));
    assert_non_null(strstr(WHY(DATA_BINARY, "BZh9"), "bzip2"));
    assert_non_null(
        strstr(data_refusal_of(DATA_BINARY, tar, sizeof(tar)).why, "tar"));
    assert_non_null(
        strstr(data_refusal_of(DATA_BINARY, tar, 261).why, "no format"));
    assert_non_null(strstr(WHY(DATA_BINARY, "PAR"), "no format"));
}

static void refusal_tells_tables_from_prose(void **state)
{
    (void)state;
    assert_true(data_looks_like_table("a,b\nc,d\n", 8));
    assert_true(data_looks_like_table("a;b\nc;d", 7));
    assert_true(data_looks_like_table("a\tb, c\nc\td", 11));
    assert_false(data_looks_like_table("a,b\nc,d,e\n", 10));
    assert_false(data_looks_like_table("To be,\nor not\n", 14));
    assert_false(data_looks_like_table("a,b", 3));
    assert_false(data_looks_like_table("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusal_has_words_for_each_kind),
        cmocka_unit_test(refusal_knows_formats_by_their_marks),
        cmocka_unit_test(refusal_tells_tables_from_prose),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
