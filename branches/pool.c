#include "branches/pool.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Free blocks are closed to everybody under the address sanitizer, which sees
 * no use after free in memory that is not malloc's. */
#ifdef __SANITIZE_ADDRESS__
#define POOL_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_POISON 1
#endif
#endif

#ifdef POOL_POISON
void __asan_poison_memory_region(void const volatile *p, size_t size);
void __asan_unpoison_memory_region(void const volatile *p, size_t size);

static void block_close(const void *p, uint64_t bytes)
{
    __asan_poison_memory_region(p, bytes);
}

static void block_open(const void *p, uint64_t bytes)
{
    __asan_unpoison_memory_region(p, bytes);
}
#else
static void block_close(const void *p, uint64_t bytes)
{
    (void)p;
    (void)bytes;
}

static void block_open(const void *p, uint64_t bytes)
{
    (void)p;
    (void)bytes;
}
#endif

void pool_init(struct pool *p, const struct slab_ops *ops)
{
    assert(ops->map && ops->touch && ops->unmap);
    memset(p, 0, sizeof(*p));
    p->ops = ops;
}

static void slab_deinit(struct pool *p, struct pool_slab *slab)
{
    block_open(slab->base, slab->bytes);
    p->ops->unmap(slab->base, slab->bytes);
}

void pool_deinit(struct pool *p)
{
    for (size_t i = 0; i < p->slabs; i++)
        slab_deinit(p, &p->slab[i]);
    mem_free(p->slab);
    mem_free(p->fresh);
    mem_free(p->class);
    memset(p, 0, sizeof(*p));
}

static enum err add_class(struct pool *p, uint32_t item_bytes,
                          uint64_t block_bytes, size_t *out)
{
    assert(p->slabs == 0);
    if (mem_grow((void **)&p->class, &p->classes_capacity, sizeof(*p->class),
                 p->classes + 1))
        return ERR_NOMEM;
    p->class[p->classes] = (struct pool_class){.item_bytes = item_bytes,
                                               .block_bytes = block_bytes,
                                               .fresh = SIZE_MAX,
                                               .fresh_last = SIZE_MAX};
    *out = p->classes++;
    return ERR_OK;
}

enum err pool_add_items(struct pool *p, uint32_t item_bytes, size_t *out)
{
    assert(item_bytes >= sizeof(struct pool_item) && item_bytes % 8 == 0);
    return add_class(p, item_bytes, 0, out);
}

enum err pool_add_blocks(struct pool *p, uint64_t block_bytes, size_t *out)
{
    uint64_t align = POOL_BLOCK_ALIGN;
    uint64_t rounded = (block_bytes + align - 1) / align * align;

    assert(block_bytes > 0 && rounded >= block_bytes);
    for (size_t i = 0; i < p->classes; i++) {
        if (p->class[i].block_bytes == rounded) {
            *out = i;
            return ERR_OK;
        }
    }
    return add_class(p, sizeof(struct pool_block), rounded, out);
}

uint64_t pool_class_bytes(const struct pool *p, size_t class)
{
    assert(class < p->classes);
    return p->class[class].item_bytes + p->class[class].block_bytes;
}

static uint64_t missing(const struct pool_class *c, uint64_t need)
{
    return need > c->total ? need - c->total : 0;
}

/* Bytes of a slab that holds all that is missing; false on overflow. */
static bool missing_bytes(const struct pool *p, const uint64_t need[],
                          uint64_t *out)
{
    uint64_t sum = 0, part;

    for (size_t i = 0; i < p->classes; i++) {
        if (__builtin_mul_overflow(missing(&p->class[i], need[i]),
                                   pool_class_bytes(p, i), &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return false;
    }
    *out = sum;
    return sum <= SIZE_MAX / 2;
}

/* ---- slabs --------------------------------------------------------------- */

/* One more slab, and room for a piece of each class. Errors: ERR_NOMEM; nothing
 * changed. */
static enum err add_slab(struct pool *p, size_t bytes, unsigned char **base)
{
    if (mem_grow((void **)&p->slab, &p->slabs_capacity, sizeof(*p->slab),
                 p->slabs + 1) ||
        mem_grow((void **)&p->fresh, &p->freshes_capacity, sizeof(*p->fresh),
                 p->freshes + p->classes))
        return ERR_NOMEM;
    *base = p->ops->map(bytes);
    if (!*base)
        return ERR_NOMEM;
    p->slab[p->slabs++] = (struct pool_slab){*base, bytes};
    p->bytes += bytes;
    return ERR_OK;
}

/* @count fresh items of class @c at @items, with their blocks at @blocks. */
static void carve_class(struct pool *p, struct pool_class *c, uint64_t count,
                        unsigned char *items, unsigned char *blocks)
{
    size_t piece = p->freshes;

    if (count == 0)
        return;
    assert(piece < p->freshes_capacity);
    p->fresh[p->freshes++] =
        (struct pool_fresh){items, blocks, count, false, SIZE_MAX};
    if (c->fresh == SIZE_MAX)
        c->fresh = piece;
    else
        p->fresh[c->fresh_last].next = piece;
    c->fresh_last = piece;
    c->total += count;
}

/* All that is missing of each class, in a slab of just its bytes. Blocks come
 * first, since they want the alignment. */
static void carve(struct pool *p, const uint64_t need[], unsigned char *base,
                  size_t bytes)
{
    unsigned char *blocks = base, *items = base;

    for (size_t i = 0; i < p->classes; i++)
        items += missing(&p->class[i], need[i]) * p->class[i].block_bytes;
    block_close(base, (uint64_t)(items - base));
    for (size_t i = 0; i < p->classes; i++) {
        uint64_t n = missing(&p->class[i], need[i]);

        carve_class(p, &p->class[i], n, items, blocks);
        items += n * p->class[i].item_bytes;
        blocks += n * p->class[i].block_bytes;
    }
    assert(items == base + bytes);
}

enum err pool_ensure(struct pool *p, const uint64_t need[])
{
    unsigned char *base;
    uint64_t bytes;
    enum err err;

    assert(p->classes > 0);
    if (!missing_bytes(p, need, &bytes))
        return ERR_LIMIT;
    if (bytes == 0)
        return ERR_OK;
    err = add_slab(p, bytes, &base);
    if (!err)
        carve(p, need, base, bytes);
    return err;
}

static enum err touch_piece(struct pool *p, const struct pool_class *c,
                            struct pool_fresh *piece)
{
    enum err err = ERR_OK;

    if (piece->touched)
        return ERR_OK;
    if (c->block_bytes)
        err = p->ops->touch(piece->blocks, piece->count * c->block_bytes);
    if (!err)
        err = p->ops->touch(piece->items, piece->count * c->item_bytes);
    piece->touched = !err;
    return err;
}

enum err pool_touch(struct pool *p)
{
    enum err err = ERR_OK;

    for (size_t i = 0; i < p->classes && !err; i++) {
        const struct pool_class *c = &p->class[i];

        for (size_t at = c->fresh; at != SIZE_MAX && !err;
             at = p->fresh[at].next)
            err = touch_piece(p, c, &p->fresh[at]);
    }
    return err;
}

/* ---- items --------------------------------------------------------------- */

static struct pool_item *take_free(struct pool_class *c)
{
    struct pool_item *item = c->free;

    c->free = item->next;
    return item;
}

/* The fresh item with the lowest address of the class's first piece. */
static struct pool_item *take_fresh(struct pool *p, struct pool_class *c)
{
    struct pool_fresh *piece;
    struct pool_item *item;

    assert(c->fresh != SIZE_MAX);
    piece = &p->fresh[c->fresh];
    assert(piece->count > 0);
    item = (struct pool_item *)piece->items;
    if (c->block_bytes)
        ((struct pool_block *)item)->bytes = piece->blocks;
    piece->items += c->item_bytes;
    piece->blocks += c->block_bytes;
    if (--piece->count == 0)
        c->fresh = piece->next;
    return item;
}

struct pool_item *pool_take(struct pool *p, size_t class)
{
    struct pool_class *c = &p->class[class];
    struct pool_item *item;

    assert(class < p->classes);
    item = c->free ? take_free(c) : take_fresh(p, c);
    c->used++;
    item->refs = 1;
    item->seen = 0;
    if (c->block_bytes)
        block_open(((struct pool_block *)item)->bytes, c->block_bytes);
    return item;
}

void pool_give(struct pool *p, size_t class, struct pool_item *item)
{
    struct pool_class *c = &p->class[class];

    assert(class < p->classes && c->used > 0);
    if (c->block_bytes)
        block_close(((struct pool_block *)item)->bytes, c->block_bytes);
    c->used--;
    item->next = c->free;
    c->free = item;
}

uint64_t pool_used_bytes(const struct pool *p)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < p->classes; i++)
        sum += p->class[i].used * pool_class_bytes(p, i);
    return sum;
}

void pool_check(const struct pool *p)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < p->classes; i++) {
        const struct pool_class *c = &p->class[i];
        uint64_t free = 0;

        for (const struct pool_item *f = c->free; f; f = f->next)
            free++;
        for (size_t at = c->fresh; at != SIZE_MAX; at = p->fresh[at].next)
            free += p->fresh[at].count;
        assert(c->used + free == c->total);
        bytes += c->total * pool_class_bytes(p, i);
    }
    assert(bytes == p->bytes);
}
