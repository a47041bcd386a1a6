/* The file that says where a server is. */
#include "cli/state/address_io.h"

#include "base/file_io.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define URL "http://127.0.0.1:41234/"

static void address_says_where_there_is_no_socket(void **state)
{
    const char *path = scratch_path("url");
    char url[CLIENT_URL_MAX];
    struct fault f = {0};
    bool socket;

    (void)state;
    for (int has = 0; has < 2; has++) {
        assert_int_equal(address_write(path, URL, has, &f), ERR_OK);
        assert_int_equal(address_read(path, url, &socket, &f), ERR_OK);
        assert_string_equal(url, URL);
        assert_int_equal(socket, has);
    }
}

/* What another machine wrote, or this one before it was started anew, or
 * nobody, holds for no address here. */
static void address_believes_no_other_machine(void **state)
{
    static const char *const texts[] = {
        URL "\nno socket 00000000-0000-0000-0000-000000000000\n",
        URL "\nno socket \n", URL "\nno socket", URL "\n", URL "\n\n"};
    char url[CLIENT_URL_MAX];
    const char *path = scratch_path("url");
    struct fault f = {0};
    bool socket;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        scratch_text("url", texts[i]);
        socket = false;
        assert_int_equal(address_read(path, url, &socket, &f), ERR_OK);
        assert_string_equal(url, URL);
        assert_true(socket);
    }
}

/* Holds the lock of @name, as who lives does; to be closed. */
static int hold(const char *name)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd;

    scratch_text(name, "");
    fd = open(scratch_path(name), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

/* An address is a server's of the folder that has written it, to the letter,
 * and lives; whose else it may be nobody knows. */
static void address_is_own_of_who_lives(void **state)
{
    char folder[FILE_PATH_MAX];
    int service, run;

    (void)state;
    snprintf(folder, sizeof(folder), "%s", scratch_path(""));
    assert_false(address_is_own(folder, URL));
    scratch_mkdir("runs");
    scratch_mkdir("runs/x-aaaaaa");
    scratch_text("serve.url", URL);
    scratch_text("runs/x-aaaaaa/url", "http://127.0.0.1:41235/\nno socket x\n");
    assert_false(address_is_own(folder, URL));
    service = hold("serve.lock");
    run = hold("runs/x-aaaaaa/lock");
    assert_true(address_is_own(folder, URL));
    assert_true(address_is_own(folder, "http://127.0.0.1:41234"));
    assert_true(address_is_own(folder, "http://127.0.0.1:41235/"));
    assert_false(address_is_own(folder, "http://127.0.0.1:4123/"));
    assert_false(address_is_own(folder, "http://127.0.0.1:41236/"));
    assert_false(address_is_own(folder, "http://localhost:41234/"));
    assert_false(address_is_own(folder, ""));
    close(run);
    close(service);
    assert_false(address_is_own(folder, URL));
    assert_false(address_is_own(folder, "http://127.0.0.1:41235/"));
}

static void address_refuses_what_is_too_long(void **state)
{
    char text[CLIENT_URL_MAX + 1], url[CLIENT_URL_MAX];
    struct fault f = {0};
    bool socket;

    (void)state;
    assert_int_equal(address_read(scratch_path("url"), url, &socket, &f),
                     ERR_NOENT);
    memset(text, 'u', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    scratch_text("url", text);
    assert_int_equal(address_read(scratch_path("url"), url, &socket, &f),
                     ERR_LIMIT);
}

int main(void)
{
#define WITH(test)                                                             \
    cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)
    const struct CMUnitTest tests[] = {
        WITH(address_says_where_there_is_no_socket),
        WITH(address_believes_no_other_machine),
        WITH(address_is_own_of_who_lives),
        WITH(address_refuses_what_is_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
