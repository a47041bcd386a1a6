/* The file of a run's notes: whole or as it was, whatever fails; what is no
 * such file is left alone. */
#include "cli/state/notes_file.h"

#include "api/view/notes.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUN "digits-4f9c2a"
#define PATH "runs/" RUN "/notes.json"

static int setup(void **state)
{
    scratch_make(state);
    scratch_mkdir("runs");
    scratch_mkdir("runs/" RUN);
    return 0;
}

static enum err change(const char *text, json_t **now, struct fault *f)
{
    json_t *json = NULL;
    enum err err;

    assert_int_equal(json_load(text, strlen(text), &json, NULL, NULL), ERR_OK);
    err = notes_file_change(scratch_folder(), RUN, json, now, f);
    json_decref(json);
    return err;
}

/* As JSON; "": there are none. The caller's (mem_free). */
static char *found(void)
{
    json_t *notes = NULL;
    struct fault f = {0};
    enum err err = notes_file_read(scratch_folder(), RUN, &notes, &f);
    char *text;

    if (err == ERR_NOENT)
        return mem_strdup("");
    if (err)
        fail_msg("%s", f.text);
    text = json_write(notes, 0);
    json_decref(notes);
    return text;
}

static void expect(const char *expected)
{
    char *text = found();

    assert_string_equal(text, expected);
    mem_free(text);
}

/* Changes add up, each is another file, and a bad one changes nothing. */
static void notes_file_keeps_what_was_written(void **state)
{
    uint64_t none = notes_file_mark(scratch_folder(), RUN), first;
    json_t *now = NULL;
    struct fault f = {0};

    (void)state;
    expect("");
    assert_int_equal(none, 0);
    assert_int_equal(change("{\"tags\": [\"a\"]}", &now, &f), ERR_OK);
    json_decref(now);
    first = notes_file_mark(scratch_folder(), RUN);
    assert_true(first != none);
    assert_int_equal(change("{\"note\": \"n\"}", &now, &f), ERR_OK);
    assert_true(notes_has_tag(now, "a"));
    json_decref(now);
    assert_true(notes_file_mark(scratch_folder(), RUN) != first);
    expect("{\"tags\":[\"a\"],\"note\":\"n\"}");
    assert_int_equal(change("{\"tags\": [\"a b\"]}", &now, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "/tags/0: expected 1 to 40 bytes"));
    expect("{\"tags\":[\"a\"],\"note\":\"n\"}");
}

/* Whichever call fails, on a full disk say: the file is as it was, or as it was
 * to be. */
static void notes_file_survives_any_call_that_fails(void **state)
{
    bool failed = true;

    (void)state;
    for (unsigned nth = 1; failed; nth++) {
        json_t *now = NULL;
        struct fault f = {0};
        char *text;
        enum err err;

        assert_int_equal(change("{\"note\": \"old\"}", &now, &f), ERR_OK);
        json_decref(now);
        now = NULL;
        faulty_disk_on(NULL, nth, ENOSPC);
        err = change("{\"note\": \"new\"}", &now, &f);
        failed = faulty_disk_failed();
        faulty_disk_off();
        json_decref(now);
        text = found();
        assert_true(strstr(text, err ? "old" : "new") ||
                    (failed && strstr(text, "new")));
        if (err) {
            assert_int_equal(err, ERR_IO);
            assert_non_null(strstr(f.text, "No space left"));
        }
        mem_free(text);
    }
}

/* Damage is told with its place and left as it is. */
static void notes_file_that_is_damaged_is_left_alone(void **state)
{
    static const struct {
        const char *text, *says;
        enum err err;
    } rows[] = {
        {"", "", ERR_FORMAT},
        {"{\"version\": 1", "", ERR_FORMAT},
        {"[]", "damaged", ERR_FORMAT},
        {"{\"tags\": []}", "expected version 1", ERR_FORMAT},
        {"{\"version\": 2, \"tags\": []}", "later mltune", ERR_VERSION},
        {"{\"version\": 1, \"tags\": [1]}", "/tags/0", ERR_FORMAT},
        {"{\"version\": 1}", "expected an object", ERR_FORMAT},
        {"{\"version\": 1, \"tags\": [], \"more\": 1}", "/more", ERR_FORMAT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        json_t *now = NULL;
        struct fault f = {0};
        unsigned char *text;
        size_t n;

        scratch_text(PATH, rows[i].text);
        if (notes_file_read(scratch_folder(), RUN, &now, &f) != rows[i].err ||
            !strstr(f.text, rows[i].says))
            fail_msg("%s: %s", rows[i].text, f.text);
        assert_null(now);
        assert_int_equal(change("{\"note\": \"n\"}", &now, &f), rows[i].err);
        text = scratch_read(PATH, &n);
        assert_int_equal(n, strlen(rows[i].text));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(notes_file_keeps_what_was_written,
                                        setup, scratch_remove),
        cmocka_unit_test_setup_teardown(notes_file_survives_any_call_that_fails,
                                        setup, scratch_remove),
        cmocka_unit_test_setup_teardown(
            notes_file_that_is_damaged_is_left_alone, setup, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
