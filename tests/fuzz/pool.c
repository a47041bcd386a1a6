#include "tests/fuzz/pool.h"

#include <sanitizer/asan_interface.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNCHECKED __attribute__((no_sanitize("address")))

enum {
    UNIT = 16,
    SIZES = 18,
    FILLED = 4096,
    HELD = 0x48454c44,
    FREED = 0x46524545
};

/* Before each block; poisoned, and so the last block's end. */
struct head {
    uint32_t size; /* bytes asked for */
    uint32_t state;
    uint32_t next; /* freed: of the next in line, in units */
    uint32_t sort;
};
_Static_assert(sizeof(struct head) == UNIT, "blocks are aligned");

/* Freed blocks of one size, first in, first out. */
struct line {
    uint32_t first, last, len;
};

static const uint32_t size_of[SIZES] = {
    16,  32,   48,   64,   96,   128,  192,   256,   384,
    512, 1024, 1536, 2048, 4096, 8192, 16384, 32768, POOL_BLOCK_MAX};
static _Alignas(4096) unsigned char arena[POOL_BYTES];
static size_t used; /* bytes; 0: not begun */
static struct line line[SIZES];
static uint8_t sort_of[POOL_BLOCK_MAX / UNIT + 1]; /* by units, rounded up */
static bool off;
static atomic_flag busy = ATOMIC_FLAG_INIT;

UNCHECKED static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        ;
}

UNCHECKED static void unlock(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static void begin(void)
{
    const char *wanted = getenv("FUZZ_POOL");
    uint8_t sort = 0;

    off = wanted && strcmp(wanted, "0") == 0;
    for (size_t units = 0; units <= POOL_BLOCK_MAX / UNIT; units++) {
        while (size_of[sort] < units * UNIT)
            sort++;
        sort_of[units] = sort;
    }
    ASAN_POISON_MEMORY_REGION(arena, sizeof(arena));
    used = UNIT; /* 0 is nobody's place */
}

UNCHECKED static bool is_ours(const void *p)
{
    return (uintptr_t)p - (uintptr_t)arena < sizeof(arena);
}

UNCHECKED static struct head *head_at(uint32_t units)
{
    return (struct head *)(void *)(arena + (size_t)units * UNIT);
}

/* How many freed blocks of @sort are not used again. */
UNCHECKED static uint32_t waiting(uint8_t sort)
{
    return size_of[sort] <= POOL_SMALL_MAX ? POOL_WAITING : POOL_WAITING / 8;
}

/* A block of @sort that was freed long ago, or that is new; NULL: there is no
 * room. */
UNCHECKED static struct head *find(uint8_t sort)
{
    struct line *l = &line[sort];
    size_t need = sizeof(struct head) + size_of[sort];
    bool full =
        need > sizeof(arena) - UNIT - used; /* one poisoned at the end */
    struct head *h;

    if (l->len > (full ? 0 : waiting(sort))) {
        h = head_at(l->first);
        l->first = h->next;
        l->len--;
        return h;
    }
    if (full)
        return NULL;
    h = head_at((uint32_t)(used / UNIT));
    h->sort = sort;
    used += need;
    return h;
}

UNCHECKED static void *take(size_t size)
{
    struct head *h = NULL;

    if (size > POOL_BLOCK_MAX)
        return NULL;
    lock();
    if (!used)
        begin();
    if (!off)
        h = find(sort_of[(size + UNIT - 1) / UNIT]);
    if (h) {
        h->size = (uint32_t)size;
        h->state = HELD;
        ASAN_UNPOISON_MEMORY_REGION(h + 1, size);
    }
    unlock();
    return h ? h + 1 : NULL;
}

/* The head of @p, which a caller holds. */
UNCHECKED static struct head *held(void *p)
{
    struct head *h = (struct head *)p - 1;

    if ((uintptr_t)p % UNIT || h->state != HELD) {
        fprintf(stderr, "%p is no block, or was freed before\n", p);
        abort();
    }
    return h;
}

UNCHECKED static void give(void *p)
{
    struct head *h;
    struct line *l;
    uint32_t at = (uint32_t)(((unsigned char *)p - arena) / UNIT - 1);

    lock();
    h = held(p);
    l = &line[h->sort];
    h->state = FREED;
    ASAN_POISON_MEMORY_REGION(p, size_of[h->sort]);
    if (l->len++)
        head_at(l->last)->next = at;
    else
        l->first = at;
    l->last = at;
    unlock();
}

UNCHECKED static size_t size_at(void *p)
{
    return held(p)->size;
}

/* The units of a block's first bytes; not memset, which asks the sanitizer
 * about each. */
UNCHECKED static void fill(void *block, size_t size)
{
    uint64_t *p = block;

    if (size > FILLED) /* as the sanitizer does */
        size = FILLED;
    for (size_t i = 0; i < (size + UNIT - 1) / UNIT * 2; i++) {
        p[i] = 0xbebebebebebebebe;
        __asm__("" : : : "memory");
    }
}

void *__wrap_malloc(size_t size)
{
    void *p = take(size);

    if (!p)
        return __real_malloc(size);
    fill(p, size);
    return p;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *p = size && count > POOL_BLOCK_MAX / size ? NULL : take(count * size);

    return p ? memset(p, 0, count * size) : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    size_t before;
    void *q;

    if (!is_ours(p))
        return __real_realloc(p, size);
    before = size_at(p);
    q = __wrap_malloc(size);
    if (!q)
        return NULL;
    memcpy(q, p, before < size ? before : size);
    give(p);
    return q;
}

void __wrap_free(void *p)
{
    if (is_ours(p))
        give(p);
    else
        __real_free(p);
}
