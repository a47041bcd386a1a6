#include "apps/formats/data_stream.h"

#include "apps/formats/data_root.h"
#include "base/crc32c.h"
#include "base/files_read.h"
#include "base/host/machine_io.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { STREAM_IN_BYTES = 256 * 1024, STREAM_MAGIC_BYTES = 6 };

/* What an xz stream may take before the machine, and all its control groups,
 * are asked what is left: the windows of up to xz -6. */
enum { STREAM_XZ_FREE = 16 << 20 };

enum codec { CODEC_PLAIN, CODEC_GZIP, CODEC_XZ };

struct data_stream {
    char *name;
    int fd;                  /* -1: from memory */
    unsigned char *room;     /* [STREAM_IN_BYTES] owned; NULL: from memory */
    const unsigned char *in; /* [in_len] of room, or all that is in memory */
    size_t in_pos, in_len;
    uint64_t in_offset; /* of in[0] in the file */
    bool in_ended;
    bool glance;       /* it is no part of the data */
    uint32_t in_sum;   /* crc32c of what was read of the file so far */
    uint64_t in_bytes; /* how much that is */
    uint64_t out_offset;
    enum codec codec;
    bool codec_open; /* z or x is initialised */
    bool member_ended;
    bool ended;
    z_stream z;
    lzma_stream x;
};

static const struct {
    const char *magic;
    size_t len;
    const char *name;
} refused[] = {
    {"BZh", 3, "bzip2"},         {"\x28\xb5\x2f\xfd", 4, "zstd"},
    {"PK\x03\x04", 4, "zip"},    {"\x04\x22\x4d\x18", 4, "lz4"},
    {"\x1f\x9d", 2, "compress"}, {"7z\xbc\xaf\x27\x1c", 6, "7-zip"},
};

/* What the user allows, or half of what there was, and what the process held
 * before anything was loaded. Of nodes that are threads of one process, as in
 * tests, the last one counts. */
static _Atomic uint64_t allowed = UINT64_MAX, held_before;
static _Atomic bool said; /* by the user */
static const char *setting = "memory.limit";

static uint64_t in_at(const struct data_stream *s)
{
    return s->in_offset + s->in_pos;
}

static enum err read_fd(struct data_stream *s, unsigned char *to, size_t cap,
                        size_t *n, struct fault *f)
{
    ssize_t got;

    do
        got = read(s->fd, to, cap);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return fault_errno(f, ERR_IO, errno, "read %s", s->name);
    *n = (size_t)got;
    s->in_bytes += *n;
    s->in_sum = crc32c(s->in_sum, to, *n);
    return ERR_OK;
}

/* Moves what is left to the front and reads until @want bytes are there or the
 * file ends. Memory is there as a whole. */
static enum err fill(struct data_stream *s, size_t want, struct fault *f)
{
    size_t left = s->in_len - s->in_pos;
    size_t n = 0;
    enum err err;

    assert(want <= STREAM_IN_BYTES);
    if (left >= want || s->in_ended)
        return ERR_OK;
    memmove(s->room, s->room + s->in_pos, left);
    s->in_offset += s->in_pos;
    s->in_pos = 0;
    s->in_len = left;
    while (s->in_len < want && !s->in_ended) {
        err =
            read_fd(s, s->room + s->in_len, STREAM_IN_BYTES - s->in_len, &n, f);
        if (err)
            return err;
        s->in_len += n;
        s->in_ended = n == 0;
    }
    return ERR_OK;
}

static bool starts_with(const struct data_stream *s, const char *magic,
                        size_t len)
{
    return s->in_len - s->in_pos >= len &&
           memcmp(s->in + s->in_pos, magic, len) == 0;
}

/* Where only so much is allowed, none is free. */
static uint64_t xz_limit(void)
{
    return allowed != UINT64_MAX ? data_memory_limit() : STREAM_XZ_FREE;
}

static enum err open_codec(struct data_stream *s, struct fault *f)
{
    size_t i;

    for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (starts_with(s, refused[i].magic, refused[i].len))
            return fault_set(f, ERR_UNSUPPORTED,
                             "%s: %s data; expected plain, gzip or xz (unpack "
                             "it first)",
                             s->name, refused[i].name);
    }
    if (starts_with(s, "\x1f\x8b", 2)) {
        s->codec = CODEC_GZIP;
        if (inflateInit2(&s->z, 15 + 16) != Z_OK)
            return fault_set(f, ERR_NOMEM, "%s: out of memory", s->name);
        s->codec_open = true;
    } else if (starts_with(s,
                           "\xfd"
                           "7zXZ\0",
                           6)) {
        s->codec = CODEC_XZ;
        s->x = (lzma_stream)LZMA_STREAM_INIT;
        if (lzma_stream_decoder(&s->x, xz_limit(), LZMA_CONCATENATED) !=
            LZMA_OK)
            return fault_set(f, ERR_NOMEM, "%s: out of memory", s->name);
        s->codec_open = true;
    }
    return ERR_OK;
}

static enum err stream_new(const char *name, bool of_file,
                           struct data_stream **out)
{
    struct data_stream *s = mem_calloc(1, sizeof(*s));

    if (!s)
        return ERR_NOMEM;
    s->fd = -1;
    s->name = mem_strdup(name);
    if (of_file)
        s->in = s->room = mem_alloc(STREAM_IN_BYTES);
    if (!s->name || (of_file && !s->room)) {
        data_stream_close(s);
        return ERR_NOMEM;
    }
    *out = s;
    return ERR_OK;
}

static enum err stream_begin(struct data_stream *s, struct data_stream **out,
                             struct fault *f)
{
    enum err err = fill(s, STREAM_MAGIC_BYTES, f);

    if (!err)
        err = open_codec(s, f);
    if (err) {
        data_stream_close(s);
        return err;
    }
    *out = s;
    return ERR_OK;
}

static enum err open_file(struct data_stream *s, struct fault *f)
{
    return data_open(s->name, false, &s->fd, f);
}

enum err data_stream_open(const char *path, struct data_stream **out,
                          struct fault *f)
{
    struct data_stream *s;
    enum err err;

    if (stream_new(path, true, &s))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    err = open_file(s, f);
    if (err) {
        data_stream_close(s);
        return err;
    }
    return stream_begin(s, out, f);
}

enum err data_stream_memory(const char *name, const void *bytes, size_t len,
                            struct data_stream **out, struct fault *f)
{
    struct data_stream *s;

    if (stream_new(name, false, &s))
        return fault_set(f, ERR_NOMEM, "%s: out of memory", name);
    s->in = bytes;
    s->in_len = len;
    s->in_ended = true;
    return stream_begin(s, out, f);
}

void data_stream_close(struct data_stream *s)
{
    if (!s)
        return;
    if (s->codec_open && s->codec == CODEC_GZIP)
        inflateEnd(&s->z);
    if (s->codec_open && s->codec == CODEC_XZ)
        lzma_end(&s->x);
    if (s->fd >= 0 && !s->glance)
        files_read_note(s->name, s->in_bytes, s->in_sum);
    if (s->fd >= 0)
        close(s->fd);
    mem_free(s->room);
    mem_free(s->name);
    mem_free(s);
}

static enum err read_plain(struct data_stream *s, unsigned char *buf,
                           size_t cap, size_t *n, struct fault *f)
{
    enum err err;

    if (s->in_pos < s->in_len) {
        *n = s->in_len - s->in_pos < cap ? s->in_len - s->in_pos : cap;
        memcpy(buf, s->in + s->in_pos, *n);
        s->in_pos += *n;
        return ERR_OK;
    }
    *n = 0;
    if (s->in_ended)
        return ERR_OK;
    err = read_fd(s, buf, cap, n, f);
    s->in_ended = *n == 0;
    return err;
}

static enum err truncated(const struct data_stream *s, struct fault *f)
{
    return fault_set(f, ERR_FORMAT,
                     "%s: byte %" PRIu64 ": the compressed data end early (a "
                     "truncated file?)",
                     s->name, in_at(s));
}

static enum err damaged(const struct data_stream *s, const char *why,
                        struct fault *f)
{
    return fault_set(f, ERR_FORMAT,
                     "%s: near byte %" PRIu64 ": damaged compressed data (%s)",
                     s->name, in_at(s), why);
}

/* Between two gzip members: zero padding is skipped, a member goes on, anything
 * else is an error, where gzip(1) would only warn. */
static enum err next_member(struct data_stream *s, struct fault *f)
{
    enum err err;

    for (;;) {
        err = fill(s, 2, f);
        if (err)
            return err;
        if (s->in_pos == s->in_len) {
            s->ended = true;
            return ERR_OK;
        }
        if (s->in[s->in_pos] != 0)
            break;
        s->in_pos++;
    }
    if (!starts_with(s, "\x1f\x8b", 2))
        return fault_set(f, ERR_FORMAT,
                         "%s: byte %" PRIu64 ": expected another gzip member "
                         "or the end, found other bytes",
                         s->name, in_at(s));
    if (inflateReset(&s->z) != Z_OK)
        return damaged(s, "inflateReset", f);
    s->member_ended = false;
    return ERR_OK;
}

static enum err read_gzip(struct data_stream *s, unsigned char *buf, size_t cap,
                          size_t *n, struct fault *f)
{
    enum err err = s->member_ended ? next_member(s, f) : fill(s, 1, f);
    size_t left;
    int rc;

    *n = 0;
    if (err || s->ended)
        return err;
    left = s->in_len - s->in_pos;
    s->z.next_in = (z_const Bytef *)s->in + s->in_pos;
    s->z.avail_in = left > UINT32_MAX ? UINT32_MAX : (uInt)left;
    s->z.next_out = buf;
    s->z.avail_out = cap > UINT32_MAX ? UINT32_MAX : (uInt)cap;
    rc = inflate(&s->z, Z_NO_FLUSH);
    s->in_pos = (size_t)(s->z.next_in - s->in);
    *n = (size_t)(s->z.next_out - buf);
    if (rc == Z_STREAM_END)
        s->member_ended = true;
    else if (rc == Z_MEM_ERROR)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->name);
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return damaged(s, s->z.msg ? s->z.msg : "inflate", f);
    else if (*n == 0 && s->in_ended && s->in_pos == s->in_len)
        return truncated(s, f);
    return ERR_OK;
}

static enum err xz_error(struct data_stream *s, lzma_ret rc, struct fault *f)
{
    switch (rc) {
    case LZMA_OK:
        return ERR_OK;
    case LZMA_STREAM_END:
        s->ended = true;
        return ERR_OK;
    case LZMA_BUF_ERROR:
        return truncated(s, f);
    case LZMA_MEM_ERROR:
        return fault_set(f, ERR_NOMEM, "%s: out of memory", s->name);
    case LZMA_MEMLIMIT_ERROR:
        return fault_set(f, ERR_LIMIT,
                         "%s: unpacking needs %" PRIu64 " bytes of memory, "
                         "more than there are",
                         s->name, lzma_memusage(&s->x));
    case LZMA_FORMAT_ERROR:
        return damaged(s, "no xz stream where one was expected", f);
    case LZMA_OPTIONS_ERROR:
        return damaged(s, "xz options this library does not know", f);
    default:
        return damaged(s, "check sum or structure", f);
    }
}

static enum err read_xz(struct data_stream *s, unsigned char *buf, size_t cap,
                        size_t *n, struct fault *f)
{
    enum err err = fill(s, 1, f);
    lzma_ret rc;

    *n = 0;
    if (err)
        return err;
    s->x.next_in = s->in + s->in_pos;
    s->x.avail_in = s->in_len - s->in_pos;
    s->x.next_out = buf;
    s->x.avail_out = cap;
    rc = lzma_code(&s->x, s->in_ended ? LZMA_FINISH : LZMA_RUN);
    if (rc == LZMA_MEMLIMIT_ERROR &&
        lzma_memlimit_get(&s->x) == STREAM_XZ_FREE &&
        lzma_memlimit_set(&s->x, data_memory_limit()) == LZMA_OK)
        rc = lzma_code(&s->x, s->in_ended ? LZMA_FINISH : LZMA_RUN);
    s->in_pos = s->in_len - s->x.avail_in;
    *n = cap - s->x.avail_out;
    return xz_error(s, rc, f);
}

enum err data_stream_read(struct data_stream *s, void *buf, size_t cap,
                          size_t *n, struct fault *f)
{
    size_t total = 0;

    while (total < cap && !s->ended) {
        unsigned char *to = (unsigned char *)buf + total;
        size_t got = 0;
        enum err err;

        if (s->codec == CODEC_GZIP)
            err = read_gzip(s, to, cap - total, &got, f);
        else if (s->codec == CODEC_XZ)
            err = read_xz(s, to, cap - total, &got, f);
        else
            err = read_plain(s, to, cap - total, &got, f);
        if (err)
            return err;
        if (s->codec == CODEC_PLAIN && got == 0)
            s->ended = true;
        total += got;
    }
    s->out_offset += total;
    *n = total;
    return ERR_OK;
}

void data_stream_glance(struct data_stream *s)
{
    s->glance = true;
}

size_t data_stream_portion(const struct data_stream *s, size_t most)
{
    size_t left = s->in_len - s->in_pos;

    assert(most > 0);
    return s->fd < 0 && s->codec == CODEC_PLAIN && left < most ? left + 1
                                                               : most;
}

const char *data_stream_name(const struct data_stream *s)
{
    return s->name;
}

uint64_t data_stream_offset(const struct data_stream *s)
{
    return s->out_offset;
}

void data_memory_name(const char *name)
{
    assert(name);
    setting = name;
}

void data_memory_allow(uint64_t bytes)
{
    said = bytes > 0;
    allowed = said ? bytes : machine_memory_left("") / 2;
    held_before = machine_memory_held("");
}

uint64_t data_memory_limit(void)
{
    uint64_t left = machine_memory_left("") / 10 * 9;
    uint64_t held = machine_memory_held("");
    uint64_t more = held > held_before ? held - held_before : 0;
    uint64_t mine = allowed > more ? allowed - more : 0;

    return allowed != UINT64_MAX && mine < left ? mine : left;
}

enum err data_memory_check(const char *what, uint64_t bytes, uint64_t limit,
                           struct fault *f)
{
    if (bytes <= limit)
        return ERR_OK;
    if (limit <= allowed && allowed != UINT64_MAX)
        return fault_set(f, ERR_LIMIT,
                         "%s: needs %.1f MiB of memory, only %.1f MiB are left "
                         "of %s (%.1f MiB%s)",
                         what, (double)bytes / 1048576, (double)limit / 1048576,
                         setting, (double)allowed / 1048576,
                         said ? "" : " where it is not given");
    return fault_set(f, ERR_LIMIT,
                     "%s: needs %.1f MiB of memory, only %.1f MiB are left",
                     what, (double)bytes / 1048576, (double)limit / 1048576);
}
