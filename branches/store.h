/* The branch store: copy-on-write versions of one shard's training state.
 *
 * A store holds tables of fixed-width rows in chunks. A branch refers to a
 * version, one state of all tables: a page table (root, leaves, chunks) a
 * table, counted at every level. A fork bumps the version's count and nothing
 * else; the first write to anything shared copies that one path. Memory is a
 * pool of slabs with a hard limit; a fork is granted only when its worst case
 * (every chunk and page-table node copied) is reserved, so that no later write
 * can fail.
 *
 *   branch 7 ──► version ──► root ──► leaf ──► chunk   shared with its parent
 *   branch 3 ──►   (2)                (1)              until somebody writes
 *
 * One owner thread: only it forks, writes, copies, counts and frees. Others may
 * read chunks of the active branch under the rules of `struct store_map`, and a
 * background reader may read a BRANCH_KEPT branch through `store_chunk` while
 * the owner goes on (chunks of a kept branch never change or move until the
 * owner frees it).
 */
#ifndef BRANCHES_STORE_H
#define BRANCHES_STORE_H

#include "base/err.h"
#include "base/proto/branch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STORE_CHUNK_BYTES = 64 * 1024, /* default upper bound of a chunk */
    STORE_TABLES_MAX = 256,
    STORE_BRANCHES_MAX = 4096, /* live at one time */
};

typedef uint32_t store_table; /* 0 .. tables - 1, in order of declaration */

struct store;

/* Layout of a table in this shard. */
struct store_layout {
    uint64_t rows;
    uint32_t row_bytes; /* values and slots together; >= 1 */
    /* Rows a chunk is the largest power of two that fits in it; a row that is
     * wider has a chunk of its own. 0 means STORE_CHUNK_BYTES. */
    uint32_t chunk_bytes_max;
    /* Rows start as these row_bytes bytes (copied); NULL means zeros. */
    const void *initial_row;
};

/* The active branch's view of one table: a software TLB, so that a row costs
 * one load and an addition. `chunk` and `own` are atomics because under `ssp`
 * another thread may read them while the owner makes a chunk private (the new
 * pointer is published with release order, then the bit). A bit and not a byte
 * a chunk: random rows of a large table drive the flags out of the first cache
 * otherwise (measured at 1 GiB: 0.70 instead of 0.89 of a flat array). */
struct store_map {
    _Atomic(unsigned char *) *chunk; /* [chunks] */
    _Atomic uint64_t *own; /* [(chunks + 63) / 64], bit c % 64: private to the
                            * branch; read it with store_map_owns */
    uint64_t rows;
    uint64_t chunks;
    uint32_t stride;    /* bytes from a row to the next, multiple of 4 */
    uint32_t row_shift; /* rows in a chunk: 1 << row_shift */
};

/* Contents of the store now; bytes are exact (the rounding of a slab to whole
 * pages is left out). Each table's initial chunk, which stands for all chunks
 * that no branch has written, counts as one chunk in use and shared; it lies
 * outside the reservation of branches (reserved_bytes includes it once). */
struct store_stats {
    uint64_t limit_bytes;
    uint64_t reserved_bytes; /* worst case of all live branches */
    uint64_t in_use_bytes;   /* chunks and nodes that a branch refers to */
    uint64_t held_bytes; /* of that, chunks that branches wrote, each once */
    uint64_t pool_bytes; /* slabs taken from the system */
    uint64_t chunks_in_use;
    uint64_t chunks_shared;  /* all that are not private */
    uint64_t chunks_private; /* reached by one branch alone */
    uint64_t chunks_copied;  /* since the store began */
    uint64_t bytes_copied;
    uint64_t forks;
    uint32_t branches;
};

/* Bytes of the chunks that a branch refers to, as they lie in the pool: those
 * that others refer to as well, and those that only it does. Chunks of initial
 * rows count nowhere. Over all branches both add up to what they would take
 * without sharing: no less than held_bytes. */
struct store_held {
    uint64_t shared_bytes, private_bytes;
};

/* The chunks that a layout falls into: bytes from row to row, bytes of a chunk
 * (its rows, a power of two, times stride), chunks. False when row_bytes is 0
 * or something overflows. */
struct store_shape {
    uint32_t stride;
    uint32_t row_shift;
    uint64_t chunk_bytes;
    uint64_t chunks;
};
bool store_layout_shape(const struct store_layout *layout,
                        struct store_shape *out);

/* Empty store. @limit_bytes bounds chunks and nodes together.
 * Errors: ERR_NOMEM. */
enum err store_new(uint64_t limit_bytes, struct store **out);
void store_free(struct store *s);

/* As store_new, with slabs from elsewhere (tests refuse them). @slabs borrowed
 * for the life of the store. */
struct slab_ops;
enum err store_new_from(uint64_t limit_bytes, const struct slab_ops *slabs,
                        struct store **out);

/* Declares a table; only before store_create_root. Errors: ERR_NOMEM, ERR_LIMIT
 * (STORE_TABLES_MAX), ERR_INVAL (row_bytes 0, or bytes that overflow). */
enum err store_add_table(struct store *s, const struct store_layout *layout,
                         store_table *out);

/* The first branch (BRANCH_INIT), every row as its table's initial row. Errors:
 * ERR_LIMIT when the whole state does not fit, ERR_NOMEM. */
enum err store_create_root(struct store *s, branch_id id);

/* A further branch with every row as its table's initial row, related to no
 * other: what a snapshot is restored into. Errors as store_fork. */
enum err store_create(struct store *s, branch_id id, enum branch_type type);

/* Makes a branch that may write a BRANCH_KEPT one, for good. Its reservation
 * stays, unless another kept branch holds the very same state. */
void store_seal(struct store *s, branch_id id);

/* Worst-case bytes that one more writable branch needs reserved (all chunks of
 * all tables, page-table nodes included). The ledger of a node uses it. */
uint64_t store_branch_bytes(const struct store *s);

/* Takes from the system, and touches, the memory of all branches and of
 * @branches more writable ones, without reserving it for these: their first
 * writes find it there (0.13 s a GiB). A fork without it takes address space
 * alone; then the kernel gives memory as chunks are first written, in pieces of
 * 2 MiB (0.25 ms each), once: dropped branches leave theirs to the next.
 * Errors: ERR_LIMIT, ERR_NOMEM; nothing changed but what the pool holds. */
enum err store_prepare(struct store *s, uint32_t branches);

/* Forks @child from @parent. A kept fork of a kept branch, or of one that was
 * not written since it was last kept, is a reference and reserves nothing. If
 * @parent is active its maps stay valid for reading; its next write to a chunk
 * copies. Cost: one count, whatever the state's size, and two pointers a table
 * when the active branch's own chunks become shared.
 * Errors: ERR_LIMIT (reservation or STORE_BRANCHES_MAX), ERR_NOENT (@parent),
 * ERR_EXIST (@child), ERR_NOMEM; nothing changed. */
enum err store_fork(struct store *s, branch_id child, branch_id parent,
                    enum branch_type type);

/* Frees a branch; the active branch may be freed (then none is active).
 * Errors: ERR_NOENT. */
enum err store_drop(struct store *s, branch_id id);

bool store_has(const struct store *s, branch_id id);

/* The type of a branch that there is. */
enum branch_type store_type(const struct store *s, branch_id id);

/* Makes @id the branch that store_map and store_write act on, and refills the
 * maps. Cost: the page tables' pointers are read once; no chunk is touched.
 * A BRANCH_KEPT branch may be activated for reading. Errors: ERR_NOENT. */
enum err store_activate(struct store *s, branch_id id);

/* The active branch's map of @table: borrowed, valid until the next
 * store_activate or store_drop of the active branch. */
const struct store_map *store_map(const struct store *s, store_table table);

/* Makes chunk @c of the active branch private (copying it if it is shared) and
 * returns its bytes. Never fails: the fork reserved it. The active branch must
 * not be BRANCH_KEPT (asserted). */
unsigned char *store_privatize(struct store *s, store_table table, uint64_t c);

/* Bytes of chunk @c of any branch that may write, made private first: writing
 * without activating (restoring a snapshot, rows through the control protocol).
 * Owner only. */
unsigned char *store_chunk_write(struct store *s, branch_id id,
                                 store_table table, uint64_t c);

/* Read access to any branch for the snapshot writer (a kept branch, from
 * another thread) and for row reads through the control protocol (owner). */
const unsigned char *store_chunk(const struct store *s, branch_id id,
                                 store_table table, uint64_t c);

/* Read access like store_chunk's, but NULL where no branch on the way to @id
 * has written: the chunk is made of initial rows. */
const unsigned char *store_chunk_written(const struct store *s, branch_id id,
                                         store_table table, uint64_t c);
uint32_t store_tables(const struct store *s);
void store_table_layout(const struct store *s, store_table table,
                        struct store_layout *out);
uint64_t store_chunk_bytes(const struct store *s, store_table table);

void store_stats(const struct store *s, struct store_stats *out);

/* Bytes that branch @id holds; 0 where there is none. Owner only. Cost: its
 * page tables are read once. */
struct store_held store_held(const struct store *s, branch_id id);

/* Debug and tests: recounts everything and asserts that counts equal the
 * references held and that chunks in use plus free equal the pool. */
void store_check(const struct store *s);

/* Is chunk @c the active branch's own, so that it may be written in place? Then
 * map->chunk[c] may be read with relaxed order. */
static inline bool store_map_owns(const struct store_map *map, uint64_t c)
{
    uint64_t word =
        atomic_load_explicit(&map->own[c / 64], memory_order_acquire);

    return (word >> (c % 64)) & 1;
}

/* Row for reading, of the active branch. @row < map->rows. */
static inline const void *store_map_read(const struct store_map *map,
                                         uint64_t row)
{
    const unsigned char *chunk = atomic_load_explicit(
        &map->chunk[row >> map->row_shift], memory_order_acquire);
    uint64_t in_chunk = row & (((uint64_t)1 << map->row_shift) - 1);

    return chunk + in_chunk * map->stride;
}

/* Gets the map's entry of @row into the cache, early enough before the row's
 * own prefetch needs it: where rows of a large table are visited at random, the
 * map itself (8 bytes a chunk) does not stay in the first caches. Any @row. */
static inline void store_map_prefetch(const struct store_map *map, uint64_t row)
{
    __builtin_prefetch((const char *)map->chunk +
                       (row >> map->row_shift) * sizeof(*map->chunk));
}

/* Row for writing, of the active branch; owner thread only. Copies the chunk
 * first where it is shared. */
static inline void *store_write(struct store *s, const struct store_map *map,
                                store_table table, uint64_t row)
{
    uint64_t c = row >> map->row_shift;
    uint64_t in_chunk = row & (((uint64_t)1 << map->row_shift) - 1);
    unsigned char *chunk;

    if (__builtin_expect(store_map_owns(map, c), 1))
        chunk = atomic_load_explicit(&map->chunk[c], memory_order_relaxed);
    else
        chunk = store_privatize(s, table, c);
    return chunk + in_chunk * map->stride;
}

#endif
