#include "apps/settings.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char text[] =
    "{\"name\": \"lda\", \"data\": \"gen:bow?docs=40&words=50&topics=3\","
    " \"test_fraction\": 0.125, \"clock\": 5, \"topics\": 3,"
    " \"alpha\": 0.30000000000000004, \"iterations\": 1234567890123}";

/* Each allocation fails, once and for ever: said, or the settings are those of
 * the text. jansson by itself leaves characters out. */
static void settings_without_memory_are_refused_or_whole(void **state)
{
    const struct mlt_app_config config = {.size = sizeof(config),
                                          .settings = text};
    int64_t before = mem_outstanding();
    json_t *whole;

    (void)state;
    assert_int_equal(json_load(text, strlen(text), &whole, NULL, NULL), ERR_OK);
    for (int forever = 0; forever < 2; forever++) {
        int failed = 1;

        for (int64_t nth = 1; failed; nth++) {
            struct settings s;
            struct fault f = {0};
            enum err err;

            mem_fail_at(nth, forever);
            err = settings_init(&s, &config, &f);
            failed = mem_failed();
            mem_fail_at(0, 0);
            if (err) {
                assert_int_equal(err, ERR_NOMEM);
                assert_true(failed);
                continue;
            }
            assert_true(json_equal(s.json, whole));
            assert_int_equal(s.clocks, 5);
            settings_deinit(&s);
        }
    }
    json_decref(whole);
    assert_int_equal(mem_outstanding(), before);
}

static int count_memory(void **state)
{
    (void)state;
    json_count_memory();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_without_memory_are_refused_or_whole),
    };

    return cmocka_run_group_tests(tests, count_memory, NULL);
}
