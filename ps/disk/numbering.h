/* Numbering: the row that each number of a checkpoint's placed tables was
 * (ps/nodes/placement.h).
 *
 * Where a row lay follows from the nodes that wrote it; so that any others can
 * read it, there is beside each worker's part a file
 *
 *   rows-W      for each placed table, in order, and each number of worker W's
 *               part, in order: its row, u32, little-endian
 *
 * whose length follows from the manifest and whose CRC-32C the manifest says
 * (rows_seal). All parts together are a permutation of each table's rows:
 * checked before a row is moved. Pure (files: ps/disk/numbering_io.h).
 */
#ifndef PS_NUMBERING_H
#define PS_NUMBERING_H

#include "base/fault.h"
#include "ps/disk/manifest.h"
#include "ps/rows/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct numbering {
    uint32_t tables;
    struct numbering_table {
        uint32_t *row_at;    /* [rows] owned; NULL: not placed */
        unsigned char *seen; /* [rows / 8] owned: rows that have a number */
    } * table;               /* [tables] owned */
};

/* Room for the placed tables of @m. Errors: ERR_NOMEM. */
enum err numbering_init(struct numbering *n, const struct manifest *m);
/* Accepts a zeroed one. */
void numbering_deinit(struct numbering *n);

/* Length of worker @worker's file. */
uint64_t numbering_bytes(const struct manifest *m, uint32_t worker);

/* Its bytes, into @out[numbering_bytes]; @table: [m->tables], as placed. */
void numbering_put(const struct manifest *m, const struct table *table,
                   uint32_t worker, unsigned char *out);

/* Takes worker @worker's file, each worker's once. @path for the fault. Errors:
 * ERR_FORMAT: another length or seal than the manifest has, a row that there is
 * not, a row that has a number already. When all workers' are taken it is a
 * permutation. */
enum err numbering_take(struct numbering *n, const struct manifest *m,
                        uint32_t worker, const unsigned char *bytes, size_t len,
                        const char *path, struct fault *f);

/* The row that had @number. */
static inline uint64_t numbering_row(const struct numbering *n, uint32_t table,
                                     uint64_t number)
{
    const uint32_t *row_at = n->table[table].row_at;

    return row_at ? row_at[number] : number;
}

/* Whether @t, of as many rows, has its rows under the same numbers. */
bool numbering_same(const struct numbering *n, uint32_t table,
                    const struct table *t);

#endif
