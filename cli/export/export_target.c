/* Where exports go: a folder of files, or an archive of them (tar or zip),
 * which is written as it comes.
 *
 * A file's length stands before it in an archive, in that of zip its checksum,
 * too. So what a file holds is
 * written into memory first, as far as EXPORT_KEPT goes; of one that is longer
 * the rest is only counted, and it is written once more, into the archive. No
 * file of any length takes more memory than that, or room on a disk.
 */
#include "cli/export/export.h"

#include "base/mem.h"
#include "cli/export/tar.h"
#include "cli/export/zip.h"

#include <errno.h>
#include <string.h>

/* Longer than all of the small files that there are many of. */
enum { EXPORT_KEPT = 64 * 1024 };

/* ---- a folder ------------------------------------------------------------ */

static enum err make_parent(char *full, struct fault *f)
{
    char *slash = strrchr(full, '/');
    enum err err;

    *slash = '\0';
    err = folder_make(full, f);
    *slash = '/';
    return err;
}

static enum err close_file(FILE *file, enum err err, const char *name,
                           struct fault *f)
{
    bool failed = ferror(file) != 0;

    failed |= fclose(file) != 0;
    if (failed && (!err || err == ERR_IO))
        err = fault_set(f, ERR_IO, "%s: %s", name, strerror(errno));
    return err;
}

static enum err put_in_folder(const struct export_target *t, const char *name,
                              export_content *write, const void *ctx,
                              struct fault *f)
{
    char full[FILE_PATH_MAX];
    FILE *file;
    enum err err = file_join(full, t->path, name, f);

    if (!err)
        err = make_parent(full, f);
    if (err)
        return err;
    file = fopen(full, "wxe");
    if (!file)
        return fault_set(f, ERR_IO, "%s: %s", full, strerror(errno));
    return close_file(file, write(ctx, file, f), name, f);
}

/* ---- an archive ---------------------------------------------------------- */

/* Bytes that are written are kept or (with @to) passed on, and counted. */
struct export_counted {
    char *kept; /* [EXPORT_KEPT] */
    FILE *to;
    uint64_t size, limit; /* of what is passed on */
    bool checked;         /* crc is kept, too */
    uint32_t crc;
};

static ssize_t count(void *cookie, const char *bytes, size_t len)
{
    struct export_counted *c = cookie;

    if (c->to) {
        if (len > c->limit - c->size || fwrite(bytes, 1, len, c->to) != len)
            return 0;
    } else if (c->size < EXPORT_KEPT) {
        size_t room = EXPORT_KEPT - (size_t)c->size;

        memcpy(c->kept + c->size, bytes, len < room ? len : room);
    }
    c->size += len;
    if (c->checked)
        c->crc = zip_crc(c->crc, bytes, len);
    return (ssize_t)len;
}

/* @name is what @f blames. */
static enum err write_counted(struct export_counted *c, const char *name,
                              export_content *write, const void *ctx,
                              struct fault *f)
{
    const cookie_io_functions_t io = {.write = count};
    FILE *file = fopencookie(c, "w", io);

    if (!file)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    errno = EIO;
    return close_file(file, write(ctx, file, f), name, f);
}

static enum err put_tar_head(const struct export_target *t, const char *full,
                             uint64_t size)
{
    unsigned char block[TAR_BLOCK];
    enum err err = tar_header(full, size, t->mtime_s, block);

    if (!err)
        fwrite(block, 1, sizeof(block), t->out);
    return err;
}

static enum err put_zip_head(const struct export_target *t, const char *full,
                             const struct export_counted *file)
{
    struct text head = {0};
    enum err err =
        zip_file(t->zip, full, file->size, file->crc, t->mtime_s, &head);

    if (!err)
        fwrite(head.s, 1, head.len, t->out);
    text_deinit(&head);
    return err;
}

static enum err put_head(const struct export_target *t, const char *name,
                         const struct export_counted *file, struct fault *f)
{
    char full[RUN_ID_MAX + 256];
    enum err err = ERR_LIMIT;

    if (snprintf(full, sizeof(full), "%s/%s", t->prefix, name) <
        (int)sizeof(full))
        err = t->zip ? put_zip_head(t, full, file)
                     : put_tar_head(t, full, file->size);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "%s", err_text(err));
    return err ? fault_set(f, err, "%s: the name is too long for an archive",
                           name)
               : ERR_OK;
}

static enum err put_tail(FILE *out, unsigned len, const char *name,
                         struct fault *f)
{
    static const char zeros[2 * TAR_BLOCK];

    fwrite(zeros, 1, len, out);
    if (ferror(out))
        return fault_set(f, ERR_IO, "%s: %s", name, strerror(errno));
    return ERR_OK;
}

static enum err put_in_archive(const struct export_target *t, const char *name,
                               export_content *write, const void *ctx,
                               struct fault *f)
{
    struct export_counted first = {.kept = mem_alloc(EXPORT_KEPT),
                                   .checked = t->zip != NULL},
                          again;
    enum err err = first.kept
                       ? write_counted(&first, name, write, ctx, f)
                       : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));

    if (!err)
        err = put_head(t, name, &first, f);
    if (!err && first.size <= EXPORT_KEPT) {
        fwrite(first.kept, 1, (size_t)first.size, t->out);
    } else if (!err) {
        again = (struct export_counted){
            .to = t->out, .limit = first.size, .checked = first.checked};
        err = write_counted(&again, name, write, ctx, f);
        if (!err && (again.size != first.size || again.crc != first.crc))
            err = fault_set(f, ERR_FORMAT, "%s changed while it was written",
                            name);
    }
    mem_free(first.kept);
    return err ? err
               : put_tail(t->out, t->zip ? 0 : tar_padding(first.size), name,
                          f);
}

/* ---- both ---------------------------------------------------------------- */

enum err export_file(const struct export_target *t, const char *name,
                     export_content *write, const void *ctx, struct fault *f)
{
    return t->path ? put_in_folder(t, name, write, ctx, f)
                   : put_in_archive(t, name, write, ctx, f);
}

enum err export_archive_end(const struct export_target *t, struct fault *f)
{
    struct text end = {0};
    enum err err;

    if (!t->zip)
        return put_tail(t->out, 2 * TAR_BLOCK, t->prefix, f);
    err = zip_end(t->zip, &end);
    if (err)
        err = fault_set(f, err, "%s", err_text(err));
    else
        fwrite(end.s, 1, end.len, t->out);
    text_deinit(&end);
    return err ? err : put_tail(t->out, 0, t->prefix, f);
}
