/* The log of live events: whole, in order, bounded. */
#include "api/http/event_log.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <stdio.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SIZE = 2 * EVENT_TEXT_MAX };

static char buffer[SIZE];

static int setup(void **state)
{
    struct event_log *log = NULL;

    assert_int_equal(event_log_new(&log), ERR_OK);
    *state = log;
    return 0;
}

static int teardown(void **state)
{
    event_log_free(*state);
    return 0;
}

static struct event_reading read_after(struct event_log *log, uint64_t after,
                                       size_t most)
{
    struct event_reading r;

    event_log_read(log, after, NULL, EVENT_STREAM, most, buffer, SIZE, &r);
    buffer[r.len] = '\0';
    return r;
}

/* Readers get what came after what they have, as the form has it. */
static void events_are_read_from_where_one_is(void **state)
{
    struct event_log *log = *state;
    struct event_reading r = read_after(log, 0, 10);

    assert_int_equal(r.len, 0);
    assert_int_equal(event_log_newest(log), 0);
    event_log_append(log, 3, "decision", "{\"a\":1}");
    event_log_append(log, 4, "progress", "{\"b\":2}");
    r = read_after(log, 0, 10);
    assert_string_equal(buffer, "id: 3\nevent: decision\ndata: {\"a\":1}\n\n"
                                "id: 4\nevent: progress\ndata: {\"b\":2}\n\n");
    assert_int_equal(r.last, 4);
    assert_int_equal(r.events, 2);
    assert_false(r.missed);
    r = read_after(log, 3, 10);
    assert_int_equal(r.events, 1);
    r = read_after(log, 4, 10);
    assert_int_equal(r.len, 0);
    assert_int_equal(r.last, 4);
    r = read_after(log, 0, 1);
    assert_int_equal(r.last, 3);
    event_log_read(log, 0, "", EVENT_ITEMS, 10, buffer, SIZE, &r);
    buffer[r.len] = '\0';
    assert_string_equal(buffer,
                        "{\"id\":3,\"event\":\"decision\",\"data\":{\"a\":1}},"
                        "{\"id\":4,\"event\":\"progress\",\"data\":{\"b\":2}}");
}

/* Who wants some kinds alone gets those, and is past the others. */
static void events_of_some_kinds_are_read(void **state)
{
    static const struct {
        const char *kinds;
        size_t events;
    } cases[] = {{"decision", 2},
                 {"node,decision", 3},
                 {"progress,x", 1},
                 {"decisio", 0},
                 {"decisions,nod", 0}};
    struct event_log *log = *state;
    struct event_reading r;

    event_log_append(log, 3, "decision", "{}");
    event_log_append(log, 4, "node", "{}");
    event_log_append(log, 6, "decision", "{}");
    event_log_append(log, 9, "progress", "{}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        event_log_read(log, 0, cases[i].kinds, EVENT_STREAM, 9, buffer, SIZE,
                       &r);
        assert_int_equal(r.events, cases[i].events);
        assert_int_equal(r.last, 9);
    }
    event_log_read(log, 0, "decision", EVENT_STREAM, 1, buffer, SIZE, &r);
    assert_int_equal(r.last, 4);
}

/* Events that are too old go, and who has not read them is told; memory is
 * bounded. */
static void events_that_are_old_are_dropped(void **state)
{
    struct event_log *log = *state;
    static char text[EVENT_TEXT_MAX];
    struct event_reading r;

    memset(text, ' ', sizeof(text) - 1);
    text[0] = '{';
    text[sizeof(text) - 2] = '}';
    for (uint64_t id = 1; id <= 100; id++)
        event_log_append(log, id, "trial_ended", text);
    r = read_after(log, 0, 1);
    assert_true(r.missed);
    assert_int_equal(r.len, 0);
    assert_int_equal(r.kept_after, 100 - EVENT_LOG_BYTES / EVENT_TEXT_MAX);
    r = read_after(log, 100 - EVENT_LOG_BYTES / EVENT_TEXT_MAX, 1);
    assert_false(r.missed);
    assert_int_equal(r.events, 1);
    for (uint64_t id = 101; id <= 101 + EVENT_LOG_EVENTS; id++)
        event_log_append(log, id, "progress", "{}");
    r = read_after(log, 100, 1);
    assert_true(r.missed);
    r = read_after(log, 101, 1);
    assert_false(r.missed);
    assert_int_equal(r.last, 102);
}

/* One that is too long, or finds no memory, is missed; the next are there. */
static void events_left_out_are_missed(void **state)
{
    struct event_log *log = *state;
    static char text[EVENT_TEXT_MAX + 2];

    memset(text, 'x', sizeof(text) - 1);
    event_log_append(log, 1, "a", "{}");
    event_log_append(log, 2, "b", text);
    event_log_append(log, 3, "c", "{}");
    assert_true(read_after(log, 1, 10).missed);
    assert_int_equal(read_after(log, 2, 10).last, 3);
    mem_fail_at(1, 0);
    event_log_append(log, 4, "d", "{}");
    mem_fail_at(0, 0);
    event_log_append(log, 5, "e", "{}");
    assert_true(read_after(log, 3, 10).missed);
    assert_int_equal(read_after(log, 4, 10).last, 5);
    assert_int_equal(event_log_newest(log), 5);
}

static bool rung(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint64_t n;

    return poll(&p, 1, 0) == 1 && read(fd, &n, sizeof(n)) == sizeof(n);
}

/* A log whose beginning is elsewhere says that it was missed; the end of one
 * wakes who waits, and is taken back. */
static void log_begins_late_and_ends(void **state)
{
    struct event_log *log = *state;
    struct event_reading r;
    struct pollfd p = {.events = POLLIN};

    event_log_skip(log, 41);
    assert_int_equal(event_log_newest(log), 41);
    event_log_append(log, 42, "decision", "{}");
    r = read_after(log, 40, 10);
    assert_true(r.missed);
    r = read_after(log, 41, 10);
    assert_false(r.missed);
    assert_int_equal(r.last, 42);
    p.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    event_log_wake(log, 42, p.fd);
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_false(event_log_ended(log));
    event_log_set_ended(log, true);
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_true(event_log_ended(log));
    event_log_set_ended(log, false);
    assert_false(event_log_ended(log));
    event_log_wake(log, 42, -1);
    close(p.fd);
    event_log_clear(log);
    assert_true(read_after(log, 41, 10).missed);
    r = read_after(log, 42, 10);
    assert_false(r.missed);
    assert_int_equal(r.events, 0);
    event_log_append(log, 43, "decision", "{}");
    assert_int_equal(read_after(log, 42, 10).events, 1);
}

/* A reader that asks is woken once, at once where there is news already. */
static void events_wake_who_waits(void **state)
{
    struct event_log *log = *state;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    event_log_wake(log, 0, fd);
    assert_false(rung(fd));
    event_log_append(log, 1, "a", "{}");
    assert_true(rung(fd));
    event_log_append(log, 2, "a", "{}");
    assert_false(rung(fd));
    event_log_wake(log, 1, fd);
    assert_true(rung(fd));
    event_log_wake(log, 2, fd);
    event_log_wake(log, UINT64_MAX, -1);
    event_log_append(log, 3, "a", "{}");
    assert_false(rung(fd));
    close(fd);
}

enum { APPENDED = 50000 };

static void *append_many(void *arg)
{
    for (uint64_t id = 1; id <= APPENDED; id++)
        event_log_append(arg, id, "progress", "{\"x\":1}");
    return NULL;
}

/* A reader beside the writer (tsan watches) sees numbers that grow by one, or
 * is told that it missed some. */
static void events_are_read_while_they_come(void **state)
{
    struct event_log *log = *state;
    uint64_t after = 0;
    pthread_t thread;

    pthread_create(&thread, NULL, append_many, log);
    while (after < APPENDED) {
        struct event_reading r = read_after(log, after, 100);

        if (r.missed)
            after = event_log_newest(log);
        else
            assert_int_equal(r.last, after + r.events);
        after = r.missed ? after : r.last;
    }
    pthread_join(thread, NULL);
}

/* Without memory there is no log, and nothing is left. */
static void events_without_memory_are_none(void **state)
{
    struct event_log *log = NULL;

    (void)state;
    mem_fail_at(1, 0);
    assert_int_equal(event_log_new(&log), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_null(log);
    event_log_free(NULL);
}

/* A reader may outlive the owner: what was there is dropped, the end is told.
 */
static void event_log_outlives_its_owner(void **state)
{
    struct event_reading r;
    struct event_log *log, *held;

    (void)state;
    assert_int_equal(event_log_new(&log), ERR_OK);
    event_log_append(log, 1, "note", "{}");
    held = event_log_hold(log);
    event_log_set_ended(log, true);
    event_log_clear(log);
    event_log_free(log);
    event_log_read(held, 0, NULL, EVENT_STREAM, 1, buffer, sizeof(buffer), &r);
    assert_true(r.missed && r.len == 0);
    assert_true(event_log_ended(held));
    event_log_free(held);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(log_begins_late_and_ends, setup,
                                        teardown),
        WITH(events_are_read_from_where_one_is),
        WITH(events_of_some_kinds_are_read),
        WITH(events_that_are_old_are_dropped),
        WITH(events_left_out_are_missed),
        WITH(events_wake_who_waits),
        WITH(events_are_read_while_they_come),
        cmocka_unit_test(events_without_memory_are_none),
        cmocka_unit_test(event_log_outlives_its_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
