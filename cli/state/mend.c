#include "cli/state/mend.h"

#include "base/clock_io.h"
#include "base/disk_io.h"
#include "base/folder_copy_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/state/salvage.h"
#include "tuner/history/journal_head_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* SQLite's lock bytes (its file format, 1.2.1): who has a journal in
 * write-ahead mode open holds a shared lock in them. */
enum { LOCK_AT = 0x40000000, LOCK_BYTES = 512 };

enum { LOOK_AGAIN_NS = 20000000 };

#define MEND_TMP "mltune.mend.tmp"

struct mending {
    char state[FILE_PATH_MAX];
    char db[FILE_PATH_MAX], log[FILE_PATH_MAX], index[FILE_PATH_MAX];
    char aside[FILE_PATH_MAX], aside_log[FILE_PATH_MAX];
    char tmp[FILE_PATH_MAX], mended[FILE_PATH_MAX]; /* mltune.db in it */
    struct stat st;                                 /* of the damaged file */
    int fd;                                         /* that has the lock */
    unsigned losses;
    size_t runs; /* of which something is left; where the head was not enough */
    bool rebuilt;
};

/* ---- names --------------------------------------------------------------- */

static enum err name_files(struct mending *m, const char *state,
                           struct fault *f)
{
    enum err err = file_join(m->db, state, "mltune.db", f);

    snprintf(m->state, sizeof(m->state), "%s", state);
    if (!err)
        err = file_join(m->log, state, "mltune.db-wal", f);
    if (!err)
        err = file_join(m->index, state, "mltune.db-shm", f);
    if (!err)
        err = file_join(m->tmp, state, MEND_TMP, f);
    return err ? err : file_join(m->mended, m->tmp, "mltune.db", f);
}

/* The name under which the damaged file is kept: one that is free, or which it
 * has already, from someone who was killed before he was done. */
static enum err name_aside(struct mending *m, struct fault *f)
{
    for (int i = 1; i <= MEND_DAMAGED_MAX; i++) {
        char name[64];
        struct stat st;
        bool there;
        enum err err;

        snprintf(name, sizeof(name), "mltune.db.damaged-%d", i);
        err = file_join(m->aside, m->state, name, f);
        strcat(name, "-wal");
        if (!err)
            err = file_join(m->aside_log, m->state, name, f);
        if (err)
            return err;
        there = lstat(m->aside, &st) == 0;
        if (!there || (st.st_dev == m->st.st_dev && st.st_ino == m->st.st_ino))
            return ERR_OK;
    }
    return fault_set(f, ERR_LIMIT,
                     "it was damaged and mended %d times; look at the disk, "
                     "and remove mltune.db.damaged-*",
                     MEND_DAMAGED_MAX);
}

/* ---- the lock ------------------------------------------------------------ */

/* Errors: ERR_BUSY somebody has the journal open, or mends it. */
static enum err lock(struct mending *m, struct fault *f)
{
    struct flock all = {.l_type = F_WRLCK,
                        .l_whence = SEEK_SET,
                        .l_start = LOCK_AT,
                        .l_len = LOCK_BYTES};
    struct stat named;

    m->fd = open(m->db, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (m->fd < 0)
        return fault_errno(f, ERR_IO, errno, "%s", m->db);
    if (fcntl(m->fd, F_OFD_SETLK, &all) != 0)
        return fault_set(f, ERR_BUSY, "another process has it open");
    if (fstat(m->fd, &m->st) != 0 || lstat(m->db, &named) != 0 ||
        named.st_ino != m->st.st_ino || named.st_dev != m->st.st_dev)
        return fault_set(f, ERR_BUSY, "another process has mended it");
    if (!S_ISREG(m->st.st_mode) || m->st.st_uid != geteuid())
        return fault_set(f, ERR_IO, "it belongs to another user");
    return ERR_OK;
}

static void unlock(struct mending *m)
{
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

/* ---- the copy ------------------------------------------------------------ */

static bool is_journal(const char *name)
{
    return strcmp(name, "mltune.db") == 0 ||
           strcmp(name, "mltune.db-wal") == 0 ||
           strcmp(name, JOURNAL_HEAD) == 0;
}

static void lost_bytes(void *ctx, const char *path, const char *why)
{
    struct mending *m = ctx;

    m->losses++;
    console_error("%s: %s", path, why);
}

/* One that was killed between the log's new name and the journal's has left the
 * log there. */
static enum err copy_journal(struct mending *m, struct fault *f)
{
    enum err err = folder_remove(m->tmp, f);

    if (!err && access(m->log, F_OK) != 0 && access(m->aside_log, F_OK) == 0 &&
        access(m->aside, F_OK) == 0)
        err = file_rename(m->aside_log, m->log, f);
    if (!err)
        err = folder_copy_torn(m->state, m->tmp, is_journal, lost_bytes, m, f);
    return err;
}

/* ---- mended -------------------------------------------------------------- */

/* What SQLite could not bring from the log into the database as it closed it,
 * and passed over in silence, is in the log still. */
static enum err check_closed(const char *folder, struct fault *f)
{
    char log[FILE_PATH_MAX];
    enum err err = file_join(log, folder, "mltune.db-wal", f);

    if (!err && access(log, F_OK) == 0)
        err =
            fault_set(f, ERR_IO, "%s cannot be written into its database", log);
    return err;
}

struct seen {
    size_t runs, damaged;
};

static enum err count_run(void *ctx, const struct journal_run *run)
{
    struct seen *seen = ctx;

    seen->runs++;
    seen->damaged += run->damaged;
    return ERR_OK;
}

/* Whether the copy is whole: a head that is another file's finds something else
 * where the tables should be. Its runs can be read, and are runs. */
static enum err try_copy(const struct mending *m, struct fault *f)
{
    struct journal *j = NULL;
    struct seen seen = {0};
    enum err err = journal_open(m->tmp, true, JOURNAL_BUSY_MS, &j, f);

    if (!err && !journal_head_sound(j))
        err = fault_set(f, ERR_FORMAT, "the head does not fit");
    if (!err)
        err = journal_each_run(j, count_run, &seen, f);
    journal_close(j);
    if (!err && seen.runs > 0 && seen.damaged == seen.runs)
        err = fault_set(f, ERR_FORMAT, "the head does not fit");
    return err ? err : check_closed(m->tmp, f);
}

static void tell(void *ctx, const char *what)
{
    (void)ctx;
    console_error("not whole: %s", what);
}

static enum err rebuild_run(struct mending *m, struct salvage *s,
                            const char *id, const char *to, struct fault *f)
{
    struct replayed run;
    enum err err = salvage_find(s, id, &run, f);
    char *config;

    if (err)
        return err == ERR_NOENT ? ERR_OK : err;
    config = json_write(run.config, 0);
    err = config ? salvage_open(s, to, f)
                 : fault_set(f, ERR_NOMEM, "out of memory");
    if (!err)
        err = salvage_run(s, &run, config, f);
    m->runs += !err;
    mem_free(config);
    replayed_deinit(&run);
    return err;
}

/* What is left of the old journal, to be read: the damaged one as it is, or
 * with the head of the copy. Nothing that comes of it is believed without its
 * checksum. */
static void open_old(struct mending *m, struct salvage *s)
{
    if (journal_open(m->tmp, true, JOURNAL_BUSY_MS, &s->old, NULL) == ERR_OK)
        return;
    s->old = NULL;
    if (journal_head_restore(m->tmp, NULL) != ERR_OK ||
        journal_open(m->tmp, true, JOURNAL_BUSY_MS, &s->old, NULL) != ERR_OK)
        s->old = NULL;
}

/* A new journal of what is left, in the place of the copy. */
static enum err rebuild(struct mending *m, struct fault *f)
{
    char to[FILE_PATH_MAX], made[FILE_PATH_MAX];
    struct salvage s = {.from = m->state, .tell = tell};
    enum err err = file_join(to, m->tmp, "new", f);

    m->rebuilt = true;
    if (!err)
        err = file_join(made, to, "mltune.db", f);
    if (!err)
        err = folder_make(to, f);
    if (!err)
        open_old(m, &s);
    if (!err)
        err = salvage_list(&s, f);
    if (!err)
        err = salvage_open(&s, to, f);
    for (size_t i = s.runs; i-- > 0 && !err;) /* as they began */
        err = rebuild_run(m, &s, s.id[i], to, f);
    m->losses += s.losses;
    salvage_deinit(&s);
    if (!err)
        err = check_closed(to, f);
    if (!err && m->runs == 0)
        err = fault_set(f, ERR_FORMAT, "of no run is there anything left");
    return err ? err : file_rename(made, m->mended, f);
}

static enum err mend_copy(struct mending *m, struct fault *f)
{
    struct fault why = {0};
    enum err err = journal_head_restore(m->tmp, &why);

    if (!err)
        err = try_copy(m, &why);
    if (err == ERR_NOMEM || err == ERR_IO)
        return fault_set(f, err, "%s", why.text);
    if (!err)
        return ERR_OK;
    err = copy_journal(m, f); /* as it was */
    return err ? err : rebuild(m, f);
}

/* ---- in its place -------------------------------------------------------- */

/* First the log, which must not be met by the new journal. */
static enum err set_aside(struct mending *m, struct fault *f)
{
    const struct disk_ops *ops = disk_system();
    struct stat log;
    enum err err = ERR_OK;

    if (ops->link(m->db, m->aside) != 0 && errno != EEXIST)
        return fault_errno(f, ERR_IO, errno, "link %s to %s", m->db, m->aside);
    if (stat(m->log, &log) == 0)
        err = log.st_size > 0 ? file_rename(m->log, m->aside_log, f) : ERR_OK;
    if (!err)
        file_remove(m->log); /* an empty one */
    file_remove(m->index);
    return err ? err : disk_flush_parent(NULL, m->db, f);
}

static enum err flush_file(const char *path, struct fault *f)
{
    const struct disk_ops *ops = disk_system();
    int fd = ops->open(path, O_RDWR | O_CLOEXEC, 0);
    enum err err = ERR_OK;

    if (fd < 0 || ops->fsync(fd) != 0)
        err = fault_errno(f, ERR_IO, errno, "flush %s", path);
    if (fd >= 0)
        ops->close(fd);
    return err;
}

/* The new journal has another head where it was rebuilt: the copy of the old
 * one goes before it comes. */
static enum err put_in_place(struct mending *m, struct fault *f)
{
    enum err err = flush_file(m->mended, f);

    if (!err)
        err = set_aside(m, f);
    if (!err && m->rebuilt)
        journal_head_drop(m->state);
    if (!err)
        err = file_rename(m->mended, m->db, f);
    return err ? err : disk_flush_parent(NULL, m->db, f);
}

static void say(const struct mending *m)
{
    if (!m->rebuilt)
        console_error("%s was damaged at its head, and is mended from the copy "
                      "of that; the damaged file is %s",
                      m->db, m->aside);
    else
        console_error("%s was damaged, and is made anew from what is whole: "
                      "%zu runs%s; the damaged file is %s",
                      m->db, m->runs,
                      m->losses ? ", some of them as their last checkpoint has "
                                  "them"
                                : "",
                      m->aside);
}

/* The journal of another program is no damaged one of ours: it is whole, and
 * says whose it is. (Of ours a byte of that may be damaged.) */
static bool is_foreign(const struct mending *m)
{
    static const char magic[16] = "SQLite format 3", ours[4] = "mltn";
    char head[72];
    bool whole = pread(m->fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                 memcmp(head, magic, sizeof(magic)) == 0;
    int others = 0;

    for (int i = 0; whole && i < 4; i++)
        others += head[68 + i] != ours[i];
    return whole && others > (journal_head_kept(m->state) ? 1 : 0);
}

static enum err mend(struct mending *m, struct fault *f)
{
    bool whole = false;
    enum err err;

    m->fd = -1;
    m->losses = 0;
    m->runs = 0;
    m->rebuilt = false;
    err = lock(m, f);

    if (!err && is_foreign(m))
        err = ERR_FORMAT; /* which is said already */
    if (!err)
        err = name_aside(m, f);
    if (!err)
        err = copy_journal(m, f);
    if (!err)
        whole = try_copy(m, NULL) == ERR_OK; /* another has mended it */
    if (!err && !whole)
        err = copy_journal(m, f);
    if (!err && !whole)
        err = mend_copy(m, f);
    if (!err && !whole)
        err = put_in_place(m, f);
    if (err != ERR_BUSY) /* else it is another's */
        folder_remove(m->tmp, NULL);
    if (!err && !whole)
        say(m);
    unlock(m);
    return err;
}

/* ---- opened -------------------------------------------------------------- */

/* One that was killed when all was done but this has left it. Who has the
 * journal open knows that nobody mends it. */
static void sweep(const char *state)
{
    char tmp[FILE_PATH_MAX];

    if (file_join(tmp, state, MEND_TMP, NULL) == ERR_OK &&
        access(tmp, F_OK) == 0)
        folder_remove(tmp, NULL);
}

/* Mends it, or waits for who does. */
static enum err mend_and_open(struct mending *m, bool writer, int busy_ms,
                              struct journal **out, struct fault *damage,
                              struct fault *why)
{
    static const struct timespec a_while = {.tv_nsec = LOOK_AGAIN_NS};
    time_ns until = clock_monotonic() + (time_ns)busy_ms * 1000000;

    for (;;) {
        enum err mended = mend(m, why), err;

        if (mended && mended != ERR_BUSY)
            return ERR_FORMAT;
        err = journal_open(m->state, writer, busy_ms, out, damage);
        if (err != ERR_FORMAT || !mended || clock_monotonic() >= until)
            return err;
        nanosleep(&a_while, NULL);
    }
}

enum err mend_open(const char *state, bool writer, int busy_ms,
                   struct journal **out, struct fault *f)
{
    struct fault damage = {0}, why = {0};
    struct mending *m = NULL;
    enum err err = journal_open(state, writer, busy_ms, out, &damage);

    assert(state[0] == '/');
    if (err == ERR_FORMAT && journal_open_here())
        fault_set(&why, ERR_BUSY, "this process has it open");
    else if (err == ERR_FORMAT)
        m = mem_calloc(1, sizeof(*m));
    if (m && name_files(m, state, &why) == ERR_OK)
        err = mend_and_open(m, writer, busy_ms, out, &damage, &why);
    mem_free(m);
    if (!err)
        sweep(state);
    if (err && why.text[0])
        return fault_set(f, err, "%.300s; it cannot be mended here: %.150s",
                         damage.text, why.text);
    return err ? fault_set(f, err, "%s", damage.text) : ERR_OK;
}
