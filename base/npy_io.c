#include "base/npy_io.h"

#include "base/disk_io.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The values' place is a multiple of this, as NumPy's own writer has it. */
enum { ALIGN = 64, BUFFER_BYTES = 1 << 18 };

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    const char *name, *descr;
    size_t bytes;
} types[] = {{"float32", "<f4", 4},
             {"int32", "<i4", 4},
             {"float64", "<f8", 8},
             {"int64", "<i8", 8}};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

const char *npy_type_name(enum npy_type type)
{
    assert((unsigned)type < TYPES);
    return types[type].name;
}

size_t npy_type_bytes(enum npy_type type)
{
    assert((unsigned)type < TYPES);
    return types[type].bytes;
}

/* ---- the header ---------------------------------------------------------- */

/* A place in the header's text: a dictionary as Python writes one. */
struct npy_cursor {
    const char *at, *end;
};

static void skip_space(struct npy_cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n'))
        c->at++;
}

static bool take(struct npy_cursor *c, const char *word)
{
    size_t n = strlen(word);

    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

static bool take_number(struct npy_cursor *c, uint64_t *out)
{
    uint64_t n = 0;
    const char *begin;

    skip_space(c);
    begin = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (n > (UINT64_MAX >> 4))
            return false;
        n = n * 10 + (uint64_t)(*c->at - '0');
    }
    if (c->at == begin)
        return false;
    *out = n;
    return true;
}

static bool take_type(struct npy_cursor *c, struct npy_info *info)
{
    for (unsigned i = 0; i < TYPES; i++) {
        struct npy_cursor at = *c;

        if (take(&at, "'") && take(&at, types[i].descr) && take(&at, "'")) {
            info->type = (enum npy_type)i;
            *c = at;
            return true;
        }
    }
    return false;
}

/* (rows, cols) or (rows,). */
static bool take_shape(struct npy_cursor *c, struct npy_info *info)
{
    info->cols = 1;
    if (!take(c, "(") || !take_number(c, &info->rows) || !take(c, ","))
        return false;
    if (take(c, ")"))
        return true;
    if (!take_number(c, &info->cols))
        return false;
    take(c, ",");
    return take(c, ")");
}

static const char *const expected[] = {"'<f4', '<i4' or '<f8' (little-endian)",
                                       "False (C order)",
                                       "(rows, columns) or (rows,)"};

/* Index of the key that follows, or -1. */
static int take_key(struct npy_cursor *c)
{
    if (take(c, "'descr'"))
        return take(c, ":") ? 0 : -1;
    if (take(c, "'fortran_order'"))
        return take(c, ":") ? 1 : -1;
    if (take(c, "'shape'"))
        return take(c, ":") ? 2 : -1;
    return -1;
}

static bool take_value(struct npy_cursor *c, int key, struct npy_info *info)
{
    if (key == 0)
        return take_type(c, info);
    if (key == 1)
        return take(c, "False");
    return take_shape(c, info);
}

static enum err parse_dictionary(struct npy_cursor *c, struct npy_info *info,
                                 struct fault *f)
{
    unsigned seen = 0;

    if (!take(c, "{"))
        return fault_set(f, ERR_FORMAT, "header: expected a dictionary");
    while (!take(c, "}")) {
        int key = take_key(c);

        if (key < 0 || seen & 1u << key)
            return fault_set(f, ERR_FORMAT,
                             "header: expected the keys descr, fortran_order "
                             "and shape, once each");
        seen |= 1u << key;
        if (!take_value(c, key, info))
            return fault_set(f, ERR_FORMAT, "header: %s: expected %s",
                             key == 0   ? "descr"
                             : key == 1 ? "fortran_order"
                                        : "shape",
                             expected[key]);
        take(c, ",");
    }
    if (seen != 7)
        return fault_set(f, ERR_FORMAT,
                         "header: descr, fortran_order or shape is missing");
    return ERR_OK;
}

static enum err check_bytes(const struct npy_info *info, struct fault *f)
{
    uint64_t values_max = ((uint64_t)1 << 62) / npy_type_bytes(info->type);

    if (info->cols && info->rows > values_max / info->cols)
        return fault_set(f, ERR_FORMAT,
                         "header: shape (%" PRIu64 ", %" PRIu64
                         ") is too large",
                         info->rows, info->cols);
    return ERR_OK;
}

/* Place and length of the dictionary. */
static enum err find_dictionary(const unsigned char *bytes, size_t size,
                                size_t *begin, size_t *length, struct fault *f)
{
    size_t n;

    if (size < 10 || memcmp(bytes, magic, sizeof(magic)) != 0)
        return fault_set(f, ERR_FORMAT,
                         "offset 0: not a .npy file (expected \\x93NUMPY)");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return fault_set(f, ERR_FORMAT,
                         "offset 6: format version %u.%u, expected 1.0 to 3.0",
                         bytes[6], bytes[7]);
    n = bytes[8] | (size_t)bytes[9] << 8;
    *begin = 10;
    if (bytes[6] > 1) {
        if (size < 12)
            return fault_set(f, ERR_FORMAT, "offset 8: header is cut off");
        n |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
        *begin = 12;
    }
    if (n > size - *begin)
        return fault_set(f, ERR_FORMAT,
                         "offset 8: header of %zu bytes is cut off or longer "
                         "than %d",
                         n, NPY_HEADER_MAX);
    *length = n;
    return ERR_OK;
}

enum err npy_parse_header(const unsigned char *bytes, size_t size,
                          struct npy_info *info, size_t *offset,
                          struct fault *f)
{
    struct npy_info found = {0};
    size_t begin = 0, length = 0;
    struct npy_cursor c;
    enum err err = find_dictionary(bytes, size, &begin, &length, f);

    if (err)
        return err;
    c.at = (const char *)bytes + begin;
    c.end = c.at + length;
    err = parse_dictionary(&c, &found, f);
    if (err)
        return err;
    skip_space(&c);
    if (c.at != c.end)
        return fault_set(f, ERR_FORMAT, "header: text after the dictionary");
    err = check_bytes(&found, f);
    if (err)
        return err;
    *info = found;
    *offset = begin + length;
    return ERR_OK;
}

size_t npy_put_header(char *out, const struct npy_info *info)
{
    size_t n, whole;

    memcpy(out, magic, sizeof(magic));
    out[6] = 1;
    out[7] = 0;
    n = 10 + (size_t)snprintf(out + 10, NPY_OWN_HEADER_MAX - 10,
                              "{'descr': '%s', 'fortran_order': False, "
                              "'shape': (%" PRIu64 ", %" PRIu64 "), }",
                              types[info->type].descr, info->rows, info->cols);
    whole = (n + 1 + ALIGN - 1) / ALIGN * ALIGN;
    assert(whole <= NPY_OWN_HEADER_MAX);
    memset(out + n, ' ', whole - n);
    out[whole - 1] = '\n';
    out[8] = (char)((whole - 10) & 0xff);
    out[9] = (char)((whole - 10) >> 8);
    return whole;
}

/* ---- writing ------------------------------------------------------------- */

struct npy_writer {
    struct disk_out out;
    uint64_t left;  /* bytes of values to come */
    uint64_t bytes; /* of the whole file */
};

enum err npy_create(const char *path, const struct npy_info *info,
                    struct npy_writer **out, struct fault *f)
{
    struct npy_writer *w = mem_calloc(1, sizeof(*w));
    char header[NPY_OWN_HEADER_MAX];
    size_t n = npy_put_header(header, info);
    enum err err;

    assert((unsigned)info->type < TYPES && check_bytes(info, NULL) == ERR_OK);
    if (!w)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    w->left = info->rows * info->cols * npy_type_bytes(info->type);
    w->bytes = w->left + n;
    err = disk_out_open(&w->out, NULL, path, DISK_SHARED, f);
    if (err) {
        mem_free(w);
        return err;
    }
    err = disk_out_put(&w->out, header, n, f);
    if (err)
        npy_abort(w);
    else
        *out = w;
    return err;
}

enum err npy_write(struct npy_writer *w, const void *values, size_t bytes,
                   struct fault *f)
{
    assert(bytes <= w->left);
    w->left -= bytes;
    return disk_out_put(&w->out, values, bytes, f);
}

enum err npy_commit(struct npy_writer *w, uint64_t *bytes, struct fault *f)
{
    enum err err;

    assert(w->left == 0);
    err = disk_out_commit(&w->out, f);
    if (!err && bytes)
        *bytes = w->bytes;
    mem_free(w);
    return err;
}

void npy_abort(struct npy_writer *w)
{
    if (!w)
        return;
    disk_out_abort(&w->out);
    mem_free(w);
}

/* ---- reading ------------------------------------------------------------- */

struct npy_reader {
    FILE *file;
    char *path;
    uint64_t left; /* bytes of values to come */
};

static enum err check_length(struct npy_reader *r, const struct npy_info *info,
                             size_t offset, struct fault *f)
{
    struct stat st;

    r->left = info->rows * info->cols * npy_type_bytes(info->type);
    if (fstat(fileno(r->file), &st) != 0 ||
        fseeko(r->file, (off_t)offset, SEEK_SET) != 0)
        return fault_errno(f, ERR_IO, errno, "read %s", r->path);
    if ((uint64_t)st.st_size != offset + r->left)
        return fault_set(f, ERR_FORMAT,
                         "%s: file of %" PRIu64 " bytes, but its header says "
                         "(%" PRIu64 ", %" PRIu64 ") %s: %" PRIu64 " bytes",
                         r->path, (uint64_t)st.st_size, info->rows, info->cols,
                         npy_type_name(info->type), offset + r->left);
    return ERR_OK;
}

static enum err read_header(struct npy_reader *r, const char *path,
                            struct npy_info *info, struct fault *f)
{
    unsigned char header[NPY_HEADER_MAX];
    size_t n, offset = 0;

    r->path = mem_strdup(path);
    if (!r->path)
        return fault_set(f, ERR_NOMEM, "read %s: out of memory", path);
    r->file = fopen(path, "rbe");
    if (!r->file)
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    n = fread(header, 1, sizeof(header), r->file);
    if (ferror(r->file))
        return fault_errno(f, ERR_IO, errno, "read %s", path);
    if (npy_parse_header(header, n, info, &offset, f)) {
        fault_wrap(f, "%s", path);
        return ERR_FORMAT;
    }
    return check_length(r, info, offset, f);
}

enum err npy_open(const char *path, struct npy_info *info,
                  struct npy_reader **out, struct fault *f)
{
    struct npy_reader *r = mem_calloc(1, sizeof(*r));
    struct npy_info found = {0};
    enum err err;

    assert(path && info && out);
    if (!r)
        return fault_set(f, ERR_NOMEM, "read %s: out of memory", path);
    err = read_header(r, path, &found, f);
    if (err) {
        npy_close(r);
        return err;
    }
    *info = found;
    *out = r;
    return ERR_OK;
}

enum err npy_read(struct npy_reader *r, void *values, size_t bytes,
                  struct fault *f)
{
    assert(r && (values || bytes == 0));
    if (bytes > r->left)
        return fault_set(f, ERR_FORMAT, "%s: read past its end", r->path);
    if (fread(values, 1, bytes, r->file) != bytes)
        return fault_errno(f, ERR_IO, ferror(r->file) ? errno : EIO, "read %s",
                           r->path);
    r->left -= bytes;
    return ERR_OK;
}

void npy_close(struct npy_reader *r)
{
    if (!r)
        return;
    if (r->file)
        fclose(r->file);
    mem_free(r->path);
    mem_free(r);
}
