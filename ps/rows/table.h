/* Tables: what a table is, checked, and how its rows lie in chunks and shards.
 *
 * Pure. A shared or exclusive table is cut into chunks of 1 << row_shift rows;
 * each worker's shard holds a contiguous range of whole chunks, so that one
 * node-wide array of chunk pointers finds a row without asking whose it is. A
 * local table lies whole in every worker's store.
 */
#ifndef PS_TABLE_H
#define PS_TABLE_H

#include "base/fault.h"
#include "mltune/ps.h"
#include "ps/rows/rule.h"
#include "ps/rows/slots.h"

#include <stdint.h>

enum {
    TABLE_NAME_MAX = 64,
    /* Chunks a worker should have of a shared table, so that shards are even;
     * smaller tables get smaller chunks, down to this many bytes. */
    TABLE_CHUNKS_MIN = 8,
    TABLE_CHUNK_BYTES_MIN = 4096
};

struct table {
    char name[TABLE_NAME_MAX + 1];
    uint64_t rows;
    uint32_t width;
    enum mlt_type type;
    enum mlt_access access;
    unsigned flags;
    const struct rule_ops *rule; /* NULL for a local table */
    bool rule_of_run;            /* it named none, and has that of the run */
    unsigned slots;
    uint32_t undecayed;       /* of a row's values, the last */
    uint32_t value_bytes;     /* of a row's values */
    uint32_t row_bytes;       /* values, slots, tail: the stride */
    uint32_t chunk_bytes_max; /* as declared */
    /* After table_partition. */
    uint32_t row_shift;
    uint64_t chunks; /* over all shards; of one worker for a local table */
    /* A placed table (ps/nodes/placement.h), [rows] each: chunks, parts and all
     * that goes between nodes are by number, applications speak of rows. NULL:
     * they are the same. */
    const uint32_t *number, *row_at;
    uint32_t placed; /* tells the permutation from others; 0: none */
};

static inline const char *table_name(const struct table *t)
{
    return t->name;
}

static inline bool table_is_local(const struct table *t)
{
    return t->access == MLT_LOCAL;
}

/* Whether what is kept beside all its rows is dense. */
static inline bool table_is_small(const struct table *t)
{
    return t->rows * t->value_bytes <= SLOTS_DENSE_BYTES;
}

static inline bool table_is_exclusive(const struct table *t)
{
    return t->access == MLT_EXCLUSIVE;
}

static inline bool table_is_shared(const struct table *t)
{
    return t->access == MLT_SHARED;
}

/* MLT_OWN_CLOCK. */
static inline bool table_reads_own(const struct table *t)
{
    return t->flags & MLT_READ_MY_WRITES;
}

static inline bool table_has_keys(const struct table *t)
{
    return t->flags & MLT_KEYED;
}

static inline bool table_has_own_clock(const struct table *t)
{
    return t->flags & MLT_OWN_CLOCK;
}

static inline const struct rule_ops *table_rule(const struct table *t)
{
    return t->rule;
}

static inline enum mlt_type table_value_type(const struct table *t)
{
    return t->type;
}

static inline uint32_t table_width(const struct table *t)
{
    return t->width;
}

static inline unsigned table_slots(const struct table *t)
{
    return t->slots;
}

static inline uint64_t table_rows(const struct table *t)
{
    return t->rows;
}

static inline uint32_t table_undecayed(const struct table *t)
{
    return t->undecayed;
}

/* Bytes from a row to the next, and of a row's values. */
static inline uint32_t table_row_bytes(const struct table *t)
{
    return t->row_bytes;
}

static inline uint32_t table_value_bytes(const struct table *t)
{
    return t->value_bytes;
}

/* Rows in a chunk: 1 << it; after table_partition. */
static inline uint32_t table_row_shift(const struct table *t)
{
    return t->row_shift;
}

/* Chunks, and bytes of a full one; after table_partition. */
static inline uint64_t table_chunks(const struct table *t)
{
    return t->chunks;
}

static inline uint64_t table_chunk_bytes(const struct table *t)
{
    return (uint64_t)t->row_bytes << t->row_shift;
}

/* May its rows lie on a device? Shared 32-bit floats, of which a worker reads
 * what its shard has. */
static inline bool table_fits_device(const struct table *t)
{
    return t->access == MLT_SHARED && t->type == MLT_F32 &&
           !(t->flags & (MLT_READ_MY_WRITES | MLT_KEYED));
}

static inline uint64_t table_number(const struct table *t, uint64_t row)
{
    return t->number ? t->number[row] : row;
}

static inline uint64_t table_row_at(const struct table *t, uint64_t number)
{
    return t->row_at ? t->row_at[number] : number;
}

/* Whether its rows stand in the order @row_at [rows]; NULL: that of the rows.
 */
bool table_has_order(const struct table *t, const uint32_t *row_at);

/* Checks @opt and fills @out. @rule: the server's own of the name that @opt has
 * (any other: a built-in one is looked for); where it names none, that
 * of f32 tables (the other types then have "add"). Errors: ERR_INVAL, in words
 * in @f. */
enum err table_init(struct table *out, const struct mlt_table_options *opt,
                    const struct rule_ops *rule, struct fault *f);

/* Decides the chunks for @workers shards. */
void table_partition(struct table *t, unsigned workers);

/* Numbers of shard @index: first and count (0 where the table has fewer chunks
 * than there are workers). A local table: all rows. */
void table_part(const struct table *t, unsigned workers, unsigned index,
                uint64_t *first, uint64_t *count);

/* The shard that holds number @row of a shared or exclusive table. */
unsigned table_owner(const struct table *t, unsigned workers, uint64_t row);

#endif
