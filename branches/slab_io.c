#include "branches/slab.h"

#include <assert.h>
#include <stdint.h>

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels say EINVAL */
#endif

enum { HUGE_PAGE_BYTES = 2 * 1024 * 1024 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Address space only, starting where a huge page may start: the ends of a
 * mapping that is one huge page longer are cut off. */
static unsigned char *map_aligned(size_t bytes, size_t align)
{
    size_t longer = bytes + align, head, tail;
    unsigned char *p;

    if (longer < bytes)
        return NULL;
    p = mmap(NULL, longer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
             -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    head = round_up((uintptr_t)p, align) - (uintptr_t)p;
    tail = align - head;
    if (head > 0)
        munmap(p, head);
    if (tail > 0)
        munmap(p + head + bytes, tail);
    return p + head;
}

static enum err system_touch(void *at, size_t bytes)
{
    size_t page = page_bytes();
    uintptr_t begin = round_up((uintptr_t)at, page);
    uintptr_t end = ((uintptr_t)at + bytes) / page * page;

    if (begin >= end ||
        madvise((void *)begin, end - begin, MADV_POPULATE_WRITE) == 0)
        return ERR_OK;
    if (errno != EINVAL)
        return ERR_NOMEM;
    for (; begin < end; begin += page)
        *(volatile unsigned char *)begin = 0;
    return ERR_OK;
}

static void *system_map(size_t bytes)
{
    size_t page = page_bytes(), rounded = round_up(bytes, page);
    int huge = rounded >= HUGE_PAGE_BYTES;
    unsigned char *p;

    assert(bytes > 0);
    if (rounded < bytes)
        return NULL;
    p = map_aligned(rounded, huge ? HUGE_PAGE_BYTES : page);
    if (!p)
        return NULL;
    if (huge) /* advice: without huge pages it is slower, not wrong */
        (void)madvise(p, rounded, MADV_HUGEPAGE);
    return p;
}

static void system_unmap(void *slab, size_t bytes)
{
    if (slab)
        munmap(slab, round_up(bytes, page_bytes()));
}

const struct slab_ops *slab_system(void)
{
    static const struct slab_ops ops = {system_map, system_touch, system_unmap};

    return &ops;
}
