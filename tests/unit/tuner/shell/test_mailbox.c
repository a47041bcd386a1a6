/* The mailbox between the HTTP thread and the control loop. */
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tuner/shell/mailbox_io.h"

#include <math.h>
#include <stdio.h>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct box {
    struct mailbox *m;
    int fd; /* of who asks */
};

static int setup(void **state)
{
    static struct box b;

    b.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(mailbox_new(&b.m), ERR_OK);
    *state = &b;
    return 0;
}

static int teardown(void **state)
{
    struct box *b = *state;

    mailbox_free(b->m);
    close(b->fd);
    return 0;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static struct mailbox_request request(enum command_id command, const char *key)
{
    struct mailbox_request r = {.command = command};

    if (command == COMMAND_LIMITS)
        r.args.limits.to.target_loss = NAN;
    snprintf(r.key, sizeof(r.key), "%s", key);
    return r;
}

static mailbox_ticket post(struct box *b, enum command_id command,
                           const char *key)
{
    struct mailbox_request r = request(command, key);
    mailbox_ticket t = 0;

    assert_int_equal(mailbox_post(b->m, &r, b->fd, &t), ERR_OK);
    assert_true(t != 0);
    return t;
}

static void answer_next(struct box *b, enum command_id expected, enum err err,
                        const char *text)
{
    struct tuner_answer a = {.err = err};
    struct mailbox_request r;
    mailbox_ticket t;

    snprintf(a.text, sizeof(a.text), "%s", text);
    assert_true(mailbox_take(b->m, &r, &t));
    assert_int_equal(r.command, expected);
    mailbox_answer(b->m, t, &a);
}

static void expect(struct box *b, mailbox_ticket t, enum err err,
                   const char *text)
{
    struct tuner_answer a;

    assert_int_equal(mailbox_collect(b->m, t, &a), ERR_OK);
    assert_int_equal(a.err, err);
    assert_string_equal(a.text, text);
}

/* A request wakes the loop, its answer who asked, in the order of asking. */
static void mailbox_carries_requests_and_answers(void **state)
{
    struct box *b = *state;
    struct mailbox_request r;
    struct tuner_answer a;
    mailbox_ticket first, second, none;

    assert_false(readable(mailbox_fd(b->m)));
    assert_false(mailbox_take(b->m, &r, &none));
    first = post(b, COMMAND_PAUSE, "");
    second = post(b, COMMAND_STOP, "");
    assert_true(readable(mailbox_fd(b->m)));
    assert_int_equal(mailbox_collect(b->m, first, &a), ERR_AGAIN);
    answer_next(b, COMMAND_PAUSE, ERR_OK, "paused");
    assert_true(readable(b->fd));
    answer_next(b, COMMAND_STOP, ERR_CANCELED, "too late");
    assert_false(readable(mailbox_fd(b->m)));
    expect(b, second, ERR_CANCELED, "too late");
    expect(b, first, ERR_OK, "paused");
}

/* Requests beyond the room are refused; there is room again when one is
 * collected, or forgotten and answered. */
static void mailbox_is_bounded(void **state)
{
    struct box *b = *state;
    struct mailbox_request r = request(COMMAND_PAUSE, "");
    mailbox_ticket t[MAILBOX_SLOTS], more;

    for (int i = 0; i < MAILBOX_SLOTS; i++)
        t[i] = post(b, COMMAND_PAUSE, "");
    assert_int_equal(mailbox_post(b->m, &r, b->fd, &more), ERR_LIMIT);
    mailbox_forget(b->m, t[0]);
    assert_int_equal(mailbox_post(b->m, &r, b->fd, &more), ERR_LIMIT);
    answer_next(b, COMMAND_PAUSE, ERR_OK, "nobody waits");
    t[0] = post(b, COMMAND_CONTINUE, "");
    mailbox_close(b->m);
    for (int i = 0; i < MAILBOX_SLOTS; i++)
        expect(b, t[i], ERR_CANCELED, "the run has ended");
}

/* A key that comes twice with one request is carried out once and answered
 * twice; with another request it is refused; "not now" may be asked again. */
static void mailbox_remembers_keys(void **state)
{
    struct box *b = *state;
    struct mailbox_request other = request(COMMAND_LIMITS, "k1");
    struct mailbox_request same = request(COMMAND_PAUSE, "k1");
    mailbox_ticket t = post(b, COMMAND_PAUSE, "k1"), u;

    assert_int_equal(mailbox_post(b->m, &same, b->fd, &u), ERR_BUSY);
    assert_int_equal(mailbox_post(b->m, &other, b->fd, &u), ERR_EXIST);
    answer_next(b, COMMAND_PAUSE, ERR_OK, "paused");
    expect(b, t, ERR_OK, "paused");
    t = post(b, COMMAND_PAUSE, "k1");
    assert_false(readable(mailbox_fd(b->m)));
    expect(b, t, ERR_OK, "paused");
    assert_int_equal(mailbox_post(b->m, &other, b->fd, &u), ERR_EXIST);
    t = post(b, COMMAND_SNAPSHOT, "k2");
    answer_next(b, COMMAND_SNAPSHOT, ERR_AGAIN, "still loading");
    expect(b, t, ERR_AGAIN, "still loading");
    t = post(b, COMMAND_SNAPSHOT, "k2");
    answer_next(b, COMMAND_SNAPSHOT, ERR_OK, "written");
    expect(b, t, ERR_OK, "written");
    /* More keys than are remembered: the oldest is as new. */
    for (int i = 0; i < MAILBOX_KEYS; i++) {
        char key[16];

        snprintf(key, sizeof(key), "x%d", i);
        t = post(b, COMMAND_PAUSE, key);
        answer_next(b, COMMAND_PAUSE, ERR_OK, "again");
        expect(b, t, ERR_OK, "again");
    }
    t = post(b, COMMAND_LIMITS, "k1");
    answer_next(b, COMMAND_LIMITS, ERR_OK, "set");
    expect(b, t, ERR_OK, "set");
}

/* A client told to try again may do so with the same key; a refusal is for
 * good.
 */
static void mailbox_forgets_what_may_be_tried_again(void **state)
{
    static const enum err not_final[] = {ERR_AGAIN, ERR_LIMIT, ERR_NOMEM,
                                         ERR_PROTO};
    struct box *b = *state;
    mailbox_ticket t;

    for (size_t i = 0; i < sizeof(not_final) / sizeof(*not_final); i++) {
        t = post(b, COMMAND_SNAPSHOT, "k");
        answer_next(b, COMMAND_SNAPSHOT, not_final[i], "try again");
        expect(b, t, not_final[i], "try again");
    }
    t = post(b, COMMAND_SNAPSHOT, "k");
    answer_next(b, COMMAND_SNAPSHOT, ERR_UNSUPPORTED, "never");
    expect(b, t, ERR_UNSUPPORTED, "never");
    t = post(b, COMMAND_SNAPSHOT, "k");
    assert_false(readable(mailbox_fd(b->m)));
    expect(b, t, ERR_UNSUPPORTED, "never");
}

/* Another branch, length or setting is another request. */
static void mailbox_tells_forks_apart(void **state)
{
    struct box *b = *state;
    struct mailbox_request first = request(COMMAND_FORK, "k"), other;
    mailbox_ticket t, u;

    first.args.fork = (struct command_fork){.branch = 3, .epochs = 2};
    strcpy(first.args.fork.setting, "{\"learning_rate\":0.5}");
    assert_int_equal(mailbox_post(b->m, &first, b->fd, &t), ERR_OK);
    answer_next(b, COMMAND_FORK, ERR_OK, "forked");
    expect(b, t, ERR_OK, "forked");
    other = first;
    other.args.fork.branch = 4;
    assert_int_equal(mailbox_post(b->m, &other, b->fd, &u), ERR_EXIST);
    other = first;
    other.args.fork.epochs = 3;
    assert_int_equal(mailbox_post(b->m, &other, b->fd, &u), ERR_EXIST);
    other = first;
    other.args.fork.clocks = 3;
    assert_int_equal(mailbox_post(b->m, &other, b->fd, &u), ERR_EXIST);
    other = first;
    strcpy(other.args.fork.setting, "{\"learning_rate\":0.6}");
    assert_int_equal(mailbox_post(b->m, &other, b->fd, &u), ERR_EXIST);
    assert_int_equal(mailbox_post(b->m, &first, b->fd, &u), ERR_OK);
    expect(b, u, ERR_OK, "forked");
}

/* A request taken that will not be answered may be asked again; what waits
 * stays.
 */
static void mailbox_abandons_what_was_taken(void **state)
{
    struct box *b = *state;
    mailbox_ticket t = post(b, COMMAND_FORK, "k"), waits, taken;
    struct mailbox_request r;
    struct tuner_answer a;

    assert_true(mailbox_take(b->m, &r, &taken));
    waits = post(b, COMMAND_PAUSE, "");
    mailbox_abandon(b->m, "it was lost");
    expect(b, t, ERR_AGAIN, "it was lost");
    assert_int_equal(mailbox_collect(b->m, waits, &a), ERR_AGAIN);
    answer_next(b, COMMAND_PAUSE, ERR_OK, "paused");
    expect(b, waits, ERR_OK, "paused");
    t = post(b, COMMAND_FORK, "k");
    answer_next(b, COMMAND_FORK, ERR_OK, "forked");
    expect(b, t, ERR_OK, "forked");
}

/* After the end of the run everything is answered at once. */
static void mailbox_closed_answers_at_once(void **state)
{
    struct box *b = *state;
    mailbox_ticket t = post(b, COMMAND_PAUSE, ""), taken;
    struct mailbox_request r;

    assert_true(mailbox_take(b->m, &r, &taken));
    mailbox_close(b->m);
    expect(b, t, ERR_CANCELED, "the run has ended");
    t = post(b, COMMAND_CONTINUE, "k");
    expect(b, t, ERR_CANCELED, "the run has ended");
}

/* Without memory there is no mailbox, and nothing is left. */
static void mailbox_without_memory_is_none(void **state)
{
    struct mailbox *m = NULL;
    int64_t before = mem_outstanding();

    (void)state;
    mem_fail_at(1, 0);
    assert_int_equal(mailbox_new(&m), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_null(m);
    mailbox_free(NULL);
    assert_int_equal(mem_outstanding(), before);
}

enum { ASKED = 2000 };

static void *ask(void *arg)
{
    struct box *b = arg;

    for (int i = 0; i < ASKED; i++) {
        mailbox_ticket t = post(b, COMMAND_RETUNE, "");
        struct pollfd p = {.fd = b->fd, .events = POLLIN};
        struct tuner_answer a;
        uint64_t n;

        assert_int_equal(poll(&p, 1, 60000), 1);
        assert_int_equal(read(b->fd, &n, sizeof(n)), sizeof(n));
        assert_int_equal(mailbox_collect(b->m, t, &a), ERR_OK);
        assert_int_equal(a.err, ERR_OK);
    }
    return NULL;
}

/* Two threads ask, one answers (tsan watches): nothing is lost. */
static void mailbox_serves_threads(void **state)
{
    struct box *b = *state, other = *b;
    pthread_t thread[2];

    other.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_create(&thread[0], NULL, ask, b);
    pthread_create(&thread[1], NULL, ask, &other);
    for (int i = 0; i < 2 * ASKED; i++) {
        struct pollfd p = {.fd = mailbox_fd(b->m), .events = POLLIN};

        assert_int_equal(poll(&p, 1, 60000), 1);
        answer_next(b, COMMAND_RETUNE, ERR_OK, "yes");
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    close(other.fd);
}

static mailbox_ticket post_add(struct box *b, double value, const char *key,
                               enum err expected)
{
    struct mailbox_request r = request(COMMAND_ADD, key);
    mailbox_ticket t = 0;

    r.args.rows.values = 2;
    r.args.rows.add = mem_calloc(2, sizeof(double));
    assert_non_null(r.args.rows.add);
    r.args.rows.add[1] = value;
    assert_int_equal(mailbox_post(b->m, &r, b->fd, &t), expected);
    assert_int_equal(r.args.rows.add == NULL, expected == ERR_OK);
    mailbox_request_deinit(&r);
    return t;
}

/* An increment goes along, once; a repetition is known by its numbers. */
static void mailbox_carries_increments(void **state)
{
    struct box *b = *state;
    struct tuner_answer a = {.err = ERR_OK, .text = "added"};
    struct mailbox_request r;
    mailbox_ticket t = post_add(b, 3, "k", ERR_OK), taken;

    post_add(b, 3, "k", ERR_BUSY);
    post_add(b, 4, "k", ERR_EXIST);
    assert_true(mailbox_take(b->m, &r, &taken));
    assert_true(r.args.rows.add[1] == 3);
    mailbox_request_deinit(&r);
    mailbox_answer(b->m, taken, &a);
    expect(b, t, ERR_OK, "added");
    expect(b, post_add(b, 3, "k", ERR_OK), ERR_OK, "added");
    post_add(b, 4, "k", ERR_EXIST);
    /* One that nobody takes, and one that nobody waits for. */
    t = post_add(b, 5, "", ERR_OK);
    mailbox_forget(b->m, t);
    t = post_add(b, 5, "", ERR_OK);
    mailbox_close(b->m);
    expect(b, t, ERR_CANCELED, "the run has ended");
}

static void answer_read(struct box *b)
{
    struct tuner_answer a = {.values = 1};
    struct mailbox_request r;
    mailbox_ticket t;

    a.value = mem_calloc(1, sizeof(double));
    assert_non_null(a.value);
    a.value[0] = 7;
    assert_true(mailbox_take(b->m, &r, &t));
    mailbox_answer(b->m, t, &a);
    assert_null(a.value);
}

/* Reads leave places for other requests; what was read goes to who waits, and
 * nowhere when nobody does. */
static void mailbox_reads_leave_room(void **state)
{
    struct box *b = *state;
    struct mailbox_request r = request(COMMAND_READ, "");
    mailbox_ticket t[MAILBOX_READS], more;
    struct tuner_answer a;

    for (int i = 0; i < MAILBOX_READS; i++)
        t[i] = post(b, COMMAND_READ, "");
    assert_int_equal(mailbox_post(b->m, &r, b->fd, &more), ERR_LIMIT);
    for (int i = 0; i < MAILBOX_READS; i++)
        answer_read(b);
    assert_int_equal(mailbox_collect(b->m, t[0], &a), ERR_OK);
    assert_true(a.value[0] == 7);
    mem_free(a.value);
    for (int i = 1; i < MAILBOX_READS; i++)
        mailbox_forget(b->m, t[i]);
    t[0] = post(b, COMMAND_READ, "");
    mailbox_forget(b->m, t[0]);
    answer_read(b);
    more = post(b, COMMAND_PAUSE, "");
    mailbox_forget(b->m, more);
}

/* Increments, with reads or alone, do not keep other commands out either. */
static void mailbox_increments_leave_room(void **state)
{
    struct box *b = *state;
    struct mailbox_request r = request(COMMAND_READ, "");
    mailbox_ticket t[MAILBOX_ROWS], stop, more;

    t[0] = post(b, COMMAND_READ, "");
    for (int i = 1; i < MAILBOX_ROWS; i++)
        t[i] = post_add(b, i, "", ERR_OK);
    post_add(b, 1, "", ERR_LIMIT);
    assert_int_equal(mailbox_post(b->m, &r, b->fd, &more), ERR_LIMIT);
    stop = post(b, COMMAND_STOP, "");
    mailbox_close(b->m);
    for (int i = 0; i < MAILBOX_ROWS; i++)
        expect(b, t[i], ERR_CANCELED, "the run has ended");
    expect(b, stop, ERR_CANCELED, "the run has ended");
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(mailbox_carries_requests_and_answers),
        WITH(mailbox_is_bounded),
        WITH(mailbox_carries_increments),
        WITH(mailbox_reads_leave_room),
        WITH(mailbox_increments_leave_room),
        WITH(mailbox_remembers_keys),
        WITH(mailbox_forgets_what_may_be_tried_again),
        WITH(mailbox_tells_forks_apart),
        WITH(mailbox_abandons_what_was_taken),
        WITH(mailbox_closed_answers_at_once),
        cmocka_unit_test(mailbox_without_memory_is_none),
        WITH(mailbox_serves_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
