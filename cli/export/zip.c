#include "cli/export/zip.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    END64_PLACE = 0x07064b50,
    VERSION = 20,     /* that is needed to read it */
    VERSION64 = 45,   /* with the fields of ZIP64 */
    MADE_BY = 3 << 8, /* Unix: attributes are a mode */
    NAME_IS_UTF8 = 0x800,
    EXTRA64 = 1,
    END64_BYTES = 44 /* of its record, behind that number */
};

/* What 32, and what 16 bits cannot say. */
#define MUCH UINT64_C(0xffffffff)
#define MANY UINT64_C(0xffff)
#define MODE ((uint32_t)0100644 << 16)

/* Little-endian. */
static void put(struct text *out, uint64_t value, int bytes)
{
    char b[8];

    for (int i = 0; i < bytes; i++, value >>= 8)
        b[i] = (char)(value & 0xff);
    text_add(out, b, (size_t)bytes);
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

static enum err had_memory(const struct text *a, const struct text *b)
{
    return text_lost(a) || text_lost(b) ? ERR_NOMEM : ERR_OK;
}

void zip_deinit(struct zip *z)
{
    text_deinit(&z->central);
    *z = (struct zip){.at = 0};
}

/* Date and time as DOS had them, in steps of two seconds from 1980 on. */
static uint32_t dos_time(int64_t s)
{
    const time_t at = (time_t)s;
    struct tm tm;

    if (s < 315532800 || s >= INT64_C(4354819200) || !gmtime_r(&at, &tm))
        return (uint32_t)(1 << 5 | 1) << 16;
    return (uint32_t)((tm.tm_year - 80) << 9 | (tm.tm_mon + 1) << 5 |
                      tm.tm_mday)
               << 16 |
           (uint32_t)(tm.tm_hour << 11 | tm.tm_min << 5 | tm.tm_sec / 2);
}

/* The fields that both headers of a file have, up to the lengths. */
static void put_common(struct text *out, uint32_t dos, uint32_t crc,
                       uint64_t size)
{
    put(out, NAME_IS_UTF8, 2);
    put(out, 0, 2); /* stored */
    put(out, dos & 0xffff, 2);
    put(out, dos >> 16, 2);
    put(out, crc, 4);
    put(out, at_most(size, MUCH), 4);
    put(out, at_most(size, MUCH), 4);
}

static void put_extra(struct text *out, uint64_t size, uint64_t at, bool place)
{
    bool far = place && at >= MUCH;

    if (size < MUCH && !far)
        return;
    put(out, EXTRA64, 2);
    put(out, (size >= MUCH ? 16 : 0) + (far ? 8 : 0), 2);
    if (size >= MUCH) {
        put(out, size, 8);
        put(out, size, 8);
    }
    if (far)
        put(out, at, 8);
}

static unsigned extra_bytes(uint64_t size, uint64_t at)
{
    unsigned n = (size >= MUCH ? 16 : 0) + (at >= MUCH ? 8 : 0);

    return n ? n + 4 : 0;
}

enum err zip_file(struct zip *z, const char *name, uint64_t size, uint32_t crc,
                  int64_t mtime_s, struct text *out)
{
    size_t len = strlen(name), before = text_length(out);
    uint32_t dos = dos_time(mtime_s);
    bool large = size >= MUCH;

    assert(len > 0);
    if (len > ZIP_NAME_MAX)
        return ERR_LIMIT;
    put(out, LOCAL, 4);
    put(out, large ? VERSION64 : VERSION, 2);
    put_common(out, dos, crc, size);
    put(out, len, 2);
    put(out, extra_bytes(size, 0), 2);
    text_add(out, name, len);
    put_extra(out, size, 0, false);

    put(&z->central, CENTRAL, 4);
    put(&z->central, MADE_BY | VERSION64, 2);
    put(&z->central, large || z->at >= MUCH ? VERSION64 : VERSION, 2);
    put_common(&z->central, dos, crc, size);
    put(&z->central, len, 2);
    put(&z->central, extra_bytes(size, z->at), 2);
    put(&z->central, 0, 2); /* comment */
    put(&z->central, 0, 2); /* disk */
    put(&z->central, 0, 2); /* what it holds is not told */
    put(&z->central, MODE, 4);
    put(&z->central, at_most(z->at, MUCH), 4);
    text_add(&z->central, name, len);
    put_extra(&z->central, size, z->at, true);

    z->at += text_length(out) - before + size;
    z->entries++;
    return had_memory(out, &z->central);
}

static void put_end64(const struct zip *z, struct text *out)
{
    put(out, END64, 4);
    put(out, END64_BYTES, 8);
    put(out, MADE_BY | VERSION64, 2);
    put(out, VERSION64, 2);
    put(out, 0, 4);
    put(out, 0, 4);
    put(out, z->entries, 8);
    put(out, z->entries, 8);
    put(out, text_length(&z->central), 8);
    put(out, z->at, 8);
    put(out, END64_PLACE, 4);
    put(out, 0, 4);
    put(out, z->at + text_length(&z->central), 8);
    put(out, 1, 4);
}

enum err zip_end(struct zip *z, struct text *out)
{
    if (text_length(&z->central) > 0)
        text_add(out, text_so_far(&z->central), text_length(&z->central));
    if (z->entries >= MANY || z->at >= MUCH || text_length(&z->central) >= MUCH)
        put_end64(z, out);
    put(out, END, 4);
    put(out, 0, 2);
    put(out, 0, 2);
    put(out, at_most(z->entries, MANY), 2);
    put(out, at_most(z->entries, MANY), 2);
    put(out, at_most(text_length(&z->central), MUCH), 4);
    put(out, at_most(z->at, MUCH), 4);
    put(out, 0, 2);
    return had_memory(out, &z->central);
}

/* The polynomial of ISO 3309, bits reversed; four bits at a time. */
uint32_t zip_crc(uint32_t crc, const void *data, size_t n)
{
    static const uint32_t of[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *b = data;

    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc = of[(crc ^ b[i]) & 15] ^ crc >> 4;
        crc = of[(crc ^ b[i] >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}
