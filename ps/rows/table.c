#include "ps/rows/table.h"

#include "branches/store.h"
#include "ps/rows/key_index.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum {
    PREFETCH_LIST_FLAGS = MLT_READ_MY_WRITES | MLT_NO_MOMENTUM | MLT_NOT_SAVED |
                          MLT_OWN_CLOCK | MLT_ALIKE | MLT_KEYED,
    ROW_BYTES_MAX = 1 << 30
};
#define TABLE_BYTES_MAX ((uint64_t)1 << 46)

static bool name_is_valid(const char *name)
{
    size_t n = name ? strlen(name) : 0;

    return n >= 1 && n <= TABLE_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static enum err check_shape(const struct mlt_table_options *o, struct fault *f)
{
    if (o->rows < 1 || o->width < 1)
        return fault_set(f, ERR_INVAL,
                         "table %s: %llu rows of %u values: both must be at "
                         "least 1",
                         o->name, (unsigned long long)o->rows, o->width);
    if ((unsigned)o->type > MLT_F64 || (unsigned)o->access > MLT_LOCAL)
        return fault_set(f, ERR_INVAL, "table %s: unknown type or access",
                         o->name);
    if (o->flags & ~(unsigned)PREFETCH_LIST_FLAGS)
        return fault_set(f, ERR_INVAL, "table %s: unknown flags 0x%x", o->name,
                         o->flags & ~(unsigned)PREFETCH_LIST_FLAGS);
    if (o->undecayed > o->width)
        return fault_set(f, ERR_INVAL,
                         "table %s: %u of %u values without decay", o->name,
                         o->undecayed, o->width);
    if ((o->flags & MLT_OWN_CLOCK) && o->access != MLT_SHARED)
        return fault_set(f, ERR_INVAL,
                         "table %s: MLT_OWN_CLOCK needs a shared table",
                         o->name);
    if ((o->flags & MLT_ALIKE) && o->access != MLT_LOCAL)
        return fault_set(f, ERR_INVAL,
                         "table %s: MLT_ALIKE needs a local table", o->name);
    if ((o->flags & MLT_KEYED) &&
        (o->access != MLT_SHARED || o->rows >= KEY_INDEX_ROWS_MAX))
        return fault_set(f, ERR_INVAL,
                         "table %s: MLT_KEYED needs a shared table of fewer "
                         "than %llu rows",
                         o->name, (unsigned long long)KEY_INDEX_ROWS_MAX);
    return ERR_OK;
}

static enum err find_rule(struct table *t, const struct mlt_table_options *o,
                          const struct rule_ops *rule, struct fault *f)
{
    if (t->access == MLT_LOCAL) {
        if (o->rule)
            return fault_set(f, ERR_INVAL,
                             "table %s: a local table has no update rule",
                             t->name);
        return ERR_OK;
    }
    t->rule_of_run = !o->rule && t->type == MLT_F32;
    if (o->rule)
        t->rule = rule && strcmp(rule->name, o->rule) == 0 ? rule
                                                           : rule_find(o->rule);
    else
        t->rule = t->rule_of_run ? rule : rule_find("add");
    if (!t->rule)
        return fault_set(f, ERR_INVAL,
                         "table %s: unknown update rule \"%s\"; there are: %s",
                         t->name, o->rule, rule_names());
    if (!(t->rule->types & (1u << t->type)))
        return fault_set(f, ERR_INVAL,
                         "table %s: rule \"%s\" works on f32 values only; "
                         "other types have \"add\"",
                         t->name, t->rule->name);
    if (t->flags & MLT_NO_MOMENTUM && strcmp(t->rule->name, RULE_ANY) == 0)
        return fault_set(f, ERR_INVAL,
                         "table %s: rule \"any\" keeps a momentum", t->name);
    t->slots = rule_slots(t->rule, t->flags);
    return ERR_OK;
}

static enum err check_read_my_writes(const struct table *t, struct fault *f)
{
    if (!(t->flags & MLT_READ_MY_WRITES))
        return ERR_OK;
    if (t->access == MLT_SHARED && strcmp(t->rule->name, "add") == 0)
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "table %s: MLT_READ_MY_WRITES needs a shared table with "
                     "rule \"add\"",
                     t->name);
}

static enum err find_sizes(struct table *t, struct fault *f)
{
    uint64_t value_bytes = (uint64_t)t->width * rule_type_bytes(t->type);
    uint64_t tail = t->rule ? t->rule->tail * sizeof(float) : 0;
    uint64_t row_bytes = value_bytes * (1 + t->slots) + tail;

    assert(row_bytes > 0);
    if (row_bytes > ROW_BYTES_MAX || t->rows > TABLE_BYTES_MAX / row_bytes)
        return fault_set(f, ERR_INVAL,
                         "table %s: %llu rows of %u values are too large",
                         t->name, (unsigned long long)t->rows, t->width);
    t->value_bytes = (uint32_t)value_bytes;
    t->row_bytes = (uint32_t)row_bytes;
    return ERR_OK;
}

bool table_has_order(const struct table *t, const uint32_t *row_at)
{
    if (!row_at || !t->row_at)
        return !row_at && !t->row_at;
    return memcmp(row_at, t->row_at, t->rows * sizeof(*row_at)) == 0;
}

enum err table_init(struct table *out, const struct mlt_table_options *opt,
                    const struct rule_ops *rule, struct fault *f)
{
    struct table t = {0};
    enum err err;

    assert(opt && out);
    if (opt->size != sizeof(*opt))
        return fault_set(f, ERR_VERSION,
                         "table options of %zu bytes, expected %zu: built "
                         "with another version of mltune/ps.h",
                         opt->size, sizeof(*opt));
    if (!name_is_valid(opt->name))
        return fault_set(
            f, ERR_INVAL,
            "table name \"%.80s\": expected 1 to %d of a-z, 0-9, _",
            opt->name ? opt->name : "", TABLE_NAME_MAX);
    err = check_shape(opt, f);
    if (err)
        return err;
    memcpy(t.name, opt->name, strlen(opt->name) + 1);
    t.rows = opt->rows;
    t.width = opt->width;
    t.type = opt->type;
    t.access = opt->access;
    t.flags = opt->flags;
    t.undecayed = opt->undecayed;
    t.chunk_bytes_max =
        opt->chunk_bytes ? opt->chunk_bytes : (uint32_t)STORE_CHUNK_BYTES;
    err = find_rule(&t, opt, rule, f);
    if (!err)
        err = check_read_my_writes(&t, f);
    if (!err)
        err = find_sizes(&t, f);
    if (!err)
        *out = t;
    return err;
}

static uint64_t chunks_at(const struct table *t, uint32_t shift)
{
    return (t->rows + ((uint64_t)1 << shift) - 1) >> shift;
}

void table_partition(struct table *t, unsigned workers)
{
    uint32_t shift = 0;

    assert(workers >= 1);
    while (((uint64_t)t->row_bytes << (shift + 1)) <= t->chunk_bytes_max)
        shift++;
    if (t->access != MLT_LOCAL && workers > 1)
        while (shift > 0 &&
               chunks_at(t, shift) < (uint64_t)TABLE_CHUNKS_MIN * workers &&
               ((uint64_t)t->row_bytes << shift) > TABLE_CHUNK_BYTES_MIN)
            shift--;
    t->row_shift = shift;
    t->chunks = chunks_at(t, shift);
}

void table_part(const struct table *t, unsigned workers, unsigned index,
                uint64_t *first, uint64_t *count)
{
    uint64_t begin = 0, end = t->rows;

    assert(index < workers);
    if (t->access != MLT_LOCAL) {
        begin = (t->chunks * index / workers) << t->row_shift;
        end = (t->chunks * (index + 1) / workers) << t->row_shift;
        if (end > t->rows)
            end = t->rows;
    }
    *first = begin;
    *count = end - begin;
}

/* Worker w's part begins at chunk floor(chunks w / workers); solved for w. */
unsigned table_owner(const struct table *t, unsigned workers, uint64_t row)
{
    uint64_t chunk = row >> t->row_shift;

    assert(row < t->rows && t->access != MLT_LOCAL);
    return (unsigned)(((chunk + 1) * workers - 1) / t->chunks);
}
