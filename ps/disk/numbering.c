#include "ps/disk/numbering.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { ROW_BYTES = 4 };

enum err numbering_init(struct numbering *n, const struct manifest *m)
{
    *n = (struct numbering){.tables = m->tables};
    n->table = mem_calloc(m->tables, sizeof(*n->table));
    if (!n->table)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < m->tables; i++) {
        struct numbering_table *t = &n->table[i];

        if (!m->table[i].placed)
            continue;
        t->row_at = mem_calloc(m->table[i].rows, sizeof(*t->row_at));
        t->seen = mem_calloc(m->table[i].rows / 8 + 1, 1);
        if (t->row_at && t->seen)
            continue;
        numbering_deinit(n);
        return ERR_NOMEM;
    }
    return ERR_OK;
}

void numbering_deinit(struct numbering *n)
{
    for (uint32_t i = 0; n->table && i < n->tables; i++) {
        mem_free(n->table[i].row_at);
        mem_free(n->table[i].seen);
    }
    mem_free(n->table);
    *n = (struct numbering){0};
}

uint64_t numbering_bytes(const struct manifest *m, uint32_t worker)
{
    uint64_t first, count, bytes = 0;

    assert(worker < m->workers);
    for (uint32_t i = 0; i < m->tables; i++) {
        if (!m->table[i].placed)
            continue;
        manifest_rows(m, i, worker, &first, &count);
        bytes += count * ROW_BYTES;
    }
    return bytes;
}

void numbering_put(const struct manifest *m, const struct table *table,
                   uint32_t worker, unsigned char *out)
{
    uint64_t first, count;

    assert(worker < m->workers);
    for (uint32_t i = 0; i < m->tables; i++) {
        if (!m->table[i].placed)
            continue;
        manifest_rows(m, i, worker, &first, &count);
        for (uint64_t j = 0; j < count; j++, out += ROW_BYTES)
            bytes_put32(out, (uint32_t)table_row_at(&table[i], first + j));
    }
}

static enum err take_row(struct numbering_table *t, uint64_t number,
                         uint32_t row, const struct manifest_table *was,
                         const char *path, struct fault *f)
{
    unsigned char bit = (unsigned char)(1 << row % 8);

    if (row >= was->rows || (t->seen[row / 8] & bit))
        return fault_set(f, ERR_FORMAT,
                         "%s: table %s: number %" PRIu64 ": row %" PRIu32 " %s",
                         path, was->name, number, row,
                         row >= was->rows ? "is none of its rows"
                                          : "has another number already");
    t->seen[row / 8] |= bit;
    t->row_at[number] = row;
    return ERR_OK;
}

enum err numbering_take(struct numbering *n, const struct manifest *m,
                        uint32_t worker, const unsigned char *bytes, size_t len,
                        const char *path, struct fault *f)
{
    uint32_t seal = crc32c(0, bytes, len), said = m->part[worker].rows_seal;
    uint64_t first, count;
    enum err err = ERR_OK;

    assert(worker < m->workers);
    if (len != numbering_bytes(m, worker))
        return fault_set(f, ERR_FORMAT,
                         "%s: %zu bytes, but the manifest's tables take "
                         "%" PRIu64,
                         path, len, numbering_bytes(m, worker));
    if (seal != said)
        return fault_set(f, ERR_FORMAT,
                         "%s: seal %08" PRIx32
                         ", but the manifest says %08" PRIx32
                         ": damaged, or of another checkpoint",
                         path, seal, said);
    for (uint32_t i = 0; i < m->tables && !err; i++) {
        if (!m->table[i].placed)
            continue;
        manifest_rows(m, i, worker, &first, &count);
        for (uint64_t j = 0; j < count && !err; j++, bytes += ROW_BYTES)
            err = take_row(&n->table[i], first + j, bytes_get32(bytes),
                           &m->table[i], path, f);
    }
    return err;
}

bool numbering_same(const struct numbering *n, uint32_t table,
                    const struct table *t)
{
    return table_has_order(t, n->table[table].row_at);
}
