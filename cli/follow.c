#include "cli/follow.h"

#include "api/view.h"
#include "base/json.h"
#include "cli/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static time_ns in_ms(int ms)
{
    return clock_monotonic() + (time_ns)ms * 1000000;
}

/* ---- the journal --------------------------------------------------------- */

static enum err take_stored(void *ctx, const struct journal_record *stored)
{
    struct follow *w = ctx;

    return w->visit(w->ctx, stored->seq, stored->kind, stored->json);
}

/* What its records cannot say: that its tuner was killed, that it waits. */
static void name_job(struct follow *w)
{
    const struct replayed *r = &w->source->run;
    struct view_job job = {.managed = false};

    if (strcmp(r->status, run_status_name(r->history.status)) != 0)
        snprintf(job.status, sizeof(job.status), "%.15s", r->status);
    view_set_job(w->source->view, r->id, &job);
}

/* A service goes on with what was killed. */
static bool is_over(const struct follow *w)
{
    const struct replayed *r = &w->source->run;
    char url[CLIENT_URL_MAX];

    if (r->ended)
        return true;
    return !r->alive && strcmp(r->status, "queued") != 0 &&
           !(job_exists(w->state, r->id) && source_service(w->state, url));
}

static enum err look(struct follow *w, struct fault *f)
{
    bool changed = false;
    int64_t version = 0;
    enum err err = journal_version(w->journal, &version, f);

    if (err)
        return err;
    /* Whether its tuner lives is not in the file. */
    if (!w->looked || version != w->version ||
        run_folder_alive(w->state, w->id) != w->source->run.alive) {
        err = replay_more(w->journal, w->state, &w->source->run, &w->last,
                          take_stored, w, &changed, f);
        name_job(w);
        view_lock(w->source->view);
        view_changed(w->source->view);
        view_unlock(w->source->view);
    }
    /* One that is busy is looked at again. */
    if (err == ERR_BUSY)
        return ERR_OK;
    if (err)
        return err;
    w->looked = true;
    w->version = version;
    w->changed |= changed;
    w->over = is_over(w);
    return ERR_OK;
}

/* ---- the stream ---------------------------------------------------------- */

static void hang_up(struct follow *w)
{
    if (w->open)
        client_close(&w->exchange);
    event_reader_deinit(&w->reader);
    w->open = false;
}

static void lose(struct follow *w)
{
    hang_up(w);
    if (!w->away)
        w->away_since = clock_monotonic();
    w->away = true;
    w->changed = true;
    w->next = in_ms(FOLLOW_RETRY_MS);
}

/* What comes next is asked for anew, from where the server still has it. */
static enum err take_dropped(struct follow *w, const char *data)
{
    json_t *json = NULL;
    json_int_t newest = 0;

    if (json_load(data, strlen(data), &json, NULL, NULL) == ERR_OK)
        newest = json_integer_value(json_object_get(json, "newest"));
    json_decref(json);
    if (newest > 0 && (uint64_t)newest > w->last) {
        w->missed += (uint64_t)newest - w->last;
        w->last = (uint64_t)newest;
    }
    w->changed = true;
    return ERR_OK;
}

static enum err take_event(void *ctx, const struct event_read *e)
{
    struct follow *w = ctx;

    if (strcmp(e->kind, "dropped") == 0)
        return take_dropped(w, e->data);
    if (e->numbered) {
        w->last = e->id;
        w->after = true;
    }
    w->changed = true;
    return w->visit(w->ctx, e->id, e->kind, e->data);
}

static void dial(struct follow *w)
{
    char target[RUN_ID_MAX + 64], after[32];
    const struct client_request q = {
        .url = w->source->url,
        .method = "GET",
        .target = target,
        .token = w->source->token[0] ? w->source->token : NULL,
        .after = w->after ? after : NULL,
    };

    snprintf(target, sizeof(target), "/api/v1/runs/%s/events", w->id);
    snprintf(after, sizeof(after), "%" PRIu64, w->last);
    if (client_open(&q, &w->exchange, &w->trouble) != ERR_OK)
        lose(w);
    else
        w->open = true;
}

/* The answer is no stream: none is kept of this run, too many are open, the
 * server is about to end. Then the caller looks again once in a while. */
static void refused(struct follow *w)
{
    fault_set(&w->trouble, ERR_NODE, "the server has no events (status %d)",
              w->reader.status);
    hang_up(w);
    w->away = false;
    w->changed = true;
    w->next = in_ms(FOLLOW_RETRY_MS);
}

static enum err listen_on(struct follow *w, struct fault *f)
{
    char buffer[16384];
    size_t len = 0;
    enum err err;

    while (w->open) {
        err = client_take(&w->exchange, buffer, sizeof(buffer), &len,
                          &w->trouble);
        if (err == ERR_AGAIN)
            return ERR_OK;
        if (err) {
            lose(w);
            return ERR_OK;
        }
        err = event_reader_feed(&w->reader, buffer, len, take_event, w);
        if (err == ERR_FORMAT)
            return fault_set(f, err, "what answers at %s is no mltune",
                             w->source->url);
        if (err)
            return err;
        if (w->reader.status && w->reader.status != 200) {
            refused(w);
            return ERR_OK;
        }
        if (w->reader.status && w->away) {
            w->away = false;
            w->changed = true;
        }
        if (len == 0 || event_reader_over(&w->reader)) {
            /* The run is over, or the server ends: whoever asks sees which. */
            fault_set(&w->trouble, ERR_NODE, "the server has hung up");
            hang_up(w);
            w->changed = true;
            w->next = in_ms(FOLLOW_RETRY_MS);
        }
    }
    return ERR_OK;
}

/* ---- both ---------------------------------------------------------------- */

enum err follow_open(struct follow *w, struct source *source, const char *id,
                     bool all, follow_visit *visit, void *ctx, struct fault *f)
{
    enum err err = ERR_OK;

    memset(w, 0, sizeof(*w));
    w->source = source;
    w->visit = visit;
    w->ctx = ctx;
    w->changed = true;
    snprintf(w->id, sizeof(w->id), "%s", id);
    if (source->url[0]) {
        w->after = all;
        return ERR_OK;
    }
    if (!all)
        w->last = source->run.history.records;
    err = replay_open(source->state, w->state, &w->journal, f);
    return err;
}

void follow_close(struct follow *w)
{
    hang_up(w);
    journal_close(w->journal);
    w->journal = NULL;
}

nfds_t follow_poll(const struct follow *w, struct pollfd *out, time_ns *until)
{
    if (w->open) {
        *out = (struct pollfd){.fd = w->exchange.fd,
                               .events = client_events(&w->exchange)};
        *until = w->exchange.until;
        return 1;
    }
    *until = w->over ? INT64_MAX : w->next;
    return 0;
}

enum err follow_step(struct follow *w, struct fault *f)
{
    bool due = clock_monotonic() >= w->next;
    enum err err = ERR_OK;

    if (w->over)
        return ERR_OK;
    if (!w->journal) {
        if (!w->open && due)
            dial(w);
        return w->open ? listen_on(w, f) : ERR_OK;
    }
    if (due) {
        err = look(w, f);
        w->next = in_ms(FOLLOW_LOOK_MS);
    }
    return err;
}
