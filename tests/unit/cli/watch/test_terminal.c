/* The terminal taken over and given back: its settings, the signals, what was
 * opened, also where it is none or goes away. */
#include "cli/watch/terminal.h"
#include "tests/unit/fixture/check.h"

#include <fcntl.h>
#include <pty.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

struct world {
    int master, slave;
    struct termios settings;
    sigset_t mask;
    int next; /* the descriptor that would be opened next */
};

static int next_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(fd);
    return fd;
}

static int setup(void **state)
{
    static struct world w;

    assert_int_equal(openpty(&w.master, &w.slave, NULL, NULL, NULL), 0);
    assert_int_equal(tcgetattr(w.slave, &w.settings), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &w.mask), 0);
    signal(SIGQUIT, SIG_DFL); /* a shell in the background has it ignored */
    w.next = next_descriptor();
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    if (w->master >= 0)
        close(w->master);
    close(w->slave);
    return 0;
}

static void assert_signals_as_before(const struct world *w)
{
    struct sigaction now;
    sigset_t mask;

    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&mask, number),
                         sigismember(&w->mask, number));
    sigaction(SIGQUIT, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);
    assert_int_equal(next_descriptor(), w->next);
}

/* The terminal is as it was, Ctrl-Z included. */
static void terminal_is_given_back(void **state)
{
    struct world *w = *state;
    struct terminal t;
    struct termios now;
    sigset_t mask;

    assert_int_equal(terminal_start(&t, w->slave, false, NULL), ERR_OK);
    tcgetattr(w->slave, &now);
    assert_false(now.c_lflag & ECHO);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    assert_true(sigismember(&mask, SIGTSTP));
    terminal_stop(&t);
    tcgetattr(w->slave, &now);
    assert_int_equal(now.c_lflag, w->settings.c_lflag);
    assert_signals_as_before(w);
    terminal_stop(&t);
}

/* One that is none leaves nothing behind. */
static void terminal_that_is_none_is_refused(void **state)
{
    struct world *w = *state;
    struct terminal t;
    struct fault f = {0};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(terminal_start(&t, fds[1], false, &f), ERR_IO);
    assert_non_null(strstr(f.text, "the terminal"));
    close(fds[0]);
    close(fds[1]);
    assert_signals_as_before(w);
}

/* Where it takes no text, its settings come back all the same. */
static void terminal_that_is_held_up_gets_its_settings_back(void **state)
{
    struct world *w = *state;
    struct terminal t;
    struct termios now;
    char text[4096];

    memset(text, 'x', sizeof(text));
    assert_int_equal(terminal_start(&t, w->slave, false, NULL), ERR_OK);
    fcntl(w->slave, F_SETFL, O_NONBLOCK);
    while (write(w->slave, text, sizeof(text)) > 0)
        continue;
    terminal_stop(&t);
    tcgetattr(w->slave, &now);
    assert_int_equal(now.c_lflag, w->settings.c_lflag);
    assert_signals_as_before(w);
}

/* One that has gone is said, and nothing is left open. */
static void terminal_that_goes_is_seen(void **state)
{
    struct world *w = *state;
    struct terminal t;
    struct canvas c;
    int gone = w->master;

    assert_int_equal(terminal_start(&t, w->slave, false, NULL), ERR_OK);
    close(w->master);
    w->master = -1;
    assert_int_equal(canvas_init(&c, 20, 5, true), ERR_OK);
    assert_int_equal(terminal_show(&t, &c), ERR_IO);
    canvas_deinit(&c);
    terminal_stop(&t);
    w->next = gone;
    assert_signals_as_before(w);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH(terminal_is_given_back),
        WITH(terminal_that_is_none_is_refused),
        WITH(terminal_that_is_held_up_gets_its_settings_back),
        WITH(terminal_that_goes_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
