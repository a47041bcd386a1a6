#include "tuner/history/history_pack.h"

#include "base/json/fields_pack.h"
#include "base/mem.h"
#include "tuner/history/history_cold.h"
#include "tuner/history/history_epochs.h"
#include "tuner/history/history_extras.h"
#include "tuner/history/history_fold.h"
#include "tuner/history/history_store.h"
#include "tuner/history/record_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { PACK_VERSION = 1, PACK_END = 0x4d4c, PARTS_MAX = 3 };

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "sizes are written as such");

/* ---- members ------------------------------------------------------------- */

static const struct json_field head[] = {
    {FIELD_OF(history, BOOL, started)},
    {FIELD_WITHIN(history, U32, status, 0, RUN_STATUS_COUNT - 1)},
    {FIELD_OF(history, TEXT, status_reason)},
    {FIELD_OF(history, BOOL, finished)},
    {FIELD_OF(history, REAL, at_s)},
    {FIELD_OF(history, U64, clock)},
    {FIELD_OF(history, U64, clocks)},
    {FIELD_OF(history, REAL, first_clock_at_s)},
    {FIELD_OF(history, REAL, paused_s)},
    {FIELD_OF(history, REAL, paused_at_s)},
    {FIELD_OF(history, REAL, first_paused_s)},
    {FIELD_OF(history, REAL, waited_s)},
    {FIELD_OF(history, U64, records)},
    {FIELD_WITHIN(history, U32, asking, 0, ASKING_COUNT - 1)},
    {FIELD_OF(history, TEXT, asking_reason)},
    {FIELD_OF(history, U64, slices_dropped)},
    {FIELD_OF(history, U64, decisions_dropped)},
    {FIELD_OF(history, U32, searches_dropped)},
    {FIELD_OF(history, U32, trials_dropped)},
    {FIELD_OF(history, U64, epochs_dropped)},
    {FIELD_OF(history, U64, choices_dropped)},
    {FIELD_OF(history, U64, branches_dropped)},
    /* Of how many of the first in each list little is kept; 0 in older ones. */
    {FIELD_OF(history, U64, cold_search.rows)},
    {FIELD_OF(history, U64, cold_trial.rows)},
    {FIELD_OF(history, U64, cold_choice.rows)},
    {FIELD_OF(history, REAL, dropped_s)},
    {FIELD_OF(history, U64, dropped_clocks)},
    {FIELD_OF(history, U64, dropped_stopped)},
    {FIELD_OF(history, U64, freed_points_each)},
    {FIELD_OF(history, TEXT, fallback)},
    {FIELD_OF(history, U64, failed)},
    {FIELD_OF(history, TEXT, failed_reason)},
    {FIELD_OF(history, TEXT, warm_start)},
    {FIELD_OF(history, TEXT, searcher_failed)},
    {FIELD_OF(history, U64, last_epoch)},
    {FIELD_OF(history, U64, best_epoch)},
    {FIELD_OF(history, U32, snapshot_number)},
    {FIELD_OF(history, U32, snapshot_back)},
    {FIELD_OF(history, U32, resumes)},
    {FIELD_OF(history, U64, increments)},
    {.name = NULL},
};

static const struct json_field search_members[] = {
    {FIELD_OF(history_search, BOOL, ended)},
    {FIELD_OF(history_search, BOOL, closed)},
    {FIELD_OF(history_search, REAL, started_at_s)},
    {FIELD_OF(history_search, REAL, ended_at_s)},
    {FIELD_OF(history_search, REAL, paused_before_s)},
    {FIELD_OF(history_search, BOOL, decided)},
    {FIELD_OF(history_search, REAL, trial_s)},
    {FIELD_OF(history_search, REAL, judged_s)},
    {.name = NULL},
};

static const struct json_field trial_members[] = {
    {FIELD_OF(history_trial, BOOL, ended)},
    {FIELD_OF(history_trial, BOOL, outlived)},
    {FIELD_OF(history_trial, REAL, started_at_s)},
    {FIELD_OF(history_trial, REAL, ended_at_s)},
    {.name = NULL},
};

static const struct json_field suggestion_members[] = {
    {FIELD_OF(history_suggestion, REAL, at_s)},
    {FIELD_OF(history_suggestion, REAL, settled_at_s)},
    {FIELD_OF(history_suggestion, BOOL, by_end)},
    {.name = NULL},
};

static const struct json_field branch_members[] = {
    {FIELD_OF(history_branch, ID_OR_NULL, branch)},
    {FIELD_OF(history_branch, ID_OR_NULL, parent)},
    {FIELD_WITHIN(history_branch, U32, type, 0, BRANCH_TYPE_COUNT - 1)},
    {FIELD_OF(history_branch, TEXT, role)},
    {FIELD_OF(history_branch, OBJECT, setting)},
    {FIELD_OF(history_branch, REAL, created_at_s)},
    {FIELD_OF(history_branch, REAL, freed_at_s)},
    {FIELD_OF(history_branch, TEXT, freed_reason)},
    {FIELD_OF(history_branch, U64, created_clock)},
    {FIELD_WITHIN(history_branch, U32, wish, 0, WISH_PROMOTE)},
    {FIELD_OF(history_branch, U32, kept_in)},
    {FIELD_OF(history_branch, U32, wish_epochs)},
    {FIELD_OF(history_branch, U64, wish_clocks)},
    {FIELD_OF(history_branch, U64, clocks)},
    {FIELD_OF(history_branch, U64, samples)},
    {FIELD_OF(history_branch, REAL, seconds)},
    {FIELD_OF(history_branch, U64, data_bytes)},
    {FIELD_OF(history_branch, U64, reads)},
    {FIELD_OF(history_branch, REAL, staleness)},
    {FIELD_OF(history_branch, U64, merge)},
    {FIELD_OF(history_branch, U64, last_merged)},
    {.name = NULL},
};

static const struct json_field slice_members[] = {
    {FIELD_OF(history_slice, BOOL, ended)},
    {FIELD_OF(history_slice, U64, clocks)},
    {FIELD_OF(history_slice, REAL, scheduled_at_s)},
    {FIELD_OF(history_slice, REAL, ended_at_s)},
    {.name = NULL},
};

static const struct json_field epoch_members[] = {
    {FIELD_OF(history_epoch, REAL, at_s)},
    {.name = NULL},
};

static const struct json_field choice_members[] = {
    {FIELD_OF(history_choice, REAL, at_s)},
    {.name = NULL},
};

static const struct json_field decision_members[] = {
    {FIELD_OF(history_decision, REAL, at_s)},
    {FIELD_OF(history_decision, U64, clock)},
    {.name = NULL},
};

static const struct json_field snapshot_members[] = {
    {FIELD_OF(history_snapshot, REAL, at_s)},
    {.name = NULL},
};

static const struct json_field node_members[] = {
    {FIELD_OF(node_past, BOOL, alive)},
    {FIELD_OF(node_past, REAL, at_s)},
    {FIELD_OF(node_past, REAL, spacing_s)},
    {FIELD_OF(node_past, PART, now), .part = msg_beat_fields},
    {FIELD_OF(node_past, PART, before), .part = msg_beat_fields},
    {.name = NULL},
};

/* ---- lists --------------------------------------------------------------- */

/* An item's members: those of records in it, and its own. */
struct pack_part {
    const struct json_field *fields;
    size_t offset;
};

enum {
    LIST_SEARCHES,
    LIST_TRIALS,
    LIST_SUGGESTIONS,
    LIST_BRANCHES,
    LIST_SLICES,
    LIST_EPOCHS,
    LIST_CHOICES,
    LIST_DECISIONS,
    LIST_SNAPSHOTS,
    LISTS
};

struct pack_list {
    size_t item;                          /* bytes */
    size_t items_at, len_at, capacity_at; /* in struct history */
    size_t max;                           /* 0: none */
    struct { /* a record: a kind of it, and where it is; no kind: own */
        enum record_kind kind;
        size_t offset;
    } record[PARTS_MAX - 1];
    unsigned records;
    const struct json_field *own;
};

#define LIST(what, items, most, members)                                       \
    .item = sizeof(struct history_##what),                                     \
    .items_at = offsetof(struct history, what),                                \
    .len_at = offsetof(struct history, items),                                 \
    .capacity_at = offsetof(struct history, items##_cap), .max = (most),       \
    .own = (members)
#define IN(what, member) offsetof(struct history_##what, member)

static const struct pack_list lists[LISTS] = {
    [LIST_SEARCHES] = {LIST(search, searches, 0, search_members),
                       .record = {{RECORD_SEARCH_STARTED, IN(search, started)},
                                  {RECORD_SEARCH_ENDED, IN(search, end)}},
                       .records = 2},
    [LIST_TRIALS] = {LIST(trial, trials, 0, trial_members),
                     .record = {{RECORD_TRIAL_ENDED, IN(trial, t)}},
                     .records = 1},
    [LIST_SUGGESTIONS] = {LIST(suggestion, suggestions, HISTORY_SUGGESTIONS_MAX,
                               suggestion_members),
                          .record = {{RECORD_SUGGESTION, IN(suggestion, s)}},
                          .records = 1},
    [LIST_BRANCHES] = {LIST(branch, branches, 0, branch_members)},
    [LIST_SLICES] = {LIST(slice, slices, HISTORY_SLICES_MAX, slice_members),
                     .record = {{RECORD_SLICE_SCHEDULED, IN(slice, s)}},
                     .records = 1},
    [LIST_EPOCHS] = {LIST(epoch, epochs, HISTORY_EPOCHS_MAX, epoch_members),
                     .record = {{RECORD_EPOCH_ENDED, IN(epoch, e)}},
                     .records = 1},
    [LIST_CHOICES] = {LIST(choice, choices, HISTORY_CHOICES_MAX,
                           choice_members),
                      .record = {{RECORD_SETTING_CHOSEN, IN(choice, c)}},
                      .records = 1},
    [LIST_DECISIONS] = {LIST(decision, decisions, HISTORY_DECISIONS_MAX,
                             decision_members),
                        .record = {{RECORD_DECISION, IN(decision, d)}},
                        .records = 1},
    [LIST_SNAPSHOTS] = {LIST(snapshot, snapshots, HISTORY_SNAPSHOTS_MAX,
                             snapshot_members),
                        .record = {{RECORD_SNAPSHOT_WRITTEN, IN(snapshot, s)}},
                        .records = 1},
};

static unsigned parts_of(const struct pack_list *l,
                         struct pack_part out[PARTS_MAX])
{
    unsigned n = 0;

    for (; n < l->records; n++)
        out[n] = (struct pack_part){record_kinds[l->record[n].kind].fields,
                                    l->record[n].offset};
    out[n++] = (struct pack_part){l->own, 0};
    return n;
}

/* ---- points -------------------------------------------------------------- */

static void pack_points(struct text *out, const struct history *h,
                        const struct history_branch *b,
                        enum history_pack_how how)
{
    size_t n = how == HISTORY_PACK_FEW && !isnan(b->freed_at_s) ? 0 : b->points;
    unsigned metrics = n ? h->extras.len : 0;

    pack_number(out, n);
    pack_number(out, b->extras ? metrics : 0);
    for (size_t i = 0; i < n; i++) {
        const struct history_point *p = &b->point[i];

        pack_number(out, p->branch_clock);
        pack_number(out, p->clock);
        pack_real(out, p->at_s);
        pack_real(out, p->w.sum);
        pack_number(out, p->w.samples);
        pack_number(out, p->w.clocks);
        pack_real(out, p->w.seconds);
        pack_real(out, p->w.copy_s);
        pack_real(out, p->w.stalled_s);
        for (unsigned k = 0; b->extras && k < metrics; k++)
            pack_real(out, history_extra(b, k, i));
    }
}

static bool unpack_point(struct packed_bytes *in, struct history_point *p)
{
    return unpack_number(in, &p->branch_clock) &&
           unpack_number(in, &p->clock) && unpack_real(in, &p->at_s) &&
           unpack_real(in, &p->w.sum) && unpack_number(in, &p->w.samples) &&
           unpack_number(in, &p->w.clocks) && unpack_real(in, &p->w.seconds) &&
           unpack_real(in, &p->w.copy_s) && unpack_real(in, &p->w.stalled_s);
}

static enum err unpack_points(struct packed_bytes *in, const struct history *h,
                              struct history_branch *b)
{
    uint64_t n, metrics;

    if (!unpack_number(in, &n) || !unpack_number(in, &metrics) ||
        n > HISTORY_POINTS_MAX || n > in->left || metrics > h->extras.len)
        return ERR_FORMAT;
    if (n == 0)
        return ERR_OK;
    b->point = mem_calloc(n, sizeof(*b->point));
    if (!b->point)
        return ERR_NOMEM;
    b->capacity = n;
    for (; b->points < n; b->points++) {
        double x[EXTRAS_MAX];

        if (!unpack_point(in, &b->point[b->points]))
            return ERR_FORMAT;
        for (unsigned k = 0; k < metrics; k++)
            if (!unpack_real(in, &x[k]))
                return ERR_FORMAT;
        if (metrics > 0 &&
            history_extras_put(b, b->points, x, (uint32_t)metrics, n))
            return ERR_NOMEM;
    }
    return ERR_OK;
}

/* ---- what stands once ---------------------------------------------------- */

static json_t *tables_of(const struct history *h)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < h->tables; i++)
        if (json_array_append_new(list, table_info_to_json(&h->table[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static enum err pack_record(struct text *out, enum record_kind kind,
                            const void *base)
{
    pack_plan(out, record_kinds[kind].fields);
    return pack_fields(out, record_kinds[kind].fields, base, NULL);
}

static enum err pack_once(struct text *out, const struct history *h)
{
    const struct record_command command = {.paused = h->pause_wanted,
                                           .retune = h->retune_wanted,
                                           .limits = h->limits};
    struct record_tables tables = {tables_of(h), h->data};
    enum err err = tables.tables ? ERR_OK : ERR_NOMEM;

    pack_plan(out, head);
    if (!err)
        err = pack_fields(out, head, h, NULL);
    if (!err)
        err = pack_record(out, RECORD_RUN_STARTED, &h->run);
    if (!err)
        err = pack_record(out, RECORD_RUN_FINISHED, &h->end);
    if (!err)
        err = pack_record(out, RECORD_COMMAND, &command);
    if (!err)
        err = pack_record(out, RECORD_MODEL_SAVED, &h->model);
    if (!err)
        err = pack_record(out, RECORD_TABLES, &tables);
    json_decref(tables.tables);
    return err;
}

static void pack_small(struct text *out, const struct history *h)
{
    pack_number(out, h->eras);
    for (size_t i = 0; i < h->eras; i++) {
        pack_real(out, h->era[i].at_s);
        pack_real(out, h->era[i].zero_unix_s);
    }
    pack_number(out, h->extras.len);
    for (uint32_t i = 0; i < h->extras.len; i++) {
        pack_number(out, strlen(h->extras.name[i]));
        pack_bytes(out, h->extras.name[i], strlen(h->extras.name[i]));
    }
}

static enum err pack_nodes(struct text *out, const struct nodes *nodes)
{
    enum err err = ERR_OK;

    pack_plan(out, node_members);
    pack_number(out, nodes->count);
    for (size_t i = 0; !err && i < nodes->count; i++) {
        const struct node_past *n = &nodes->node[i];

        err = pack_fields(out, node_members, n, NULL);
        pack_number(out, n->points);
        for (size_t k = 0; k < n->points; k++) {
            pack_real(out, n->point[k].at_s);
            pack_number(out, n->point[k].sent);
            pack_number(out, n->point[k].received);
            pack_number(out, n->point[k].memory);
        }
    }
    return err;
}

/* ---- writing ------------------------------------------------------------- */

/* An item that is cold, read for writing. */
union thawed {
    struct history_search search;
    struct history_trial trial;
    struct history_choice choice;
};

/* How many items of list @which are cold. */
static size_t cold_of(const struct history *h, unsigned which)
{
    switch (which) {
    case LIST_SEARCHES:
        return h->cold_search.rows;
    case LIST_TRIALS:
        return h->cold_trial.rows;
    case LIST_CHOICES:
        return h->cold_choice.rows;
    default:
        return 0;
    }
}

/* Its JSON, which the caller owns, too; NULL: out of memory. */
static json_t *thaw(const struct history *h, unsigned which, size_t i,
                    union thawed *out)
{
    json_t *json, **in;

    if (which == LIST_SEARCHES) {
        out->search = cold_search(h, i);
        json = cold_search_tunables(h, i);
        in = &out->search.started.tunables;
    } else if (which == LIST_TRIALS) {
        out->trial = cold_trial(h, i);
        json = cold_trial_setting(h, i);
        in = &out->trial.t.setting;
    } else {
        assert(which == LIST_CHOICES);
        out->choice = cold_choice(h, i);
        json = cold_choice_setting(h, i);
        in = &out->choice.c.setting;
    }
    *in = json_is_null(json) ? NULL : json;
    return json;
}

/* What is written of one item; @before: the one before it, or NULL. */
static enum err pack_item(struct text *out, const struct pack_list *l,
                          const char *item, const char *before)
{
    struct pack_part part[PARTS_MAX];
    unsigned parts = parts_of(l, part);
    enum err err = ERR_OK;

    for (unsigned k = 0; !err && k < parts; k++)
        err = pack_fields(out, part[k].fields, item + part[k].offset,
                          before ? before + part[k].offset : NULL);
    return err;
}

/* @last[0] and @json[0] become those of the last one. */
static enum err pack_cold(struct text *out, const struct history *h,
                          unsigned which, union thawed last[2], json_t *json[2])
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < cold_of(h, which); i++) {
        last[1] = last[0];
        json_decref(json[1]);
        json[1] = json[0];
        json[0] = thaw(h, which, i, &last[0]);
        err = json[0] ? pack_item(out, &lists[which], (const char *)&last[0],
                                  i > 0 ? (const char *)&last[1] : NULL)
                      : ERR_NOMEM;
    }
    return err;
}

/* The settings of this branch and the one before it, which are owned, are
 * @json[0] and @json[1] after. */
static enum err pack_branch(struct text *out, const struct history *h, size_t i,
                            json_t *json[2])
{
    struct history_branch b = h->branch[i], before;

    json_decref(json[1]);
    json[1] = json[0];
    json[0] = history_branch_setting(h, &h->branch[i]);
    if (!json[0])
        return ERR_NOMEM;
    b.setting = json_is_null(json[0]) ? NULL : json[0];
    if (i == 0)
        return pack_item(out, &lists[LIST_BRANCHES], (const char *)&b, NULL);
    before = h->branch[i - 1];
    before.setting = json_is_null(json[1]) ? NULL : json[1];
    return pack_item(out, &lists[LIST_BRANCHES], (const char *)&b,
                     (const char *)&before);
}

/* As pack_branch. A setting is read where it is not that of the one before. */
static enum err pack_epoch(struct text *out, const struct history *h, size_t i,
                           json_t *json[2])
{
    struct history_epoch e = h->epoch[i], before;

    json_decref(json[1]);
    json[1] = json[0];
    json[0] = epoch_setting_is_as_before(h, i)
                  ? json_incref(json[1])
                  : history_epoch_setting(h, &h->epoch[i]);
    if (!json[0])
        return ERR_NOMEM;
    e.e.setting = json_is_null(json[0]) ? NULL : json[0];
    if (i > 0) {
        before = h->epoch[i - 1];
        before.e.setting = json_is_null(json[1]) ? NULL : json[1];
    }
    return pack_item(out, &lists[LIST_EPOCHS], (const char *)&e,
                     i > 0 ? (const char *)&before : NULL);
}

static enum err pack_items(struct text *out, const struct history *h,
                           unsigned which, enum history_pack_how how)
{
    const struct pack_list *l = &lists[which];
    const char *items =
        *(char *const *)(const void *)((const char *)h + l->items_at);
    size_t len = *(const size_t *)(const void *)((const char *)h + l->len_at);
    struct pack_part part[PARTS_MAX];
    unsigned parts = parts_of(l, part);
    size_t cold = cold_of(h, which);
    json_t *json[2] = {NULL, NULL};
    union thawed last[2];
    enum err err;

    for (unsigned k = 0; k < parts; k++)
        pack_plan(out, part[k].fields);
    pack_number(out, cold + len);
    err = pack_cold(out, h, which, last, json);
    for (size_t i = 0; !err && i < len; i++) {
        const char *item = items + i * l->item;

        if (which == LIST_BRANCHES) {
            err = pack_branch(out, h, i, json);
            if (!err)
                pack_points(out, h, &h->branch[i], how);
            continue;
        }
        err = which == LIST_EPOCHS
                  ? pack_epoch(out, h, i, json)
                  : pack_item(out, l, item,
                              i > 0      ? item - l->item
                              : cold > 0 ? (const char *)&last[0]
                                         : NULL);
        for (uint32_t k = 0; which == LIST_EPOCHS && k < h->extras.len; k++)
            pack_real(out, h->epoch[i].extra[k]);
    }
    json_decref(json[0]);
    json_decref(json[1]);
    return err;
}

enum err history_pack(const struct history *h, enum history_pack_how how,
                      struct text *out)
{
    enum err err;

    assert(h && out);
    pack_number(out, PACK_VERSION);
    err = pack_once(out, h);
    if (err)
        return err;
    pack_small(out, h);
    err = pack_nodes(out, &h->nodes);
    for (unsigned i = 0; !err && i < LISTS; i++)
        err = pack_items(out, h, i, how);
    pack_number(out, PACK_END);
    return !err && text_lost(out) ? ERR_NOMEM : err;
}

/* ---- reading ------------------------------------------------------------- */

/* One struct with a plan before it. */
static enum err unpack_one(struct packed_bytes *in,
                           const struct json_field fields[], void *base)
{
    struct packed_plan *plan = NULL;
    enum err err = unpack_plan(in, fields, &plan);

    if (!err)
        err = unpack_fields(in, plan, base, NULL);
    packed_plan_free(plan);
    return err;
}

static enum err unpack_record(struct packed_bytes *in, enum record_kind kind,
                              void *base)
{
    return unpack_one(in, record_kinds[kind].fields, base);
}

static enum err take_tables(struct history *h, const json_t *tables)
{
    if (json_array_size(tables) == 0)
        return ERR_OK;
    h->table = mem_calloc(TABLE_INFO_TABLES_MAX, sizeof(*h->table));
    if (!h->table)
        return ERR_NOMEM;
    return table_infos_from_json(tables, h->table, &h->tables) ? ERR_FORMAT
                                                               : ERR_OK;
}

static enum err unpack_once(struct packed_bytes *in, struct history *h)
{
    struct record_command command = {.limits = {.max_time_s = INFINITY}};
    struct record_tables tables = {NULL, NULL};
    enum err err = unpack_one(in, head, h);

    if (!err)
        err = unpack_record(in, RECORD_RUN_STARTED, &h->run);
    if (!err)
        err = unpack_record(in, RECORD_RUN_FINISHED, &h->end);
    if (!err)
        err = unpack_record(in, RECORD_COMMAND, &command);
    if (!err)
        err = unpack_record(in, RECORD_MODEL_SAVED, &h->model);
    if (!err)
        err = unpack_record(in, RECORD_TABLES, &tables);
    if (!err)
        err = take_tables(h, tables.tables);
    json_decref(tables.tables);
    h->data = tables.data;
    h->pause_wanted = command.paused;
    h->retune_wanted = command.retune;
    h->limits = command.limits;
    return err;
}

static enum err unpack_small(struct packed_bytes *in, struct history *h)
{
    uint64_t n;

    if (!unpack_number(in, &n) || n > HISTORY_ERAS_MAX)
        return ERR_FORMAT;
    for (; h->eras < n; h->eras++)
        if (!unpack_real(in, &h->era[h->eras].at_s) ||
            !unpack_real(in, &h->era[h->eras].zero_unix_s))
            return ERR_FORMAT;
    if (!unpack_number(in, &n) || n > EXTRAS_MAX)
        return ERR_FORMAT;
    for (; h->extras.len < n; h->extras.len++) {
        const unsigned char *name;
        uint64_t len;

        if (!unpack_number(in, &len) || len > EXTRAS_NAME_MAX ||
            !unpack_bytes(in, len, &name))
            return ERR_FORMAT;
        memcpy(h->extras.name[h->extras.len], name, len);
        if (!extras_name_fits(h->extras.name[h->extras.len]))
            return ERR_FORMAT;
    }
    return ERR_OK;
}

static enum err unpack_node(struct packed_bytes *in,
                            const struct packed_plan *plan, struct node_past *n)
{
    enum err err = unpack_fields(in, plan, n, NULL);
    uint64_t points;

    if (err)
        return err;
    if (!unpack_number(in, &points) || points > NODES_POINTS_MAX ||
        points > in->left)
        return ERR_FORMAT;
    n->point = points ? mem_calloc(points, sizeof(*n->point)) : NULL;
    if (points && !n->point)
        return ERR_NOMEM;
    n->capacity = points;
    for (; n->points < points; n->points++) {
        struct node_point *p = &n->point[n->points];

        if (!unpack_real(in, &p->at_s) || !unpack_number(in, &p->sent) ||
            !unpack_number(in, &p->received) || !unpack_number(in, &p->memory))
            return ERR_FORMAT;
    }
    return ERR_OK;
}

static enum err unpack_nodes(struct packed_bytes *in, struct nodes *nodes)
{
    struct packed_plan *plan = NULL;
    enum err err = unpack_plan(in, node_members, &plan);
    uint64_t n;

    if (!err && (!unpack_number(in, &n) || n > NODES_MAX))
        err = ERR_FORMAT;
    if (!err && n > 0) {
        nodes->node = mem_calloc(n, sizeof(*nodes->node));
        err = nodes->node ? ERR_OK : ERR_NOMEM;
        nodes->capacity = nodes->node ? n : 0;
    }
    while (!err && nodes->count < n)
        err = unpack_node(in, plan, &nodes->node[nodes->count++]);
    packed_plan_free(plan);
    return err;
}

static enum err unpack_item(struct packed_bytes *in, struct history *h,
                            unsigned which, struct packed_plan *const plan[],
                            const struct pack_part part[], unsigned parts,
                            size_t i)
{
    const struct pack_list *l = &lists[which];
    char *item = *(char **)(void *)((char *)h + l->items_at) + i * l->item;
    enum err err = ERR_OK;

    for (unsigned k = 0; !err && k < parts; k++)
        err = unpack_fields(in, plan[k], item + part[k].offset,
                            i > 0 ? item - l->item + part[k].offset : NULL);
    if (!err && which == LIST_BRANCHES)
        err = unpack_points(in, h, &h->branch[i]);
    for (size_t k = 0; which == LIST_EPOCHS && k < EXTRAS_MAX; k++) {
        h->epoch[i].extra[k] = NAN;
        if (!err && k < h->extras.len &&
            !unpack_real(in, &h->epoch[i].extra[k]))
            err = ERR_FORMAT;
    }
    return err;
}

static enum err unpack_items(struct packed_bytes *in, struct history *h,
                             unsigned which)
{
    const struct pack_list *l = &lists[which];
    size_t *len = (size_t *)(void *)((char *)h + l->len_at);
    struct packed_plan *plan[PARTS_MAX] = {NULL};
    struct pack_part part[PARTS_MAX];
    unsigned parts = parts_of(l, part);
    enum err err = ERR_OK;
    uint64_t n = 0;

    for (unsigned k = 0; !err && k < parts; k++)
        err = unpack_plan(in, part[k].fields, &plan[k]);
    if (!err &&
        (!unpack_number(in, &n) || n > in->left || (l->max && n > l->max)))
        err = ERR_FORMAT;
    if (!err && n > 0) {
        void *items = mem_calloc(n, l->item);

        memcpy((char *)h + l->items_at, &items, sizeof(items));
        *(size_t *)(void *)((char *)h + l->capacity_at) = items ? n : 0;
        err = items ? ERR_OK : ERR_NOMEM;
    }
    /* One that is half read is counted: it owns what it has. */
    while (!err && *len < n)
        err = unpack_item(in, h, which, plan, part, parts, (*len)++);
    for (unsigned k = 0; k < parts; k++)
        packed_plan_free(plan[k]);
    return err;
}

/* ---- what must hold ------------------------------------------------------ */

static bool numbers_hold(const struct history *h)
{
    for (size_t i = 0; i < h->searches; i++)
        if (h->search[i].started.search != h->searches_dropped + i + 1)
            return false;
    for (size_t i = 0; i < h->trials; i++)
        if (h->trial[i].t.trial != h->trials_dropped + i + 1)
            return false;
    for (size_t i = 0; i < h->suggestions; i++)
        if (h->suggestion[i].s.suggestion != i + 1)
            return false;
    for (size_t i = 1; i < h->branches; i++)
        if (h->branch[i - 1].branch >= h->branch[i].branch)
            return false;
    for (size_t i = 0; i < h->branches; i++)
        if (h->branch[i].merge < 1 || h->branch[i].branch == BRANCH_NONE)
            return false;
    return true;
}

static bool holds(const struct history *h)
{
    return numbers_hold(h) && h->last_epoch <= h->epochs &&
           h->best_epoch <= h->epochs && isfinite(h->at_s) &&
           h->freed_points_each >= 1 &&
           h->freed_points_each <= HISTORY_POINTS_MAX / 8 &&
           h->searches_dropped <= UINT32_MAX / 2 &&
           h->trials_dropped <= UINT32_MAX / 2;
}

static void count_points(struct history *h)
{
    h->freed_points = 0;
    for (size_t i = 0; i < h->branches; i++)
        if (!isnan(h->branch[i].freed_at_s))
            h->freed_points += h->branch[i].points;
}

static enum err unpack_all(struct packed_bytes *in, struct history *h)
{
    enum err err = unpack_once(in, h);
    size_t searches = h->cold_search.rows, trials = h->cold_trial.rows,
           choices = h->cold_choice.rows;
    uint64_t end;

    /* They come whole, and are made cold when all are there. */
    h->cold_search.rows = h->cold_trial.rows = h->cold_choice.rows = 0;

    if (!err)
        err = unpack_small(in, h);
    if (!err)
        err = unpack_nodes(in, &h->nodes);
    for (unsigned i = 0; !err && i < LISTS; i++)
        err = unpack_items(in, h, i);
    if (!err && (!unpack_number(in, &end) || end != PACK_END || in->left > 0 ||
                 !holds(h)))
        err = ERR_FORMAT;
    if (!err)
        err = history_cool(h, searches, trials, choices);
    if (!err)
        err = epoch_settings_cool(h);
    for (size_t i = 0; !err && i < h->branches; i++) {
        history_branch_cool(h, &h->branch[i]);
        if (!isnan(h->branch[i].freed_at_s) && !h->branch[i].few)
            err = ERR_NOMEM;
    }
    count_points(h);
    if (!err)
        history_store_all(h);
    return err;
}

enum err history_unpack(const void *data, size_t len, struct history *out,
                        struct fault *f)
{
    struct packed_bytes in = {data, len};
    uint64_t version;
    enum err err;

    assert((data || len == 0) && out);
    if (!unpack_number(&in, &version) || version < 1)
        return fault_set(f, ERR_FORMAT, "no history");
    if (version > PACK_VERSION)
        return fault_set(f, ERR_VERSION,
                         "a history of version %llu, this mltune knows %d; use "
                         "a newer mltune",
                         (unsigned long long)version, PACK_VERSION);
    history_init(out);
    err = unpack_all(&in, out);
    if (!err)
        return ERR_OK;
    history_deinit(out);
    return err == ERR_NOMEM
               ? fault_set(f, err, "%s", err_text(err))
               : fault_set(f, ERR_FORMAT, "a history is damaged at byte %zu",
                           len - in.left);
}
