#include "cli/export/tar.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Fields of the header: where, how long. */
enum {
    NAME = 0,
    NAME_LEN = 100,
    MODE = 100,
    UID = 108,
    GID = 116,
    SIZE = 124,
    MTIME = 136,
    CHECKSUM = 148,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_LEN = 155
};

unsigned tar_padding(uint64_t size)
{
    return (unsigned)(-size % TAR_BLOCK);
}

/* @digits octal digits and a NUL. */
static void put_octal(unsigned char *at, int digits, uint64_t value)
{
    for (at[digits] = 0; digits-- > 0; value >>= 3)
        at[digits] = (unsigned char)('0' + (value & 7));
}

static void put_size(unsigned char *at, uint64_t size)
{
    if (size < UINT64_C(1) << 33) {
        put_octal(at, 11, size);
        return;
    }
    memset(at, 0, 12);
    at[0] = 0x80;
    for (int i = 11; i > 3; i--, size >>= 8)
        at[i] = (unsigned char)size;
}

/* Fields are not terminated where they are full. */
static void put_text(unsigned char *at, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)text[i];
}

/* A long name is parted at a '/', which is left out. */
static enum err put_name(unsigned char *out, const char *name)
{
    size_t len = strlen(name), cut;

    if (len <= NAME_LEN) {
        put_text(out + NAME, name, len);
        return ERR_OK;
    }
    for (cut = len - NAME_LEN - 1; cut < len && name[cut] != '/'; cut++)
        ;
    if (cut == 0 || cut + 1 >= len || cut > PREFIX_LEN)
        return ERR_LIMIT;
    put_text(out + PREFIX, name, cut);
    put_text(out + NAME, name + cut + 1, len - cut - 1);
    return ERR_OK;
}

enum err tar_header(const char *name, uint64_t size, int64_t mtime_s,
                    unsigned char out[TAR_BLOCK])
{
    unsigned sum = 0;
    enum err err;

    assert(*name);
    memset(out, 0, TAR_BLOCK);
    err = put_name(out, name);
    if (err)
        return err;
    put_octal(out + MODE, 7, 0644);
    put_octal(out + UID, 7, 0);
    put_octal(out + GID, 7, 0);
    put_size(out + SIZE, size);
    put_octal(out + MTIME, 11, mtime_s > 0 ? (uint64_t)mtime_s : 0);
    memset(out + CHECKSUM, ' ', 8);
    out[TYPE] = '0';
    put_text(out + MAGIC, "ustar\00000", 8);
    for (int i = 0; i < TAR_BLOCK; i++)
        sum += out[i];
    put_octal(out + CHECKSUM, 6, sum);
    return ERR_OK;
}
