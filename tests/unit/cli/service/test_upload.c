/* Uploads on a disk of which any call fails, and a list that somebody edited.
 * What is refused over HTTP is in tests/process/test_upload.py. */
#include "cli/service/upload.h"

#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
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

/* Puts @text as @name at @offset of @size, with a limit of @all bytes; the
 * status. @answer[400] (NULL: not wanted): what was answered. */
static int put_as(const char *name, const char *text, uint64_t offset,
                  uint64_t size, uint64_t all, bool anew, char *answer)
{
    const struct upload_place p = {data, state, 1 << 20, all};
    struct desk_request r = {.command = COMMAND_UPLOAD,
                             .offset = offset,
                             .size = size,
                             .anew = anew,
                             .body = (char *)text,
                             .len = strlen(text)};
    struct response out = {0};
    int status;

    snprintf(r.upload, sizeof(r.upload), "%s", name);
    upload_take(&p, &r, &out);
    status = out.status;
    if (answer)
        snprintf(answer, 400, "%.*s", (int)out.len, out.body);
    response_deinit(&out);
    return status;
}

/* The same by the token @by, which may upload @most bytes in all. */
static int put_by(const char *by, uint64_t most, const char *name,
                  uint64_t size, char *answer)
{
    const struct upload_place p = {data, state, 1 << 20, 1 << 20};
    struct desk_request r = {.command = COMMAND_UPLOAD,
                             .size = size,
                             .upload_limited = true,
                             .upload_max = most,
                             .body = "x",
                             .len = 1};
    struct response out = {0};
    int status;

    snprintf(r.upload, sizeof(r.upload), "%s", name);
    snprintf(r.by, sizeof(r.by), "%s", by);
    upload_take(&p, &r, &out);
    status = out.status;
    snprintf(answer, 400, "%.*s", (int)out.len, out.body);
    response_deinit(&out);
    return status;
}

/* A byte of @size bytes of @name, from @offset on, by @by with the role
 * @role; the status. */
static int piece_by(const char *by, enum role role, const char *name,
                    uint64_t offset, uint64_t size, bool anew)
{
    const struct upload_place p = {data, state, 1 << 20, 1 << 20};
    struct desk_request r = {.command = COMMAND_UPLOAD,
                             .role = role,
                             .offset = offset,
                             .size = size,
                             .anew = anew,
                             .body = "x",
                             .len = 1};
    struct response out = {0};
    int status;

    snprintf(r.upload, sizeof(r.upload), "%s", name);
    snprintf(r.by, sizeof(r.by), "%s", by);
    upload_take(&p, &r, &out);
    status = out.status;
    response_deinit(&out);
    return status;
}

/* The file @name was written last @seconds ago. */
static void age(const char *name, time_t seconds)
{
    const time_t then = time(NULL) - seconds;
    const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};

    assert_int_equal(utimensat(AT_FDCWD, at(name), times, 0), 0);
}

static int put(const char *text, uint64_t offset, uint64_t size)
{
    return put_as("f", text, offset, size, 1 << 20, false, NULL);
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
    assert_string_equal(found, "old\nf 10\n");
    mem_free(found);
    unlink(at("old"));
    unlink(at(".f.upload"));
}

/* A service killed before it gave the name: all bytes are there. */
static void upload_that_is_whole_gets_its_name(void **unused)
{
    (void)unused;
    assert_int_equal(put("some ", 0, 10), 200);
    assert_int_equal(put("", 10, 10), 409); /* not yet */
    assert_int_equal(put("", 5, 10), 422);
    assert_int_equal(file_write(at(".f.upload"), "some bytes", 10, NULL),
                     ERR_OK);
    assert_int_equal(put("", 10, 10), 200);
    expect("f", "some bytes");
    expect(".f.upload", NULL);
    unlink(at("f"));
    /* Also one that no list knows. */
    assert_int_equal(file_write(at(".g.upload"), "bytes", 5, NULL), ERR_OK);
    assert_int_equal(put_as("g", "", 5, 5, 1 << 20, false, NULL), 200);
    expect("g", "bytes");
    unlink(at("g"));
}

/* The limit is of what was announced, whatever has come of it. */
static void uploads_cannot_pass_the_limit_together(void **unused)
{
    static const char *const names[] = {"a", "b", "c"};
    char answer[400];

    (void)unused;
    for (int i = 0; i < 3; i++)
        assert_int_equal(put_as(names[i], "x", 0, 10, 25, false, NULL),
                         i < 2 ? 200 : 413);
    expect(".c.upload", NULL);
    assert_int_equal(put_as("a", "yy", 1, 20, 25, false, answer), 409);
    assert_non_null(strstr(answer, "wrong_size"));
    assert_non_null(strstr(answer, "go on with size=10"));
    expect(".a.upload", "x");
    assert_int_equal(put_as("a", "yy", 1, UINT64_MAX, 25, false, NULL), 409);
    assert_int_equal(put_as("a", "yy", 0, 16, 25, true, NULL), 413);
    expect(".a.upload", "x");
    assert_int_equal(put_as("a", "yy", 1, 10, 25, true, NULL), 422);
    /* What no list knows counts once it goes on. */
    assert_int_equal(file_write(at(".d.upload"), "x", 1, NULL), ERR_OK);
    assert_int_equal(put_as("d", "x", 1, 6, 25, false, NULL), 413);
    assert_int_equal(put_as("d", "x", 1, 5, 25, false, NULL), 200);
    assert_int_equal(put_as("c", "x", 0, 1, 25, false, NULL), 413);
    assert_int_equal(put_as("a", "yy", 0, 9, 25, true, NULL), 200);
    assert_int_equal(put_as("c", "x", 0, 1, 25, false, NULL), 200);
    unlink(at(".a.upload"));
    unlink(at(".b.upload"));
    unlink(at(".d.upload"));
    unlink(at("c"));
}

static void assert_uploaded(const char *owner, uint64_t bytes)
{
    uint64_t found;

    assert_int_equal(uploads_of(state, owner, &found, NULL), ERR_OK);
    assert_int_equal(found, bytes);
}

/* A token's uploads are counted by its name, also after a restart, since they
 * are in the list: whole ones and begun ones, until they are gone. */
static void uploads_of_a_token_have_its_limit(void **unused)
{
    char answer[400], path[1024];

    (void)unused;
    snprintf(path, sizeof(path), "%s/uploads", state);
    unlink(path);
    assert_uploaded("alice", 0);
    assert_int_equal(put_by("alice", 10, "a", 11, answer), 413);
    assert_int_equal(put_by("alice", 10, "a", 1, answer), 200);
    assert_int_equal(put_by("bob", 3, "b", 3, answer), 200);
    assert_int_equal(put_by("alice", 10, "c", 9, answer), 200);
    assert_uploaded("alice", 10);
    assert_uploaded("bob", 3);
    assert_uploaded("ali", 0);
    assert_int_equal(put_by("alice", 10, "d", 1, answer), 413);
    assert_non_null(strstr(answer, "token_uploads_full"));
    assert_non_null(strstr(answer, "at most 10 bytes of uploads of the token "
                                   "alice in all, found 10 and 1 more"));
    expect(".d.upload", NULL);
    assert_int_equal(put_by("bob", 2, "d", 1, answer), 413); /* lowered since */
    assert_int_equal(put_by("carl", 0, "d", 1, answer), 413);
    assert_int_equal(put_by("(token)", 9, "d", 9, answer), 200);
    assert_int_equal(put_by("(token)", 9, "e", 9, answer), 200); /* not kept */
    unlink(at("a"));
    assert_int_equal(put_by("alice", 10, "g", 1, answer), 200);
    assert_uploaded("alice", 10);
    for (const char *name = "g.b.c.d.e."; *name; name += 2) {
        char part[32];

        snprintf(part, sizeof(part), ".%c.upload", *name);
        unlink(at(part));
        part[2] = '\0';
        unlink(at(part + 1));
    }
    unlink(path);
}

/* What the list says of owners may be anything. */
static void uploads_of_a_damaged_list(void **unused)
{
    static const char list[] = "a 10 alice\nb 20 -x\nc alice\nd 5 alice more\n"
                               "e 18446744073709551615 alice\n\n f 1 alice";
    char path[1024];

    (void)unused;
    snprintf(path, sizeof(path), "%s/uploads", state);
    assert_int_equal(file_write(path, list, strlen(list), NULL), ERR_OK);
    assert_uploaded("alice", 10);
    assert_uploaded("-x", 0);
    unlink(path);
}

/* 4,096 of them, however short their names are. The list, which somebody has
 * edited, has one of them as often. */
static void uploads_are_counted_by_name(void **unused)
{
    static char list[UPLOADS_MAX * 2];
    char path[1024], answer[400];

    (void)unused;
    assert_int_equal(file_write(at("n"), "", 0, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof(list); i++)
        list[i] = i % 2 ? '\n' : 'n';
    snprintf(path, sizeof(path), "%s/uploads", state);
    assert_int_equal(file_write(path, list, sizeof(list), NULL), ERR_OK);
    assert_int_equal(put_as("f", "x", 0, 1, 1 << 20, false, answer), 413);
    assert_non_null(strstr(answer, "4096 uploads"));
    assert_int_equal(file_write(path, list, sizeof(list) - 2, NULL), ERR_OK);
    assert_int_equal(put("x", 0, 1), 200);
    unlink(at("f"));
    unlink(at("n"));
    unlink(path);
}

/* A file system has the one way to give a name or the other. */
static void upload_gets_its_name_by_a_link_too(void **unused)
{
    static const int error[] = {EINVAL, ENOSYS};

    (void)unused;
    for (int i = 0; i < 2; i++) {
        faulty_disk_on("rename_new", 1, error[i]);
        assert_int_equal(put("bytes", 0, 5), 200);
        assert_true(faulty_disk_failed());
        faulty_disk_off();
        expect("f", "bytes");
        expect(".f.upload", NULL);
        unlink(at("f"));
    }
    faulty_disk_on("link", 1, EPERM);
    assert_int_equal(put("bytes", 0, 5), 200);
    assert_false(faulty_disk_failed());
    faulty_disk_off();
    expect("f", "bytes");
    unlink(at("f"));
    /* What has the name meanwhile stays. */
    faulty_disk_on("rename_new", 1, EEXIST);
    assert_int_equal(put("bytes", 0, 5), 409);
    faulty_disk_off();
    expect("f", NULL);
    expect(".f.upload", NULL);
}

static void a_new_name_replaces_nothing(void **unused)
{
    char other[1024];

    (void)unused;
    snprintf(other, sizeof(other), "%s/other", data);
    assert_int_equal(file_write(other, "x", 1, NULL), ERR_OK);
    assert_int_equal(file_write(at("f"), "y", 1, NULL), ERR_OK);
    assert_int_equal(disk_system()->rename_new(other, at("f")), -1);
    assert_int_equal(errno, EEXIST);
    expect("f", "y");
    unlink(at("f"));
    unlink(other);
}

/* The file is there: the answer does not say otherwise. */
static void upload_whose_folder_is_not_flushed_says_so(void **unused)
{
    char answer[400];

    (void)unused;
    for (unsigned nth = 1;; nth++) {
        int status;

        assert_true(nth < 20);
        faulty_disk_on("fsync", nth, EIO);
        status = put_as("f", "bytes", 0, 5, 1 << 20, false, answer);
        faulty_disk_off();
        assert_int_equal(status, 507);
        if (access(at("f"), F_OK) == 0)
            break;
        assert_non_null(strstr(answer, "not_stored"));
        expect(".f.upload", NULL); /* it would keep bytes from others */
    }
    assert_non_null(strstr(answer, "not_flushed"));
    assert_non_null(strstr(answer, "is in the data folder, whole"));
    unlink(at("f"));
}

/* What somebody began is theirs to go on with, and an admin's: what is
 * announced counts for whoever announced it. */
static void upload_is_whose_it_is(void **unused)
{
    (void)unused;
    assert_int_equal(piece_by("ann", ROLE_RUN, "f", 0, 9, false), 200);
    assert_int_equal(piece_by("bob", ROLE_RUN, "f", 1, 9, false), 403);
    assert_int_equal(piece_by("bob", ROLE_RUN, "f", 0, 9, true), 403);
    expect(".f.upload", "x");
    assert_int_equal(piece_by("ann", ROLE_RUN, "f", 1, 9, false), 200);
    assert_int_equal(piece_by("(token)", ROLE_ADMIN, "f", 2, 9, false), 200);
    assert_int_equal(piece_by("ann", ROLE_RUN, "f", 3, 9, false), 200);
    expect(".f.upload", "xxxx");
    /* An admin's is not for others, but as soon as it is begun anew. */
    assert_int_equal(piece_by("(token)", ROLE_ADMIN, "f", 0, 9, true), 200);
    assert_int_equal(piece_by("ann", ROLE_RUN, "f", 1, 9, false), 403);
    /* What is not under way any more is nobody's. */
    age(".f.upload", UPLOAD_IDLE_S + 60);
    assert_int_equal(piece_by("bob", ROLE_RUN, "f", 1, 9, false), 409);
    expect(".f.upload", "x");
    assert_int_equal(piece_by("bob", ROLE_RUN, "f", 0, 9, true), 200);
    assert_int_equal(unlink(at(".f.upload")), 0);
    assert_int_equal(piece_by("ann", ROLE_RUN, "f", 0, 9, false), 200);
}

/* Who has as many under way as one may have keeps nobody else from another,
 * and gets one more for the one that rests longest. */
static void upload_of_one_keeps_out_no_other(void **unused)
{
    char name[16];

    (void)unused;
    for (int i = 0; i < UPLOADS_OPEN_MAX; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        assert_int_equal(piece_by("mal", ROLE_RUN, name, 0, 2, false), 200);
    }
    assert_int_equal(piece_by("mal", ROLE_RUN, "g", 0, 2, false), 429);
    assert_int_equal(piece_by("ann", ROLE_RUN, "g", 0, 2, false), 200);
    assert_int_equal(piece_by("(token)", ROLE_ADMIN, "h", 0, 2, false), 200);
    age(".f3.upload", UPLOAD_REST_S / 2);
    assert_int_equal(piece_by("mal", ROLE_RUN, "i", 0, 2, false), 429);
    age(".g.upload", UPLOAD_REST_S + 120); /* another's */
    age(".f7.upload", UPLOAD_REST_S + 60);
    assert_int_equal(piece_by("mal", ROLE_RUN, "i", 0, 2, false), 200);
    expect(".f7.upload", NULL);
    expect(".g.upload", "x");
    expect(".f3.upload", "x");
    assert_int_equal(piece_by("mal", ROLE_RUN, "j", 0, 2, false), 429);
}

/* What is announced and does not come keeps others out for ten minutes, not for
 * a day; and what is refused for want of room costs no other upload. */
static void upload_that_rests_gives_its_room(void **unused)
{
    const uint64_t all = 1 << 20; /* piece_by's */

    (void)unused;
    assert_int_equal(piece_by("mal", ROLE_RUN, "f", 0, all / 2, false), 200);
    assert_int_equal(piece_by("mal", ROLE_RUN, "g", 0, all / 2, false), 200);
    assert_int_equal(piece_by("ann", ROLE_RUN, "h", 0, 5, false), 413);
    age(".f.upload", UPLOAD_REST_S / 2);
    assert_int_equal(piece_by("ann", ROLE_RUN, "h", 0, 5, false), 413);
    age(".f.upload", UPLOAD_REST_S + 60);
    assert_int_equal(piece_by("ann", ROLE_RUN, "h", 0, all, false), 413);
    expect(".f.upload", "x"); /* it would not have been enough */
    assert_int_equal(piece_by("ann", ROLE_RUN, "h", 0, 5, false), 200);
    expect(".f.upload", NULL);
    expect(".g.upload", "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(upload_survives_any_call_that_fails),
        cmocka_unit_test(upload_list_may_be_anything),
        cmocka_unit_test(upload_that_is_whole_gets_its_name),
        cmocka_unit_test(uploads_cannot_pass_the_limit_together),
        cmocka_unit_test(uploads_of_a_token_have_its_limit),
        cmocka_unit_test(uploads_of_a_damaged_list),
        cmocka_unit_test(uploads_are_counted_by_name),
        cmocka_unit_test(upload_gets_its_name_by_a_link_too),
        cmocka_unit_test(a_new_name_replaces_nothing),
        cmocka_unit_test(upload_whose_folder_is_not_flushed_says_so),
    };
    const struct CMUnitTest apart[] = {
        cmocka_unit_test_setup_teardown(upload_is_whose_it_is, setup,
                                        scratch_remove),
        cmocka_unit_test_setup_teardown(upload_of_one_keeps_out_no_other, setup,
                                        scratch_remove),
        cmocka_unit_test_setup_teardown(upload_that_rests_gives_its_room, setup,
                                        scratch_remove),
    };
    int failed = cmocka_run_group_tests(tests, setup, scratch_remove);

    return failed + cmocka_run_group_tests(apart, NULL, NULL);
}
