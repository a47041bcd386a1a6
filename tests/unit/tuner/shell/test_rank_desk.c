/* A pod and the desk of rank 0, over a real socket of loopback: what ranks say
 * in files reaches those files, and who has another key is not heard. Real
 * pods: tests/process/test_kube.py. */
#include "tuner/shell/rank_call_io.h"
#include "tuner/shell/rank_desk_io.h"

#include "base/clock_io.h"
#include "base/file_io.h"
#include "tuner/shell/launcher_io.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

enum { LONG_S = 60 };

static uint16_t port;

static struct rank_desk *open_desk(void)
{
    struct rank_desk *d = NULL;
    struct fault f = {0};
    char address[32];
    enum err err = ERR_IO;

    for (int i = 0; i < 20 && err; i++) { /* another may take the port */
        assert_int_equal(launcher_free_port(&port, &f), ERR_OK);
        snprintf(address, sizeof(address), "127.0.0.1:%u", port);
        err = rank_desk_open(address, KEY, 3, scratch_folder(), &d, &f);
    }
    assert_int_equal(err, ERR_OK);
    return d;
}

static struct rank_call *open_call(const char *host, const char *key)
{
    struct rank_call *c = NULL;
    struct fault f = {0};
    char place[64];

    snprintf(place, sizeof(place), "tcp://%s:%u", host, port);
    assert_int_equal(rank_call_open(place, key, 2, &c, &f), ERR_OK);
    return c;
}

static time_ns deadline(void)
{
    return clock_monotonic() + LONG_S * 1000000000LL;
}

/* Asks until there is an answer. */
static enum rank_told ask(struct rank_call *c, uint64_t number,
                          struct ranks_work *work)
{
    enum rank_told told = RANK_TOLD_NOTHING;
    time_ns end = deadline();

    while (!told && clock_monotonic() < end)
        told = rank_call_ask(c, number, work);
    return told;
}

static void wait_asked(struct rank_call *c, uint64_t number)
{
    char host[RANKS_HOST_MAX], own[RANKS_HOST_MAX];
    struct ranks_work work;
    time_ns end = deadline();
    uint64_t n = 0;

    while (!(ranks_asked(scratch_folder(), 2, &n, host) && n == number) &&
           clock_monotonic() < end)
        assert_int_equal(rank_call_ask(c, number, &work), RANK_TOLD_NOTHING);
    assert_int_equal(n, number);
    ranks_own_host(2, own);
    assert_string_equal(host, own);
}

/* From the first question to the end of the run: each as in a folder that both
 * look into. An answer that was given once is given again, until the node is
 * said to run. */
static void a_pod_does_what_a_rank_does(void **state)
{
    const char *place = scratch_folder();
    struct rank_desk *d = open_desk();
    struct rank_call *c = open_call("localhost", KEY);
    struct ranks_work got, w = {.number = 7,
                                .key = OTHER,
                                .log = "/a log",
                                .n = 2,
                                .word = {"node", "--node"}};
    struct fault f = {0};
    int code = 0;

    (void)state;
    wait_asked(c, 7);
    assert_int_equal(ranks_answer(place, 2, &w, &f), ERR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(c, 7, &got), RANK_TOLD_WORK);
        assert_string_equal(got.key, OTHER);
        assert_string_equal(got.log, "/a log");
        assert_int_equal(got.n, 2);
        assert_string_equal(got.word[1], "--node");
        ranks_work_deinit(&got);
    }
    assert_true(ranks_answer_waits(place, 2));
    for (time_ns end = deadline();
         ranks_answer_waits(place, 2) && clock_monotonic() < end;)
        assert_int_equal(rank_call_run(c, 7), RANK_TOLD_NOTHING);
    assert_false(ranks_answer_waits(place, 2));
    assert_int_equal(ranks_stop(place, 2, 7, &f), ERR_OK);
    for (time_ns end = deadline();
         rank_call_run(c, 7) != RANK_TOLD_STOP && clock_monotonic() < end;)
        continue;
    for (time_ns end = deadline();
         rank_call_end(c, 7, -9) != RANK_TOLD_ENDED && clock_monotonic() < end;)
        continue;
    assert_true(ranks_ended(place, 2, 7, &code));
    assert_int_equal(code, -9);
    wait_asked(c, 8);
    assert_int_equal(ranks_over(place, 2, 8, &f), ERR_OK);
    assert_int_equal(ask(c, 8, &got), RANK_TOLD_OVER);
    for (time_ns end = deadline();
         !ranks_left(place, 2) && clock_monotonic() < end;)
        rank_call_leave(c);
    assert_true(ranks_left(place, 2));
    rank_call_close(c);
    rank_desk_close(d);
}

/* A desk that is gone, and is there again, is found again. */
static void a_pod_finds_a_desk_that_comes_back(void **state)
{
    struct rank_desk *d = open_desk();
    struct rank_call *c = open_call("127.0.0.1", KEY);
    struct fault f = {0};
    char address[32];
    struct ranks_work work;
    enum err err = ERR_IO;

    (void)state;
    wait_asked(c, 1);
    rank_desk_close(d);
    for (time_ns end = deadline();
         rank_call_silent_ms(c) < 500 && clock_monotonic() < end;)
        assert_int_equal(rank_call_ask(c, 2, &work), RANK_TOLD_NOTHING);
    assert_true(rank_call_silent_ms(c) >= 500);
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    for (time_ns end = deadline(); err && clock_monotonic() < end;) {
        err = rank_desk_open(address, KEY, 3, scratch_folder(), &d, &f);
        usleep(10000); /* another may have had the port meanwhile */
    }
    assert_int_equal(err, ERR_OK);
    wait_asked(c, 2);
    rank_call_close(c);
    rank_desk_close(d);
}

/* Who has another key, or is no pod of this job, leaves nothing in the folder;
 * and what is wrong is said. */
static void strangers_are_not_heard(void **state)
{
    struct rank_desk *d = open_desk();
    struct rank_call *c = open_call("127.0.0.1", OTHER), *good;
    struct ranks_work work;
    struct fault f = {0};
    char host[RANKS_HOST_MAX];
    uint64_t number;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(rank_call_ask(c, 1, &work), RANK_TOLD_NOTHING);
    assert_non_null(strstr(rank_call_why(c), "nobody with this job's key"));
    rank_call_close(c);
    assert_int_equal(rank_call_open("tcp://nowhere.invalid:1", KEY, 2, &c, &f),
                     ERR_OK);
    assert_int_equal(rank_call_ask(c, 1, &work), RANK_TOLD_NOTHING);
    assert_non_null(strstr(rank_call_why(c), "nowhere.invalid: "));
    rank_call_close(c);
    good = open_call("127.0.0.1", KEY);
    wait_asked(good, 5); /* by now the others would have been heard */
    for (unsigned rank = 0; rank < 4; rank++)
        assert_int_equal(ranks_asked(scratch_folder(), rank, &number, host),
                         rank == 2);
    rank_call_close(good);
    rank_desk_close(d);
    assert_int_equal(rank_call_open("nowhere:1", KEY, 2, &c, &f), ERR_INVAL);
    assert_int_equal(rank_call_open("tcp://a:1", "short", 2, &c, &f),
                     ERR_INVAL);
    assert_int_equal(
        rank_desk_open("127.0.0.1:1", "short", 2, scratch_folder(), &d, &f),
        ERR_INVAL);
    assert_non_null(strstr(f.text, "cannot listen for the job's pods"));
}

#define IN_FOLDER(test)                                                        \
    cmocka_unit_test_setup_teardown(test, scratch_make, scratch_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_pod_does_what_a_rank_does),
        IN_FOLDER(a_pod_finds_a_desk_that_comes_back),
        IN_FOLDER(strangers_are_not_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
