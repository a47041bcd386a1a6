#include "tests/sim/shard_store.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static enum err add_tables(struct shard_store *s,
                           const struct shard_options *opt)
{
    for (uint32_t i = 0; i < opt->tables; i++) {
        const struct table *t = &opt->table[i];
        struct store_layout layout = {
            .row_bytes = t->row_bytes,
            .chunk_bytes_max = t->row_bytes << t->row_shift,
        };
        store_table number;
        enum err err;

        shard_part(t, opt->nodes, opt->workers, opt->node, &s->first[i],
                   &layout.rows);
        err = store_add_table(s->store, &layout, &number);
        if (err)
            return err;
        assert(number == i);
    }
    return ERR_OK;
}

enum err shard_store_init(struct shard_store *s,
                          const struct shard_options *opt, uint64_t limit_bytes,
                          branch_id root)
{
    struct shard_store new = {.table = opt->table, .tables = opt->tables};
    enum err err;

    new.first = mem_calloc(opt->tables, sizeof(*new.first));
    if (!new.first)
        return ERR_NOMEM;
    err = store_new(limit_bytes, &new.store);
    if (!err)
        err = add_tables(&new, opt);
    if (!err)
        err = store_create_root(new.store, root);
    if (err)
        shard_store_deinit(&new);
    else
        *s = new;
    return err;
}

void shard_store_deinit(struct shard_store *s)
{
    store_free(s->store);
    mem_free(s->first);
    memset(s, 0, sizeof(*s));
}

static enum err fork_branch(void *self, branch_id child, branch_id parent,
                            enum branch_type type)
{
    struct shard_store *s = self;

    if (child == BRANCH_NONE || parent == BRANCH_NONE)
        return ERR_INVAL;
    return store_fork(s->store, child, parent, type);
}

static enum err drop_branch(void *self, branch_id id)
{
    struct shard_store *s = self;

    return id == BRANCH_NONE ? ERR_NOENT : store_drop(s->store, id);
}

static enum err activate_branch(void *self, branch_id id, bool *writable)
{
    struct shard_store *s = self;
    enum err err = id == BRANCH_NONE ? ERR_NOENT : store_activate(s->store, id);

    if (!err)
        *writable = store_type(s->store, id) != BRANCH_KEPT;
    return err;
}

static void apply_rows(void *self, uint32_t table, size_t n,
                       const uint64_t row[], const void *const sum[],
                       const void *const seen[],
                       const struct rule_params *params)
{
    struct shard_store *s = self;
    const struct table *t = &s->table[table];
    const struct store_map *map = store_map(s->store, table);
    void *place[RULE_ROW_BATCH];
    struct rule_batch batch = {n,       place,    sum,     t->width,
                               t->type, t->slots, *params, seen};

    assert(n <= RULE_ROW_BATCH);
    for (size_t i = 0; i < n; i++)
        place[i] = store_write(s->store, map, table, row[i] - s->first[table]);
    rule_apply(t->rule, &batch, t->undecayed);
}

static void read_row(void *self, uint32_t table, uint64_t row, void *out)
{
    struct shard_store *s = self;

    memcpy(out,
           store_map_read(store_map(s->store, table), row - s->first[table]),
           s->table[table].value_bytes);
}

static const float *gradients_of_row(void *self, uint32_t table, uint64_t row)
{
    struct shard_store *s = self;
    const struct table *t = &s->table[table];

    return rule_gradient_sum(
        store_map_read(store_map(s->store, table), row - s->first[table]),
        t->width, t->slots);
}

const struct shard_rows shard_store_rows = {
    fork_branch, drop_branch, activate_branch,
    apply_rows,  read_row,    gradients_of_row,
};

const void *shard_store_row(const struct shard_store *s, branch_id branch,
                            uint32_t table, uint64_t row)
{
    const struct table *t = &s->table[table];
    uint64_t local = row - s->first[table];
    uint64_t in_chunk = local & (((uint64_t)1 << t->row_shift) - 1);
    const unsigned char *chunk =
        store_chunk(s->store, branch, table, local >> t->row_shift);

    return chunk + in_chunk * t->row_bytes;
}
