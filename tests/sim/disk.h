/* A disk that does not exist: files and folders in memory, behind
 * base/disk_io.h and, for SQLite, behind a file system of its own over the very
 * same files (disk_vfs.c).
 *
 * What was written is in the machine's cache until it is flushed. When the
 * machine loses power, each file keeps what was flushed and any part of what
 * was not: none, all, the first writes, or single sectors of them in any order
 * (a write is torn, a later one is there and an earlier one is not). Names come
 * and go in the order in which they were made; some of the last ones, up to
 * those that a flush of their folder has made sure of, are lost.
 *
 * A process that is killed loses nothing but its open descriptors. Calls fail
 * where they are told to: at random, or because the disk is full. All is a
 * function of the seed. One disk a process.
 */
#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H

#include "base/disk_io.h"

#include <stdbool.h>
#include <stdint.h>

/* Folders that are there from the start. */
#define SIM_DISK_STATE "/simulated"
#define SIM_DISK_SNAPSHOTS "/simulated/snapshots"

enum sim_disk_call {
    SIM_DISK_OPEN,
    SIM_DISK_READ,
    SIM_DISK_WRITE,
    SIM_DISK_SYNC,
    SIM_DISK_RENAME, /* exchange and link, too */
    SIM_DISK_UNLINK, /* rmdir, too */
    SIM_DISK_MKDIR,
    SIM_DISK_TRUNCATE,
    SIM_DISK_SIZE,
    SIM_DISK_CALLS
};
const char *sim_disk_call_name(enum sim_disk_call call);

struct sim_disk_faults {
    uint64_t room;     /* bytes that fit; 0: no bound */
    double error;      /* probability that a call fails with EIO */
    double full;       /* the same with ENOSPC, of those that need room */
    const char *below; /* only what is called so in the beginning fails; NULL:
                        * all */
    /* The nth call of one kind fails, from 1; 0: none does. */
    uint64_t nth;
    enum sim_disk_call call;
    int with;         /* errno */
    bool forever;     /* all that follow, too, until the process ends */
    unsigned process; /* whose calls: 0 is the first, 1 who resumes it, ... */
};

/* An empty disk, in the system's place from here on, for SQLite too. */
void sim_disk_init(uint64_t seed);
void sim_disk_deinit(void);

/* In effect until the next call; NULL: none. Calls of each kind are counted
 * from here on, of the process that `process` names. */
void sim_disk_set_faults(const struct sim_disk_faults *faults);

/* The process was killed: nothing reaches the disk any more, whatever is still
 * called to give memory back, until sim_disk_process_ends or
 * sim_disk_power_cut. */
void sim_disk_kill(void);

/* The process is gone, its descriptors are closed. */
void sim_disk_process_ends(void);

/* The machine has lost power: so has the process, and what was not flushed is
 * lost in part. */
void sim_disk_power_cut(void);

/* Calls that failed; names and sectors that power cuts took. */
struct sim_disk_stats {
    uint64_t failed, full, lost_names, lost_sectors, calls, flushes;
    uint64_t called[SIM_DISK_CALLS]; /* of the process whose calls count */
};
struct sim_disk_stats sim_disk_stats(void);

/* Whether there is a file or folder @path; the paths of what is in the folder
 * @path go to @visit, which may change the disk. Never fail. */
bool sim_disk_has(const char *path);
void sim_disk_each(const char *path, void (*visit)(void *ctx, const char *path),
                   void *ctx);

/* Removes @path with all below it, as base's folder_remove does on a real disk:
 * through calls that may fail. */
bool sim_disk_remove(const char *path);

/* Changes one bit of the file @path, at @at of its length. */
void sim_disk_flip(const char *path, double at);

/* ---- for disk_vfs.c ------------------------------------------------------ */

const struct disk_ops *sim_disk_ops(void);
ssize_t sim_disk_read_at(int fd, void *buffer, size_t n, uint64_t offset);
void sim_disk_vfs_init(void);
void sim_disk_vfs_deinit(void);

#endif
