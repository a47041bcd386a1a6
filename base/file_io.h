/* Files and folders that are whole or absent, in one call each.
 *
 * Everything is written under a temporary name ending `.tmp`, flushed to the
 * disk and renamed, so that no crash leaves half a file under its own name.
 * Files are made with mode 0600 and folders with 0700, where nothing else is
 * said. All calls go through disk_system (base/disk_io.h), which a test may
 * replace. Errors are ERR_IO with path and reason, or what the function names.
 */
#ifndef BASE_FILE_IO_H
#define BASE_FILE_IO_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    FILE_PATH_MAX = 4096,  /* bytes of a path with its end */
    FOLDER_PRIVATE = 0700, /* modes of folders, before the umask */
    FOLDER_SHARED = 0777
};

/* "@dir/@name" into @out. Errors: ERR_LIMIT too long. */
enum err file_join(char out[FILE_PATH_MAX], const char *dir, const char *name,
                   struct fault *f);

/* ---- files --------------------------------------------------------------- */

/* Writes @len bytes to @path: on return they are on the disk, folder entry
 * included; on error the old file, or none, is there and no `.tmp` is left.
 * Errors: also ERR_NOMEM. */
enum err file_write(const char *path, const void *data, size_t len,
                    struct fault *f);

/* As file_write; others may read the file, as the umask allows (0666). */
enum err file_write_shared(const char *path, const void *data, size_t len,
                           struct fault *f);

/* As file_write_shared, of @text and an end of line. */
enum err file_write_line(const char *path, const char *text, struct fault *f);

/* As file_write, but a file that is there stays: of many processes the first
 * one writes it. Errors: also ERR_EXIST. */
enum err file_create(const char *path, const void *data, size_t len,
                     struct fault *f);

/* Removes what processes that were killed in file_create(@path) left beside it.
 * Errors are ignored. */
void file_create_sweep(const char *path);

/* Content of @path with a zero byte behind it; owned by the caller (mem_free).
 * Errors: ERR_NOENT, ERR_IO, ERR_LIMIT longer than @max bytes, ERR_NOMEM,
 * ERR_FORMAT it became shorter meanwhile. */
enum err file_read(const char *path, size_t max, char **out, size_t *len,
                   struct fault *f);

/* Opens the log @path, made where it is missing: what is written to *@fd comes
 * behind what is there, whoever else writes. The caller closes it. */
enum err file_open_log(const char *path, int *fd, struct fault *f);

/* Renames on one file system; flushes nothing. */
enum err file_rename(const char *from, const char *to, struct fault *f);

/* Removes the file @path, if it is there; errors are ignored. */
void file_remove(const char *path);

/* ---- locks --------------------------------------------------------------- */

/* Locks the file @path, made where it is missing, for as long as *@fd stays
 * open, and writes this process's number into it. Whoever only asks
 * (file_locked) is never in the way. Errors: ERR_BUSY another holds it. */
enum err file_lock(const char *path, int *fd, struct fault *f);

/* Whether somebody holds the lock of @path. @pid (may be NULL): who, where it
 * is locked; 0: the number is not written yet. */
bool file_locked(const char *path, pid_t *pid);

/* ---- folders ------------------------------------------------------------- */

/* Makes the folder @path. Errors: ERR_EXIST something is there, ERR_IO. */
enum err folder_new(const char *path, mode_t mode, struct fault *f);

/* Makes the folder @path where it is missing. */
enum err folder_ensure(const char *path, mode_t mode, struct fault *f);

/* Makes @path and the folders above it that are missing. An existing folder is
 * fine. */
enum err folder_make(const char *path, struct fault *f);

/* Makes an empty folder beside @path, @own, that becomes it once it is finished
 * (folder_publish): of this process alone, so that several may make the same
 * folder at once. What processes that were killed at that left is removed; that
 * of others stays. Errors: also ERR_LIMIT. */
enum err folder_begin(const char *path, char own[FILE_PATH_MAX],
                      struct fault *f);

/* Absolute name of the folder @path, which need not exist; those above it are
 * made. Errors: ERR_INVAL no name, ERR_IO, ERR_LIMIT. */
enum err folder_absolute(const char *path, char out[FILE_PATH_MAX],
                         struct fault *f);

/* True if @path exists and holds no entry; false too when it is no folder. */
bool folder_is_empty(const char *path);

/* Gives the finished folder @from the name @to, on the same file system. Its
 * files and the entry itself are on the disk on return. A folder that is there
 * under @to is exchanged in one step and removed. */
enum err folder_publish(const char *from, const char *to, struct fault *f);

/* Removes @path with all that is in it; does not follow symbolic links, does
 * not leave the file system. A path that does not exist is fine. */
enum err folder_remove(const char *path, struct fault *f);

/* Removes the files in the folder @path whose names are @ours, and the folder
 * if it is empty then. Errors are ignored. */
void folder_clear(const char *path, bool (*ours)(const char *name));

/* Removes every entry below @path whose name ends in `.tmp`, and every socket:
 * what a killed process left behind. Errors are ignored. */
void folder_sweep(const char *path);

#endif
