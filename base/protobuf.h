/* Writing of protocol buffers: fields behind one another, in a text that grows.
 *
 * A field is a tag (its number and a wire type) and its value: a varint, four
 * or eight bytes, or bytes with their length before them; a message within a
 * message is such bytes. What memory fails, the text remembers (base/text.h).
 * Pure.
 *
 * Source: protobuf.dev, "Encoding".
 */
#ifndef BASE_PROTOBUF_H
#define BASE_PROTOBUF_H

#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

enum { PROTOBUF_FIELD_MAX = (1 << 29) - 1 };

/* Negative numbers of an int64 take ten bytes: their two's complement. */
void protobuf_int(struct text *t, unsigned field, int64_t value);
void protobuf_float(struct text *t, unsigned field, float value);
void protobuf_double(struct text *t, unsigned field, double value);
void protobuf_bytes(struct text *t, unsigned field, const void *data,
                    size_t len);
void protobuf_string(struct text *t, unsigned field, const char *s);

/* The message @inner, which is released and empty then. */
void protobuf_message(struct text *t, unsigned field, struct text *inner);

/* Tag and length alone, of @len bytes that the caller writes behind them. */
void protobuf_head(struct text *t, unsigned field, uint64_t len);

#endif
