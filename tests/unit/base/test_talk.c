/* What is said on stderr, whether anybody reads it or not. */
#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/talk_io.h"
#include "tests/unit/fixture/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NOTES = 2000, READ_MAX = 1 << 20, FILLING = 4096 };

static const char line[] =
    "a line that nobody reads, for as long as it takes\n";

/* stderr is a pipe, @ends[0] its reading end; what it was, to be given back. */
static int into_a_pipe(int ends[2])
{
    int before = dup(STDERR_FILENO);

    assert_true(before >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    return before;
}

/* What is in the pipe, and nothing is written any more. */
static size_t drain(int fd, char *out)
{
    size_t n = 0;
    ssize_t got;

    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (n < READ_MAX && (got = read(fd, out + n, READ_MAX - n)) > 0)
        n += (size_t)got;
    out[n] = '\0';
    return n;
}

/* In a hurry, one line waits and the others do not. What was left out is
 * counted, and said before the next line that finds room. */
static void talk_in_a_hurry_leaves_out_what_nobody_reads(void **state)
{
    static char text[READ_MAX + 1];
    const char *told;
    int ends[2], before = into_a_pipe(ends);
    time_ns began = clock_monotonic();
    unsigned missing = 0, whole = 0;

    (void)state;
    talk_hurry(true);
    for (int i = 0; i < NOTES; i++)
        talk(line, strlen(line));
    began = clock_monotonic() - began;
    drain(ends[0], text);
    for (const char *at = text; (at = strstr(at, line)); at++)
        whole++;
    talk("the next\n", 9);
    drain(ends[0], text);
    talk_hurry(false);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[0]);

    assert_true(began >= DEADLINE_TALK_MS * 1000000LL);
    assert_true(began < 10 * DEADLINE_TALK_MS * 1000000LL);
    assert_in_range(whole, 1, NOTES - 1);
    told = strstr(text, "mltune: nobody read this for a while: ");
    assert_non_null(told);
    assert_int_equal(
        sscanf(told, "mltune: nobody read this for a while: %u", &missing), 1);
    assert_int_equal(missing + whole, NOTES);
    assert_non_null(strstr(told, "left out\nthe next\n"));
}

static void *read_late(void *arg)
{
    static char text[READ_MAX];
    const int *fd = arg;
    size_t n = 0;
    ssize_t got;

    while (n < NOTES * strlen(line) &&
           (got = read(*fd, text + n, sizeof(text) - n)) > 0)
        n += (size_t)got;
    return n == NOTES * strlen(line) ? text : NULL;
}

/* Not in a hurry, all is said, whenever it is read. */
static void talk_at_leisure_waits_for_who_reads(void **state)
{
    int ends[2], before = into_a_pipe(ends);
    pthread_t reader;
    void *all = NULL;

    (void)state;
    pthread_create(&reader, NULL, read_late, &ends[0]);
    for (int i = 0; i < NOTES; i++)
        talk(line, strlen(line));
    pthread_join(reader, &all);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[0]);
    assert_non_null(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(talk_in_a_hurry_leaves_out_what_nobody_reads),
        cmocka_unit_test(talk_at_leisure_waits_for_who_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
