#include "tuner/history/checkpoint.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/json/fields_pack.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { VERSION = 1, MAGIC_BYTES = 8, HEAD_BYTES = 16 };

enum tag { TAG_START = 1, TAG_HISTORY = 2, TAG_END = 3 };

static const char magic[MAGIC_BYTES + 1] = "mltunecp";

static const struct json_field start_fields[] = {
    {FIELD_OF(checkpoint_start, STRING, run)},
    {FIELD_OF(checkpoint_start, STRING, name)},
    {FIELD_OF(checkpoint_start, STRING, config)},
    {FIELD_OF(checkpoint_start, STRING, folder)},
    {FIELD_OF(checkpoint_start, STRING, out)},
    {FIELD_OF(checkpoint_start, I64, began_ns)},
    {.name = NULL},
};

void checkpoint_start_deinit(struct checkpoint_start *s)
{
    mem_free(s->run);
    mem_free(s->name);
    mem_free(s->config);
    mem_free(s->folder);
    mem_free(s->out);
    memset(s, 0, sizeof(*s));
}

void checkpoint_deinit(struct checkpoint *c)
{
    checkpoint_start_deinit(&c->start);
    if (c->has_history)
        history_deinit(&c->history);
    memset(c, 0, sizeof(*c));
}

/* ---- writing ------------------------------------------------------------- */

static void put32(struct text *out, uint32_t n)
{
    unsigned char bytes[4];

    bytes_put32(bytes, n);
    pack_bytes(out, bytes, sizeof(bytes));
}

/* Head of a part whose bytes are added next. */
static size_t begin_part(struct text *out, enum tag tag)
{
    size_t at = out->len;
    char zeros[HEAD_BYTES - 4] = {0};

    put32(out, tag);
    pack_bytes(out, zeros, sizeof(zeros));
    return at;
}

static uint32_t sum_of(const unsigned char *head, uint64_t len)
{
    uint32_t sum = crc32c(0, head, 4);

    return crc32c(sum, head + 8, HEAD_BYTES - 8 + len);
}

static void end_part(struct text *out, size_t at)
{
    unsigned char *head = (unsigned char *)out->s + at;

    if (out->no_memory)
        return;
    bytes_put64(head + 8, out->len - at - HEAD_BYTES);
    bytes_put32(head + 4, sum_of(head, out->len - at - HEAD_BYTES));
}

enum err checkpoint_encode(const struct checkpoint_start *start,
                           const struct history *h, enum history_pack_how how,
                           struct text *out)
{
    enum err err = ERR_OK;
    size_t at;

    assert(start && start->run && out);
    pack_bytes(out, magic, MAGIC_BYTES);
    put32(out, VERSION);
    at = begin_part(out, TAG_START);
    pack_plan(out, start_fields);
    err = pack_fields(out, start_fields, start, NULL);
    end_part(out, at);
    if (!err && h) {
        at = begin_part(out, TAG_HISTORY);
        err = history_pack(h, how, out);
        end_part(out, at);
    }
    at = begin_part(out, TAG_END);
    end_part(out, at);
    return !err && out->no_memory ? ERR_NOMEM : err;
}

/* ---- reading ------------------------------------------------------------- */

static enum err read_start(const unsigned char *data, size_t len,
                           struct checkpoint *out)
{
    struct packed_bytes in = {data, len};
    struct packed_plan *plan = NULL;
    enum err err = unpack_plan(&in, start_fields, &plan);

    if (!err)
        err = unpack_fields(&in, plan, &out->start, NULL);
    packed_plan_free(plan);
    if (!err && !out->start.run)
        err = ERR_FORMAT;
    out->has_start = !err;
    if (err)
        checkpoint_start_deinit(&out->start);
    return err;
}

static enum err damaged(struct fault *f, size_t at, const char *what)
{
    return fault_set(f, ERR_FORMAT, "byte %zu: %s", at, what);
}

/* The part with that tag, whose head is at byte @at. */
static enum err read_part(uint32_t tag, size_t at, const unsigned char *data,
                          size_t len, struct checkpoint *out, struct fault *f)
{
    enum err err = ERR_OK;

    if (tag == TAG_START && !out->has_start)
        err = read_start(data, len, out);
    if (err == ERR_FORMAT)
        return damaged(f, at, "what the run begins with cannot be read");
    if (tag == TAG_HISTORY && !out->has_history) {
        err = history_unpack(data, len, &out->history, f);
        out->has_history = !err;
    }
    return err;
}

/* A part that is damaged is passed over, as far as its length can be believed.
 */
static enum err read_parts(const unsigned char *data, size_t len,
                           struct checkpoint *out, struct fault *f)
{
    size_t at = MAGIC_BYTES + 4;
    enum err first = ERR_OK;

    for (;;) {
        const unsigned char *head = data + at;
        uint64_t n = len - at >= HEAD_BYTES ? bytes_get64(head + 8) : 0;
        uint32_t tag = len - at >= HEAD_BYTES ? bytes_get32(head) : 0;
        struct fault why = {0};
        enum err err;

        if (len - at < HEAD_BYTES || n > len - at - HEAD_BYTES)
            return first ? first : damaged(f, at, "the file is cut off");
        if (bytes_get32(head + 4) != sum_of(head, n))
            err = first ? first : damaged(f, at, "a part has not its checksum");
        else if (tag == TAG_END)
            return first;
        else
            err = read_part(tag, at, head + HEAD_BYTES, n, out, &why);
        if (f && why.code && (!first || err != ERR_FORMAT))
            *f = why;
        if (err == ERR_NOMEM || err == ERR_VERSION)
            return err;
        first = first ? first : err;
        at += HEAD_BYTES + n;
    }
}

enum err checkpoint_decode(const void *data, size_t len, struct checkpoint *out,
                           struct fault *f)
{
    const unsigned char *bytes = data;
    enum err err;

    assert((data || len == 0) && out);
    memset(out, 0, sizeof(*out));
    if (len < MAGIC_BYTES + 4)
        return damaged(f, len, "the file is cut off");
    if (memcmp(bytes, magic, MAGIC_BYTES) == 0 &&
        bytes_get32(bytes + MAGIC_BYTES) > VERSION &&
        bytes_get32(bytes + MAGIC_BYTES) < 256 * VERSION)
        err = fault_set(f, ERR_VERSION,
                        "a checkpoint of version %u, this mltune knows %d; use "
                        "a newer mltune",
                        bytes_get32(bytes + MAGIC_BYTES), VERSION);
    else
        err = read_parts(bytes, len, out, f);
    if (err && err != ERR_FORMAT)
        checkpoint_deinit(out);
    return err;
}
