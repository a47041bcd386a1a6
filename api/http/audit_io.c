#include "api/http/audit_io.h"

#include "api/http/value.h"
#include "base/clock_io.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A writer that is late may add lines to a file past its bound. */
enum { READ_MAX = AUDIT_FILE_MAX + 512 * AUDIT_LINE_MAX };

/* ---- a line -------------------------------------------------------------- */

static enum err line_of(const struct audit_entry *e, char out[AUDIT_LINE_MAX],
                        struct fault *f)
{
    time_t now = (time_t)(clock_wall() / 1000000000);
    char at[32], on[AUDIT_TEXT_MAX + 1];
    struct tm utc;
    json_t *o;
    char *text;
    int n;

    gmtime_r(&now, &utc);
    strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &utc);
    snprintf(on, sizeof(on), "%s", e->on);
    o = json_pack("{s:s, s:s, s:s, s:s, s:o, s:s}", "at", at, "by", e->by,
                  "role", role_name(e->role), "what", e->what, "on",
                  value_text(on), "outcome", e->outcome);
    text = o ? json_write(o, 0) : NULL;
    json_decref(o);
    if (!text)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    n = snprintf(out, AUDIT_LINE_MAX, "\n%s\n", text);
    mem_free(text);
    return n < AUDIT_LINE_MAX
               ? ERR_OK
               : fault_set(f, ERR_LIMIT, "a line of the audit is too long");
}

/* ---- the files ----------------------------------------------------------- */

/* Others may be at it, who have seen the same: whoever has the lock looks once
 * more. Where it cannot be done the file grows on, until the next line. */
static void turn_over(const char *state, const char *path)
{
    char lock[FILE_PATH_MAX], old[FILE_PATH_MAX];
    struct stat st;
    int fd = -1;

    if (file_join(lock, state, "audit.lock", NULL) != ERR_OK ||
        file_join(old, state, "audit.1", NULL) != ERR_OK ||
        file_lock(lock, &fd, NULL) != ERR_OK)
        return;
    if (stat(path, &st) == 0 && st.st_size >= AUDIT_FILE_MAX)
        file_rename(path, old, NULL);
    close(fd);
}

/* Whether the file ends within a line, on which a writer's disk was full. */
static bool is_torn(int fd)
{
    struct stat st;
    char last = '\n';

    return fstat(fd, &st) == 0 && st.st_size > 0 &&
           pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n';
}

/* @line: an end of line, for where one is missing, and the line. */
static enum err append(const char *path, const char *line, struct fault *f)
{
    const struct disk_ops *disk = disk_system();
    int fd = disk->open(
        path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum err err = ERR_OK;
    size_t len;
    ssize_t n;

    if (fd < 0)
        return fault_errno(f, ERR_IO, errno, "write %s", path);
    line += !is_torn(fd);
    len = strlen(line);
    do
        n = disk->write(fd, line, len);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)len)
        err = fault_errno(f, ERR_IO, n < 0 ? errno : ENOSPC, "write %s", path);
    disk->close(fd);
    return err;
}

static enum err write_line(const char *state, const char *line, struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct stat st;
    enum err err = file_join(path, state, "audit", f);

    if (err)
        return err;
    if (stat(path, &st) == 0 && st.st_size >= AUDIT_FILE_MAX)
        turn_over(state, path);
    return append(path, line, f);
}

enum err audit_write(const char *state, const struct audit_entry *entry,
                     struct fault *f)
{
    char line[AUDIT_LINE_MAX];
    enum err err = line_of(entry, line, f);

    assert(state[0] && entry->by[0] && entry->what[0]);
    return err ? err : write_line(state, line, f);
}

void audit_note(const char *state, const struct audit_entry *e)
{
    struct fault f = {0};

    if (audit_write(state, e, &f) != ERR_OK)
        log_event(LOG_ERROR, "audit_not_written",
                  "by=%s what=\"%s\" on=%s outcome=%s reason=\"%s\"", e->by,
                  e->what, e->on, e->outcome, f.text);
}

static enum err read_one(const char *state, const char *name, char **out,
                         size_t *len, struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = file_join(path, state, name, f);

    *out = NULL;
    *len = 0;
    if (!err)
        err = file_read(path, READ_MAX, out, len, f);
    return err == ERR_NOENT ? ERR_OK : err;
}

enum err audit_read(const char *state, char **out, size_t *len, struct fault *f)
{
    char *old = NULL, *now = NULL, *all = NULL;
    size_t old_len = 0, now_len = 0;
    enum err err = read_one(state, "audit.1", &old, &old_len, f);

    if (!err)
        err = read_one(state, "audit", &now, &now_len, f);
    if (!err)
        all = mem_alloc(old_len + now_len + 1);
    if (!err && !all)
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (all) {
        if (old)
            memcpy(all, old, old_len);
        if (now)
            memcpy(all + old_len, now, now_len);
        all[old_len + now_len] = '\0';
        *out = all;
        *len = old_len + now_len;
    }
    mem_free(old);
    mem_free(now);
    return err;
}
