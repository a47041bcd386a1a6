#include "cli/run/hooks.h"

#include "api/http/value.h"
#include "base/deadlines.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/config/program.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A webhook has that long for its start and its last words. */
static const time_ns WEB_GRACE = 2000000000;

/* Whoever waits for hooks has other duties, too. */
static const time_ns TICK = 1000000000;

static const char *const names[HOOK_EVENT_COUNT] = {
    [HOOK_BEST] = "best", [HOOK_FAILURE] = "failure", [HOOK_END] = "end"};

/* ---- setting up ---------------------------------------------------------- */

/* All of them where none is named. */
static unsigned wanted_of(const json_t *list)
{
    unsigned wanted = 0;
    const json_t *one;
    size_t i;

    json_array_foreach((json_t *)list, i, one)
    {
        for (unsigned e = 0; e < HOOK_EVENT_COUNT; e++)
            if (strcmp(json_string_value(one), names[e]) == 0)
                wanted |= 1u << e;
    }
    return list ? wanted : (1u << HOOK_EVENT_COUNT) - 1;
}

static void prepare(struct hooks *h, const json_t *config, const char *folder,
                    const char *run, int log_fd)
{
    double seconds = DEADLINE_HOOK_MS * 1e-3;

    json_to_seconds(json_at(config, "/hooks/timeout"), &seconds);
    *h = (struct hooks){.folder = folder,
                        .log_fd = log_fd,
                        .wanted = wanted_of(json_at(config, "/hooks/on")),
                        .limit = (time_ns)(seconds * 1e9),
                        .child.end_fd = -1};
    snprintf(h->run, sizeof(h->run), "MLTUNE_RUN=%s", run);
}

void hooks_init(struct hooks *h, const json_t *config, const char *folder,
                const char *run, int log_fd)
{
    const json_t *command = json_at(config, "/hooks/command"), *word;
    size_t i;

    assert(json_array_size(command) <= HOOK_WORDS_MAX);
    prepare(h, config, folder, run, log_fd);
    json_array_foreach((json_t *)command, i, word)
    {
        h->argv[i] = (char *)json_string_value(word);
    }
}

void hooks_init_web(struct hooks *h, const json_t *config, const char *folder,
                    const char *run, int log_fd)
{
    const char *url = json_string_value(json_at(config, "/hooks/url"));
    const char *secret = json_string_value(json_at(config, "/hooks/secret"));
    size_t n = 0;

    prepare(h, config, folder, run, log_fd);
    h->own = true;
    if (!url || !secret || !program_path(folder, secret, h->secret))
        return;
    /* It gives up by itself, and says why, before it is killed for it. */
    snprintf(h->seconds, sizeof(h->seconds), "%lld",
             (long long)((h->limit + 999999999) / 1000000000));
    h->limit += WEB_GRACE;
    h->argv[n++] = (char *)"mltune";
    h->argv[n++] = (char *)"webhook";
    h->argv[n++] = (char *)"--secret";
    h->argv[n++] = h->secret;
    h->argv[n++] = (char *)"--seconds";
    h->argv[n++] = h->seconds;
    if (json_is_true(json_at(config, "/hooks/private")))
        h->argv[n++] = (char *)"--private";
    h->argv[n++] = (char *)"--";
    h->argv[n++] = (char *)url;
}

bool hooks_want(const struct hooks *h, enum hook_event event)
{
    assert(event < HOOK_EVENT_COUNT);
    return h->argv[0] && (h->wanted & 1u << event);
}

/* ---- the queue ----------------------------------------------------------- */

static void leave(struct hooks *h, size_t i)
{
    h->len--;
    memmove(&h->queue[i], &h->queue[i + 1], (h->len - i) * sizeof(h->queue[0]));
}

/* Makes room for @event. */
static void make_room(struct hooks *h, enum hook_event event)
{
    size_t i = 0;

    while (event == HOOK_BEST && i < h->len && h->queue[i].event != HOOK_BEST)
        i++;
    if (event != HOOK_BEST || i == h->len) { /* no best waits */
        if (h->len < HOOK_QUEUE_MAX)
            return;
        i = 0;
        h->dropped++;
        log_event(LOG_WARN, "hook_dropped", "event=%s dropped=%llu",
                  names[h->queue[0].event], (unsigned long long)h->dropped);
    }
    mem_free(h->queue[i].text);
    leave(h, i);
}

void hooks_tell(struct hooks *h, enum hook_event event, json_t *about)
{
    char *text = NULL;

    if (!hooks_want(h, event)) {
        json_decref(about);
        return;
    }
    if (about &&
        json_object_set_new(about, "event", json_string(names[event])) == 0 &&
        json_object_set_new(about, "at",
                            value_time((double)clock_wall() * 1e-9)) == 0)
        text = json_write(about, 0);
    json_decref(about);
    if (!text) {
        log_event(LOG_WARN, "hook_dropped", "event=%s reason=\"%s\"",
                  names[event], err_text(ERR_NOMEM));
        return;
    }
    make_room(h, event);
    h->queue[h->len++] = (struct hook_waiting){event, text};
}

/* ---- the process --------------------------------------------------------- */

/* A file that is nowhere, with @text in it: its reader may read it whenever it
 * likes, and nobody waits for that. -1: no memory. */
static int file_of(const char *text)
{
    size_t len = strlen(text), done = 0;
    int fd = memfd_create("mltune-hook", MFD_CLOEXEC);

    while (fd >= 0 && done < len) {
        ssize_t n = write(fd, text + done, len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (fd >= 0 && (done < len || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static enum err start(struct hooks *h, const struct hook_waiting *w,
                      struct fault *f)
{
    char event[32], path[PATH_MAX];
    char *const also[] = {event, h->run, NULL};
    int fd = file_of(w->text);
    const struct subprocess_options o = {
        .path = h->own ? NULL : path,
        .argv = h->argv,
        .folder = h->folder,
        .unset = "MLTUNE_TOKEN",
        .also = also,
        .file = {fd, h->log_fd, h->log_fd},
        .signals = SUBPROCESS_SIGNALS_USUAL,
        .death_signal = SIGKILL,
    };
    enum err err = ERR_OK;

    if (fd < 0)
        return fault_set(f, ERR_NOMEM, "no memory for the event");
    snprintf(event, sizeof(event), "MLTUNE_EVENT=%s", names[w->event]);
    if (!h->own && !program_find(h->folder, h->argv[0], path))
        err = fault_set(f, ERR_NOENT, "there is no program %.200s", h->argv[0]);
    if (!err)
        err = subprocess_start(&h->child, &o, f);
    close(fd);
    return err;
}

static void begin_next(struct hooks *h)
{
    struct hook_waiting next = h->queue[0];
    struct fault f = {0};

    leave(h, 0);
    h->now = next.event;
    h->late = false;
    h->due = clock_monotonic() + h->limit;
    if (start(h, &next, &f) != ERR_OK) {
        h->child = (struct subprocess){.end_fd = -1};
        log_event(LOG_WARN, "hook_not_started", "event=%s reason=\"%s\"",
                  names[next.event], f.text);
    }
    mem_free(next.text);
}

static void take_end(struct hooks *h)
{
    char verdict[64];

    subprocess_verdict(&h->child, verdict, sizeof(verdict));
    if (h->late)
        log_event(
            LOG_WARN, "hook_late",
            "event=%s reason=\"it took longer than %g s, and was killed\"",
            names[h->now], (double)h->limit * 1e-9);
    else
        log_event(h->child.code ? LOG_WARN : LOG_INFO, "hook_ended",
                  "event=%s verdict=\"%s\"", names[h->now], verdict);
    h->child = (struct subprocess){.end_fd = -1};
}

void hooks_turn(struct hooks *h)
{
    if (h->child.pid && subprocess_poll(&h->child))
        take_end(h);
    if (h->child.pid && !h->late && clock_monotonic() >= h->due) {
        h->late = true;
        subprocess_signal(&h->child, SIGKILL);
    }
    if (!h->child.pid && h->len > 0)
        begin_next(h);
}

/* Waits for the end of what runs, up to @until, but no longer than a tick
 * allows. False: @hurry_fd ended the wait. */
static bool wait_some(struct hooks *h, time_ns until, int hurry_fd)
{
    time_ns now = clock_monotonic();
    time_ns end = until < now + TICK ? until : now + TICK;

    return subprocess_wait(&h->child, (int)((end - now) / 1000000) + 1,
                           hurry_fd) ||
           clock_monotonic() >= end;
}

void hooks_finish(struct hooks *h, const struct hooks_patience *p)
{
    time_ns end = p->most_ms < 0
                      ? INT64_MAX
                      : clock_monotonic() + p->most_ms * INT64_C(1000000);
    bool hurried = false;

    for (hooks_turn(h); (h->child.pid || h->len > 0) && !hurried;
         hooks_turn(h)) {
        if (p->tick)
            p->tick(p->ctx);
        if (!h->child.pid)
            continue;
        hurried = clock_monotonic() >= end;
        if (h->late) { /* killed: it is gone, or hangs with its disk */
            subprocess_stop(&h->child, 0, -1);
            take_end(h);
        } else if (!hurried) {
            hurried = !wait_some(h, h->due < end ? h->due : end, p->hurry_fd);
        }
    }
    if (h->child.pid || h->len > 0)
        log_event(LOG_WARN, "hook_dropped",
                  "event=%s reason=\"the run was to end at once\"",
                  names[h->child.pid ? h->now : h->queue[0].event]);
    hooks_deinit(h);
}

void hooks_deinit(struct hooks *h)
{
    subprocess_stop(&h->child, 0, -1);
    while (h->len > 0)
        mem_free(h->queue[--h->len].text);
    h->child = (struct subprocess){.end_fd = -1};
    h->argv[0] = NULL;
}
