/* The supervisor's desk: how much of a turn it takes. */
#include "cli/service/supervisor.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/scratch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct view *view;
static struct fleet fleet;
static struct desk *desk;
static struct supervisor s;
static int fd; /* of who asks */

static int setup(void **state)
{
    const struct view_options options = {.registry = NULL};

    if (scratch_make(state) || view_new(&options, &view) ||
        fleet_open(&fleet, scratch_folder(), view, NULL) || desk_new(&desk))
        return -1;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* One that is about to end refuses all, which is an answer, too. */
    s = (struct supervisor){.fleet = &fleet, .desk = desk, .idle = true};
    return fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    desk_free(desk);
    fleet_close(&fleet);
    view_free(view);
    close(fd);
    return scratch_remove(state);
}

static desk_ticket ask(void)
{
    struct desk_request r = {.command = COMMAND_DELETE};
    desk_ticket ticket = 0;

    assert_int_equal(desk_post(desk, &r, fd, &ticket), ERR_OK);
    return ticket;
}

/* Whether it was answered, which it is once. */
static bool answered(desk_ticket ticket)
{
    struct response out = {0};
    bool has = desk_collect(desk, ticket, &out) == ERR_OK;

    if (has)
        assert_int_equal(out.status, 503);
    response_deinit(&out);
    return has;
}

static bool more_waits(void)
{
    struct pollfd p = {.fd = desk_fd(desk), .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* However many wait, and ask again at once: a turn ends, those who have waited
 * longest were answered, and the loop comes back for the others. */
static void desk_turn_is_bounded(void **state)
{
    desk_ticket ticket[DESK_SLOTS];

    (void)state;
    for (size_t i = 0; i < DESK_SLOTS; i++)
        ticket[i] = ask();
    for (size_t round = 0; round < 100; round++) {
        size_t n = 0;

        supervisor_serve_desk(&s);
        while (n < DESK_SLOTS && answered(ticket[n]))
            n++;
        /* On a machine that stands still, one. */
        assert_in_range(n, 1, SUPERVISOR_DESK_TURN);
        assert_true(more_waits());
        for (size_t i = n; i < DESK_SLOTS; i++)
            ticket[i - n] = ticket[i];
        for (size_t i = DESK_SLOTS - n; i < DESK_SLOTS; i++)
            ticket[i] = ask();
    }
    for (size_t i = 0; i < DESK_SLOTS; i++)
        supervisor_serve_desk(&s);
    for (size_t i = 0; i < DESK_SLOTS; i++)
        assert_true(answered(ticket[i]));
    assert_false(more_waits());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(desk_turn_is_bounded, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
