#include "cli/watch/watch.h"

#include "base/json/json.h"
#include "cli/basics/console.h"
#include "cli/watch/terminal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Pauses between questions, as the dashboard's: one a second at most, for no
 * more than a tenth of the time. A state folder costs nobody else anything. */
static const time_ns ASK_LEAST = 1000000000;
static const time_ns LOOK_LEAST = 250000000;
static const time_ns ASK_MOST = 60000000000;
enum { REST = 10, POLLED_MAX = 6 };

static bool is_remote(const struct watch *w)
{
    return w->source.url[0];
}

static void take_text(const json_t *record, const char *name, char *out,
                      size_t size)
{
    const char *text = json_string_value(json_object_get(record, name));

    snprintf(out, size, "%s", text ? text : "");
}

void watch_note(struct watch *w, const char *kind, const char *text)
{
    json_t *json = NULL;

    assert(kind);
    assert(text);
    if (strcmp(kind, "run_resumed") == 0)
        w->status[0] = w->reason[0] = w->message[0] = '\0';
    if (strcmp(kind, "run_finished") != 0 ||
        json_load(text, strlen(text), &json, NULL, NULL) != ERR_OK)
        return;
    take_text(json, "status", w->status, sizeof(w->status));
    take_text(json, "reason", w->reason, sizeof(w->reason));
    take_text(json, "message", w->message, sizeof(w->message));
    json_decref(json);
}

/* The server of one run ends with it: what its last event said stands for the
 * answer that nobody gives any more. */
static void finish_docs(struct watch *w)
{
    json_t *run = w->docs.shown[DOCS_RUN];

    if (!run || !w->status[0] || picture_is_over(run))
        return;
    /* Without memory the picture stays as it was. */
    (void)json_object_set_new(run, "status", json_string(w->status));
    (void)json_object_set_new(run, "reason", json_string(w->reason));
    (void)json_object_set_new(run, "message", json_string(w->message));
    w->fresh = true;
}

static bool has_ended(const struct watch *w)
{
    const json_t *run = w->docs.shown[DOCS_RUN];

    return run && picture_is_over(run);
}

/* A server that ends with its run answers nothing after its last event. */
bool watch_is_over(const struct watch *w)
{
    time_ns since;

    if (!is_remote(w))
        return w->follow.over && !w->follow.changed && !w->docs.busy;
    if (!has_ended(w) || w->follow.open)
        return false;
    return !w->follow.all || w->follow.drained ||
           (w->status[0] && watch_is_away(w, &since));
}

bool watch_is_away(const struct watch *w, time_ns *since)
{
    *since = w->away_since ? w->away_since : w->follow.away_since;
    return w->away_since || w->follow.away;
}

static void ask_if_due(struct watch *w, bool run_only, int spans)
{
    time_ns now = clock_monotonic();

    if (!w->follow.changed || w->docs.busy || now < w->ask_at)
        return;
    w->follow.changed = false;
    w->asked_at = now;
    picture_source_ask(&w->docs, run_only, spans);
}

static enum err take_answers(struct watch *w, struct fault *f)
{
    time_ns now, pause;
    struct fault why = {0};
    enum err err = picture_source_step(&w->docs, &why);

    if (err == ERR_AGAIN)
        return ERR_OK;
    now = clock_monotonic();
    pause = (now - w->asked_at) * REST;
    if (pause < (is_remote(w) ? ASK_LEAST : LOOK_LEAST))
        pause = is_remote(w) ? ASK_LEAST : LOOK_LEAST;
    w->ask_at = now + (pause > ASK_MOST ? ASK_MOST : pause);
    if (!err) {
        w->away_since = 0;
        w->fresh = true;
        return ERR_OK;
    }
    /* It has answered before: something stands in for it (a proxy). */
    if ((err != ERR_NODE && err != ERR_FORMAT) || !is_remote(w))
        return fault_set(f, err, "%s", why.text);
    if (!w->away_since)
        w->away_since = now;
    w->trouble = why;
    w->follow.changed = true;
    finish_docs(w);
    return ERR_OK;
}

enum err watch_step(struct watch *w, bool run_only, int spans, struct fault *f)
{
    enum err err = follow_step(&w->follow, f);
    time_ns since;

    assert(run_only || spans > 0);
    if (!err)
        ask_if_due(w, run_only, spans);
    if (!err && w->docs.busy)
        err = take_answers(w, f);
    w->follow.ending = is_remote(w) && has_ended(w);
    if (err || !w->wait_s || watch_is_over(w) || !watch_is_away(w, &since))
        return err;
    if (clock_monotonic() - since > (time_ns)w->wait_s * 1000000000)
        return fault_set(f, ERR_NODE, "%s; given up after %d s",
                         w->away_since ? w->trouble.text
                                       : w->follow.trouble.text,
                         w->wait_s);
    return ERR_OK;
}

int watch_wait(struct watch *w, struct pollfd more[], nfds_t n, time_ns until)
{
    struct pollfd fds[POLLED_MAX] = {{.fd = w->signal_fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    nfds_t used = 1;
    time_ns due, now = clock_monotonic();
    int ms;

    assert(w->signal_fd >= 0);
    used += follow_poll(&w->follow, &fds[used], &due);
    until = due < until ? due : until;
    used += picture_source_poll(&w->docs, &fds[used]);
    if (w->follow.changed && !w->docs.busy && w->ask_at < until)
        until = w->ask_at;
    for (nfds_t i = 0; i < n && used < POLLED_MAX; i++)
        fds[used++] = more[i];
    /* Never for long: deadlines of an answer are looked at then. */
    ms = until <= now               ? 0
         : until - now > 1000000000 ? 1000
                                    : (int)((until - now) / 1000000) + 1;
    poll(fds, used, ms);
    if (read(w->signal_fd, &info, sizeof(info)) == sizeof(info))
        return (int)info.ssi_signo;
    return 0;
}

/* ---- on a terminal --------------------------------------------------------
 */

/* Something may pass of itself: the picture is drawn once a second at least. */
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

    assert(w->docs.shown[DOCS_RUN]); /* asked for once */
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
