/* What is told, and what ends a recovery, where a folder cannot be opened. */
#include "cli/state/salvage.h"
#include "tests/unit/fixture/check.h"

#include <errno.h>
#include <string.h>

static unsigned told;

static void count_told(void *ctx, const char *what)
{
    (void)ctx;
    assert_non_null(strstr(what, "snapshots"));
    told++;
}

/* What could be read another time is not passed over: the recovery fails, and
 * can be begun again. */
static void salvage_unlisted_folder_is_told_or_fails(void **state)
{
    struct salvage s = {.tell = count_told};
    struct fault f = {0};

    (void)state;
    assert_int_equal(salvage_unlisted(&s, "/x/snapshots", ENOENT, &f), ERR_OK);
    assert_int_equal(told, 0);
    assert_int_equal(salvage_unlisted(&s, "/x/snapshots", EIO, &f), ERR_OK);
    assert_int_equal(told, 1);
    assert_int_equal(salvage_unlisted(&s, "/x/snapshots", ENOMEM, &f),
                     ERR_NOMEM);
    assert_non_null(strstr(f.text, "/x/snapshots"));
    assert_int_equal(salvage_unlisted(&s, "/x/snapshots", EMFILE, &f), ERR_IO);
    assert_int_equal(told, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(salvage_unlisted_folder_is_told_or_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
