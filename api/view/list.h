/* Lists of a run's history: one kind of item each, page by page. */
#ifndef API_LIST_H
#define API_LIST_H

#include "api/http/page.h"
#include "tuner/history/history.h"

/* The facts that an item's JSON depends on beside the item. */
struct list_scope {
    double started_unix_s; /* NAN before the run has started */
    struct history_era era[HISTORY_ERAS_MAX];
    size_t eras;
    bool has_metric;
    struct extras extras; /* names of further metrics */
};

struct list_kind {
    const char *name; /* as in the answer: "trials" */
    size_t item_size;
    /* Numbers in the list: *low .. *low + *len - 1. */
    void (*range)(const struct history *h, uint64_t *low, uint64_t *len);
    /* Copies item @index (from 0) to @item, JSON members with a reference of
     * their own; false where @call filters it out. Under the view's lock. */
    bool (*copy)(const struct history *h, const struct route_call *call,
                 size_t index, void *item);
    /* New JSON of a copy; NULL when out of memory. */
    json_t *(*to_json)(const struct list_scope *scope, const void *item);
    /* Gives up the copy's references; NULL: it has none. */
    void (*release)(void *item);
};

/* Answers with the page that @call (parameters `run` and PAGE_PARAMS) asks for.
 */
void list_respond(const struct route_call *call, const struct list_kind *kind,
                  struct response *out);

/* Answers with the one item at @index(h, call), a function that returns -1
 * where there is none; then 404 with @code. @what names it: "trial". */
void list_respond_one(const struct route_call *call,
                      const struct list_kind *kind,
                      int64_t (*index)(const struct history *h,
                                       const struct route_call *call),
                      const char *what, struct response *out);

/* The run that @call names, or NULL: @out answers 404. A run that is named by a
 * parameter of the query may be left out where there is only one: else 400.
 * Under the view's lock. */
const struct view_run *list_view_run(const struct route_call *call,
                                     struct response *out);

/* Its history. */
const struct history *list_run(const struct route_call *call,
                               struct response *out);

/* The scope of @h. */
struct list_scope list_scope(const struct history *h);

/* RFC 3339 time of @at_s of a run, null for NAN. */
json_t *list_time(const struct list_scope *scope, double at_s);

#endif
