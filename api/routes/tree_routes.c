#include "api/routes/curve_routes.h"

#include "api/http/value.h"
#include "api/view/long_history.h"
#include "api/view/view.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct shape tree_shapes[] = {
    {"tree", "total:i branches:[tree_branch]"},
    {"tree_branch", "branch:i parent:i? type:s role:s live:b surviving:b "
                    "trial:i? search:i? label:s? loss:n? setting:o "
                    "created_clock:i first_clock:i last_clock:i clocks:i "
                    "freed_at:t? freed_reason:s?"},
    {NULL, NULL},
};

/* Ancestors that are looked at for one that is shown. */
enum { TREE_HOPS_MAX = 256 };

struct rank {
    uint64_t key; /* 0: not shown at all */
    size_t index; /* in the history */
};

struct tree_row {
    struct history_branch b; /* without its points; setting owned */
    branch_id shown_parent;  /* BRANCH_NONE: none is shown */
    bool surviving;
    clock_no first_clock, last_clock; /* of its progress */
    uint32_t trial, search;           /* 0: none */
    enum trial_label label;           /* of the trial */
    double loss;                      /* its last; NAN: none */
};

struct tree {
    bool all;
    clock_no from, to; /* only what may have run in from <= clock < to */
    size_t rows_max;
    size_t branches, at;
    clock_no *before;     /* owned: [branches], see long_history_lineage */
    struct rank *rank;    /* owned: [branches] */
    struct tree_row *row; /* owned: [rows_max], by branch */
    size_t chosen, rows;  /* ranks at the front; copied */
    size_t eligible;      /* branches that could be shown */
    struct list_scope scope;
};

static bool read_extent(const struct history *h, void *state)
{
    struct tree *t = state;

    t->branches = history_branches_len(h);
    t->scope = list_scope(h);
    return false;
}

static bool read_lineage(const struct history *h, void *state)
{
    struct tree *t = state;

    long_history_lineage(h, t->before, t->branches);
    return false;
}

/* ---- which --------------------------------------------------------------- */

/* Whether @b may have run in the clocks that were asked for: it lived then. */
static bool in_range(const struct tree *t, const struct history_branch *b)
{
    clock_no last = b->created_clock;

    if (b->points > 0)
        last = b->point[b->points - 1].clock;
    return b->created_clock < t->to && last >= t->from;
}

static uint64_t key_of(const struct tree *t, size_t index,
                       const struct history_branch *b)
{
    const uint64_t step = UINT64_C(1) << 60;
    uint64_t ran = b->clocks < step - 1 ? b->clocks + 1 : step - 1;

    if (!t->all && b->type != BRANCH_TRAINING && b->type != BRANCH_INIT)
        return 0;
    if (!in_range(t, b))
        return 0;
    if (t->before[index])
        return 2 * step + ran;
    return (isnan(b->freed_at_s) ? step : 0) + ran;
}

static bool read_ranks(const struct history *h, void *state)
{
    struct tree *t = state;
    size_t end = t->at + PIECE_ITEMS;

    if (t->branches > history_branches_len(h))
        t->branches = history_branches_len(h);
    for (; t->at < t->branches && t->at < end; t->at++) {
        t->rank[t->at] =
            (struct rank){key_of(t, t->at, history_branch_at(h, t->at)), t->at};
        t->eligible += t->rank[t->at].key > 0;
    }
    return t->at < t->branches;
}

/* The longest first; of two that ran as long, the newer one. */
static int by_key(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->index > y->index ? -1 : x->index < y->index;
}

static int by_index(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;

    return x->index < y->index ? -1 : x->index > y->index;
}

/* A lineage of many branches leaves half of the rows to others, if there are
 * as many. */
static void choose(struct tree *t)
{
    size_t lineage = 0, kept, others;

    qsort(t->rank, t->branches, sizeof(*t->rank), by_key);
    while (lineage < t->eligible && t->rank[lineage].key > UINT64_C(1) << 61)
        lineage++;
    others = t->eligible - lineage;
    kept = (t->rows_max + 1) / 2;
    if (others < t->rows_max - kept)
        kept = t->rows_max - others;
    if (kept > lineage)
        kept = lineage;
    if (others > t->rows_max - kept)
        others = t->rows_max - kept;
    memmove(t->rank + kept, t->rank + lineage, others * sizeof(*t->rank));
    t->chosen = kept + others;
    qsort(t->rank, t->chosen, sizeof(*t->rank), by_index);
    t->at = 0;
}

/* ---- what is shown of them ----------------------------------------------- */

static void copy_branch(struct tree *t, const struct history *h, size_t index)
{
    const struct history_branch *b = history_branch_at(h, index);
    struct tree_row *row = &t->row[t->rows++];

    *row = (struct tree_row){.b = *b,
                             .shown_parent = b->parent,
                             .surviving = t->before[index] > 0,
                             .first_clock = b->created_clock,
                             .last_clock = b->created_clock};
    if (b->points > 0) {
        row->first_clock = b->point[0].clock;
        row->last_clock = b->point[b->points - 1].clock;
    }
    row->b.point = NULL;
    row->b.setting = history_branch_setting(h, b);
}

static bool copy_branches(const struct history *h, void *state)
{
    struct tree *t = state;
    size_t end = t->at + PIECE_ITEMS / 16;

    for (; t->at < t->chosen && t->at < end; t->at++)
        if (t->rank[t->at].index < history_branches_len(h))
            copy_branch(t, h, t->rank[t->at].index);
    return t->at < t->chosen;
}

static int by_branch(const void *key, const void *item)
{
    branch_id a = *(const branch_id *)key;
    branch_id b = ((const struct tree_row *)item)->b.branch;

    return a < b ? -1 : a > b;
}

static struct tree_row *shown(const struct tree *t, branch_id branch)
{
    return bsearch(&branch, t->row, t->rows, sizeof(*t->row), by_branch);
}

static branch_id shown_ancestor(const struct tree *t, const struct history *h,
                                branch_id id)
{
    for (int hops = 0; id != BRANCH_NONE && hops < TREE_HOPS_MAX; hops++) {
        const struct history_branch *b;

        if (shown(t, id))
            return id;
        b = history_branch(h, id);
        id = b ? b->parent : BRANCH_NONE;
    }
    return BRANCH_NONE;
}

static bool find_parents(const struct history *h, void *state)
{
    struct tree *t = state;
    size_t end = t->at + 64;

    for (; t->at < t->rows && t->at < end; t->at++)
        t->row[t->at].shown_parent =
            shown_ancestor(t, h, t->row[t->at].b.parent);
    return t->at < t->rows;
}

static void copy_trial(struct tree_row *row, const struct record_trial *t)
{
    row->trial = t->trial;
    row->search = t->search;
    row->label = t->label;
    row->loss = survey_loss(t);
}

static bool find_trials(const struct history *h, void *state)
{
    struct tree *t = state;
    size_t end = t->at + PIECE_ITEMS;

    for (; t->at < history_trials_len(h) && t->at < end; t->at++) {
        struct history_trial trial = history_trial_at(h, t->at);
        struct tree_row *row = shown(t, trial.t.branch);

        if (row)
            copy_trial(row, &trial.t);
    }
    return t->at < history_trials_len(h);
}

/* ---- the answer ---------------------------------------------------------- */

/* What became of the trial that the branch belongs to. */
static json_t *trial_to_json(const struct tree_row *row)
{
    if (!row->trial)
        return json_pack("{s:n, s:n, s:n, s:n}", "trial", "search", "label",
                         "loss");
    return json_pack("{s:I, s:I, s:s, s:o}", "trial", (json_int_t)row->trial,
                     "search", (json_int_t)row->search, "label",
                     trial_label_name(row->label), "loss",
                     value_number_or_null(row->loss));
}

static json_t *row_to_json(const struct tree *t, const struct tree_row *row)
{
    const struct history_branch *b = &row->b;
    bool live = isnan(b->freed_at_s);
    json_t *json = trial_to_json(row), *rest;

    rest = json_pack(
        "{s:I, s:o, s:s, s:o, s:b, s:b, s:o, s:I, s:I, s:I, s:I, s:o, s:o}",
        "branch", (json_int_t)b->branch, "parent",
        row->shown_parent == BRANCH_NONE ? json_null()
                                         : json_integer(row->shown_parent),
        "type", branch_type_name(b->type), "role", value_text(b->role), "live",
        live, "surviving", row->surviving, "setting", json_incref(b->setting),
        "created_clock", (json_int_t)b->created_clock, "first_clock",
        (json_int_t)row->first_clock, "last_clock", (json_int_t)row->last_clock,
        "clocks", (json_int_t)b->clocks, "freed_at",
        list_time(&t->scope, b->freed_at_s), "freed_reason",
        live ? json_null() : value_text(b->freed_reason));
    if (!json || !rest || json_object_update(json, rest) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(rest);
    return json;
}

static json_t *tree_to_json(const struct tree *t)
{
    json_t *rows = json_array();

    for (size_t i = 0; rows && i < t->rows; i++) {
        if (json_array_append_new(rows, row_to_json(t, &t->row[i])) < 0) {
            json_decref(rows);
            return NULL;
        }
    }
    return json_pack("{s:I, s:o}", "total", (json_int_t)t->eligible, "branches",
                     rows);
}

static bool tree_prepare(struct tree *t)
{
    t->before = mem_calloc(t->branches + 1, sizeof(*t->before));
    t->rank = mem_calloc(t->branches + 1, sizeof(*t->rank));
    t->row = mem_calloc(t->rows_max, sizeof(*t->row));
    return t->before && t->rank && t->row;
}

static bool tree_read(const struct route_call *call, struct tree *t,
                      struct response *out)
{
    if (!long_history_read(call, read_lineage, t, out) ||
        !long_history_read(call, read_ranks, t, out))
        return false;
    choose(t);
    if (!long_history_read(call, copy_branches, t, out))
        return false;
    t->at = 0;
    if (!long_history_read(call, find_parents, t, out))
        return false;
    t->at = 0;
    return long_history_read(call, find_trials, t, out);
}

void handle_tree(const struct route_call *call, struct response *out)
{
    const struct route_arg *to = route_arg(call, "to");
    struct tree t = {
        .all = route_arg(call, "all")->number,
        .from = (clock_no)route_arg(call, "from")->number,
        .to = to->given ? (clock_no)to->number : UINT64_MAX,
        .rows_max = (size_t)route_arg(call, "max_branches")->number,
    };

    if (!long_history_read(call, read_extent, &t, out))
        return;
    if (!tree_prepare(&t))
        response_json(out, 200, NULL);
    else if (tree_read(call, &t, out))
        response_json(out, 200, tree_to_json(&t));
    for (size_t i = 0; t.row && i < t.rows; i++)
        json_decref(t.row[i].b.setting);
    mem_free(t.before);
    mem_free(t.rank);
    mem_free(t.row);
}
