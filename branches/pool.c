#include "branches/pool.h"

#include "base/mem.h"

#include <assert.h>
#include <stdbool.h>
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
    assert(ops->map && ops->unmap);
    memset(p, 0, sizeof(*p));
    p->ops = ops;
}

static void slab_deinit(struct pool *p, struct pool_slab *slab)
{
    block_open(slab->base, slab->bytes);
    p->ops->unmap(slab->base, slab->bytes);
    mem_free(slab->items);
}

void pool_deinit(struct pool *p)
{
    for (size_t i = 0; i < p->slabs; i++)
        slab_deinit(p, &p->slab[i]);
    mem_free(p->slab);
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
                                               .block_bytes = block_bytes};
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

/* Room for one more slab's record, and the slab. Errors: ERR_NOMEM. */
static enum err slab_init(struct pool *p, size_t bytes, struct pool_slab *out)
{
    *out = (struct pool_slab){.bytes = bytes};
    if (mem_grow((void **)&p->slab, &p->slabs_capacity, sizeof(*p->slab),
                 p->slabs + 1))
        return ERR_NOMEM;
    out->items = mem_calloc(p->classes, sizeof(*out->items));
    if (!out->items)
        return ERR_NOMEM;
    out->base = p->ops->map(bytes);
    if (out->base)
        return ERR_OK;
    mem_free(out->items);
    return ERR_NOMEM;
}

/* How many slabs begin at or before @address. */
static size_t slabs_up_to(const struct pool *p, const void *address)
{
    size_t low = 0, high = p->slabs;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (p->slab[middle].base <= (const unsigned char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void slab_insert(struct pool *p, const struct pool_slab *slab)
{
    size_t at = slabs_up_to(p, slab->base);

    memmove(&p->slab[at + 1], &p->slab[at], (p->slabs - at) * sizeof(*p->slab));
    p->slab[at] = *slab;
    p->slabs++;
    p->bytes += slab->bytes;
}

static struct pool_slab *slab_of(struct pool *p, const struct pool_item *item)
{
    size_t at = slabs_up_to(p, item);

    assert(at > 0);
    return &p->slab[at - 1];
}

/* Puts @count items at @items, with their blocks at @blocks, on the free list:
 * the last one first, so that they are taken in the order of their addresses.
 */
static void carve_class(struct pool_class *c, uint64_t count,
                        unsigned char *items, unsigned char *blocks)
{
    for (uint64_t i = count; i-- > 0;) {
        struct pool_item *item =
            (struct pool_item *)(items + i * c->item_bytes);

        if (c->block_bytes) {
            ((struct pool_block *)item)->bytes = blocks + i * c->block_bytes;
            block_close(blocks + i * c->block_bytes, c->block_bytes);
        }
        item->next = c->free;
        c->free = item;
    }
    c->total += count;
}

/* All blocks come first, since they want the alignment. */
static void carve(struct pool *p, const struct pool_slab *slab)
{
    unsigned char *blocks = slab->base, *items = slab->base;

    for (size_t i = 0; i < p->classes; i++)
        items += slab->items[i] * p->class[i].block_bytes;
    for (size_t i = 0; i < p->classes; i++) {
        carve_class(&p->class[i], slab -> items[i], items, blocks);
        items += slab->items[i] * p->class[i].item_bytes;
        blocks += slab->items[i] * p->class[i].block_bytes;
    }
    assert(items == slab->base + slab->bytes);
}

/* ---- giving slabs back --------------------------------------------------- */

static void count_free_items(struct pool *p)
{
    for (size_t i = 0; i < p->slabs; i++)
        p->slab[i].free = 0;
    for (size_t i = 0; i < p->classes; i++)
        for (struct pool_item *f = p->class[i].free; f; f = f->next)
            slab_of(p, f)->free++;
}

/* Is nothing of the slab in use, and can each class do without it? */
static bool may_go(const struct pool *p, const struct pool_slab *slab,
                   const uint64_t keep[])
{
    uint64_t items = 0;

    for (size_t i = 0; i < p->classes; i++) {
        if (slab->items[i] > 0 && p->class[i].total - slab->items[i] < keep[i])
            return false;
        items += slab->items[i];
    }
    return items == slab->free;
}

/* Takes the items of slabs that go (free is UINT64_MAX) from the free lists. */
static void forget_items(struct pool *p)
{
    for (size_t i = 0; i < p->classes; i++) {
        struct pool_item **link = &p->class[i].free, *item;

        while ((item = *link)) {
            if (slab_of(p, item)->free == UINT64_MAX)
                *link = item->next;
            else
                link = &item->next;
        }
    }
}

/* Gives back every slab that may go. */
static void shrink(struct pool *p, const uint64_t keep[])
{
    size_t stay = 0;

    count_free_items(p);
    for (size_t i = 0; i < p->slabs; i++) {
        if (!may_go(p, &p->slab[i], keep))
            continue;
        p->slab[i].free = UINT64_MAX;
        p->bytes -= p->slab[i].bytes;
        for (size_t k = 0; k < p->classes; k++)
            p->class[k].total -= p->slab[i].items[k];
    }
    forget_items(p);
    for (size_t i = 0; i < p->slabs; i++) {
        if (p->slab[i].free == UINT64_MAX)
            slab_deinit(p, &p->slab[i]);
        else
            p->slab[stay++] = p->slab[i];
    }
    p->slabs = stay;
}

/* Bytes that are missing and fit; shrinks the pool where that helps. */
static enum err make_room(struct pool *p, const uint64_t need[],
                          const uint64_t keep[], uint64_t bytes_max,
                          uint64_t *bytes)
{
    for (int tries = 0; tries < 2; tries++) {
        if (tries > 0)
            shrink(p, keep);
        if (!missing_bytes(p, need, bytes))
            return ERR_LIMIT;
        if (*bytes == 0 ||
            (p->bytes <= bytes_max && *bytes <= bytes_max - p->bytes))
            return ERR_OK;
    }
    return ERR_LIMIT;
}

enum err pool_ensure(struct pool *p, const uint64_t need[],
                     const uint64_t keep[], uint64_t bytes_max)
{
    struct pool_slab slab;
    uint64_t bytes;
    enum err err;

    err = make_room(p, need, keep, bytes_max, &bytes);
    if (err || bytes == 0)
        return err;
    err = slab_init(p, bytes, &slab);
    if (err)
        return err;
    for (size_t i = 0; i < p->classes; i++)
        slab.items[i] = missing(&p->class[i], need[i]);
    slab_insert(p, &slab);
    carve(p, &slab);
    return ERR_OK;
}

/* ---- items --------------------------------------------------------------- */

struct pool_item *pool_take(struct pool *p, size_t class)
{
    struct pool_class *c = &p->class[class];
    struct pool_item *item = c->free;

    assert(class < p->classes);
    assert(item != NULL);
    c->free = item->next;
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
        assert(c->used + free == c->total);
        bytes += c->total * pool_class_bytes(p, i);
    }
    assert(bytes == p->bytes);
}
