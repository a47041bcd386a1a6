/* Sources of exports: the surviving lineage, records, points. */
#include "cli/export/export.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "searchers/space/space_json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum err export_open(struct export_source *s, struct journal *journal,
                     const struct replayed *run)
{
    const json_t *tunables = json_object_get(run->config, "tunables");
    struct problems problems = {0};
    enum err err;

    assert(journal);
    assert(run);
    *s = (struct export_source){.journal = journal, .run = run};
    space_init(&s->space);
    if (json_is_object(tunables) &&
        space_from_json(tunables, "/tunables", &s->space, &problems) != ERR_OK)
        space_init(&s->space);
    problems_deinit(&problems);
    err = lineage_of(&run->history, &s->lineage);
    if (err)
        export_close(s);
    return err;
}

void export_close(struct export_source *s)
{
    lineage_deinit(&s->lineage);
    *s = (struct export_source){0};
}

struct scalars export_scalars(const struct export_source *s)
{
    return (struct scalars){&s->run->history, (double)s->run->began_ns * 1e-9};
}

double export_wall(const struct export_source *s, double at_s)
{
    struct scalars scalars = export_scalars(s);

    return scalars_wall(&scalars, at_s);
}

/* ---- records ------------------------------------------------------------- */

/* Some records, copied, so that no query is open while they are visited: one
 * would keep the journal of a run under way from being folded. */
enum { BATCH_BYTES = 256 * 1024 };

struct batched {
    uint64_t seq;
    int64_t wall_ns;
    size_t kind_at, json_at, len; /* of the batch's text */
};

struct source_batch {
    struct text text;
    struct batched *record; /* owned */
    size_t records, capacity;
    uint64_t last, end; /* taken so far; the last one of the run */
};

static enum err take_record(void *ctx, const struct journal_record *r)
{
    struct source_batch *b = ctx;
    void *grown = b->record;

    if (r->seq > b->end || b->text.len > BATCH_BYTES)
        return ERR_AGAIN;
    if (mem_grow(&grown, &b->capacity, sizeof(*b->record), b->records + 1))
        return ERR_NOMEM;
    b->record = grown;
    b->record[b->records++] =
        (struct batched){r->seq, r->wall_ns, b->text.len,
                         b->text.len + strlen(r->kind) + 1, r->len};
    text_add(&b->text, r->kind, strlen(r->kind) + 1);
    text_add(&b->text, r->json, r->len);
    text_add(&b->text, "", 1);
    b->last = r->seq;
    return b->text.no_memory ? ERR_NOMEM : ERR_OK;
}

static enum err visit_batch(const struct source_batch *b,
                            journal_record_visit *visit, void *ctx)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < b->records && !err; i++) {
        const struct batched *from = &b->record[i];
        const struct journal_record r = {.seq = from->seq,
                                         .wall_ns = from->wall_ns,
                                         .kind = b->text.s + from->kind_at,
                                         .json = b->text.s + from->json_at,
                                         .len = from->len};

        err = visit(ctx, &r);
    }
    return err;
}

enum err export_each_record(const struct export_source *s,
                            journal_record_visit *visit, void *ctx,
                            struct fault *f)
{
    struct source_batch b = {.end = history_records(&s->run->history)};
    enum err err, walked;

    assert(visit);
    do {
        b.records = b.text.len = 0;
        walked = journal_each_record(s->journal, s->run->id, b.last,
                                     take_record, &b, f);
        err = walked == ERR_AGAIN ? ERR_OK : walked;
        if (!err)
            err = visit_batch(&b, visit, ctx);
    } while (!err && b.records > 0 && b.last < b.end);
    mem_free(b.record);
    text_deinit(&b.text);
    return err;
}

static enum err take_first(void *ctx, const struct journal_record *r)
{
    *(uint64_t *)ctx = r->seq;
    return ERR_CANCELED;
}

enum err export_folded(const struct export_source *s, uint64_t *out,
                       struct fault *f)
{
    uint64_t records = history_records(&s->run->history), first = records + 1;
    enum err err =
        journal_each_record(s->journal, s->run->id, 0, take_first, &first, f);

    assert(out);
    *out = first > 1 ? first - 1 : 0;
    return err == ERR_CANCELED ? ERR_OK : err;
}

/* ---- points -------------------------------------------------------------- */

struct source_walk {
    const struct export_source *s;
    lineage_visit *visit;
    void *ctx;
    struct fault *f;
};

static enum err visit_progress(const struct source_walk *k,
                               const struct record *r)
{
    const struct record_progress *p = &r->progress;
    const struct extras *names = history_extras(&k->s->run->history);
    struct lineage_point point = {.branch = p->branch,
                                  .clock = p->first,
                                  .branch_clock = p->branch_clock,
                                  .at_s = r->at_s};
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < p->windows && !err; i++) {
        point.w = p->window[i];
        point.branch_clock += point.w.clocks;
        point.surviving = lineage_find(&k->s->lineage, p->branch,
                                       point.branch_clock) != SIZE_MAX;
        for (uint32_t m = 0; m < names->len; m++)
            point.extra[m] = extras_at(p->values, names->name[m], i);
        err = k->visit(k->ctx, &point);
        point.clock += point.w.clocks;
    }
    return err;
}

static enum err visit_record(void *ctx, const struct journal_record *stored)
{
    struct source_walk *k = ctx;
    json_t *json = NULL;
    struct record r;
    enum err err;

    if (strcmp(stored->kind, record_kind_name(RECORD_PROGRESS)) != 0)
        return ERR_OK;
    err = json_load(stored->json, stored->len, &json, NULL, k->f);
    if (!err)
        err = record_from_json(json, &r, k->f);
    json_decref(json);
    if (err)
        return err;
    err = visit_progress(k, &r);
    record_deinit(&r);
    return err;
}

enum err export_each_point(const struct export_source *s, lineage_visit *visit,
                           void *ctx, struct fault *f)
{
    struct source_walk k = {s, visit, ctx, f};
    uint64_t folded = 0;
    enum err err = export_folded(s, &folded, f);

    assert(visit);
    /* Points as the history has them, where the first records were folded. */
    if (!err && folded > 0)
        return lineage_each_point(&s->lineage, &s->run->history, visit, ctx);
    if (err)
        return err;
    return export_each_record(s, visit_record, &k, f);
}
