/* The machine that this process may use: memory and processors, as the machine
 * has them and as the control groups allow that the process is in.
 *
 * A process is in a group of each hierarchy (/proc/self/cgroup), and so in all
 * above it: the smallest limit on the way up counts, of version 2 and of
 * version 1. A container sees that way as far as its own root; limits above
 * that are not seen.
 *
 * @root stands before /proc and /sys in all paths: "" but in tests.
 */
#ifndef BASE_HOST_MACHINE_IO_H
#define BASE_HOST_MACHINE_IO_H

#include <stdint.h>

/* Bytes of memory that the process can ever have: the machine's, or the
 * smallest limit (memory.max, memory.high, memory.limit_in_bytes). The same
 * whenever it is asked. */
uint64_t machine_memory(const char *root);

/* The smallest limit of a group; UINT64_MAX where there is none. */
uint64_t machine_memory_limit(const char *root);

/* Bytes that a new process could use now without swapping: what the machine has
 * available, or what a group leaves of its limit; files that are only cached
 * count as left. UINT64_MAX where nothing says so. */
uint64_t machine_memory_left(const char *root);

/* Bytes of memory that this process holds now; 0 where nothing says so. */
uint64_t machine_memory_held(const char *root);

/* Processors: those that the process may run on, or as many as the quota of a
 * group allows (cpu.max, cpu.cfs_quota_us), rounded up; at least 1. */
unsigned machine_cores(const char *root);

/* A number that rises whenever the kernel kills a process of this one's group
 * for want of memory (oom_kill), and not when it kills others. */
uint64_t machine_oom_kills(const char *root);

#endif
