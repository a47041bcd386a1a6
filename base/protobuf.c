#include "base/protobuf.h"

#include "base/bytes.h"

#include <assert.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_EIGHT = 1, WIRE_BYTES = 2, WIRE_FOUR = 5 };

/* Seven bits a byte, the lowest first; all but the last have the eighth set. */
static void put_varint(struct text *t, uint64_t value)
{
    char bytes[10];
    size_t n = 0;

    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    text_add(t, bytes, n);
}

static void put_tag(struct text *t, unsigned field, unsigned wire)
{
    assert(field >= 1);
    assert(field <= PROTOBUF_FIELD_MAX);
    put_varint(t, (uint64_t)field << 3 | wire);
}

void protobuf_int(struct text *t, unsigned field, int64_t value)
{
    put_tag(t, field, WIRE_VARINT);
    put_varint(t, (uint64_t)value);
}

void protobuf_float(struct text *t, unsigned field, float value)
{
    unsigned char bytes[4];
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    bytes_put32(bytes, bits);
    put_tag(t, field, WIRE_FOUR);
    text_add(t, (const char *)bytes, sizeof(bytes));
}

void protobuf_double(struct text *t, unsigned field, double value)
{
    unsigned char bytes[8];
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    bytes_put64(bytes, bits);
    put_tag(t, field, WIRE_EIGHT);
    text_add(t, (const char *)bytes, sizeof(bytes));
}

void protobuf_head(struct text *t, unsigned field, uint64_t len)
{
    put_tag(t, field, WIRE_BYTES);
    put_varint(t, len);
}

void protobuf_bytes(struct text *t, unsigned field, const void *data,
                    size_t len)
{
    assert(data || len == 0);
    protobuf_head(t, field, len);
    if (len > 0)
        text_add(t, data, len);
}

void protobuf_string(struct text *t, unsigned field, const char *s)
{
    assert(s);
    protobuf_bytes(t, field, s, strlen(s));
}

void protobuf_message(struct text *t, unsigned field, struct text *inner)
{
    assert(t != inner);
    protobuf_head(t, field, text_length(inner));
    text_join(t, inner);
}
