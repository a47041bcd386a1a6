#include "api/view/list.h"

#include "api/http/value.h"
#include "api/view/view.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct view_run *only_run(const struct route_call *call,
                                       struct response *out)
{
    const struct view_run *run = view_run_at(call->view, 0);
    struct response_faults faults = {0};

    if (run && !view_run_at(call->view, 1))
        return run;
    response_fault_add(&faults, "/query/run",
                       run ? "there are several runs: expected the id of one"
                           : "there is no run");
    response_problem(out, run ? 400 : 404,
                     run ? "invalid_parameter" : "run_not_found", &faults,
                     "which run is not said; /api/v1/runs lists all");
    return NULL;
}

const struct view_run *list_view_run(const struct route_call *call,
                                     struct response *out)
{
    const char *id = route_arg(call, "run")->text;
    const struct view_run *run = id ? view_run_find(call->view, id) : NULL;
    struct response_faults faults = {0};

    assert(out->status == 0);
    if (!id)
        return only_run(call, out);
    if (run)
        return run;
    response_fault_add(&faults,
                       strstr(call->route->path, "{run}") ? "/path/run"
                                                          : "/query/run",
                       "no such run");
    response_problem(out, 404, "run_not_found", &faults,
                     "there is no run \"%s\"; /api/v1/runs lists all", id);
    return NULL;
}

const struct history *list_run(const struct route_call *call,
                               struct response *out)
{
    const struct view_run *run = list_view_run(call, out);

    return run ? run->history : NULL;
}

struct list_scope list_scope(const struct history *h)
{
    struct list_scope scope = {
        .started_unix_s = h->started ? h->run.started_unix_s : NAN,
        .has_metric = h->started && h->run.metric[0],
        .eras = h->eras,
        .extras = h->extras,
    };

    assert(h->eras <= sizeof(h->era) / sizeof(h->era[0]));
    memcpy(scope.era, h->era, sizeof(scope.era));
    return scope;
}

json_t *list_time(const struct list_scope *scope, double at_s)
{
    return value_time(
        history_wall(scope->era, scope->eras, scope->started_unix_s, at_s));
}

/* A page of copies. */
struct copies {
    unsigned char *item; /* owned */
    size_t len;
    uint64_t total;
    bool more;
    uint64_t next;
    struct list_scope scope;
};

static void copy_page(const struct history *h, const struct route_call *call,
                      const struct list_kind *kind, const struct page *page,
                      struct copies *c)
{
    struct page_span span;
    uint64_t low, i;

    assert(page->size >= 1);
    assert(kind->item_size > 0);
    kind->range(h, &low, &c->total);
    span = page_span(page, low, c->total);
    for (i = 0; i < span.count && c->len < page->size; i++) {
        size_t index = (size_t)(span.first - low);

        c->len += kind->copy(h, call, span.step > 0 ? index + i : index - i,
                             c->item + c->len * kind->item_size);
    }
    c->more = i < span.count;
    c->next = span.step > 0 ? span.first + i : span.first - i;
    c->scope = list_scope(h);
}

/* New JSON of the copies, which are released. */
static json_t *copies_to_json(const struct list_kind *kind, struct copies *c)
{
    json_t *items = json_array();

    for (size_t i = 0; i < c->len; i++) {
        void *item = c->item + i * kind->item_size;

        if (items &&
            json_array_append_new(items, kind->to_json(&c->scope, item)) < 0) {
            json_decref(items);
            items = NULL;
        }
        if (kind->release)
            kind->release(item);
    }
    return items;
}

void list_respond(const struct route_call *call, const struct list_kind *kind,
                  struct response *out)
{
    struct copies c = {0};
    const struct history *h;
    struct page page;

    assert(kind->item_size > 0);
    assert(kind->name && kind->range && kind->copy && kind->to_json);
    if (!page_parse(call, kind->name, &page, out))
        return;
    c.item = mem_alloc(page.size * kind->item_size);
    if (!c.item) {
        response_json(out, 200, NULL);
        return;
    }
    view_lock(call->view);
    h = list_run(call, out);
    if (h)
        copy_page(h, call, kind, &page, &c);
    view_unlock(call->view);
    if (h)
        page_respond(&page, copies_to_json(kind, &c), c.total, c.more, c.next,
                     out);
    mem_free(c.item);
}

static void not_found(const char *what, struct response *out)
{
    struct response_faults faults = {0};
    char pointer[64], code[64];

    snprintf(pointer, sizeof(pointer), "/path/%s", what);
    snprintf(code, sizeof(code), "%s_not_found", what);
    response_fault_add(&faults, pointer, "no such %s", what);
    response_problem(out, 404, code, &faults, "the run has no such %s", what);
}

void list_respond_one(const struct route_call *call,
                      const struct list_kind *kind,
                      int64_t (*index)(const struct history *h,
                                       const struct route_call *call),
                      const char *what, struct response *out)
{
    void *item = mem_alloc(kind->item_size);
    const struct history *h;
    struct list_scope scope;
    int64_t i = -1;

    assert(what[0]);
    assert(kind->copy && kind->to_json && index);
    if (!item) {
        response_json(out, 200, NULL);
        return;
    }
    view_lock(call->view);
    h = list_run(call, out);
    if (h) {
        i = index(h, call);
        scope = list_scope(h);
    }
    if (i >= 0)
        kind->copy(h, NULL, (size_t)i, item);
    view_unlock(call->view);
    if (i >= 0) {
        response_json(out, 200, kind->to_json(&scope, item));
        if (kind->release)
            kind->release(item);
    } else if (h) {
        not_found(what, out);
    }
    mem_free(item);
}
