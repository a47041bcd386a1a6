#include "tuner/core/rows.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "tuner/board/branch.h"
#include "tuner/board/branches.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/operations.h"
#include "tuner/board/run.h"
#include "tuner/board/slices.h"
#include "tuner/core/answers.h"
#include "tuner/core/parts.h"
#include "tuner/history/history.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_ASKED_MAX = 32 }; /* not answered by the training system */

/* Between two increments for which slices are cut short. */
#define ROWS_CUT_S 1.0

struct rows_asked {
    op_id op;   /* 0: the place is free */
    bool waits; /* somebody, for its answer: */
    uint64_t ticket;
    bool adds, cuts;
    branch_id branch;
    char table[TABLE_INFO_NAME_MAX + 1];
    uint64_t first, number; /* number: of the increment */
    uint32_t count, values;
    double norm;
};

struct rows {
    struct table_info table[TABLE_INFO_TABLES_MAX];
    size_t tables;
    struct rows_asked asked[ROWS_ASKED_MAX];
    double cut_at_s;     /* when slices were last cut for one */
    uint64_t increments; /* number of the last one that was asked for */
};

enum err rows_init(struct board *c)
{
    const struct history *h = board_history(c);
    struct rows *r = mem_calloc(1, sizeof(*r));

    assert(!c->owner->rows);
    if (!r)
        return ERR_NOMEM;
    r->cut_at_s = -INFINITY;
    if (h && history_started(h))
        r->increments = history_increments(h);
    c->owner->rows = r;
    return ERR_OK;
}

void rows_deinit(struct board *c)
{
    mem_free(c->owner->rows);
    c->owner->rows = NULL;
}

void rows_tables(struct board *c, json_t *tables, json_t *data)
{
    struct record_tables *r;

    assert(run_ready(c));
    if (tables && table_infos_from_json(tables, c->owner->rows->table,
                                        &c->owner->rows->tables))
        tables = NULL; /* the codec has checked them: there are none */
    if (!tables && !data)
        return;
    r = board_record_tables(c);
    r->tables = json_incref(tables);
    r->data = json_incref(data);
}

/* ---- what is asked ------------------------------------------------------- */

static const struct table_info *find_table(const struct board *c,
                                           const char *name)
{
    for (size_t i = 0; i < c->owner->rows->tables; i++)
        if (strcmp(c->owner->rows->table[i].name, name) == 0)
            return &c->owner->rows->table[i];
    return NULL;
}

static bool fits(const struct table_info *t, const struct command_rows *want)
{
    return t && t->access != TABLE_LOCAL && want->count >= 1 &&
           want->first < t->rows && want->count <= t->rows - want->first &&
           want->from < t->width && want->values >= 1 &&
           want->values <= t->width - want->from;
}

/* Whoever asks has seen the tables, by the journal: they are the same. */
static bool refuse_rows(struct board *c, const struct command_rows *want)
{
    const struct table_info *t = find_table(c, want->table);

    if (!run_ready(c))
        answers_give(c, ERR_AGAIN, false,
                     "the training system is still loading; try again");
    else if (!fits(t, want))
        answers_give(c, ERR_INVAL, false,
                     "there are no such rows of table %s now", want->table);
    else if (want->add && (want->from || want->values != t->width))
        answers_give(c, ERR_INVAL, false, "a row of table %s has %u values",
                     want->table, t->width);
    else
        return false;
    return true;
}

static bool refuse_branch(struct board *c, const struct branch *b, branch_id id)
{
    if (!b || b->state == BRANCH_REFUSED)
        answers_give(c, ERR_NOENT, false,
                     "branch %u does not live: it was freed, or never was", id);
    else if (b->error)
        answers_give(c, ERR_DIVERGED, false,
                     "branch %u has failed: its state is of no use", id);
    else if (b->state != BRANCH_LIVE)
        answers_give(c, ERR_AGAIN, false,
                     "branch %u is only being made; try again", id);
    else
        return false;
    return true;
}

static bool refuse_change(struct board *c, const struct branch *b, bool named)
{
    if (b->type == BRANCH_TRAINING)
        return false;
    if (named)
        answers_give(c, ERR_UNSUPPORTED, false,
                     "branch %u is %s: only training branches are added to",
                     b->id, branch_type_name(b->type));
    else
        answers_give(c, ERR_AGAIN, false,
                     "no branch is trained now, as while a search is under "
                     "way: try again, or name a branch");
    return true;
}

static struct rows_asked *free_place(struct board *c)
{
    for (size_t i = 0; operations_have_room(c) && i < ROWS_ASKED_MAX; i++)
        if (!c->owner->rows->asked[i].op)
            return &c->owner->rows->asked[i];
    answers_give(c, ERR_AGAIN, false,
                 "too much is asked of the training system; try again");
    return NULL;
}

/* The branch and a place; false: it was answered. */
static bool take_in(struct board *c, const struct command_rows *want,
                    const struct branch **b, struct rows_asked **a)
{
    bool named = want->branch != BRANCH_NONE;
    branch_id id = named ? want->branch : board_base(c);

    *b = board_branch(c, id);
    if (refuse_rows(c, want) || refuse_branch(c, *b, id) ||
        (want->add && refuse_change(c, *b, named)))
        return false;
    *a = free_place(c);
    return *a != NULL;
}

static void ask(struct board *c, const struct branch *b,
                const struct command_rows *want, json_t *increment,
                struct rows_asked *a)
{
    struct msg *m = operations_send(c, MSG_ROWS, b->id);

    assert(a->op == 0);
    assert(b->state == BRANCH_LIVE);
    m->rows = (struct msg_rows){
        .branch = b->id,
        .first = want->first,
        .count = want->count,
        .from = want->from,
        .values = increment ? 0 : want->values,
        .increment = increment,
    };
    memcpy(m->rows.table, want->table, sizeof(m->rows.table));
    *a = (struct rows_asked){
        .op = m->op,
        .waits = true,
        .ticket = answers_ticket(c),
        .adds = increment != NULL,
        .branch = b->id,
        .first = want->first,
        .count = want->count,
        .values = want->values,
    };
    memcpy(a->table, want->table, sizeof(a->table));
}

void rows_read(struct board *c, const struct command_rows *want)
{
    struct rows_asked *a;
    const struct branch *b;

    assert(!want->add &&
           (uint64_t)want->count * want->values <= COMMAND_VALUES_MAX);
    if (take_in(c, want, &b, &a))
        ask(c, b, want, NULL, a);
}

/* [[values]]; NULL: out of memory. */
static json_t *increment_of(const struct command_rows *want)
{
    json_t *rows = json_array(), *row = json_array();
    int failed = json_array_append_new(rows, row);

    for (uint32_t i = 0; i < want->values && !failed; i++)
        failed = json_array_append_new(row, json_real(want->add[i]));
    if (!failed)
        return rows;
    json_decref(rows);
    return NULL;
}

static double norm_of(const double x[], uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

void rows_add(struct board *c, const struct command_rows *want)
{
    struct rows_asked *a;
    const struct branch *b;
    json_t *increment;

    assert(want->add && want->count == 1 && want->values <= COMMAND_VALUES_MAX);
    if (!take_in(c, want, &b, &a))
        return;
    increment = increment_of(want);
    if (!increment) {
        answers_give(c, ERR_NOMEM, false, "out of memory; try again");
        return;
    }
    board_guard_check(c, b->id);
    ask(c, b, want, increment, a);
    a->number = ++c->owner->rows->increments;
    branches_own(c, b->id)->increments = a->number;
    a->norm = norm_of(want->add, want->values);
}

/* ---- what was answered --------------------------------------------------- */

static struct tuner_answer *tell(struct board *c, struct rows_asked *a,
                                 enum err err, const char *text)
{
    struct tuner_answer *answer;

    assert(a->waits);
    answer = answers_give_to(c, a->ticket, err, !err && a->adds, text);
    answer->branch = a->branch;
    a->waits = false;
    return answer;
}

static struct rows_asked *find(struct board *c, op_id op)
{
    for (size_t i = 0; i < ROWS_ASKED_MAX; i++)
        if (c->owner->rows->asked[i].op == op)
            return &c->owner->rows->asked[i];
    assert(!"an operation that nobody asked for");
    return NULL;
}

/* ERR_OK, ERR_NOMEM, or ERR_PROTO: these are not the rows. */
static enum err take_values(const struct rows_asked *a, const json_t *data,
                            double **out)
{
    double *value = mem_calloc((size_t)a->count * a->values, sizeof(*value));
    bool ok = json_is_array(data) && json_array_size(data) == a->count;

    if (!value)
        return ERR_NOMEM;
    for (size_t i = 0; i < a->count && ok; i++) {
        const json_t *row = json_array_get(data, i);

        ok = json_is_array(row) && json_array_size(row) == a->values;
        for (size_t k = 0; k < a->values && ok; k++)
            ok = json_to_number(json_array_get(row, k),
                                &value[i * a->values + k]);
    }
    if (ok) {
        *out = value;
        return ERR_OK;
    }
    mem_free(value);
    return ERR_PROTO;
}

static void has_read(struct board *c, struct rows_asked *a, const json_t *data)
{
    double *value = NULL;
    struct tuner_answer *answer;
    enum err err = take_values(a, data, &value);

    if (err) {
        tell(c, a, err,
             err == ERR_NOMEM ? "out of memory; try again"
                              : "the training system has answered something "
                                "else than these rows");
        return;
    }
    answer = tell(c, a, ERR_OK, "");
    answer->value = value;
    answer->values = a->count * a->values;
}

static void has_added(struct board *c, struct rows_asked *a)
{
    struct record_increment *r = board_record_increment(c);
    char text[RECORD_TEXT_MAX];

    r->number = a->number;
    r->branch = a->branch;
    memcpy(r->table, a->table, sizeof(r->table));
    r->row = a->first;
    r->values = a->values;
    r->norm = a->norm;
    if (!a->waits)
        return;
    snprintf(text, sizeof(text), "row %llu of table %s was added to",
             (unsigned long long)a->first, a->table);
    tell(c, a, ERR_OK, text);
}

void rows_done(struct board *c, op_id op, const json_t *data)
{
    struct rows_asked *a = find(c, op);

    if (a->adds)
        has_added(c, a);
    else if (a->waits)
        has_read(c, a, data);
    a->op = 0;
}

/* The branch has failed meanwhile, or was freed by its own failure. */
void rows_failed(struct board *c, op_id op, const struct msg_failed *m)
{
    struct rows_asked *a = find(c, op);
    enum err err = m->code == ERR_APP ? ERR_DIVERGED : m->code;

    if (a->waits)
        tell(c, a, err ? err : ERR_PROTO, m->reason);
    a->op = 0;
}

/* ---- waiting ------------------------------------------------------------- */

/* Whether a slice runs before operation @op. */
static bool waits_for_slice(const struct board *c, op_id op)
{
    const struct operation *running = operations_running(c);

    return running && running->id < op;
}

static void hasten(struct board *c, struct rows_asked *a)
{
    double now = clockwork_now(c),
           next_s = c->owner->rows->cut_at_s + ROWS_CUT_S;

    if (!a->cuts && !waits_for_slice(c, a->op))
        return;
    if (!a->cuts && now >= next_s) {
        c->owner->rows->cut_at_s = now;
        for (size_t i = 0; i < ROWS_ASKED_MAX; i++)
            c->owner->rows->asked[i].cuts = true;
    }
    if (a->cuts)
        slices_cut_training(c, a->op);
    else
        board_retry_after(c, next_s - now);
}

void rows_advance(struct board *c)
{
    for (size_t i = 0; i < ROWS_ASKED_MAX; i++)
        if (c->owner->rows->asked[i].op && c->owner->rows->asked[i].adds)
            hasten(c, &c->owner->rows->asked[i]);
}

void rows_end(struct board *c)
{
    for (size_t i = 0; i < ROWS_ASKED_MAX; i++) {
        struct rows_asked *a = &c->owner->rows->asked[i];

        if (a->op && a->waits && !a->adds)
            tell(c, a, ERR_CANCELED, "the run is ending");
    }
}

bool rows_adding(const struct board *c)
{
    for (size_t i = 0; i < ROWS_ASKED_MAX; i++)
        if (c->owner->rows->asked[i].op && c->owner->rows->asked[i].adds)
            return true;
    return false;
}
