/* The layout of a snapshot file, without the file.
 *
 * Numbers are little-endian; rows are in the byte order of the machine.
 *
 *   offset  bytes
 *        0  8    "MLTSNAP\n"
 *        8  4    version, 1
 *       12  4    0x0A0B0C0D in the byte order of the rows
 *       16  8    length of the whole file
 *       24  4    length of the header, without its checksum
 *       28  4    tables
 *       32  4    length of the run label
 *       36  4    length of the branch's label
 *       40  32 a table: rows 8, chunks in the file 8, row_bytes 4,
 *                chunk_bytes_max 4, checksum of the initial row 4, zero 4
 *           …    run label, branch's label
 *           4    CRC-32C of everything before
 *           …    a bit a chunk, table after table, each rounded up to a byte:
 *                chunk c of a table is bit c % 8 of its byte c / 8; 1: in the
 *                file, 0: made of initial rows
 *           4    CRC-32C of the bits, seeded with the header's
 *           …    blocks
 *
 * A block is as many of a table's chunks, in order, as fit into
 * SNAPSHOT_BLOCK_BYTES, or one if not even that fits, and a CRC-32C. That one
 * is seeded with the block's before (the first with the bits'), so that a block
 * of another place or another file is refused like a wrong bit. Header and bits
 * fix where everything lies; a state has exactly one encoding.
 */
#ifndef BRANCHES_SNAPSHOT_FORMAT_H
#define BRANCHES_SNAPSHOT_FORMAT_H

#include "base/fault.h"
#include "branches/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SNAPSHOT_VERSION = 1,
    SNAPSHOT_FIXED_BYTES = 40,
    SNAPSHOT_TABLE_BYTES = 32,
    SNAPSHOT_CRC_BYTES = 4,
    SNAPSHOT_BLOCK_BYTES = 1024 * 1024,
};

enum { SNAPSHOT_BLOB_MAX = 1 << 20 };

/* Bytes of the caller's that travel with a snapshot and mean nothing here. */
struct snapshot_labels {
    const void *run; /* which run and seed it belongs to */
    uint32_t run_bytes;
    const void *meta; /* of the branch: setting, clocks, cursor, ... */
    uint32_t meta_bytes;
};

struct snapshot_table {
    struct store_layout layout; /* initial_row is NULL */
    uint32_t initial_crc;       /* of row_bytes bytes */
    uint64_t written;           /* chunks in the file */

    /* Follow from the layout. */
    struct store_shape shape;
    uint64_t bits_at;      /* first of its bytes in the bits */
    uint64_t block_chunks; /* at most */
};

struct snapshot_form {
    struct snapshot_table *table; /* owned */
    uint32_t tables;
    struct snapshot_labels labels; /* point into `blobs` */
    unsigned char *blobs;          /* owned, or NULL */
    unsigned char *bits;           /* owned, or NULL: not made yet */

    uint64_t header_bytes; /* checksum left out */
    uint64_t bits_bytes;   /* checksum left out */
    uint64_t file_bytes;
    uint32_t header_crc;
};

/* Accepts a zeroed object. */
void snapshot_form_deinit(struct snapshot_form *form);

/* Works out header_bytes and bits_bytes and what follows from the layouts in
 * form->table. False when a layout is impossible. */
bool snapshot_form_measure(struct snapshot_form *form);

/* file_bytes from the tables' `written`. False on overflow. */
bool snapshot_form_count(struct snapshot_form *form);

static inline bool snapshot_bit(const struct snapshot_form *form,
                                const struct snapshot_table *t, uint64_t c)
{
    return form->bits[t->bits_at + c / 8] >> (c % 8) & 1;
}

/* The header with its checksum, @out[header_bytes + SNAPSHOT_CRC_BYTES]; sets
 * header_crc. The form is complete. */
void snapshot_header_encode(struct snapshot_form *form, unsigned char *out);

/* Reads the first SNAPSHOT_FIXED_BYTES @bytes of a file of @file_bytes: how
 * long the header is. @path is for the fault. Errors: ERR_FORMAT, ERR_VERSION.
 */
enum err snapshot_fixed_decode(struct snapshot_form *form,
                               const unsigned char *bytes, uint64_t file_bytes,
                               const char *path, struct fault *f);

/* Reads the whole header, @bytes[header_bytes + SNAPSHOT_CRC_BYTES], whose
 * fixed part has been read. Errors: ERR_FORMAT, ERR_NOMEM. */
enum err snapshot_header_decode(struct snapshot_form *form,
                                const unsigned char *bytes, const char *path,
                                struct fault *f);

/* Checks form->bits against @crc and the tables. Errors: ERR_FORMAT. */
enum err snapshot_bits_check(const struct snapshot_form *form, uint32_t crc,
                             const char *path, struct fault *f);
uint32_t snapshot_bits_crc(const struct snapshot_form *form);

/* One chunk after the other, in the order of the file. */
struct snapshot_cursor {
    uint32_t table;
    uint64_t chunk;    /* of the table */
    uint64_t block;    /* number in the file, from 0 */
    uint64_t in_block; /* chunks of the block before this one */
    bool first, last;  /* of the block */
    uint64_t next;     /* chunk to look at next */
    uint64_t left;     /* chunks of the table not come to yet */
};

void snapshot_cursor_init(const struct snapshot_form *form,
                          struct snapshot_cursor *at);

/* False after the last one. */
bool snapshot_cursor_next(const struct snapshot_form *form,
                          struct snapshot_cursor *at);

void snapshot_put32(unsigned char *out, uint32_t v);
uint32_t snapshot_get32(const unsigned char *in);

#endif
