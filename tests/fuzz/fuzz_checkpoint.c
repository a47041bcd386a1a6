/* Any bytes as a checkpoint of a run: refused with the byte where it is
 * damaged, what is whole of it kept; or what was read, written again, is read
 * the same. Each input is tried as it is, and with its parts' checksums made
 * right, so that what lies behind them is reached. */
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"
#include "tuner/history/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_AT = 12, HEAD_BYTES = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const struct checkpoint *c, struct text *out)
{
    must(checkpoint_encode(&c->start, c->has_history ? &c->history : NULL,
                           HISTORY_PACK_ALL, out) == ERR_OK);
}

static void check_round_trip(const struct checkpoint *c)
{
    struct text first = {0}, second = {0};
    struct checkpoint again;

    encode(c, &first);
    must(checkpoint_decode(first.s, first.len, &again, NULL) == ERR_OK);
    must(again.has_start && again.has_history == c->has_history);
    encode(&again, &second);
    must(first.len == second.len && memcmp(first.s, second.s, first.len) == 0);
    checkpoint_deinit(&again);
    text_deinit(&first);
    text_deinit(&second);
}

static void try_bytes(const uint8_t *data, size_t size)
{
    struct checkpoint c;
    struct fault f = {0};
    enum err err = checkpoint_decode(data, size, &c, &f);

    must(err == ERR_OK || err == ERR_FORMAT || err == ERR_VERSION);
    must(!err || (f.code == err && f.text[0]));
    if (err == ERR_VERSION)
        return;
    if (c.has_start)
        check_round_trip(&c);
    checkpoint_deinit(&c);
}

/* Gives each part, as far as its length can be believed, its checksum. */
static void mend(uint8_t *data, size_t size)
{
    size_t at = PARTS_AT;

    while (size >= at + HEAD_BYTES) {
        uint8_t *head = data + at;
        uint64_t n = bytes_get64(head + 8);

        if (n > size - at - HEAD_BYTES)
            return;
        bytes_put32(head + 4,
                    crc32c(crc32c(0, head, 4), head + 8, HEAD_BYTES - 8 + n));
        at += HEAD_BYTES + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    int64_t before;

    must(copy != NULL);
    json_count_memory();
    before = mem_outstanding();
    if (size)
        memcpy(copy, data, size);
    try_bytes(copy, size);
    mend(copy, size);
    try_bytes(copy, size);
    free(copy);
    must(mem_outstanding() == before);
    return 0;
}
