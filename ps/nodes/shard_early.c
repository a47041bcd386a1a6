/* Rows that are pushed before the clock moves, while there is budget (Wei et
 * al. 2015, section 3.3.2). */
#include "base/mem.h"
#include "ps/nodes/shard.h"
#include "ps/nodes/shard_internal.h"

#include <assert.h>
#include <string.h>

/* Rows looked at for each that leaves (as ps/nodes/cache_early.c has it). */
enum { LOOKED_AT = 16 };

/* ---- life ---------------------------------------------------------------- */

static size_t row_stride(const struct shard *s)
{
    return (s->value_bytes_max + 7u) / 8 * 8;
}

static enum err init_node(const struct shard *s, struct shard_node *n)
{
    n->ahead = mem_calloc(s->opt.tables, sizeof(*n->ahead));
    n->early_row = mem_calloc(s->opt.tables, sizeof(*n->early_row));
    if (!n->ahead || !n->early_row)
        return ERR_NOMEM;
    for (uint32_t t = 0; t < s->opt.tables; t++)
        if (s->table[t].shared &&
            rowset_init(&n->ahead[t], s->table[t].count) != ERR_OK)
            return ERR_NOMEM;
    return ERR_OK;
}

enum err shard_early_init(struct shard *s)
{
    const struct consistency_ops *model = s->opt.consistency;
    enum err err = ERR_OK;

    s->can_early = model->pushes && !model->barrier;
    if (!s->can_early)
        return ERR_OK;
    s->before = mem_alloc((RULE_ROW_BATCH + 1) * row_stride(s));
    s->candidate = mem_calloc(SHARD_EARLY_ROWS, sizeof(*s->candidate));
    if (!s->before || !s->candidate)
        return ERR_NOMEM;
    for (uint32_t t = 0; t < s->opt.tables; t++) {
        if (!s->table[t].shared)
            continue;
        s->table[t].moved =
            mem_calloc(s->table[t].count + 1, sizeof(*s->table[t].moved));
        if (!s->table[t].moved)
            return ERR_NOMEM;
    }
    for (uint32_t i = 0; i < s->opt.nodes && !err; i++)
        err = init_node(s, &s->node[i]);
    return err;
}

void shard_early_deinit(struct shard *s)
{
    for (uint32_t t = 0; s->table && t < s->opt.tables; t++)
        mem_free(s->table[t].moved);
    for (uint32_t i = 0; s->node && i < s->opt.nodes; i++) {
        struct shard_node *n = &s->node[i];

        for (uint32_t t = 0; n->ahead && t < s->opt.tables; t++)
            rowset_deinit(&n->ahead[t]);
        mem_free(n->ahead);
        mem_free(n->early_row);
    }
    mem_free(s->before);
    mem_free(s->candidate);
}

void shard_set_early(struct shard *s, bool early)
{
    assert(!s->running);
    s->early = early && s->can_early;
}

static void forget(struct shard *s, uint32_t table)
{
    struct shard_table *t = &s->table[table];

    memset(t->moved, 0, t->count * sizeof(*t->moved));
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        rowset_clear(&s->node[i].ahead[table]);
}

void shard_early_begin(struct shard *s)
{
    for (uint32_t t = 0; t < s->opt.tables && s->early; t++)
        if (s->table[t].shared)
            forget(s, t);
}

/* ---- what has changed ---------------------------------------------------- */

/* Rows of any type, aligned. */
static unsigned char *before(const struct shard *s, size_t i)
{
    return s->before + i * row_stride(s);
}

void shard_early_before(struct shard *s, uint32_t table, size_t n,
                        const uint64_t row[])
{
    for (size_t i = 0; i < n; i++)
        s->opt.rows->read(s->opt.rows_self, table, row[i], before(s, i));
}

void shard_early_after(struct shard *s, uint32_t table, size_t n,
                       const uint64_t row[])
{
    struct shard_table *t = &s->table[table];
    unsigned char *now = before(s, RULE_ROW_BATCH);

    for (size_t i = 0; i < n; i++) {
        s->opt.rows->read(s->opt.rows_self, table, row[i], now);
        t->moved[row[i] - t->first] += (float)priority_distance(
            t->t->type, t->t->width, before(s, i), now);
    }
    for (uint32_t k = 0; k < s->opt.nodes; k++) {
        struct rowset *ahead = &s->node[k].ahead[table];

        for (size_t i = 0; i < n && ahead->low < ahead->rows; i++)
            rowset_remove(ahead, row[i] - t->first);
    }
}

void shard_early_given(struct shard *s, struct shard_node *n, uint32_t table,
                       uint64_t row)
{
    if (s->early)
        rowset_add(&n->ahead[table], row);
}

void shard_early_clock(struct shard *s, uint32_t table)
{
    for (uint32_t i = 0; i < s->opt.nodes; i++)
        rowset_remove_all(&s->node[i].due[table], &s->node[i].ahead[table]);
    forget(s, table);
}

/* ---- what to push -------------------------------------------------------- */

static double key_of(struct shard *s, uint32_t table, uint64_t row,
                     enum priority p)
{
    struct shard_table *t = &s->table[table];
    double size = 0;

    if (p == PRIORITY_RELATIVE) {
        s->opt.rows->read(s->opt.rows_self, table, t->first + row, s->before);
        size = priority_norm(t->t->type, t->t->width, s->before);
    }
    return priority_key(p, (double)t->moved[row], size, &s->random);
}

/* Candidates of rows [first, end): changed, registered, not there yet. */
static size_t collect(struct shard *s, const struct shard_node *n,
                      uint32_t table, uint64_t first, uint64_t end,
                      enum priority p, size_t found, size_t most)
{
    const uint64_t *changed = s->table[table].changed.word;
    const uint64_t *has = n->has[table].word, *ahead = n->ahead[table].word;

    for (uint64_t w = first >> 6; w * 64 < end; w++) {
        uint64_t bits = changed[w] & has[w] & ~ahead[w];

        for (; bits && found < most; bits &= bits - 1) {
            uint64_t row = w * 64 + (unsigned)__builtin_ctzll(bits);

            if (row >= first && row < end)
                s->candidate[found++] =
                    (struct candidate){key_of(s, table, row, p), row};
        }
        if (found == most)
            break;
    }
    return found;
}

static size_t rows_in(const struct shard *s, const struct shard_node *n,
                      uint32_t table, size_t room)
{
    const struct shard_table *t = &s->table[table];
    uint64_t record = frame_record_bytes(
        shard_row_flags(t), frame_values_of(t->t->type, n->half), t->t->width);

    return (size_t)((room - FRAME_FIXED_BYTES_MAX) / record);
}

static size_t send_best(struct shard *s, struct shard_node *n, uint32_t table,
                        enum priority p, unsigned char *bytes, size_t room)
{
    struct shard_table *t = &s->table[table];
    size_t want = rows_in(s, n, table, room), most = want, found;
    uint64_t from = n->early_row[table];
    struct frame_writer w;

    if (p != PRIORITY_ROUND_ROBIN)
        most = want < SHARD_EARLY_ROWS / LOOKED_AT ? want * LOOKED_AT
                                                   : SHARD_EARLY_ROWS;
    if (most > SHARD_EARLY_ROWS)
        most = SHARD_EARLY_ROWS;
    if (from >= t->count)
        from = 0;
    found = collect(s, n, table, from, t->count, p, 0, most);
    found = collect(s, n, table, 0, from, p, found, most);
    if (found == 0)
        return 0;
    n->early_row[table] = s->candidate[found - 1].row + 1;
    want = found < want ? found : want;
    priority_choose(s->candidate, found, want);
    shard_begin_rows(s, n, table, t->clock, FRAME_NO_WORKER, &w, bytes, room);
    for (size_t i = 0; i < want; i++) {
        bool added =
            shard_add_row(s, n, table, t->first + s->candidate[i].row, &w);

        assert(added);
        (void)added;
    }
    s->stats.pushes += want;
    s->stats.early += want;
    return frame_end(&w);
}

size_t shard_next_early(struct shard *s, uint32_t node, enum priority p,
                        unsigned char *bytes, size_t room)
{
    struct shard_node *n = &s->node[node];
    uint32_t begin = n->early_table;

    assert(node < s->opt.nodes && room >= shard_frame_bytes(s));
    if (!s->early || !s->running || n->applied_due || shard_versions_full(s))
        return 0;
    for (uint32_t i = 0; i < s->opt.tables; i++) {
        uint32_t table = (begin + i) % s->opt.tables;
        size_t size;

        if (!s->table[table].shared)
            continue;
        size = send_best(s, n, table, p, bytes, room);
        if (size == 0)
            continue;
        n->early_table = table + 1; /* the others have their turn */
        return size;
    }
    return 0;
}
