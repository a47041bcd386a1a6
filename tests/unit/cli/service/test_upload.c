/* Uploads on a disk of which any call fails, and a list that somebody edited.
 * What is refused over HTTP is in tests/process/test_upload.py. */
#include "cli/service/upload.h"

#include "base/file_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

static char data[512], state[512];

static int setup(void **unused)
{
    scratch_make(unused);
    snprintf(data, sizeof(data), "%s", scratch_path("data"));
    snprintf(state, sizeof(state), "%s", scratch_path("state"));
    assert_int_equal(mkdir(data, 0700), 0);
    assert_int_equal(mkdir(state, 0700), 0);
    return 0;
}

static const char *at(const char *name)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/%s", data, name);
    return path;
}

/* Puts @text as "f" at @offset of @size; the status. */
static int put(const char *text, uint64_t offset, uint64_t size)
{
    const struct upload_place p = {data, state, 1 << 20, 1 << 20};
    struct desk_request r = {.command = COMMAND_UPLOAD,
                             .upload = "f",
                             .offset = offset,
                             .size = size,
                             .body = (char *)text,
                             .len = strlen(text)};
    struct response out = {0};
    int status;

    upload_take(&p, &r, &out);
    status = out.status;
    response_deinit(&out);
    return status;
}

/* Whether the data folder has @name with @text; NULL: it has none of it. */
static void expect(const char *name, const char *text)
{
    char *found = NULL;
    size_t len;

    if (!text) {
        assert_int_equal(access(at(name), F_OK), -1);
        return;
    }
    assert_int_equal(file_read(at(name), 1000, &found, &len, NULL), ERR_OK);
    assert_string_equal(found, text);
    mem_free(found);
}

/* Whichever call fails: the answer says so, the name has all or nothing, and
 * the same pieces, sent again from where it stands, make the whole file. */
static void upload_survives_any_call_that_fails(void **unused)
{
    (void)unused;
    for (unsigned nth = 1;; nth++) {
        struct stat st;
        int first, second = 0;
        bool failed;

        faulty_disk_on(NULL, nth, ENOSPC);
        first = put("some ", 0, 10);
        if (first == 200)
            second = put("bytes", 5, 10);
        failed = faulty_disk_failed();
        faulty_disk_off();
        assert_true(first == 200 || first == 507);
        assert_true(second == 0 || second == 200 || second == 507);
        if (access(at("f"), F_OK) == 0) { /* the folder was not flushed */
            expect("f", "some bytes");
            unlink(at("f"));
            unlink(at(".f.upload"));
        } else {
            if (stat(at(".f.upload"), &st) != 0 || st.st_size == 0)
                assert_int_equal(put("some ", 0, 10), 200);
            assert_int_equal(put("bytes", 5, 10), 200);
            expect("f", "some bytes");
            expect(".f.upload", NULL);
            unlink(at("f"));
        }
        if (!failed)
            return;
    }
}

/* A list that names what is no upload is read past; the next one repairs it. */
static void upload_list_may_be_anything(void **unused)
{
    static const char list[] =
        "../state/secret\n.hidden\n\n/etc/passwd\nf\nold";
    char path[1024], *found = NULL;
    size_t len;

    (void)unused;
    snprintf(path, sizeof(path), "%s/uploads", state);
    assert_int_equal(file_write(path, list, strlen(list), NULL), ERR_OK);
    assert_int_equal(file_write(at("old"), "x", 1, NULL), ERR_OK);
    assert_int_equal(put("some ", 0, 10), 200);
    assert_int_equal(file_read(path, 1000, &found, &len, NULL), ERR_OK);
    assert_string_equal(found, "old\nf\n");
    mem_free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(upload_survives_any_call_that_fails),
        cmocka_unit_test(upload_list_may_be_anything),
    };

    return cmocka_run_group_tests(tests, setup, scratch_remove);
}
