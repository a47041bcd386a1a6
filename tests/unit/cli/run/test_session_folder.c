/* Files of a session: what a resume finds in the run's folder. */
#include "base/file_io.h"
#include "base/mem.h"
#include "cli/run/session.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>

static int make_run(void **state)
{
    int failed = scratch_make(state);

    if (!failed) {
        scratch_mkdir("runs");
        scratch_mkdir("runs/r-1");
    }
    return failed;
}

static enum err recall(char folder[FILE_PATH_MAX], char out[FILE_PATH_MAX],
                       struct fault *f)
{
    return session_recall(scratch_folder(), "r-1", folder, out, f);
}

static enum err remember(const char *run, const char *folder, const char *out,
                         struct fault *f)
{
    const struct checkpoint_start start = {
        .run = "r-1",
        .config = "{}",
        .folder = (char *)(uintptr_t)folder,
        .out = (char *)(uintptr_t)out,
    };

    return session_remember(scratch_path(run), &start, f);
}

/* A resume reads where paths start and where the model goes, as the beginning
 * of the run wrote them, whatever is in their names. */
static void session_remembers_its_folders(void **state)
{
    char folder[FILE_PATH_MAX], out[FILE_PATH_MAX];
    struct fault f = {0};

    (void)state;
    assert_int_equal(
        remember("runs/r-1", "/home/me/a \"b\"", "/data/model", &f), ERR_OK);
    assert_int_equal(recall(folder, out, &f), ERR_OK);
    assert_string_equal(folder, "/home/me/a \"b\"");
    assert_string_equal(out, "/data/model");
    assert_int_equal(remember("runs/r-1", "/home/me", "", &f), ERR_OK);
    assert_int_equal(recall(folder, out, &f), ERR_OK);
    assert_string_equal(folder, "/home/me");
    assert_string_equal(out, "");
}

/* A file that is missing, damaged or of another kind is told apart, by name,
 * and nothing is made up in its place. */
static void session_recalls_no_damaged_file(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{\"folder\": \"/home/me\"}",
        "{\"folder\": \"home\", \"out\": \"\"}",
        "{\"folder\": 1, \"out\": \"\"}",
    };
    char folder[FILE_PATH_MAX], out[FILE_PATH_MAX], text[2 * FILE_PATH_MAX];
    struct fault f = {0};

    (void)state;
    assert_int_equal(recall(folder, out, &f), ERR_NOENT);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        scratch_text("runs/r-1/session.json", texts[i]);
        if (recall(folder, out, &f) != ERR_FORMAT)
            fail_msg("%s: %s", texts[i], f.text);
    }
    assert_non_null(strstr(f.text, "runs/r-1/session.json"));
    snprintf(text, sizeof(text), "{\"out\": \"\", \"folder\": \"/%0*d\"}",
             FILE_PATH_MAX, 0);
    scratch_text("runs/r-1/session.json", text);
    assert_int_equal(recall(folder, out, &f), ERR_FORMAT);
}

/* Whatever byte of either file is wrong: what was remembered is recalled. */
static void session_is_recalled_whatever_byte_is_wrong(void **state)
{
    static const char *const files[] = {"runs/r-1/session.json",
                                        "runs/r-1/checkpoint"};
    char folder[FILE_PATH_MAX], out[FILE_PATH_MAX];
    struct fault f = {0};

    (void)state;
    assert_int_equal(remember("runs/r-1", "/home/me", "/data/model", &f),
                     ERR_OK);
    for (int which = 0; which < 2; which++) {
        char *bytes = NULL;
        size_t len = 0;

        assert_int_equal(
            file_read(scratch_path(files[which]), 1 << 20, &bytes, &len, &f),
            ERR_OK);
        for (size_t i = 0; i < len; i += 1 + len / 100) {
            bytes[i] = (char)(bytes[i] ^ (1 << i % 8));
            scratch_write(files[which], bytes, len);
            bytes[i] = (char)(bytes[i] ^ (1 << i % 8));
            if (recall(folder, out, &f) != ERR_OK)
                fail_msg("%s, byte %zu: %s", files[which], i, f.text);
            assert_string_equal(folder, "/home/me");
            assert_string_equal(out, "/data/model");
        }
        scratch_write(files[which], bytes, len);
        mem_free(bytes);
    }
}

/* A folder that cannot be written is an error, and what was there stays. */
static void session_that_cannot_be_written_says_so(void **state)
{
    struct fault f = {0};

    (void)state;
    assert_int_equal(remember("runs/r-2", "/home/me", "", &f), ERR_IO);
    assert_non_null(strstr(f.text, "runs/r-2/session.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            session_is_recalled_whatever_byte_is_wrong, make_run,
            scratch_remove),
        cmocka_unit_test_setup_teardown(session_remembers_its_folders, make_run,
                                        scratch_remove),
        cmocka_unit_test_setup_teardown(session_recalls_no_damaged_file,
                                        make_run, scratch_remove),
        cmocka_unit_test_setup_teardown(session_that_cannot_be_written_says_so,
                                        make_run, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
