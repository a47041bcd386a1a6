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

/* False when the memory is not there. */
static int touch(unsigned char *p, size_t bytes, size_t page)
{
    if (madvise(p, bytes, MADV_POPULATE_WRITE) == 0)
        return 1;
    if (errno != EINVAL)
        return 0;
    for (size_t at = 0; at < bytes; at += page)
        *(volatile unsigned char *)(p + at) = 0;
    return 1;
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
    if (touch(p, rounded, page))
        return p;
    munmap(p, rounded);
    return NULL;
}

static void system_unmap(void *slab, size_t bytes)
{
    if (slab)
        munmap(slab, round_up(bytes, page_bytes()));
}

const struct slab_ops *slab_system(void)
{
    static const struct slab_ops ops = {system_map, system_unmap};

    return &ops;
}
