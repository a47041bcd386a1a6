/* Compressed streams. The first byte says how the rest is read: as it is, or
 * packed as gzip or xz and then damaged where the next bytes say. What is read
 * in one piece and in small ones is the same; what was packed comes back as it
 * was, or not at all. */
#include "apps/formats/data_stream.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <lzma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    STREAM_FUZZ_PLAIN_MAX = 4096,
    STREAM_FUZZ_PACKED_MAX = 4 * STREAM_FUZZ_PLAIN_MAX + 1024,
    STREAM_FUZZ_OUT_MAX = 1 << 18, /* a reader that keeps no more */
    STREAM_FUZZ_DAMAGES = 3
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Up to STREAM_FUZZ_OUT_MAX bytes, @cap at a time. */
static enum err read_in_pieces(const uint8_t *in, size_t n, size_t cap,
                               uint8_t *out, size_t *len)
{
    struct data_stream *s;
    struct fault f = {0};
    size_t got = 1;
    enum err err = data_stream_memory("fuzz", in, n, &s, &f);

    *len = 0;
    if (!err) {
        while (!err && got > 0 && *len + cap <= STREAM_FUZZ_OUT_MAX) {
            err = data_stream_read(s, out + *len, cap, &got, &f);
            if (!err)
                *len += got;
        }
        must(data_stream_offset(s) == *len || err);
        data_stream_close(s);
    }
    must(!err || (f.code == err && strstr(f.text, "fuzz")));
    return err;
}

/* Whole and in pieces; in @out what it holds. */
static enum err read_both(const uint8_t *in, size_t n, uint8_t *out,
                          size_t *len)
{
    static uint8_t again[STREAM_FUZZ_OUT_MAX];
    size_t pieces;
    enum err err = read_in_pieces(in, n, STREAM_FUZZ_OUT_MAX, out, len);
    enum err second = read_in_pieces(in, n, 1000, again, &pieces);

    if (!err && *len < STREAM_FUZZ_OUT_MAX - 1000) {
        must(second == ERR_OK && pieces == *len);
        must(memcmp(out, again, pieces) == 0);
    }
    return err;
}

static size_t pack_gzip(const uint8_t *in, size_t n, uint8_t *out)
{
    z_stream z = {0};
    size_t len;

    must(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY) ==
         Z_OK);
    z.next_in = (Bytef *)in;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = STREAM_FUZZ_PACKED_MAX;
    must(deflate(&z, Z_FINISH) == Z_STREAM_END);
    len = z.total_out;
    deflateEnd(&z);
    return len;
}

static size_t pack_xz(const uint8_t *in, size_t n, uint8_t *out)
{
    lzma_options_lzma how;
    lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &how},
                             {LZMA_VLI_UNKNOWN, NULL}};
    size_t len = 0;

    must(!lzma_lzma_preset(&how, 0));
    how.dict_size = 4096;
    must(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL, in, n, out,
                                   &len, STREAM_FUZZ_PACKED_MAX) == LZMA_OK);
    return len;
}

/* One or two members, damaged. The damage is three bytes each: what (0: none),
 * and where. */
static void read_packed(bool xz, const uint8_t *data, size_t size)
{
    static const char xz_magic[] = {'\xfd', '7', 'z', 'X', 'Z', '\0'};
    static const char gzip_magic[] = {'\x1f', '\x8b'};
    static uint8_t packed[2 * STREAM_FUZZ_PACKED_MAX];
    static uint8_t out[STREAM_FUZZ_OUT_MAX];
    const uint8_t *damage = data;
    size_t n, first, len, half;
    bool whole = true;

    if (size < 3 * STREAM_FUZZ_DAMAGES || size > STREAM_FUZZ_PLAIN_MAX)
        return;
    data += 3 * STREAM_FUZZ_DAMAGES;
    size -= 3 * STREAM_FUZZ_DAMAGES;
    half = size / 2;
    first = n = (xz ? pack_xz : pack_gzip)(data, half, packed);
    n += (xz ? pack_xz : pack_gzip)(data + half, size - half, packed + n);
    for (int i = 0; i < STREAM_FUZZ_DAMAGES && n > 0; i++, damage += 3) {
        size_t at = ((size_t)damage[1] << 8 | damage[2]) % n;

        if (damage[0] == 255)
            n = at;
        else if (damage[0] == 254)
            packed[n++] = damage[1];
        else
            packed[at] ^= damage[0];
        whole &= damage[0] == 0;
    }
    if (read_both(packed, n, out, &len) != ERR_OK) {
        must(!whole);
        return;
    }
    if (n < 6 || memcmp(packed, xz ? xz_magic : gzip_magic, xz ? 6 : 2) != 0)
        return; /* it is taken for plain bytes now */
    must(len == size || len == half || (len == 0 && n < first));
    must(memcmp(out, data, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[STREAM_FUZZ_OUT_MAX];
    int64_t before = mem_outstanding();
    size_t len;

    if (size == 0)
        return 0;
    if (data[0] == 1 || data[0] == 2)
        read_packed(data[0] == 2, data + 1, size - 1);
    else
        read_both(data + 1, size - 1, out, &len);
    must(mem_outstanding() == before);
    return 0;
}
