#include "ps/nodes/frame.h"

#include "base/bytes.h"
#include "ps/nodes/float16.h"

#include <assert.h>
#include <string.h>

enum { /* offsets in the header */
       AT_MAGIC = 0,
       AT_VERSION = 4,
       AT_KIND = 5,
       AT_VALUES = 6,
       AT_FLAGS = 7,
       AT_LENGTH = 8,
       AT_FROM = 12,
       AT_RUN = 16,
       AT_SEQUENCE = 24,
       AT_SLICE = 32
};

static const unsigned char magic[4] = {'M', 'L', 'T', 'F'};

/* ---- the kinds ----------------------------------------------------------- */

/* A field goes as it lies in the struct: 4 or 8 bytes. */
struct field {
    uint8_t at, bytes;
};
#define FIELD(m)                                                               \
    {                                                                          \
        offsetof(struct frame, m), sizeof(((struct frame *)0)->m)              \
    }

/* Values that the records of a kind may have; no bit: it has no records. */
#define NUMBERS (1u << FRAME_NOTHING)
#define VALUES                                                                 \
    (1u << FRAME_F32 | 1u << FRAME_I32 | 1u << FRAME_F64 | 1u << FRAME_F16)
#define CLOCKS (1u << FRAME_I64)
#define WORDS (1u << FRAME_I32 | NUMBERS)
#define TOTALS (1u << FRAME_F64 | NUMBERS)

enum { FIELDS_MAX = 11 };

static const struct kind {
    const char *name;
    unsigned records;
    struct field field[FIELDS_MAX]; /* ends at bytes == 0 */
} kinds[FRAME_KIND_COUNT] = {
    [FRAME_HELLO] = {"hello",
                     0,
                     {FIELD(nodes), FIELD(workers), FIELD(layout),
                      FIELD(options)}},
    [FRAME_ACK] = {"ack", 0, {FIELD(through)}},
    [FRAME_UPDATE] = {"update",
                      VALUES,
                      {FIELD(table), FIELD(worker), FIELD(clock),
                       FIELD(through)}},
    [FRAME_CLOCK] = {"clock",
                     0,
                     {FIELD(table), FIELD(worker), FIELD(clock), FIELD(seconds),
                      FIELD(through)}},
    [FRAME_READ] = {"read",
                    NUMBERS,
                    {FIELD(table), FIELD(worker), FIELD(clock)}},
    [FRAME_ROWS] = {"rows",
                    VALUES,
                    {FIELD(table), FIELD(worker), FIELD(clock)}},
    [FRAME_CLOCKS] = {"clocks", CLOCKS, {{0, 0}}},
    [FRAME_DRAIN] = {"drain", 0, {FIELD(worker), FIELD(clock)}},
    [FRAME_DRAINED] = {"drained", 0, {{0, 0}}},
    [FRAME_FORK] = {"fork",
                    0,
                    {FIELD(op), FIELD(branch), FIELD(parent), FIELD(type)}},
    [FRAME_FREE] = {"free", 0, {FIELD(op), FIELD(branch)}},
    [FRAME_BEGIN] = {"begin",
                     0,
                     {FIELD(op), FIELD(branch), FIELD(clock), FIELD(staleness),
                      FIELD(learning_rate), FIELD(momentum), FIELD(quorum),
                      FIELD(weight_decay), FIELD(rule), FIELD(warmup),
                      FIELD(warmed)}},
    [FRAME_DONE] = {"done", 0, {FIELD(op), FIELD(code)}},
    [FRAME_FITS] = {"fits", 0, {FIELD(fits)}},
    [FRAME_CUT] = {"cut", 0, {{0, 0}}},
    [FRAME_HOLD] = {"hold", 0, {{0, 0}}},
    [FRAME_HELD] = {"held", 0, {FIELD(clocks)}},
    [FRAME_END] = {"end", 0, {FIELD(clocks)}},
    [FRAME_FAIL] = {"fail", 0, {FIELD(code)}},
    [FRAME_EXPECT] = {"expect", 1u << FRAME_I32, {FIELD(table)}},
    [FRAME_PLACED] = {"placed", 0, {FIELD(layout)}},
    [FRAME_TAKEN] = {"taken", 0, {FIELD(table), FIELD(worker), FIELD(through)}},
    [FRAME_APPLIED] = {"applied", 0, {FIELD(through)}},
    [FRAME_PASS] = {"pass", 0, {FIELD(op), FIELD(layout)}},
    [FRAME_PART] = {"part",
                    WORDS,
                    {FIELD(table), FIELD(worker), FIELD(op), FIELD(through)}},
    [FRAME_TOTAL] = {"total", TOTALS, {FIELD(op)}},
};

const char *frame_kind_name(unsigned kind)
{
    return kind < FRAME_KIND_COUNT && kinds[kind].name ? kinds[kind].name : "?";
}

/* Bytes of a value; 0 for FRAME_NOTHING. */
static uint32_t value_bytes(enum frame_values values)
{
    static const uint8_t bytes[FRAME_VALUES_COUNT] = {
        [FRAME_F32] = 4, [FRAME_I32] = 4, [FRAME_F64] = 8,
        [FRAME_F16] = 2, [FRAME_I64] = 8,
    };

    assert((unsigned)values < FRAME_VALUES_COUNT);
    return bytes[values];
}

static uint32_t number_bytes(unsigned flags)
{
    return flags & FRAME_SHORT ? 4 : 8;
}

static uint32_t values_at(unsigned flags)
{
    return number_bytes(flags) + (flags & FRAME_VERSIONS ? 4 : 0);
}

uint64_t frame_record_bytes(unsigned flags, enum frame_values values,
                            uint32_t width)
{
    return values_at(flags) + (uint64_t)width * value_bytes(values);
}

unsigned frame_flags_of(uint64_t rows)
{
    return rows <= (uint64_t)1 << 32 ? FRAME_SHORT : 0;
}

enum frame_values frame_values_of(enum mlt_type type, bool half)
{
    if (type == MLT_F32)
        return half ? FRAME_F16 : FRAME_F32;
    return type == MLT_I32 ? FRAME_I32 : FRAME_F64;
}

/* ---- fields -------------------------------------------------------------- */

static size_t put_fields(const struct frame *f, const struct kind *kind,
                         unsigned char *out)
{
    size_t n = 0;

    for (int i = 0; i < FIELDS_MAX && kind->field[i].bytes; i++) {
        const char *member = (const char *)f + kind->field[i].at;
        uint32_t x32;
        uint64_t x64;

        if (kind->field[i].bytes == 4) {
            memcpy(&x32, member, sizeof(x32));
            bytes_put32(out + n, x32);
        } else {
            memcpy(&x64, member, sizeof(x64));
            bytes_put64(out + n, x64);
        }
        n += kind->field[i].bytes;
    }
    return n;
}

static size_t fields_bytes(const struct kind *kind)
{
    size_t n = 0;

    for (int i = 0; i < FIELDS_MAX; i++)
        n += kind->field[i].bytes;
    return n;
}

static void get_fields(struct frame *f, const struct kind *kind,
                       const unsigned char *in)
{
    for (int i = 0; i < FIELDS_MAX && kind->field[i].bytes; i++) {
        char *member = (char *)f + kind->field[i].at;
        uint32_t x32 = bytes_get32(in);
        uint64_t x64;

        if (kind->field[i].bytes == 4) {
            memcpy(member, &x32, sizeof(x32));
        } else {
            x64 = bytes_get64(in);
            memcpy(member, &x64, sizeof(x64));
        }
        in += kind->field[i].bytes;
    }
}

/* ---- writing ------------------------------------------------------------- */

static bool may_have_versions(const struct kind *kind)
{
    return kind->records == VALUES;
}

/* Its records are of rows. */
static bool may_be_short(const struct kind *kind)
{
    return kind->records && kind->records != CLOCKS && kind->records != TOTALS;
}

static bool may_carry(const struct kind *kind, enum frame_values values)
{
    return kind->records ? kind->records >> values & 1 : values == 0;
}

void frame_begin(struct frame_writer *w, const struct frame *f,
                 unsigned char *bytes, size_t room)
{
    const struct kind *kind = &kinds[f->kind];

    assert((unsigned)f->kind < FRAME_KIND_COUNT && kind->name);
    assert(may_carry(kind, f->values));
    assert((f->width > 0) == (f->values != FRAME_NOTHING));
    assert((f->flags & ~(unsigned)FRAME_FLAGS) == 0);
    assert(!(f->flags & FRAME_VERSIONS) || may_have_versions(kind));
    assert(!(f->flags & FRAME_SHORT) || may_be_short(kind));
    assert(room >= FRAME_FIXED_BYTES_MAX);
    memset(bytes, 0, FRAME_HEADER_BYTES);
    memcpy(bytes + AT_MAGIC, magic, sizeof(magic));
    bytes[AT_VERSION] = FRAME_VERSION;
    bytes[AT_KIND] = (unsigned char)f->kind;
    bytes[AT_VALUES] = (unsigned char)f->values;
    bytes[AT_FLAGS] = (unsigned char)f->flags;
    bytes_put64(bytes + AT_SLICE, f->slice);
    *w = (struct frame_writer){bytes,
                               room < FRAME_BYTES_MAX ? room : FRAME_BYTES_MAX,
                               FRAME_HEADER_BYTES,
                               .values = f->values,
                               .width = f->width,
                               .flags = f->flags};
    w->len += put_fields(f, kind, bytes + w->len);
    if (!kind->records)
        return;
    bytes_put32(bytes + w->len, f->width);
    w->count_at = w->len + 4;
    w->len += 8;
    assert(w->len <= FRAME_FIXED_BYTES_MAX);
}

static void put_values(enum frame_values values, uint32_t width, const void *in,
                       unsigned char *out)
{
    if (values == FRAME_F16) {
        float16_pack(width, in, out);
        return;
    }
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "values are packed as they lie in memory: little-endian only"
#endif
    memcpy(out, in, (size_t)width * value_bytes(values));
}

static uint64_t record_bytes(const struct frame_writer *w)
{
    return frame_record_bytes(w->flags, w->values, w->width);
}

bool frame_fits(const struct frame_writer *w)
{
    return record_bytes(w) <= w->room - w->len;
}

/* Where its values go; NULL where there is no room. */
static unsigned char *add_record(struct frame_writer *w, uint64_t row)
{
    unsigned char *at = w->bytes + w->len;

    assert(w->count_at > 0 && w->count < UINT32_MAX);
    if (!frame_fits(w))
        return NULL;
    if (w->flags & FRAME_SHORT) {
        assert(row <= UINT32_MAX);
        bytes_put32(at, (uint32_t)row);
    } else {
        bytes_put64(at, row);
    }
    w->len += record_bytes(w);
    w->count++;
    return at + values_at(w->flags);
}

bool frame_add(struct frame_writer *w, uint64_t row, const void *values)
{
    unsigned char *at = add_record(w, row);

    assert(!(w->flags & FRAME_VERSIONS));
    if (at && w->width)
        put_values(w->values, w->width, values, at);
    return at != NULL;
}

bool frame_add_version(struct frame_writer *w, uint64_t row, uint32_t version,
                       const void *values)
{
    unsigned char *at = add_record(w, row);

    assert(w->flags & FRAME_VERSIONS);
    if (!at)
        return false;
    bytes_put32(at - 4, version);
    put_values(w->values, w->width, values, at);
    return true;
}

void *frame_add_place(struct frame_writer *w, uint64_t row, uint32_t version)
{
    unsigned char *at = add_record(w, row);

    assert(w->values != FRAME_F16 && w->width > 0);
    if (at && w->flags & FRAME_VERSIONS)
        bytes_put32(at - 4, version);
    return at;
}

void frame_set_through(struct frame_writer *w, uint64_t through)
{
    const struct field *field = kinds[w->bytes[AT_KIND]].field;
    size_t at = FRAME_HEADER_BYTES;

    for (; field->at != offsetof(struct frame, through); field++) {
        assert(field->bytes);
        at += field->bytes;
    }
    bytes_put64(w->bytes + at, through);
}

size_t frame_end(struct frame_writer *w)
{
    assert(w->len <= w->room);
    if (w->count_at)
        bytes_put32(w->bytes + w->count_at, w->count);
    bytes_put32(w->bytes + AT_LENGTH, (uint32_t)w->len);
    return w->len;
}

void frame_stamp(unsigned char *bytes, uint32_t from, uint64_t run,
                 uint64_t sequence)
{
    assert(memcmp(bytes, magic, sizeof(magic)) == 0);
    bytes_put32(bytes + AT_FROM, from);
    bytes_put64(bytes + AT_RUN, run);
    bytes_put64(bytes + AT_SEQUENCE, sequence);
}

/* ---- reading ------------------------------------------------------------- */

static enum err bad(struct fault *f, size_t at, const char *what)
{
    return fault_set(f, ERR_FORMAT, "frame, byte %zu: %s", at, what);
}

bool frame_is_of_run(const unsigned char *bytes, size_t n, uint64_t run,
                     uint32_t *from)
{
    if (n < FRAME_HEADER_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0 ||
        bytes_get64(bytes + AT_RUN) != run)
        return false;
    *from = bytes_get32(bytes + AT_FROM);
    return true;
}

static enum err check_header(const unsigned char *bytes, size_t n,
                             struct fault *f)
{
    if (n < FRAME_HEADER_BYTES)
        return bad(f, n, "cut off in the header");
    if (memcmp(bytes, magic, sizeof(magic)) != 0)
        return bad(f, AT_MAGIC, "no frame (expected MLTF)");
    if (bytes[AT_VERSION] != FRAME_VERSION)
        return fault_set(f, ERR_VERSION,
                         "frame of version %u, expected %u: all nodes must "
                         "run the same mltune",
                         bytes[AT_VERSION], FRAME_VERSION);
    if (bytes[AT_KIND] >= FRAME_KIND_COUNT || !kinds[bytes[AT_KIND]].name)
        return bad(f, AT_KIND, "a kind that there is not");
    if (bytes[AT_VALUES] >= FRAME_VALUES_COUNT ||
        !may_carry(&kinds[bytes[AT_KIND]], bytes[AT_VALUES]))
        return bad(f, AT_VALUES, "values that the kind does not carry");
    if (bytes[AT_FLAGS] & ~(unsigned)FRAME_FLAGS)
        return bad(f, AT_FLAGS, "a flag that there is not");
    if (bytes[AT_FLAGS] & FRAME_VERSIONS &&
        !may_have_versions(&kinds[bytes[AT_KIND]]))
        return bad(f, AT_FLAGS, "versions, which the kind does not carry");
    if (bytes[AT_FLAGS] & FRAME_SHORT && !may_be_short(&kinds[bytes[AT_KIND]]))
        return bad(f, AT_FLAGS,
                   "short numbers of rows, which the kind has not");
    if (n > FRAME_BYTES_MAX || bytes_get32(bytes + AT_LENGTH) != n)
        return bad(f, AT_LENGTH, "another length than the message has");
    return ERR_OK;
}

/* The records fill the frame to its end, neither more nor less. */
static enum err take_records(const unsigned char *bytes, size_t n, size_t at,
                             struct frame *out, struct fault *f)
{
    uint64_t each;

    if (n - at < 8)
        return bad(f, at, "cut off before the records");
    out->width = bytes_get32(bytes + at);
    out->count = bytes_get32(bytes + at + 4);
    if ((out->width > 0) != (out->values != FRAME_NOTHING) ||
        out->width > FRAME_BYTES_MAX)
        return bad(f, at, "a width that no row has");
    each = frame_record_bytes(out->flags, out->values, out->width);
    if (out->count > FRAME_BYTES_MAX || out->count * each != n - at - 8)
        return bad(f, at + 4, "more or fewer records than it says");
    out->records = bytes + at + 8;
    return ERR_OK;
}

enum err frame_decode(const unsigned char *bytes, size_t n, struct frame *out,
                      struct fault *fault)
{
    const struct kind *kind;
    struct frame f = {0};
    enum err err = check_header(bytes, n, fault);
    size_t at = FRAME_HEADER_BYTES;

    assert(bytes && out);
    if (err)
        return err;
    f.kind = bytes[AT_KIND];
    f.values = bytes[AT_VALUES];
    f.flags = bytes[AT_FLAGS];
    f.from = bytes_get32(bytes + AT_FROM);
    f.run = bytes_get64(bytes + AT_RUN);
    f.sequence = bytes_get64(bytes + AT_SEQUENCE);
    f.slice = bytes_get64(bytes + AT_SLICE);
    kind = &kinds[f.kind];
    if (n - at < fields_bytes(kind))
        return bad(fault, at, "cut off in the fields");
    get_fields(&f, kind, bytes + at);
    at += fields_bytes(kind);
    if (kind->records)
        err = take_records(bytes, n, at, &f, fault);
    else if (at != n)
        err = bad(fault, at, "longer than its kind is");
    if (!err)
        *out = f;
    return err;
}

static const unsigned char *record(const struct frame *f, uint32_t i)
{
    assert(i < f->count);
    return f->records + i * frame_record_bytes(f->flags, f->values, f->width);
}

uint64_t frame_row(const struct frame *f, uint32_t i)
{
    const unsigned char *at = record(f, i);

    return f->flags & FRAME_SHORT ? bytes_get32(at) : bytes_get64(at);
}

uint32_t frame_row_version(const struct frame *f, uint32_t i)
{
    const unsigned char *at = record(f, i) + number_bytes(f->flags);

    return f->flags & FRAME_VERSIONS ? bytes_get32(at) : 0;
}

void frame_row_values(const struct frame *f, uint32_t i, void *out)
{
    const unsigned char *in = record(f, i) + values_at(f->flags);

    if (f->values == FRAME_F16)
        float16_unpack(f->width, in, out);
    else
        memcpy(out, in, (size_t)f->width * value_bytes(f->values));
}

const void *frame_row_place(const struct frame *f, uint32_t i, void *scratch)
{
    const unsigned char *in = record(f, i) + values_at(f->flags);

    if (f->values != FRAME_F16 && (uintptr_t)in % value_bytes(f->values) == 0)
        return in;
    frame_row_values(f, i, scratch);
    return scratch;
}
