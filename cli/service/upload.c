#include "cli/service/upload.h"

#include "base/clock_io.h"
#include "base/disk_io.h"
#include "base/file_io.h"
#include "cli/service/upload_list.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { UPLOAD_MODE = 0640 };

static void respond(const char *name, uint64_t bytes, bool complete,
                    struct response *out)
{
    response_json(out, 200,
                  json_pack("{s:s, s:I, s:b}", "name", name, "bytes",
                            (json_int_t)bytes, "complete", complete));
    out->part = !complete;
}

static void not_stored(const struct fault *f, struct response *out)
{
    if (f->code == ERR_NOMEM)
        response_json(out, 200, NULL); /* 503 */
    else
        response_problem(out, 507, "not_stored", NULL,
                         "%s; nothing of the piece was kept", f->text);
}

/* ---- beginning ----------------------------------------------------------- */

/* True: @r may go on with what there is of its name, or put it aside. */
static bool may_touch(const struct desk_request *r,
                      const struct upload_sum *sum, struct response *out)
{
    if (!sum->others || r->role >= ROLE_ADMIN)
        return true;
    response_problem(out, 403, "role_too_low", NULL,
                     "the upload of %s was begun by %s, not by %s: to go on "
                     "with it, to begin it anew or to give it up takes the "
                     "role %s; choose another name",
                     r->upload, sum->holder[0] ? sum->holder : "an admin",
                     r->by, role_name(ROLE_ADMIN));
    return false;
}

/* Gives up the upload @name, which was written at @since_s for the last time,
 * if it has rested for long. */
static bool give_up(const struct upload_place *p, const char *name,
                    int64_t since_s)
{
    struct upload_paths at;

    return clock_wall() / 1000000000 - since_s > UPLOAD_REST_S &&
           upload_paths_of(p, name, &at, NULL) == ERR_OK &&
           disk_system()->unlink(at.part) == 0;
}

/* Makes room among the uploads of one token that are under way: the one that
 * has rested longest goes, if it has for long. */
static bool has_turn(const struct upload_place *p, const struct upload_sum *sum)
{
    return sum->open < UPLOADS_OPEN_MAX ||
           give_up(p, sum->idlest, sum->idlest_s);
}

static bool fits_in_all(const struct upload_place *p,
                        const struct upload_sum *sum, uint64_t size)
{
    return sum->bytes <= p->all_max && size <= p->all_max - sum->bytes;
}

/* What was announced, and does not come, keeps nobody out: of all uploads that
 * are under way the one that has rested longest goes, if that is enough. */
static bool makes_room(const struct upload_place *p, struct upload_sum *sum,
                       uint64_t size)
{
    struct upload_sum without = *sum;

    if (sum->rested_bytes == 0)
        return false;
    without.bytes -= sum->rested_bytes;
    if (!fits_in_all(p, &without, size) ||
        !give_up(p, sum->rested, sum->rested_s))
        return false;
    sum->bytes = without.bytes;
    return true;
}

/* True: another upload of @size bytes of @r may begin beside those of @sum. */
static bool may_begin(const struct upload_place *p,
                      const struct desk_request *r, uint64_t size,
                      struct upload_sum *sum, struct response *out)
{
    if (sum->names >= UPLOADS_MAX) {
        response_problem(out, 413, "uploads_full", NULL,
                         "%u uploads are in the data folder, and no more are "
                         "kept: remove files there",
                         sum->names);
        return false;
    }
    if (!fits_in_all(p, sum, size) && !makes_room(p, sum, size)) {
        response_problem(out, 413, "uploads_full", NULL,
                         "expected at most %" PRIu64 " bytes of uploads in all "
                         "(mltune serve --uploads), found %" PRIu64
                         " and %" PRIu64 " more",
                         p->all_max, sum->bytes, size);
        return false;
    }
    if (r->upload_limited &&
        (sum->own > r->upload_max || size > r->upload_max - sum->own)) {
        response_problem(out, 413, "token_uploads_full", NULL,
                         "expected at most %" PRIu64 " bytes of uploads of the "
                         "token %s in all, found %" PRIu64 " and %" PRIu64
                         " more: mltune token limit raises it, or remove files "
                         "of it from the data folder",
                         r->upload_max, r->by, sum->own, size);
        return false;
    }
    if (!has_turn(p, sum)) {
        response_problem(out, 429, "too_many_uploads", NULL,
                         "%u uploads of %s are under way: complete one; one "
                         "that rests for %d minutes is given up for another",
                         sum->open, r->by, UPLOAD_REST_S / 60);
        return false;
    }
    return true;
}

/* True: @size more bytes fit on the disk, and leave some for others. */
static bool has_room(const struct upload_place *p, uint64_t size,
                     struct response *out)
{
    struct statvfs fs;
    uint64_t room;

    if (size == 0)
        return true;
    if (statvfs(p->data, &fs) != 0)
        return true; /* writing will tell */
    room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room >= UPLOAD_ROOM_LEFT && room - UPLOAD_ROOM_LEFT >= size)
        return true;
    response_problem(out, 507, "no_room", NULL,
                     "%" PRIu64 " bytes do not fit on the disk of the data "
                     "folder, which has %" PRIu64 " left",
                     size, room);
    return false;
}

/* An empty file for what comes. */
static enum err make_part(const struct upload_paths *at, struct fault *f)
{
    const struct disk_ops *disk = disk_system();
    int fd;

    disk->unlink(at->part);
    fd = disk->open(at->part,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    UPLOAD_MODE);
    if (fd < 0)
        return fault_errno(f, ERR_IO, errno, "cannot make %s", at->part);
    disk->close(fd);
    return ERR_OK;
}

static void wrong_size(const struct desk_request *r, uint64_t announced,
                       uint64_t size, struct response *out)
{
    struct response_faults faults = {0};

    response_fault_add(&faults, "/query/size",
                       "expected %" PRIu64 ", found %" PRIu64, announced, size);
    response_problem(out, 409, "wrong_size", &faults,
                     "%s was begun as a file of %" PRIu64
                     " bytes: go on with size=%" PRIu64
                     ", or begin at 0 with anew=true",
                     r->upload, announced, announced);
}

static void wrong_offset(const struct desk_request *r, uint64_t there,
                         struct response *out)
{
    struct response_faults faults = {0};

    response_fault_add(&faults, "/query/offset",
                       "expected %" PRIu64 ", found %" PRIu64, there,
                       r->offset);
    response_problem(out, 409, "wrong_offset", &faults,
                     "%" PRIu64
                     " bytes of %s are there: go on at offset=%" PRIu64
                     ", or begin at 0 with anew=true",
                     there, r->upload, there);
}

/* Whether the piece may come, the first one if @begins: then its file is there,
 * and listed. One that goes on with what no list knows is as a first one. */
static bool admit(const struct upload_place *p, const struct desk_request *r,
                  const struct upload_paths *at, uint64_t size, bool begins,
                  struct response *out)
{
    char list[FILE_PATH_MAX];
    struct upload_sum sum = {.bytes = 0};
    struct fault f = {0};
    enum err err = file_join(list, p->state, "uploads", &f);
    bool fits = false, known;

    if (!err)
        err = upload_list_sum(p, list, r, begins, &sum, &f);
    known = !begins && sum.announced != UPLOAD_SIZE_UNKNOWN;
    if (!err && !begins && !known)
        err = upload_list_sum(p, list, r, true, &sum, &f);
    if (!err && !may_touch(r, &sum, out))
        ;
    else if (!err && !begins && sum.left && r->role < ROLE_ADMIN)
        wrong_offset(r, 0, out); /* theirs may not be mixed with another's */
    else if (!err && known && sum.announced != size)
        wrong_size(r, sum.announced, size, out);
    else if (!err)
        fits = has_room(p, size - r->offset, out) &&
               (known || may_begin(p, r, size, &sum, out));
    if (fits && !known)
        err = upload_list_add(list, r, size, &sum, &f);
    if (fits && !err && begins)
        err = make_part(at, &f);
    if (err)
        not_stored(&f, out);
    upload_sum_deinit(&sum);
    return fits && !err;
}

/* ---- a piece ------------------------------------------------------------- */

static int write_all(int fd, const char *bytes, size_t len, uint64_t offset)
{
    const struct disk_ops *disk = disk_system();

    while (len > 0) {
        ssize_t n = disk->write_at(fd, bytes, len, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return disk->fsync(fd);
}

/* The piece at its place. False: @out says why not, and it is not there; a
 * first one leaves no file, which would keep the bytes announced from others.
 */
static bool append(const struct upload_paths *at, const struct desk_request *r,
                   struct response *out)
{
    const struct disk_ops *disk = disk_system();
    int fd = disk->open(at->part, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
    int failed = fd < 0 ? -1 : write_all(fd, r->body, r->len, r->offset);
    struct fault f = {0};
    int why = errno;

    if (failed &&
        (r->offset == 0 || (fd >= 0 && disk->resize(fd, r->offset) != 0)))
        disk->unlink(at->part); /* what is there is not known any more */
    if (fd >= 0)
        disk->close(fd);
    if (failed && (why == ENOSPC || why == EDQUOT))
        response_problem(out, 507, "no_room", NULL,
                         "there is no room on the disk of the data folder: "
                         "%" PRIu64 " bytes of %s are there",
                         r->offset, r->upload);
    else if (failed) {
        fault_errno(&f, ERR_IO, why, "cannot write %s", at->part);
        not_stored(&f, out);
    }
    return !failed;
}

static void take_back(const struct upload_paths *at, uint64_t bytes)
{
    const struct disk_ops *disk = disk_system();
    int fd = disk->open(at->part, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);

    /* What is there is not known any more, if it cannot be cut. */
    if (fd < 0 || disk->resize(fd, bytes) != 0)
        disk->unlink(at->part);
    if (fd >= 0)
        disk->close(fd);
}

/* In one step where the file system can; a link never takes a place either. */
static int give_name(const struct upload_paths *at)
{
    const struct disk_ops *disk = disk_system();

    if (disk->rename_new(at->part, at->whole) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (disk->link(at->part, at->whole) != 0)
        return -1;
    disk->unlink(at->part);
    return 0;
}

/* The whole file gets its name, unless something has got it meanwhile. */
static void finish(const struct upload_paths *at, const struct desk_request *r,
                   uint64_t size, struct response *out)
{
    const struct disk_ops *disk = disk_system();
    struct fault f = {0};

    if (give_name(at) == 0) {
        if (disk_flush_parent(disk, at->whole, &f) == ERR_OK)
            respond(r->upload, size, true, out);
        else
            response_problem(out, 507, "not_flushed", NULL,
                             "%s; %s is in the data folder, whole, but a loss "
                             "of power may take it",
                             f.text, r->upload);
    } else if (errno == EEXIST) {
        response_problem(out, 409, "already_exists", NULL,
                         "there is a file %s in the data folder meanwhile; the "
                         "upload was given up",
                         r->upload);
        disk->unlink(at->part);
    } else {
        fault_errno(&f, ERR_IO, errno, "cannot name %s", at->whole);
        take_back(at, r->offset); /* so that the piece can come again */
        not_stored(&f, out);
    }
}

/* ---- what is asked ------------------------------------------------------- */

static bool state_is_data(const struct upload_place *p)
{
    char state[PATH_MAX];

    return realpath(p->state, state) && strcmp(state, p->data) == 0;
}

/* @size: of the whole file. */
static bool may_come(const struct upload_place *p, const struct desk_request *r,
                     uint64_t size, const struct upload_paths *at,
                     struct response *out)
{
    if (p->all_max == 0 || p->file_max == 0 || state_is_data(p))
        response_problem(out, 409, "not_supported", NULL,
                         p->all_max == 0 || p->file_max == 0
                             ? "this service takes no uploads"
                             : "the data folder is the service's own state "
                               "folder, which takes no uploads");
    else if (r->len > size || r->offset > size - r->len)
        response_problem(out, 422, "invalid_piece", NULL,
                         "expected a piece within the %" PRIu64 " bytes of the "
                         "file, found %zu from %" PRIu64 " on",
                         size, r->len, r->offset);
    else if (r->anew && r->offset > 0)
        response_problem(out, 422, "invalid_piece", NULL,
                         "expected anew with offset 0 alone, found %" PRIu64,
                         r->offset);
    else if (r->len == 0 && r->offset < size)
        response_problem(out, 422, "invalid_piece", NULL,
                         "expected bytes of the file as the body, found none");
    else if (size > p->file_max)
        response_problem(out, 413, "upload_too_long", NULL,
                         "expected a file of at most %" PRIu64 " bytes (mltune "
                         "serve --upload), found %" PRIu64,
                         p->file_max, size);
    else if (upload_exists(at->whole))
        response_problem(out, 409, "already_exists", NULL,
                         "there is a file %s in the data folder: choose "
                         "another name",
                         r->upload);
    else
        return true;
    return false;
}

void upload_take(const struct upload_place *p, const struct desk_request *r,
                 struct response *out)
{
    uint64_t size = r->size;
    struct fault f = {0};
    struct upload_paths at;
    int64_t there;
    bool begins;

    assert(p->data && p->state && r->body);
    if (upload_paths_of(p, r->upload, &at, &f) != ERR_OK) {
        not_stored(&f, out);
        return;
    }
    if (size == UINT64_MAX && r->offset <= INT64_MAX)
        size = r->offset + r->len;
    if (!may_come(p, r, size, &at, out))
        return;
    there = upload_bytes_of(at.part);
    begins = r->offset == 0 && (there <= 0 || r->anew);
    if (!begins && (there < 0 || (uint64_t)there != r->offset)) {
        wrong_offset(r, there < 0 ? 0 : (uint64_t)there, out);
        return;
    }
    if (!admit(p, r, &at, size, begins, out))
        return;
    if ((begins || r->len > 0) && !append(&at, r, out))
        return;
    if (r->offset + r->len == size)
        finish(&at, r, size, out);
    else
        respond(r->upload, r->offset + r->len, false, out);
}

static void not_found(const char *name, struct response *out)
{
    response_problem(out, 404, "upload_not_found", NULL,
                     "nothing of a file %s is in the data folder", name);
}

void upload_look(const struct upload_place *p, const char *name,
                 struct response *out)
{
    struct fault f = {0};
    struct upload_paths at;
    int64_t bytes;

    if (upload_paths_of(p, name, &at, &f) != ERR_OK) {
        not_stored(&f, out);
        return;
    }
    bytes = upload_bytes_of(at.whole);
    if (bytes >= 0) {
        respond(name, (uint64_t)bytes, true, out);
        return;
    }
    bytes = upload_bytes_of(at.part);
    if (bytes >= 0)
        respond(name, (uint64_t)bytes, false, out);
    else
        not_found(name, out);
}

/* The file, then its line: one that stays counts until the next upload begins,
 * as that of a file removed by hand. */
static void withdraw(const struct upload_place *p, const struct desk_request *r,
                     const struct upload_paths *at, struct response *out)
{
    struct upload_sum sum = {.bytes = 0};
    char list[FILE_PATH_MAX];
    struct fault f = {0};
    enum err err = file_join(list, p->state, "uploads", &f);

    if (!err)
        err = upload_list_sum(p, list, r, true, &sum, &f);
    if (!err && !may_touch(r, &sum, out)) {
        upload_sum_deinit(&sum);
        return;
    }
    if (!err && disk_system()->unlink(at->part) != 0)
        err = fault_errno(&f, ERR_IO, errno, "cannot remove %s", at->part);
    if (err) {
        not_stored(&f, out);
    } else {
        upload_list_write(list, &sum, NULL);
        respond(r->upload, 0, false, out);
        out->part = false; /* one piece less is no piece: it is audited */
    }
    upload_sum_deinit(&sum);
}

void upload_withdraw(const struct upload_place *p, const struct desk_request *r,
                     struct response *out)
{
    struct upload_paths at;
    struct fault f = {0};

    if (upload_paths_of(p, r->upload, &at, &f) != ERR_OK)
        not_stored(&f, out);
    else if (upload_bytes_of(at.part) >= 0)
        withdraw(p, r, &at, out);
    else if (upload_exists(at.whole))
        response_problem(out, 409, "already_exists", NULL,
                         "the file %s is whole: remove it from the data "
                         "folder, %s",
                         r->upload, p->data);
    else
        not_found(r->upload, out);
}
