#include "ps/server/memory_io.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The number at the start of @path's first line that begins with @key (any line
 * if it is empty), times @unit; UINT64_MAX where there is none ("max"). */
static uint64_t number_in(const char *path, const char *key, uint64_t unit)
{
    FILE *f = fopen(path, "re");
    uint64_t value = UINT64_MAX, n;
    char line[256];

    if (!f)
        return UINT64_MAX;
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0) {
            if (sscanf(line + strlen(key), "%" SCNu64, &n) == 1 &&
                n < UINT64_MAX / unit)
                value = n * unit;
            break;
        }
    fclose(f);
    return value;
}

/* Bytes that the limit of a control group leaves. */
static uint64_t left_of(const char *limit_path, const char *used_path)
{
    uint64_t limit = number_in(limit_path, "", 1);
    uint64_t used = number_in(used_path, "", 1);

    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Control groups as a container sees its own: version 2, then version 1. */
uint64_t memory_available(void)
{
    uint64_t bytes = number_in("/proc/meminfo", "MemAvailable:", 1024);

    bytes = least(bytes, left_of("/sys/fs/cgroup/memory.max",
                                 "/sys/fs/cgroup/memory.current"));
    return least(bytes, left_of("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                "/sys/fs/cgroup/memory/memory.usage_in_bytes"));
}
