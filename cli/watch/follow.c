#include "cli/watch/follow.h"

#include "api/view/view.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/state/job.h"

#include <assert.h>
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

static void name_job(struct follow *w)
{
    const struct replayed *r = &w->source->run;
    struct view_job job;

    replay_told(r, &job);
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
           !(job_exists(w->state, r->id) &&
             source_service(w->state, url, NULL));
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
    w->polls = false;
    w->changed = true;
    w->next = in_ms(FOLLOW_RETRY_MS);
}

static void arrive(struct follow *w)
{
    w->changed |= w->away;
    w->away = false;
}

/* Goes on after @id; what is between was not kept. */
static void skip_to(struct follow *w, json_int_t id)
{
    if (id <= 0 || (uint64_t)id <= w->last)
        return;
    w->missed += (uint64_t)id - w->last;
    w->last = (uint64_t)id;
    w->after = true;
}

/* The records that the server still has are asked for anew. An older server
 * does not say from where on. */
static void take_dropped(struct follow *w, const char *data)
{
    json_t *json = NULL;
    const json_t *kept;

    if (json_load(data, strlen(data), &json, NULL, NULL) == ERR_OK) {
        kept = json_object_get(json, "kept_after");
        skip_to(w, json_integer_value(kept ? kept
                                           : json_object_get(json, "newest")));
    }
    json_decref(json);
    w->changed = true;
}

static enum err take_event(void *ctx, const struct event_read *e)
{
    struct follow *w = ctx;

    if (strcmp(e->kind, "dropped") == 0) {
        take_dropped(w, e->data);
        return ERR_OK;
    }
    if (e->numbered) {
        w->last = e->id;
        w->after = true;
    }
    w->changed = true;
    w->visited++;
    return w->visit(w->ctx, e->id, e->kind, e->data);
}

static void dial(struct follow *w)
{
    char target[RUN_ID_MAX + 64], after[32];
    bool asks = w->polls || (w->ending && w->all);
    struct client_request q;
    enum err err;

    snprintf(after, sizeof(after), "%" PRIu64, w->last);
    snprintf(target, sizeof(target), "/api/v1/runs/%s/events%s%s", w->id,
             asks ? "?after=" : "", asks ? after : "");
    err = source_request(w->source, target, &q, &w->trouble);
    if (!err) {
        q.after = w->after && !asks ? after : NULL;
        err = client_open(&q, &w->exchange, &w->trouble);
    }
    if (err) {
        lose(w);
        return;
    }
    w->open = true;
    w->asks = asks;
}

/* The answer is no stream. None is kept of this run (yet), too many are open,
 * the server is about to end: what can be had otherwise is asked for. */
static void refused(struct follow *w)
{
    int status = w->reader.status;

    fault_set(&w->trouble, ERR_NODE, "the server opens no stream (status %d)",
              status);
    hang_up(w);
    w->changed = true;
    w->polls = w->all && status != 404;
    w->next = w->polls ? 0 : in_ms(FOLLOW_RETRY_MS);
    if (!w->polls)
        w->away = false;
}

static enum err listen_on(struct follow *w)
{
    char buffer[16384];
    size_t len = 0;
    enum err err;

    while (w->open) {
        err = client_take(&w->exchange, buffer, sizeof(buffer), &len,
                          &w->trouble);
        if (err == ERR_AGAIN)
            return ERR_OK;
        if (!err)
            err = event_reader_feed(&w->reader, buffer, len, take_event, w);
        else
            err = ERR_NODE;
        if (err == ERR_FORMAT)
            fault_set(&w->trouble, err, "what answers at %s is no mltune",
                      w->source->url);
        if (err == ERR_FORMAT || err == ERR_NODE)
            lose(w);
        else if (err)
            return err;
        else if (w->reader.status && w->reader.status != 200)
            refused(w);
        else if (w->reader.status)
            arrive(w);
        if (w->open && (len == 0 || event_reader_over(&w->reader))) {
            /* The run is over, or the server ends: whoever asks sees which. */
            fault_set(&w->trouble, ERR_NODE, "the server has hung up");
            hang_up(w);
            w->changed = true;
            w->next = in_ms(FOLLOW_RETRY_MS);
        }
    }
    return ERR_OK;
}

/* ---- what is asked for --------------------------------------------------- */

/* One that is no event, or has been seen, is passed over. */
static enum err take_polled(struct follow *w, const json_t *event)
{
    json_int_t id = json_integer_value(json_object_get(event, "id"));
    const char *kind = json_string_value(json_object_get(event, "event"));
    const json_t *data = json_object_get(event, "data");
    char *text;
    enum err err;

    if (id <= 0 || (uint64_t)id <= w->last || !kind || !data)
        return ERR_OK;
    text = json_write(data, 0);
    if (!text)
        return ERR_NOMEM;
    w->last = (uint64_t)id;
    w->visited++;
    err = w->visit(w->ctx, w->last, kind, text);
    mem_free(text);
    return err;
}

static enum err take_answer(struct follow *w, const json_t *answer)
{
    const json_t *events = json_object_get(answer, "events"), *event;
    uint64_t before = w->last;
    enum err err = ERR_OK;
    size_t i;

    json_array_foreach(events, i, event)
    {
        if (!err)
            err = take_polled(w, event);
    }
    if (json_is_true(json_object_get(answer, "missed")))
        skip_to(w, json_integer_value(json_object_get(answer, "next_after")));
    if (w->last > before) {
        w->changed = true;
        w->next = 0; /* there may be more */
    } else {
        w->drained = w->ending;
        w->next = in_ms(FOLLOW_RETRY_MS);
    }
    return err;
}

static enum err take_poll(struct follow *w, struct fault *f)
{
    const char *body = NULL;
    json_t *answer = NULL;
    size_t len = 0;
    int status = 0;
    enum err err = client_step(&w->exchange, &status, &body, &len, &w->trouble);

    if (err == ERR_AGAIN)
        return ERR_OK;
    if (!err)
        err = source_answer(w->source, status, body, len, &answer, &w->trouble);
    hang_up(w);
    if (err == ERR_NODE || err == ERR_FORMAT) {
        lose(w);
        return ERR_OK;
    }
    if (err && err != ERR_NOENT)
        return fault_set(f, err, "%s", w->trouble.text);
    arrive(w);
    err = take_answer(w, answer); /* NULL: none are kept of this run */
    json_decref(answer);
    return err;
}

/* ---- both ---------------------------------------------------------------- */

enum err follow_open(struct follow *w, struct source *source, const char *id,
                     bool all, follow_visit *visit, void *ctx, struct fault *f)
{
    enum err err = ERR_OK;

    assert(source && id && visit);
    assert(source->url[0] || source->view); /* the run was found */
    memset(w, 0, sizeof(*w));
    w->source = source;
    w->visit = visit;
    w->ctx = ctx;
    w->changed = true;
    w->all = all;
    snprintf(w->id, sizeof(w->id), "%s", id);
    if (source->url[0]) {
        w->after = all;
        return ERR_OK;
    }
    if (!all)
        w->last = history_records(&source->run.history);
    err = replay_open(source->state, w->state, &w->journal, f);
    return err;
}

void follow_close(struct follow *w)
{
    hang_up(w);
    journal_close(w->journal);
    w->journal = NULL;
}

/* The run is over: what is left is asked for, without a pause. */
static bool hurries(const struct follow *w)
{
    return w->ending && w->all && !w->drained && !w->away;
}

static bool rests(const struct follow *w)
{
    return w->over || (w->ending && w->drained);
}

nfds_t follow_poll(const struct follow *w, struct pollfd *out, time_ns *until)
{
    assert(out);
    assert(until);
    if (w->open) {
        *out = (struct pollfd){.fd = w->exchange.fd,
                               .events = client_events(&w->exchange)};
        *until = w->exchange.until;
        return 1;
    }
    *until = rests(w) ? INT64_MAX : hurries(w) ? 0 : w->next;
    return 0;
}

static enum err step_there(struct follow *w, bool due, struct fault *f)
{
    /* A service may go on with what was over. */
    w->drained &= w->ending;
    if (!w->open && !rests(w) && (due || hurries(w)))
        dial(w);
    if (!w->open)
        return ERR_OK;
    return w->asks ? take_poll(w, f) : listen_on(w);
}

enum err follow_step(struct follow *w, struct fault *f)
{
    bool due = clock_monotonic() >= w->next;
    enum err err = ERR_OK;

    if (w->over)
        return ERR_OK;
    if (!w->journal)
        return step_there(w, due, f);
    if (due) {
        err = look(w, f);
        w->next = in_ms(FOLLOW_LOOK_MS);
    }
    return err;
}
