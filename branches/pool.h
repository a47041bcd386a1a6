/* The pool: every chunk, page-table node and version record of one store.
 *
 * Things of one size form a class. Memory comes in slabs that hold exactly the
 * items asked for, of all classes at once, so that the pool is never larger
 * than the largest reservation was; freed items go to their class's free list.
 * Slabs go back to the system with the pool. Taking an item never fails: the
 * caller has asked pool_ensure for it before. Items that nobody has taken yet
 * are not written either, not even as a list: a slab costs its address space
 * until then.
 *
 * One owner thread.
 */
#ifndef BRANCHES_POOL_H
#define BRANCHES_POOL_H

#include "base/err.h"
#include "branches/slab.h"

#include <stdbool.h>
#include <stdint.h>

enum { POOL_BLOCK_ALIGN = 64 }; /* a cache line */

/* The head of every item. `seen` is for recounting (store_check). */
struct pool_item {
    union {
        struct {
            uint32_t refs;
            uint32_t seen;
        };
        struct pool_item *next; /* while it is free */
    };
};

/* An item of a class with blocks: a count beside the others, the bytes apart.
 * Counts that lie in the chunks cost a cache miss each (measured: 193 instead
 * of 45 us to count 16,384 of them). */
struct pool_block {
    struct pool_item item;
    unsigned char *bytes;
};

/* Items of one class in one slab that nobody has taken yet: the first of them
 * and of their blocks, how many, and where the class's next such piece is. */
struct pool_fresh {
    unsigned char *items, *blocks;
    uint64_t count;
    bool touched; /* have memory behind them */
    size_t next;  /* number of a pool_fresh; SIZE_MAX: none */
};

struct pool_class {
    uint32_t item_bytes;  /* multiple of 8 */
    uint64_t block_bytes; /* multiple of POOL_BLOCK_ALIGN; 0: plain items */
    uint64_t total;
    uint64_t used;
    struct pool_item *free;
    size_t fresh, fresh_last; /* pieces, in order; SIZE_MAX: none */
};

struct pool_slab {
    unsigned char *base;
    size_t bytes;
};

struct pool {
    const struct slab_ops *ops; /* borrowed */
    struct pool_class *class;   /* owned */
    size_t classes, classes_capacity;
    struct pool_slab *slab; /* owned */
    size_t slabs, slabs_capacity;
    struct pool_fresh *fresh; /* owned; at most one a slab and class */
    size_t freshes, freshes_capacity;
    uint64_t bytes; /* of all items, used and free */
};

void pool_init(struct pool *p, const struct slab_ops *ops);
void pool_deinit(struct pool *p);

/* A class of plain items of @item_bytes, or the class of blocks of @block_bytes
 * (rounded up to POOL_BLOCK_ALIGN), which is shared by all who ask for that
 * size. @out its number. Errors: ERR_NOMEM. */
enum err pool_add_items(struct pool *p, uint32_t item_bytes, size_t *out);
enum err pool_add_blocks(struct pool *p, uint64_t block_bytes, size_t *out);

/* Bytes of one item of @class, its block and its count included. */
uint64_t pool_class_bytes(const struct pool *p, size_t class);

/* Has at least @need[c] items of each class c in the pool, used and free
 * together. No class may be added after the first call.
 * Errors: ERR_LIMIT (more bytes than there can be), ERR_NOMEM; nothing changed.
 * Cost: one slab's address space, microseconds. */
enum err pool_ensure(struct pool *p, const uint64_t need[]);

/* Has memory behind all items of the pool, so that none of them waits for it
 * when it is first written. Errors: ERR_NOMEM; the items are there all the
 * same. Cost: 0.13 ms a MiB that was never touched. */
enum err pool_touch(struct pool *p);

/* An item with refs 1 and seen 0; what follows is undefined. pool_ensure has
 * granted it (asserted). */
struct pool_item *pool_take(struct pool *p, size_t class);
void pool_give(struct pool *p, size_t class, struct pool_item *item);

/* Bytes of the items in use. */
uint64_t pool_used_bytes(const struct pool *p);

/* Asserts that used, free and fresh items make up the pool. Cost: all free
 * items. */
void pool_check(const struct pool *p);

#endif
