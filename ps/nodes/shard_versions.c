/* Row versions at a shard: which a node may still name, and what they saw. */
#include "ps/nodes/shard.h"
#include "ps/nodes/shard_internal.h"

#include <string.h>

enum { SNAPSHOTS_A_ROW = 16 };

/* Where the options do not say: a node may name the version that it has and the
 * one before; in many nodes not all differ. */
static uint32_t usual_snapshots(const struct shard *s, uint64_t rows)
{
    uint64_t a_row = 2 * (uint64_t)s->opt.nodes + 2;
    uint64_t all = rows * (a_row < SNAPSHOTS_A_ROW ? a_row : SNAPSHOTS_A_ROW);

    return all < INT32_MAX ? (uint32_t)all : INT32_MAX;
}

enum err shard_versions_init(const struct shard *s, struct shard_table *t)
{
    struct revision_options opt = {.rows = t->count,
                                   .nodes = s->opt.nodes,
                                   .width = t->t->width,
                                   .snapshots_max = s->opt.snapshots_max};

    if (!t->shared || s->opt.consistency->barrier || !t->t->rule->revises)
        return ERR_OK;
    if (opt.snapshots_max == 0)
        opt.snapshots_max = usual_snapshots(s, t->count);
    return revision_new(&opt, &t->revision);
}

void shard_versions_begin(struct shard *s)
{
    for (uint32_t i = 0; i < s->workers; i++)
        memset(s->worker[i].through, 0,
               s->opt.tables * sizeof(*s->worker[i].through));
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        s->node[i].row_frames = 0;
    for (uint32_t t = 0; t < s->opt.tables; t++)
        if (s->table[t].revision)
            revision_reset(s->table[t].revision);
}

bool shard_versions_are_known(const struct shard *s, const struct frame *f)
{
    const struct shard_table *t = &s->table[f->table];

    if ((t->revision != NULL) != ((f->flags & FRAME_VERSIONS) != 0))
        return false;
    for (uint32_t i = 0; i < f->count && t->revision; i++)
        if (!revision_was(t->revision, frame_row(f, i) - t->first,
                          frame_row_version(f, i)))
            return false;
    return true;
}

/* All snapshots first: making one may move the others. */
void shard_versions_seen(struct shard *s, uint32_t table, size_t n,
                         const uint64_t row[], const uint32_t version[],
                         const void *seen[])
{
    const struct shard_table *t = &s->table[table];
    const struct shard_rows *rows = s->opt.rows;

    for (size_t i = 0; i < n; i++)
        revision_change(t->revision, row[i] - t->first,
                        rows->gradients(s->opt.rows_self, table, row[i]));
    for (size_t i = 0; i < n; i++)
        seen[i] = revision_sum(t->revision, row[i] - t->first, version[i]);
}

/* A worker's updates of a clock are computed on rows that its node had since
 * the worker's last clock ended. So nobody at the node computes any more on a
 * row that was replaced before all of its workers last ended one. */
static void release(struct shard *s, uint32_t node, uint32_t table)
{
    uint64_t through = s->node[node].row_frames;

    for (uint32_t i = 0; i < s->opt.workers; i++) {
        const struct shard_worker *w = &s->worker[node * s->opt.workers + i];

        if (w->available && w->through[table] < through)
            through = w->through[table];
    }
    if (s->table[table].revision)
        revision_release(s->table[table].revision, node, through);
}

void shard_versions_clock(struct shard *s, const struct frame *f)
{
    for (uint32_t t = 0; t < s->opt.tables; t++)
        if (f->table == FRAME_ALL_TABLES || f->table == t) {
            s->worker[f->worker].through[t] = f->through;
            release(s, f->from, t);
        }
}

void shard_versions_drain(struct shard *s, uint32_t node)
{
    for (uint32_t t = 0; t < s->opt.tables; t++)
        release(s, node, t);
}

void shard_versions_count(const struct shard *s, struct shard_stats *stats)
{
    for (uint32_t t = 0; t < s->opt.tables; t++) {
        struct revision_stats r;

        if (!s->table[t].revision)
            continue;
        r = revision_stats(s->table[t].revision);
        stats->snapshots += r.snapshots;
        stats->snapshots_peak += r.snapshots_peak;
        stats->snapshots_missed += r.missed;
    }
}

bool shard_versions_full(const struct shard *s)
{
    for (uint32_t t = 0; t < s->opt.tables; t++)
        if (s->table[t].revision && revision_full(s->table[t].revision))
            return true;
    return false;
}
