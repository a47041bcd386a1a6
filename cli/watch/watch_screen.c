/* `mltune watch` on a terminal: draws when something has come, and once a
 * second what passes of itself. */
#include "cli/watch/watch.h"

#include "cli/basics/console.h"
#include "cli/watch/terminal.h"

#include <stdio.h>
#include <unistd.h>

static const time_ns TICK = 1000000000;

struct screen {
    struct watch *watch;
    struct terminal terminal;
    int width, height;
    bool keys;        /* stdin is a terminal */
    bool over_before; /* the run was, at the beginning */
};

static void write_note(const struct watch *w, char *note, size_t size)
{
    time_ns since;
    char time[32];

    if (!watch_is_away(w, &since)) {
        snprintf(note, size, "%.500s",
                 w->source.url[0] ? w->source.url : w->follow.state);
        return;
    }
    /* In whole seconds: tenths would only flicker. */
    snprintf(time, sizeof(time), "%lld s",
             (long long)((clock_monotonic() - since) / 1000000000));
    snprintf(note, size, "no answer for %s, trying again: %s", time,
             w->away_since ? w->trouble.text : w->follow.trouble.text);
}

static enum err draw(struct screen *s)
{
    struct picture p = {.run = NULL};
    struct canvas c;
    char note[FAULT_TEXT_MAX + 64];
    time_ns since;
    enum err err;

    write_note(s->watch, note, sizeof(note));
    picture_source_picture(&s->watch->docs, &p);
    p.note = note;
    p.bad = watch_is_away(s->watch, &since);
    terminal_size(&s->terminal, &s->width, &s->height);
    err = canvas_init(&c, s->width, s->height, s->watch->ascii);
    if (err)
        return err;
    picture_draw(&p, &c);
    err = terminal_show(&s->terminal, &c);
    canvas_deinit(&c);
    return err;
}

/* True: the user has enough, or has gone. */
static bool read_keys(struct screen *s)
{
    char key[64];
    ssize_t n = s->keys ? read(STDIN_FILENO, key, sizeof(key)) : 0;

    for (ssize_t i = 0; i < n; i++)
        if (key[i] == 'q' || key[i] == 'Q' || key[i] == 4)
            return true;
    return false;
}

static bool size_differs(const struct screen *s)
{
    int width, height;

    terminal_size(&s->terminal, &width, &height);
    return width != s->width || height != s->height;
}

static enum err show_until_over(struct screen *s, int *number, bool *left,
                                struct fault *f)
{
    struct watch *w = s->watch;
    struct pollfd more[] = {
        {.fd = s->terminal.signal_fd, .events = POLLIN},
        {.fd = s->keys ? STDIN_FILENO : -1, .events = POLLIN}};
    time_ns due = 0;
    enum err err = ERR_OK;

    while (!err) {
        bool stale = terminal_changed(&s->terminal);

        /* A wider plot has more dots. */
        if (stale || size_differs(s))
            w->follow.changed = true;
        err = watch_step(w, false, picture_spans(s->width, w->ascii), f);
        if (!err && (w->fresh || stale || clock_monotonic() >= due)) {
            w->fresh = false;
            due = clock_monotonic() + TICK;
            err = draw(s);
            if (err == ERR_IO)
                return fault_set(f, err, "the terminal is gone");
        }
        if (err || (!s->over_before && watch_is_over(w)))
            return err;
        *number = watch_wait(w, more, 2, due);
        *left = read_keys(s);
        if (*number || *left)
            return ERR_OK;
    }
    return err;
}

enum err watch_on_screen(struct watch *w, int *number, bool *left,
                         struct fault *f)
{
    struct screen s = {.watch = w, .keys = isatty(STDIN_FILENO)};
    enum err err;

    s.over_before = picture_is_over(w->docs.shown[DOCS_RUN]);
    err = terminal_start(&s.terminal, STDOUT_FILENO,
                         console_in_color(STDOUT_FILENO), f);
    if (err)
        return err;
    terminal_size(&s.terminal, &s.width, &s.height);
    err = show_until_over(&s, number, left, f);
    terminal_stop(&s.terminal);
    return err;
}
