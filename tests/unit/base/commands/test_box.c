/* A box by itself, with numbers for requests and answers. Its two users have
 * tests of their own: a run's mailbox, a service's desk. */
#include "base/commands/box_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SLOTS = 4, READS = 1, ROWS = 2, KEYS = 2, OVER = -1 };

static int released; /* sum of the requests and answers that were dropped */

static void release(void *number)
{
    released += *(int *)number;
}

static bool same(const void *a, const void *b)
{
    return *(const int *)a == *(const int *)b;
}

/* Odd answers may be given again. */
static bool keep(const void *answer, void *out)
{
    *(int *)out = *(const int *)answer;
    return *(const int *)answer % 2 == 1;
}

static void over(void *out)
{
    *(int *)out = OVER;
}

static struct box *new_box(void)
{
    const struct box_options o = {.request_size = sizeof(int),
                                  .answer_size = sizeof(int),
                                  .slots = SLOTS,
                                  .reads = READS,
                                  .rows = ROWS,
                                  .release_request = release,
                                  .release_answer = release,
                                  .keys = KEYS,
                                  .same = same,
                                  .keep = keep,
                                  .over = over};
    struct box *b = NULL;

    released = 0;
    assert_int_equal(box_new(&o, &b), ERR_OK);
    return b;
}

static enum err post(struct box *b, enum command_id command, const char *key,
                     int request, int fd, box_ticket *out)
{
    return box_post(b, command, key, &request, fd, out);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* Takes the next request and answers it with @answer; the request. */
static int serve(struct box *b, int answer)
{
    box_ticket t;
    int request = 0;

    assert_true(box_take(b, &request, &t));
    box_answer(b, t, &answer);
    return request;
}

/* The owner is woken by a request, who asked by the answer; requests are taken
 * in their order, and an answer is there once. */
static void box_wakes_both_sides(void **state)
{
    struct box *b = new_box();
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), answer = 0;
    box_ticket first, second;

    (void)state;
    assert_false(readable(box_fd(b)));
    assert_int_equal(post(b, COMMAND_STOP, "", 1, fd, &first), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "", 2, fd, &second), ERR_OK);
    assert_true(first != 0 && second != 0 && first != second);
    assert_true(readable(box_fd(b)));
    assert_int_equal(box_collect(b, first, &answer), ERR_AGAIN);
    assert_false(readable(fd));
    assert_int_equal(serve(b, 10), 1);
    assert_true(readable(fd));
    assert_int_equal(serve(b, 20), 2);
    assert_int_equal(box_collect(b, second, &answer), ERR_OK);
    assert_int_equal(answer, 20);
    assert_int_equal(box_collect(b, first, &answer), ERR_OK);
    assert_int_equal(answer, 10);
    assert_false(box_take(b, &answer, &first));
    box_free(b);
    close(fd);
}

/* Reads leave room for increments, and both for all else; what does not fit is
 * refused and stays its sender's. */
static void box_keeps_places_free(void **state)
{
    struct box *b = new_box();
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    box_ticket t;

    (void)state;
    assert_int_equal(post(b, COMMAND_READ, "", 1, fd, &t), ERR_OK);
    assert_int_equal(post(b, COMMAND_READ, "", 1, fd, &t), ERR_LIMIT);
    assert_int_equal(post(b, COMMAND_DATA, "", 1, fd, &t), ERR_LIMIT);
    assert_int_equal(post(b, COMMAND_UPLOADED, "", 1, fd, &t), ERR_LIMIT);
    assert_int_equal(post(b, COMMAND_ADD, "", 1, fd, &t), ERR_OK);
    assert_int_equal(post(b, COMMAND_ADD, "", 1, fd, &t), ERR_LIMIT);
    assert_int_equal(post(b, COMMAND_STOP, "", 1, fd, &t), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "", 1, fd, &t), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "", 1, fd, &t), ERR_LIMIT);
    assert_int_equal(released, 0);
    box_free(b);
    assert_int_equal(released, 4);
    close(fd);
}

/* A key with the same request has the first answer again, where that may be
 * kept; with another request it is refused; while the first one waits, too. */
static void box_remembers_keys(void **state)
{
    struct box *b = new_box();
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), answer = 0;
    box_ticket t, again;

    (void)state;
    assert_int_equal(post(b, COMMAND_STOP, "k", 1, fd, &t), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "k", 1, fd, &again), ERR_BUSY);
    serve(b, 11);
    assert_int_equal(box_collect(b, t, &answer), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "k", 2, fd, &t), ERR_EXIST);
    assert_int_equal(post(b, COMMAND_STOP, "k", 1, fd, &t), ERR_OK);
    assert_false(readable(box_fd(b)));
    assert_int_equal(box_collect(b, t, &answer), ERR_OK);
    assert_int_equal(answer, 11);
    assert_int_equal(post(b, COMMAND_STOP, "even", 1, fd, &t), ERR_OK);
    serve(b, 12);
    assert_int_equal(box_collect(b, t, &answer), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "even", 1, fd, &t), ERR_OK);
    assert_int_equal(serve(b, 13), 1);
    box_free(b);
    close(fd);
}

/* An owner that leaves answers what was taken; a closed box answers what waits
 * and what comes. What nobody waits for any more is dropped, not leaked. */
static void box_leaves_nobody_waiting(void **state)
{
    struct box *b = new_box();
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), answer = 0, gone = 5;
    box_ticket taken, waits, late, forgotten, t;

    (void)state;
    assert_int_equal(post(b, COMMAND_STOP, "", 1, fd, &taken), ERR_OK);
    assert_true(box_take(b, &answer, &t));
    assert_int_equal(post(b, COMMAND_STOP, "", 2, fd, &waits), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "", 4, fd, &forgotten), ERR_OK);
    box_forget(b, forgotten);
    box_abandon(b, &gone);
    assert_int_equal(box_collect(b, taken, &answer), ERR_OK);
    assert_int_equal(answer, gone);
    assert_int_equal(box_collect(b, waits, &answer), ERR_AGAIN);
    box_close(b);
    assert_int_equal(box_collect(b, waits, &answer), ERR_OK);
    assert_int_equal(answer, OVER);
    assert_int_equal(post(b, COMMAND_STOP, "", 8, fd, &late), ERR_OK);
    assert_int_equal(box_collect(b, late, &answer), ERR_OK);
    assert_int_equal(answer, OVER);
    box_free(b);
    close(fd);
}

/* Without memory there is no box, and nothing is left of it. */
static void box_without_memory_is_none(void **state)
{
    const struct box_options o = {.request_size = sizeof(int),
                                  .answer_size = sizeof(int),
                                  .slots = SLOTS,
                                  .release_request = release,
                                  .release_answer = release,
                                  .over = over};
    int64_t before = mem_outstanding();
    struct box *b = NULL;
    enum err err = ERR_NOMEM;

    (void)state;
    for (int64_t n = 1; n < 20 && err; n++) {
        mem_fail_at(n, 0);
        err = box_new(&o, &b);
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        if (err)
            assert_int_equal(mem_outstanding(), before);
    }
    assert_int_equal(err, ERR_OK);
    box_free(b);
    assert_int_equal(mem_outstanding(), before);
}

/* A request for which there is no memory stays its sender's; with a key there
 * is room to remember it by once it is posted. Room that was taken serves the
 * next ones. */
static void box_without_memory_posts_nothing(void **state)
{
    int64_t before = mem_outstanding(), furnished;
    struct box *b = new_box();
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), answer = 0;
    enum err err = ERR_NOMEM;
    box_ticket t;

    (void)state;
    for (int64_t n = 1; n < 5 && err; n++) {
        mem_fail_at(n, 1);
        err = post(b, COMMAND_STOP, "k", 1, fd, &t);
        mem_fail_at(0, 0);
        assert_int_equal(err, n < 3 ? ERR_NOMEM : ERR_OK);
        assert_int_equal(readable(box_fd(b)), n == 3);
    }
    furnished = mem_outstanding();
    mem_fail_at(1, 1);
    serve(b, 11);
    assert_int_equal(box_collect(b, t, &answer), ERR_OK);
    assert_int_equal(post(b, COMMAND_STOP, "k", 1, fd, &t), ERR_NOMEM);
    assert_int_equal(post(b, COMMAND_STOP, "", 1, fd, &t), ERR_OK);
    serve(b, 13);
    assert_int_equal(box_collect(b, t, &answer), ERR_OK);
    mem_fail_at(0, 0);
    assert_int_equal(mem_outstanding(), furnished);
    assert_int_equal(released, 0);
    box_free(b);
    assert_int_equal(mem_outstanding(), before);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(box_wakes_both_sides),
        cmocka_unit_test(box_keeps_places_free),
        cmocka_unit_test(box_remembers_keys),
        cmocka_unit_test(box_leaves_nobody_waiting),
        cmocka_unit_test(box_without_memory_is_none),
        cmocka_unit_test(box_without_memory_posts_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
