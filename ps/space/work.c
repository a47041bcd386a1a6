#include "ps/space/work.h"

#include <string.h>

static enum err beyond(const struct space_rows *rows, size_t i, struct fault *f)
{
    uint64_t r = rows->index ? rows->index[i] : rows->first + i;

    return fault_set(f, ERR_INVAL,
                     "row %llu of a table in the space that has %llu rows",
                     (unsigned long long)r, (unsigned long long)rows->rows);
}

static const struct space_rows *rows_of(const struct space_work *w, size_t *n)
{
    *n = w->kind == WORK_UPDATE ? w->update.n : w->move.n;
    return w->kind == WORK_UPDATE ? &w->update.rows : &w->move.rows;
}

/* All of them, before one is touched. */
static enum err check_rows(const struct space_work *w, struct fault *f)
{
    size_t n;
    const struct space_rows *rows = rows_of(w, &n);

    for (size_t i = 0; i < n; i++)
        if (!space_row(rows, i))
            return beyond(rows, i, f);
    return ERR_OK;
}

/* ---- doing --------------------------------------------------------------- */

static void run_fill(const struct space_work *w)
{
    unsigned char *at = w->fill.at;

    if (w->fill.pattern_bytes == 1) {
        memset(at, (int)(w->fill.pattern & 0xff), w->fill.bytes);
        return;
    }
    for (size_t i = 0; i < w->fill.bytes; i += w->fill.pattern_bytes)
        memcpy(at + i, &w->fill.pattern, w->fill.pattern_bytes);
}

static void run_move(const struct space_work *w)
{
    char *out = w->move.out;
    const char *in = w->move.in;
    size_t bytes = w->move.bytes;

    for (size_t i = 0; i < w->move.n; i++) {
        void *row = space_row(&w->move.rows, i);

        if (w->kind == WORK_GATHER)
            memcpy(out + i * bytes, row, bytes);
        else if (w->kind == WORK_SCATTER)
            memcpy(row, in + i * bytes, bytes);
        else
            rule_accumulate(w->move.type, w->move.width, row, in + i * bytes);
    }
}

/* @n <= RULE_ROW_BATCH rows from number @first on. */
static void run_batch(const struct space_update *u, size_t first, size_t n)
{
    size_t bytes = (size_t)u->width * rule_type_bytes(u->type);
    void *row[RULE_ROW_BATCH];
    const void *sum[RULE_ROW_BATCH], *seen[RULE_ROW_BATCH];
    const struct rule_batch batch = {.n = n,
                                     .row = row,
                                     .sum = sum,
                                     .width = u->width,
                                     .type = u->type,
                                     .slots = u->slots,
                                     .params = u->params,
                                     .seen = u->seen ? seen : NULL};

    for (size_t i = 0; i < n; i++) {
        row[i] = space_row(&u->rows, first + i);
        sum[i] = (const char *)u->sum + (first + i) * bytes;
        seen[i] = u->seen ? (const char *)u->seen + (first + i) * bytes : NULL;
    }
    rule_apply(u->rule, &batch, u->undecayed);
}

static void run_update(const struct space_update *u)
{
    for (size_t i = 0; i < u->n; i += RULE_ROW_BATCH)
        run_batch(u, i, u->n - i < RULE_ROW_BATCH ? u->n - i : RULE_ROW_BATCH);
}

enum err work_run(const struct space_work *w, struct fault *f)
{
    enum err err = ERR_OK;

    switch (w->kind) {
    case WORK_COPY:
        memcpy(w->copy.to, w->copy.from, w->copy.bytes);
        break;
    case WORK_FILL:
        run_fill(w);
        break;
    case WORK_GATHER:
    case WORK_SCATTER:
    case WORK_ADD:
        err = check_rows(w, f);
        if (!err)
            run_move(w);
        break;
    case WORK_UPDATE:
        err = check_rows(w, f);
        if (!err)
            run_update(&w->update);
        break;
    case WORK_CALL:
        err = w->call.fn(w->call.arg, f);
        break;
    }
    return err;
}

/* ---- what it touches ----------------------------------------------------- */

static enum err visit_rows(const struct space_work *w, size_t bytes,
                           work_visit *visit, void *arg, struct fault *f)
{
    size_t n;
    const struct space_rows *rows = rows_of(w, &n);
    enum err err = check_rows(w, f);

    for (size_t i = 0; i < n && !err; i++)
        err = visit(arg, space_row(rows, i), bytes, f);
    return err;
}

static enum err visit_spans(const struct space_call *c, work_visit *visit,
                            void *arg, struct fault *f)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < SPACE_SPANS_MAX && c->write[i].bytes && !err; i++)
        err = visit(arg, c->write[i].at, c->write[i].bytes, f);
    return err;
}

enum err work_writes(const struct space_work *w, work_visit *visit, void *arg,
                     struct fault *f)
{
    switch (w->kind) {
    case WORK_COPY:
        return visit(arg, w->copy.to, w->copy.bytes, f);
    case WORK_FILL:
        return visit(arg, w->fill.at, w->fill.bytes, f);
    case WORK_GATHER:
        return visit(arg, w->move.out, w->move.n * w->move.bytes, f);
    case WORK_SCATTER:
    case WORK_ADD:
        return visit_rows(w, w->move.bytes, visit, arg, f);
    case WORK_UPDATE:
        return visit_rows(w, w->update.rows.stride, visit, arg, f);
    case WORK_CALL:
        break;
    }
    return visit_spans(&w->call, visit, arg, f);
}

static enum err visit_table(const struct space_work *w, work_visit *visit,
                            void *arg, struct fault *f)
{
    size_t n;
    const struct space_rows *rows = rows_of(w, &n);
    uint64_t chunks = rows->chunk_rows ? (rows->rows + rows->chunk_rows - 1) /
                                             rows->chunk_rows
                                       : 0;
    enum err err =
        rows->base
            ? visit(arg, rows->base, rows->rows * rows->stride, f)
            : visit(arg, (void *)rows->chunk, chunks * sizeof(*rows->chunk), f);

    if (!err && rows->index)
        err = visit(arg, (void *)rows->index, n * sizeof(*rows->index), f);
    return err;
}

enum err work_reads(const struct space_work *w, work_visit *visit, void *arg,
                    struct fault *f)
{
    const struct space_update *u = &w->update;
    size_t sums;
    enum err err;

    if (w->kind == WORK_COPY)
        return visit(arg, (void *)w->copy.from, w->copy.bytes, f);
    if (w->kind == WORK_FILL || w->kind == WORK_CALL)
        return ERR_OK;
    err = visit_table(w, visit, arg, f);
    if (err || w->kind == WORK_GATHER)
        return err;
    if (w->kind != WORK_UPDATE)
        return visit(arg, (void *)w->move.in, w->move.n * w->move.bytes, f);
    sums = u->n * u->width * rule_type_bytes(u->type);
    err = visit(arg, (void *)u->sum, sums, f);
    return err || !u->seen ? err : visit(arg, (void *)u->seen, sums, f);
}
