/* The manifest of a checkpoint: what its files hold, and that all are there.
 *
 *   DIR/manifest.json          written last: with it the checkpoint is whole
 *   DIR/shard-W                worker W's part (branches/snapshot_io.h)
 *   DIR/rows-W                 where a table is placed: the rows that its
 *                              numbers in that part are (ps/disk/numbering.h)
 *
 * and of several nodes
 *
 *   DIR/node-K/shard-W, rows-W worker W of all, which is one of node K's
 *   DIR/node-K/manifest.json   says the same, with node K's parts alone
 *
 * One JSON object, whose last member is the CRC-32C of all bytes before it, so
 * that any damage is seen before anything is believed. Rows are said by their
 * number in the table, not by the worker that held them, and where a table is
 * placed the numbers' rows are said: so a checkpoint can be read by any number
 * of nodes and workers. Pure.
 */
#ifndef PS_MANIFEST_H
#define PS_MANIFEST_H

#include "base/fault.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_NAME "manifest.json"

enum {
    MANIFEST_VERSION = 1,
    MANIFEST_NODES_MAX = 1024,
    MANIFEST_WORKERS_MAX = 32768, /* over all nodes */
    MANIFEST_TABLES_MAX = 256,    /* STORE_TABLES_MAX */
    MANIFEST_FILE_MAX = 64,       /* name of a part, with its end */
    MANIFEST_RULE_MAX = 32
};

struct manifest_table {
    char name[TABLE_NAME_MAX + 1];
    char rule[MANIFEST_RULE_MAX + 1]; /* "" for a local table */
    enum mlt_type type;
    enum mlt_access access;
    unsigned flags;
    uint64_t rows;
    uint32_t width;
    uint32_t row_bytes;  /* values, slots, tail */
    uint64_t chunk_rows; /* a power of two: parts are whole chunks */
    uint32_t placed;     /* rows are by number of this permutation
                          * (table.placed); 0: by row. A shared table's */
};

/* One worker's file, and where a table is placed the one beside it. */
struct manifest_part {
    bool there;
    uint32_t seal;      /* snapshot_seal */
    uint32_t rows_seal; /* CRC-32C of rows-W; 0 where no table is placed */
    uint64_t bytes;
};

struct manifest {
    uint64_t run;    /* of several nodes: which start of them; else 0 */
    uint64_t number; /* of the checkpoint among those of that start */
    uint64_t clock;  /* that the branch had run; in node 0, where they differ */
    uint32_t branch;
    uint32_t nodes, workers;      /* workers over all nodes: a multiple */
    struct manifest_table *table; /* [tables] owned */
    uint32_t tables;
    struct manifest_part *part; /* [workers] owned */
};

/* Room for that many, all zero. Errors: ERR_NOMEM. */
enum err manifest_init(struct manifest *m, uint32_t tables, uint32_t nodes,
                       uint32_t workers);
/* Accepts a zeroed one. */
void manifest_deinit(struct manifest *m);

/* The description of @t in a manifest. */
void manifest_describe(const struct table *t, struct manifest_table *out);

/* Whether rows of the one can be taken for rows of the other: how many, their
 * values and what their rule remembers. (Not how they lie in chunks.) A local
 * table's rows may differ in number. */
bool manifest_same_rows(const struct manifest_table *a,
                        const struct manifest_table *b);

/* "3 x 5 f32, shared, rule sgd, 40 bytes a row", for messages. */
enum { MANIFEST_TEXT_MAX = 160 };
void manifest_say(const struct manifest_table *t, char out[MANIFEST_TEXT_MAX]);

/* Rows of worker @worker's part, as table_part has them; a local table: all. */
void manifest_rows(const struct manifest *m, uint32_t table, uint32_t worker,
                   uint64_t *first, uint64_t *count);

/* Name of a part's file, from the checkpoint's folder on. */
void manifest_file(const struct manifest *m, uint32_t worker,
                   char out[MANIFEST_FILE_MAX]);
/* The file of the rows of its numbers: there is one if any table is placed. */
bool manifest_placed(const struct manifest *m);
void manifest_rows_file(const struct manifest *m, uint32_t worker,
                        char out[MANIFEST_FILE_MAX]);

/* The text, with a newline at its end; owned by the caller (mem_free); NULL
 * when out of memory. */
char *manifest_encode(const struct manifest *m);

/* Reads @text[len]; a manifest has exactly one text. @path for the fault.
 * Errors: ERR_FORMAT (damage, by place), ERR_VERSION, ERR_NOMEM. */
enum err manifest_decode(const char *text, size_t len, const char *path,
                         struct manifest *out, struct fault *f);

/* Adds the parts of @from, another node's of the same checkpoint, and its clock
 * if it is node 0's. Errors: ERR_FORMAT, it is of another one. */
enum err manifest_join(struct manifest *into, const struct manifest *from,
                       const char *path, struct fault *f);

/* The first part that is missing, or `workers`. */
uint32_t manifest_missing(const struct manifest *m);

#endif
