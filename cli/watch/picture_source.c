#include "cli/watch/picture_source.h"

#include "base/json/json.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { TARGET_MAX = RUN_ID_MAX + 128 };

static const struct {
    const char *rest; /* of the target, after the run's id */
    const char *list; /* the member that is meant; NULL: the whole */
} kinds[DOCS_COUNT] = {
    [DOCS_RUN] = {"", NULL},
    [DOCS_SEARCHES] = {"/searches?order=desc&page_size=1", "searches"},
    [DOCS_TRIALS] = {"/trials?order=desc&page_size=100", "trials"},
    [DOCS_SCHEDULE] = {"/schedule?order=desc&page_size=1", "schedule"},
    [DOCS_DECISIONS] = {"/decisions?order=desc&page_size=50", "decisions"},
    [DOCS_NODES] = {"/nodes", "nodes"},
    [DOCS_CURVE] = {"/curve?spans=", NULL},
};

static void target_of(const struct picture_source *d, int kind,
                      char out[TARGET_MAX])
{
    char spans[16] = "";

    if (kind == DOCS_CURVE)
        snprintf(spans, sizeof(spans), "%d", d->spans);
    snprintf(out, TARGET_MAX, "/api/v1/runs/%s%s%s", d->id, kinds[kind].rest,
             spans);
}

static void give_up(struct picture_source *d)
{
    if (d->open)
        client_close(&d->exchange);
    d->open = d->busy = false;
    for (int i = 0; i < DOCS_COUNT; i++) {
        json_decref(d->fresh[i]);
        d->fresh[i] = NULL;
    }
}

void picture_source_deinit(struct picture_source *d)
{
    give_up(d);
    for (int i = 0; i < DOCS_COUNT; i++)
        json_decref(d->shown[i]);
    memset(d->shown, 0, sizeof(d->shown));
}

void picture_source_ask(struct picture_source *d, bool run_only, int spans)
{
    assert(d->source && (run_only || spans > 0));
    give_up(d);
    d->busy = true;
    d->next = DOCS_RUN;
    d->last = run_only ? DOCS_RUN : DOCS_COUNT - 1;
    d->spans = spans;
}

nfds_t picture_source_poll(const struct picture_source *d, struct pollfd *out)
{
    assert(out);
    if (!d->open)
        return 0;
    *out = (struct pollfd){.fd = d->exchange.fd,
                           .events = client_events(&d->exchange)};
    return 1;
}

/* ---- one ----------------------------------------------------------------- */

static enum err ask_there(struct picture_source *d, struct fault *f)
{
    char target[TARGET_MAX];
    struct client_request q;
    enum err err;

    target_of(d, d->next, target);
    err = source_request(d->source, target, &q, f);
    if (!err)
        err = client_open(&q, &d->exchange, f);
    d->open = !err;
    return err;
}

static enum err step_there(struct picture_source *d, json_t **out,
                           struct fault *f)
{
    const char *body = NULL;
    size_t len = 0;
    int status = 0;
    enum err err = d->open ? ERR_OK : ask_there(d, f);

    if (!err)
        err = client_step(&d->exchange, &status, &body, &len, f);
    if (err == ERR_AGAIN)
        return err;
    if (!err)
        err = source_answer(d->source, status, body, len, out, f);
    if (d->open)
        client_close(&d->exchange);
    d->open = false;
    return err;
}

static enum err step_here(struct picture_source *d, json_t **out,
                          struct fault *f)
{
    char target[TARGET_MAX];

    target_of(d, d->next, target);
    return source_get(d->source, target, out, f);
}

/* ---- all ----------------------------------------------------------------- */

/* A list's items are kept; the rest of its answer is of no use here. */
static void keep(struct picture_source *d, json_t *answer)
{
    const char *list = kinds[d->next].list;

    d->fresh[d->next++] =
        list ? json_incref(json_object_get(answer, list)) : answer;
    if (list)
        json_decref(answer);
}

static void show(struct picture_source *d)
{
    for (int i = 0; i <= d->last; i++) {
        json_decref(d->shown[i]);
        d->shown[i] = d->fresh[i];
        d->fresh[i] = NULL;
    }
    d->busy = false;
}

enum err picture_source_step(struct picture_source *d, struct fault *f)
{
    enum err err = ERR_OK;

    assert(d->busy);
    while (!err && d->next <= d->last) {
        json_t *answer = NULL;

        err = d->source->url[0] ? step_there(d, &answer, f)
                                : step_here(d, &answer, f);
        if (!err)
            keep(d, answer);
    }
    if (!err)
        show(d);
    else if (err != ERR_AGAIN)
        give_up(d);
    return err;
}

void picture_source_picture(const struct picture_source *d, struct picture *p)
{
    assert(p);
    p->run = d->shown[DOCS_RUN];
    p->searches = d->shown[DOCS_SEARCHES];
    p->trials = d->shown[DOCS_TRIALS];
    p->schedule = d->shown[DOCS_SCHEDULE];
    p->curve = d->shown[DOCS_CURVE];
    p->decisions = d->shown[DOCS_DECISIONS];
    p->nodes = d->shown[DOCS_NODES];
}
