#include "cli/watch/terminal.h"

#include <assert.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* Private modes of xterm that all its like know: 1049 the other screen, 25 the
 * cursor, 7 wrapping at the right edge. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave_text[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

/* Variables of the handlers; set while a terminal is taken over. */
static volatile sig_atomic_t taken_fd = -1;
static struct termios as_it_was;

/* Signals that end a program unless it says otherwise; those that it does say
 * something about (SIGINT, SIGTERM, SIGHUP) reach its loop. */
static const int deadly[] = {SIGABRT, SIGBUS,    SIGFPE,  SIGILL,  SIGSEGV,
                             SIGQUIT, SIGXCPU,   SIGSYS,  SIGTRAP, SIGALRM,
                             SIGPROF, SIGVTALRM, SIGUSR1, SIGUSR2};
enum { DEADLY = sizeof(deadly) / sizeof(*deadly) };
static struct sigaction before[DEADLY];

bool terminal_is_utf8(void)
{
    return setlocale(LC_CTYPE, "") &&
           strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* A terminal that does not take all at once takes the rest later. */
static int write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};

            poll(&p, 1, 1000);
        } else if (n < 0 && errno != EINTR) {
            return -1;
        } else if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* ---- giving it back ------------------------------------------------------ */

/* Only what may be called in a handler. One that takes no text now (it is held
 * up, or gone) gets its settings back all the same. */
static void give_back(void)
{
    struct pollfd p = {.fd = taken_fd, .events = POLLOUT};
    const size_t len = sizeof(leave_text) - 1;
    ssize_t n;

    if (p.fd < 0)
        return;
    taken_fd = -1;
    n = write(p.fd, leave_text, len);
    if (n < 0 && errno == EAGAIN && poll(&p, 1, 1000) == 1)
        n = write(p.fd, leave_text, len);
    (void)n;
    tcsetattr(p.fd, TCSANOW, &as_it_was);
}

static void forget_deadly(void)
{
    for (int i = 0; i < DEADLY; i++)
        sigaction(deadly[i], &before[i], NULL);
}

static void on_deadly(int number)
{
    give_back();
    forget_deadly();
    raise(number);
}

/* A signal that our parent has ignored stays ignored. */
static void catch_deadly(void)
{
    struct sigaction act = {.sa_handler = on_deadly};

    sigemptyset(&act.sa_mask);
    for (int i = 0; i < DEADLY; i++) {
        sigaction(deadly[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(deadly[i], &act, NULL);
    }
}

/* ---- taking it ----------------------------------------------------------- */

static enum err take_over(struct terminal *t)
{
    struct termios raw;
    int errnum;

    if (tcgetattr(t->fd, &as_it_was) != 0)
        return ERR_IO;
    raw = as_it_was;
    /* Ctrl-C and Ctrl-Z stay signals. */
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    taken_fd = t->fd;
    if (tcsetattr(t->fd, TCSANOW, &raw) != 0 ||
        write_all(t->fd, enter_text, sizeof(enter_text) - 1) != 0) {
        errnum = errno;
        give_back();
        errno = errnum;
        return ERR_IO;
    }
    t->width = t->height = 0;
    return ERR_OK;
}

static enum err open_signals(struct terminal *t)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    t->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (t->signal_fd < 0)
        return ERR_IO;
    sigprocmask(SIG_BLOCK, &set, &t->mask);
    return ERR_OK;
}

enum err terminal_start(struct terminal *t, int fd, bool color, struct fault *f)
{
    static bool registered;
    int errnum;

    assert(taken_fd < 0);
    memset(t, 0, sizeof(*t));
    t->fd = fd;
    t->color = color;
    if (open_signals(t) != ERR_OK)
        return fault_errno(f, ERR_IO, errno, "signals");
    if (!registered)
        atexit(give_back);
    registered = true;
    catch_deadly();
    t->started = true;
    if (take_over(t) == ERR_OK)
        return ERR_OK;
    errnum = errno;
    terminal_stop(t);
    return fault_errno(f, ERR_IO, errnum, "the terminal");
}

void terminal_stop(struct terminal *t)
{
    if (t->started) {
        give_back();
        forget_deadly();
        close(t->signal_fd);
        sigprocmask(SIG_SETMASK, &t->mask, NULL);
    }
    for (int y = 0; y < CANVAS_HEIGHT_MAX; y++)
        text_deinit(&t->shown[y]);
    memset(t, 0, sizeof(*t));
}

void terminal_size(const struct terminal *t, int *width, int *height)
{
    struct winsize size;

    assert(width);
    assert(height);
    *width = 80;
    *height = 24;
    if (ioctl(t->fd, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
        *width = size.ws_col;
        *height = size.ws_row;
    }
}

/* Stopped like any program; the shell has its terminal back meanwhile. */
static void rest(struct terminal *t)
{
    give_back();
    raise(SIGSTOP);
    t->lost = take_over(t) != ERR_OK;
}

bool terminal_changed(struct terminal *t)
{
    struct signalfd_siginfo info;
    bool changed = false;

    while (read(t->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTSTP)
            rest(t);
        changed = true;
    }
    return changed;
}

/* ---- showing ------------------------------------------------------------- */

static enum err add_row(struct terminal *t, const struct canvas *c, int y,
                        struct text *out)
{
    struct text row = {0};
    int used = canvas_row(c, y, true, t->color, &row);

    if (!row.s)
        text_puts(&row, "");
    if (row.no_memory) {
        text_deinit(&row);
        return ERR_NOMEM;
    }
    if (t->width && t->shown[y].s && strcmp(t->shown[y].s, row.s) == 0) {
        text_deinit(&row);
        return ERR_OK;
    }
    /* After a full row the cursor stands on its last character. */
    text_printf(out, "\033[%d;1H%s%s", y + 1, row.s,
                used < c->width ? "\033[K" : "");
    text_deinit(&t->shown[y]);
    t->shown[y] = row;
    return ERR_OK;
}

enum err terminal_show(struct terminal *t, const struct canvas *c)
{
    struct text out = {0};
    enum err err = ERR_OK;

    assert(c->cell);
    if (t->lost)
        return ERR_IO;
    if (t->width != c->width || t->height != c->height) {
        t->width = 0;
        text_puts(&out, "\033[0m\033[2J");
    }
    for (int y = 0; y < c->height && !err; y++)
        err = add_row(t, c, y, &out);
    if (!err && out.no_memory)
        err = ERR_NOMEM;
    if (!err && out.len > 0 && write_all(t->fd, out.s, out.len) != 0)
        err = ERR_IO;
    text_deinit(&out);
    t->width = err ? 0 : c->width;
    t->height = err ? 0 : c->height;
    return err;
}
