#include "api/view/view.h"

#include "base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>

struct view {
    struct view_options options;
    pthread_mutex_t lock;
    struct view_run *run; /* owned; guarded by lock, as runs and capacity */
    size_t runs, capacity;
    bool locked; /* by whoever asks: guarded by the lock, too */
    uint64_t wakes;
    _Atomic uint64_t version;
    const char *_Atomic not_ready;
    atomic_bool filling;
    char *_Atomic text[VIEW_TEXTS]; /* owned; NULL: not asked for yet */
};

enum err view_new(const struct view_options *options, struct view **out)
{
    struct view *v = mem_calloc(1, sizeof(*v));

    assert(options);
    assert(out);
    if (!v)
        return ERR_NOMEM;
    v->options = *options;
    /* With default attributes this cannot fail on Linux. */
    pthread_mutex_init(&v->lock, NULL);
    atomic_init(&v->version, 1);
    atomic_init(&v->not_ready, NULL);
    atomic_init(&v->filling, false);
    for (size_t i = 0; i < VIEW_TEXTS; i++)
        atomic_init(&v->text[i], NULL);
    *out = v;
    return ERR_OK;
}

static void whole_free(struct view_whole *w)
{
    if (!w)
        return;
    history_deinit(&w->history);
    json_decref(w->config);
    json_decref(w->result);
    mem_free(w);
}

void view_free(struct view *v)
{
    if (!v)
        return;
    pthread_mutex_destroy(&v->lock);
    for (size_t i = 0; i < VIEW_TEXTS; i++)
        mem_free(atomic_load(&v->text[i]));
    for (size_t i = 0; i < v->runs; i++) {
        whole_free(v->run[i].whole);
        json_decref(v->run[i].notes);
    }
    mem_free(v->run);
    mem_free(v);
}

const char *view_text(struct view *v, enum view_text which,
                      char *(*make)(const struct view *))
{
    char *kept = atomic_load(&v->text[which]), *made;

    assert((unsigned)which < VIEW_TEXTS && make);
    if (kept)
        return kept;
    made = make(v);
    /* Another thread may have been first. */
    if (made && !atomic_compare_exchange_strong(&v->text[which], &kept, made)) {
        mem_free(made);
        return kept;
    }
    return made;
}

const struct view_options *view_options(const struct view *v)
{
    return &v->options;
}

static struct view_run *listed(struct view *v, const char *id)
{
    assert(v->locked);
    for (size_t i = 0; i < v->runs; i++)
        if (strcmp(v->run[i].id, id) == 0)
            return &v->run[i];
    return NULL;
}

static enum err add(struct view *v, const char *id, const char *name,
                    const struct history *history)
{
    struct view_run *run;

    if (view_run_find(v, id))
        return ERR_EXIST;
    if (v->runs == VIEW_RUNS_MAX)
        return ERR_LIMIT;
    if (mem_grow((void **)&v->run, &v->capacity, sizeof(*v->run), v->runs + 1))
        return ERR_NOMEM;
    run = &v->run[v->runs++];
    *run = (struct view_run){.history = history, .own = history};
    snprintf(run->id, sizeof(run->id), "%s", id);
    snprintf(run->name, sizeof(run->name), "%s", name);
    view_changed(v);
    return ERR_OK;
}

enum err view_add_run(struct view *v, const char *id, const char *name,
                      const struct history *history)
{
    enum err err;

    assert(id[0]);
    assert(id && name && history);
    view_lock(v);
    err = add(v, id, name, history);
    view_unlock(v);
    return err;
}

void view_remove_run(struct view *v, const char *id)
{
    struct view_run *run;
    size_t after;

    assert(id[0]);
    view_lock(v);
    run = listed(v, id);
    assert(run);
    whole_free(run->whole);
    json_decref(run->notes);
    after = v->runs - (size_t)(run - v->run) - 1;
    memmove(run, run + 1, after * sizeof(*run));
    v->runs--;
    view_changed(v);
    view_unlock(v);
}

void view_steer_run(struct view *v, const char *id, struct mailbox *mailbox)
{
    struct view_run *run;

    assert(id[0]);
    view_lock(v);
    run = listed(v, id);
    assert(run);
    run->mailbox = mailbox;
    view_unlock(v);
}

void view_publish_run(struct view *v, const char *id, struct event_log *events)
{
    struct view_run *run;

    assert(id[0]);
    view_lock(v);
    run = listed(v, id);
    assert(run);
    run->events = events;
    view_unlock(v);
}

void view_keep_run(struct view *v, const char *id, const json_t *config,
                   const json_t *result)
{
    struct view_run *run;

    assert(id[0]);
    view_lock(v);
    run = listed(v, id);
    assert(run);
    run->config = config;
    run->result = result;
    view_changed(v);
    view_unlock(v);
}

/* ---- runs that rest ------------------------------------------------------ */

static void sleep_again(struct view_run *run)
{
    whole_free(run->whole);
    run->whole = NULL;
    run->history = run->own;
    run->config = run->result = NULL;
}

void view_rest_run(struct view *v, const char *id, bool rests)
{
    struct view_run *run = listed(v, id);

    assert(run);
    sleep_again(run);
    run->rests = rests;
    run->sleeps += rests;
    view_changed(v);
}

/* What was read longest ago goes where too many are whole. */
static void make_room(struct view *v)
{
    struct view_run *oldest = NULL;
    size_t awake = 0;

    for (size_t i = 0; i < v->runs; i++) {
        struct view_run *run = &v->run[i];

        awake += run->whole != NULL;
        if (run->whole && (!oldest || run->used < oldest->used))
            oldest = run;
    }
    if (awake < VIEW_AWAKE_MAX)
        return;
    sleep_again(oldest);
    oldest->sleeps++;
}

/* Whether run @id is to be read; it is marked as used. */
static bool sleeps(struct view *v, const char *id, uint64_t *mark)
{
    struct view_run *run;
    bool sleeps;

    view_lock(v);
    run = listed(v, id);
    sleeps = run && run->rests && !run->whole;
    if (run) {
        run->used = ++v->wakes;
        *mark = run->sleeps;
    }
    view_unlock(v);
    return sleeps;
}

bool view_run_sleeps(struct view *v, const char *id)
{
    const struct view_run *run;
    bool sleeps;

    assert(id);
    view_lock(v);
    run = listed(v, id);
    sleeps = run && run->rests && !run->whole && v->options.fetch;
    view_unlock(v);
    return sleeps;
}

bool view_slept_since(struct view *v, const char *id, uint64_t mark)
{
    const struct view_run *run;
    bool slept;

    assert(id);
    view_lock(v);
    run = listed(v, id);
    slept = run && run->sleeps != mark;
    view_unlock(v);
    return slept;
}

enum err view_wake_run(struct view *v, const char *id, uint64_t *mark,
                       struct fault *f)
{
    struct view_whole *whole;
    struct view_run *run;
    enum err err;

    assert(id && mark);
    *mark = 0;
    if (!sleeps(v, id, mark) || !v->options.fetch)
        return ERR_OK;
    whole = mem_calloc(1, sizeof(*whole));
    if (!whole)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    err = v->options.fetch(v->options.fetch_ctx, id, whole, f);
    if (err) {
        mem_free(whole);
        return err;
    }
    view_lock(v);
    run = listed(v, id);
    if (run && run->rests && !run->whole) {
        make_room(v);
        run->whole = whole;
        run->history = &whole->history;
        run->config = whole->config;
        run->result = whole->result;
        whole = NULL;
        view_changed(v); /* answers of before are not given again */
    }
    if (run)
        *mark = run->sleeps;
    view_unlock(v);
    whole_free(whole); /* it goes on, or is gone */
    return ERR_OK;
}

void view_set_job(struct view *v, const char *id, const struct view_job *job)
{
    struct view_run *run;

    assert(job);
    view_lock(v);
    run = listed(v, id);
    assert(run);
    run->job = *job;
    view_changed(v);
    view_unlock(v);
}

void view_set_notes(struct view *v, const char *id, json_t *notes)
{
    struct view_run *run;

    assert(id[0]);
    view_lock(v);
    run = listed(v, id);
    assert(run);
    json_decref(run->notes);
    run->notes = notes;
    view_changed(v);
    view_unlock(v);
}

void view_lock(struct view *v)
{
    pthread_mutex_lock(&v->lock);
    v->locked = true;
}

void view_unlock(struct view *v)
{
    assert(v->locked);
    v->locked = false;
    pthread_mutex_unlock(&v->lock);
}

void view_changed(struct view *v)
{
    atomic_fetch_add(&v->version, 1);
}

uint64_t view_version(const struct view *v)
{
    return atomic_load(&v->version);
}

void view_set_ready(struct view *v, const char *why_not)
{
    atomic_store(&v->not_ready, why_not);
    view_changed(v);
}

const char *view_not_ready(const struct view *v)
{
    return atomic_load(&v->not_ready);
}

void view_set_filling(struct view *v, bool filling)
{
    atomic_store(&v->filling, filling);
    view_changed(v);
}

bool view_is_filling(const struct view *v)
{
    return atomic_load(&v->filling);
}

const struct view_run *view_run_at(const struct view *v, size_t index)
{
    assert(v->locked);
    return index < v->runs ? &v->run[index] : NULL;
}

const struct view_run *view_run_find(const struct view *v, const char *id)
{
    assert(id);
    return listed((struct view *)v, id);
}
