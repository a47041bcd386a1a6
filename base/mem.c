#include "base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

static _Atomic int64_t outstanding;
static _Atomic int64_t countdown; /* 0: failures are off */
static _Atomic int fail_forever;
static _Atomic int fail_happened;

static int must_fail(void)
{
    int64_t left = atomic_load_explicit(&countdown, memory_order_relaxed);

    if (left == 0)
        return 0;
    left = atomic_fetch_sub(&countdown, 1);
    if (left > 1)
        return 0;
    if (left == 1 || atomic_load(&fail_forever)) {
        atomic_store(&fail_happened, 1);
        if (atomic_load(&fail_forever))
            atomic_store(&countdown, 1);
        return 1;
    }
    atomic_store(&countdown, 0);
    return 0;
}

static void *counted(void *p)
{
    if (p)
        atomic_fetch_add_explicit(&outstanding, 1, memory_order_relaxed);
    return p;
}

void *mem_alloc(size_t size)
{
    if (size == 0 || must_fail())
        return NULL;
    return counted(malloc(size));
}

void *mem_calloc(size_t count, size_t size)
{
    if (count == 0 || size == 0 || count > SIZE_MAX / size || must_fail())
        return NULL;
    return counted(calloc(count, size));
}

void *mem_realloc(void *p, size_t size)
{
    void *q;

    if (!p)
        return mem_alloc(size);
    assert(size > 0);
    if (must_fail())
        return NULL;
    q = realloc(p, size);
    return q;
}

void *mem_aligned(size_t align, size_t size)
{
    void *p;

    assert((align & (align - 1)) == 0);
    if (size == 0 || must_fail())
        return NULL;
    if (posix_memalign(&p, align, size) != 0)
        return NULL;
    return counted(p);
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = mem_alloc(n);

    if (p)
        memcpy(p, s, n);
    return p;
}

void mem_free(void *p)
{
    int64_t before;

    if (!p)
        return;
    before = atomic_fetch_sub_explicit(&outstanding, 1, memory_order_relaxed);
    assert(before > 0); /* it was ours */
    free(p);
}

int mem_grow(void **items, size_t *capacity, size_t item_size, size_t need)
{
    size_t grown = *capacity ? *capacity : 8;
    void *p;

    assert(item_size > 0 && (*items || *capacity == 0));
    if (need <= *capacity)
        return 0;
    if (need > SIZE_MAX / 2 / item_size)
        return -1;
    while (grown < need)
        grown *= 2;
    p = mem_realloc(*items, grown * item_size);
    if (!p)
        return -1;
    *items = p;
    *capacity = grown;
    return 0;
}

void *mem_reserve(size_t bytes)
{
    void *p;

    if (bytes == 0 || must_fail())
        return NULL;
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : counted(p);
}

void mem_unreserve(void *p, size_t bytes)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&outstanding, 1, memory_order_relaxed);
    munmap(p, bytes);
}

void mem_give_back(void *p, size_t bytes)
{
    int failed = madvise(p, bytes, MADV_DONTNEED);

    if (failed) /* locked pages */
        memset(p, 0, bytes);
}

int64_t mem_outstanding(void)
{
    return atomic_load(&outstanding);
}

void mem_fail_at(int64_t nth, int forever)
{
    assert(nth >= 0);
    atomic_store(&fail_happened, 0);
    atomic_store(&fail_forever, forever);
    atomic_store(&countdown, nth);
}

int64_t mem_fail_left(void)
{
    return atomic_load(&countdown);
}

int mem_failed(void)
{
    return atomic_load(&fail_happened);
}
