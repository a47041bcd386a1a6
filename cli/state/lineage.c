#include "cli/state/lineage.h"

#include "base/mem.h"

#include <assert.h>

/* Branch clocks of its parent's lineage when @b was forked; UINT64_MAX: it has
 * run nothing that would tell. */
static clock_no forked_at(const struct history_branch *b)
{
    const struct history_point *p = b->point;

    return b->points ? p->branch_clock - p->w.clocks : UINT64_MAX;
}

enum err lineage_of(const struct history *h, struct surviving *out)
{
    branch_id id = history_tip(h);
    clock_no limit = UINT64_MAX;
    const struct history_branch *b;
    struct surviving l = {NULL, 0};
    size_t capacity = 0;

    assert(out);
    while (id != BRANCH_NONE && (b = history_branch(h, id))) {
        if (mem_grow((void **)&l.reach, &capacity, sizeof(*l.reach),
                     l.len + 1)) {
            lineage_deinit(&l);
            return ERR_NOMEM;
        }
        l.reach[l.len++] = (struct surviving_reach){id, limit};
        if (forked_at(b) < limit)
            limit = forked_at(b);
        if (b->parent >= id)
            break;
        id = b->parent;
    }
    *out = l;
    return ERR_OK;
}

void lineage_deinit(struct surviving *l)
{
    mem_free(l->reach);
    *l = (struct surviving){NULL, 0};
}

size_t lineage_find(const struct surviving *l, branch_id branch,
                    clock_no branch_clock)
{
    for (size_t i = 0; i < l->len; i++)
        if (l->reach[i].branch == branch)
            return branch_clock <= l->reach[i].clocks ? i : SIZE_MAX;
    return SIZE_MAX;
}

/* ---- points -------------------------------------------------------------- */

static struct lineage_point point_at(const struct history *h,
                                     const struct history_branch *b, size_t i)
{
    const struct history_point *p = &b->point[i];
    struct lineage_point point = {.branch = b->branch,
                                  .clock = p->clock,
                                  .branch_clock = p->branch_clock,
                                  .at_s = p->at_s,
                                  .w = p->w};

    for (uint32_t m = 0; m < history_extras(h)->len; m++)
        point.extra[m] = history_extra(b, m, i);
    return point;
}

enum err lineage_each_point(const struct surviving *l, const struct history *h,
                            lineage_visit *visit, void *ctx)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < history_branches_len(h) && !err; i++) {
        const struct history_branch *b = history_branch_at(h, i);

        for (size_t k = 0; k < b->points && !err; k++) {
            struct lineage_point point = point_at(h, b, k);

            point.surviving =
                lineage_find(l, b->branch, point.branch_clock) != SIZE_MAX;
            err = visit(ctx, &point);
        }
    }
    return err;
}

/* Whether the last point of @b, which is being trained, has room for more. */
static bool grows(const struct history_branch *b, size_t i)
{
    return i + 1 == b->points && b->last_merged < b->merge;
}

/* Points of @b that begin at *@clock or later and end by @limit; *@clock goes
 * on. */
static enum err visit_part(const struct history *h,
                           const struct history_branch *b, clock_no limit,
                           bool over, clock_no *clock, lineage_visit *visit,
                           void *ctx)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < b->points && !err; i++) {
        struct lineage_point p = point_at(h, b, i);

        if (p.branch_clock > limit || p.branch_clock < *clock + p.w.clocks ||
            (!over && grows(b, i)))
            continue;
        p.surviving = true;
        err = visit(ctx, &p);
        *clock = p.branch_clock;
    }
    return err;
}

enum err lineage_each_after(const struct surviving *l, const struct history *h,
                            branch_id branch, clock_no clock,
                            lineage_visit *visit, void *ctx)
{
    size_t i =
        branch == BRANCH_NONE ? l->len : lineage_find(l, branch, clock) + 1;
    enum err err = ERR_OK;

    assert(i <= l->len);
    while (i-- > 0 && !err) {
        const struct history_branch *b = history_branch(h, l->reach[i].branch);

        if (b)
            err = visit_part(h, b, l->reach[i].clocks,
                             i > 0 || history_finished(h), &clock, visit, ctx);
    }
    return err;
}
