#include "cli/state/event_file.h"

#include "base/crc32c.h"
#include "base/protobuf.h"

#include <assert.h>
#include <string.h>

enum { EVENT_MAX = 256 };

/* ---- protocol buffers ---------------------------------------------------- */

struct message {
    uint8_t data[EVENT_MAX];
    size_t len;
};

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_varint(struct message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        m->data[m->len++] = (uint8_t)(value | 0x80);
    m->data[m->len++] = (uint8_t)value;
}

static void put_field(struct message *m, unsigned field, enum wire wire)
{
    put_varint(m, field << 3 | wire);
}

static void put_little(struct message *m, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        m->data[m->len++] = (uint8_t)(value >> 8 * i);
}

static void put_bytes(struct message *m, unsigned field, const void *data,
                      size_t len)
{
    put_field(m, field, WIRE_BYTES);
    put_varint(m, len);
    assert(m->len + len <= sizeof(m->data));
    memcpy(m->data + m->len, data, len);
    m->len += len;
}

static void put_double(struct message *m, unsigned field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_field(m, field, WIRE_64);
    put_little(m, bits, 8);
}

static void put_float(struct message *m, unsigned field, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    put_field(m, field, WIRE_32);
    put_little(m, bits, 4);
}

/* ---- records ------------------------------------------------------------- */

static uint32_t masked(const void *data, size_t len)
{
    uint32_t crc = crc32c(0, data, len);

    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void put_data(struct text *out, const void *data, size_t len)
{
    struct message head = {.len = 0}, tail = {.len = 0};

    put_little(&head, len, 8);
    put_little(&head, masked(head.data, 8), 4);
    put_little(&tail, masked(data, len), 4);
    text_add(out, (const char *)head.data, head.len);
    text_add(out, data, len);
    text_add(out, (const char *)tail.data, tail.len);
}

static void put_record(struct text *out, const struct message *m)
{
    put_data(out, m->data, m->len);
}

/* Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7. A step
 * of 0 is not written, as proto3 wants it. */
void event_version(struct text *out, double wall_s)
{
    static const char version[] = "brain.Event:2";
    struct message m = {.len = 0};

    put_double(&m, 1, wall_s);
    put_bytes(&m, 3, version, sizeof(version) - 1);
    put_record(out, &m);
}

/* SessionLog: status 1, START is 1. A reader drops all from the event's step
 * on (event_accumulator.py, _CheckForRestartAndMaybePurge). */
void event_restart(struct text *out, double wall_s)
{
    struct message event = {.len = 0}, log = {.len = 0};

    put_field(&log, 1, WIRE_VARINT);
    put_varint(&log, 1);
    put_double(&event, 1, wall_s);
    put_bytes(&event, 7, log.data, log.len);
    put_record(out, &event);
}

/* Summary: value 1; its value: tag 1, simple_value 2. */
void event_scalar(struct text *out, double wall_s, uint64_t step,
                  const char *tag, double value)
{
    struct message event = {.len = 0}, summary = {.len = 0}, one = {.len = 0};

    put_bytes(&one, 1, tag, strnlen(tag, EVENT_TAG_MAX));
    put_float(&one, 2, (float)value);
    put_bytes(&summary, 1, one.data, one.len);
    put_double(&event, 1, wall_s);
    put_field(&event, 2, WIRE_VARINT);
    put_varint(&event, step);
    put_bytes(&event, 5, summary.data, summary.len);
    put_record(out, &event);
}

/* What TensorBoard's hparams plug-in expects beside its data: one float, 0
 * (plugins/hparams/metadata.py, NULL_TENSOR). TensorProto: dtype 1 (DT_FLOAT is
 * 1), tensor_shape 2 (dim 2, its size 1), float_val 5. */
static void add_null_tensor(struct text *value)
{
    struct text tensor = {0}, shape = {0}, dim = {0};
    static const char zero[4];

    protobuf_int(&dim, 1, 1);
    protobuf_message(&shape, 2, &dim);
    protobuf_int(&tensor, 1, 1);
    protobuf_message(&tensor, 2, &shape);
    protobuf_bytes(&tensor, 5, zero, sizeof(zero));
    protobuf_message(value, 8, &tensor);
}

/* Summary.Value: tag 1, tensor 8, metadata 9; SummaryMetadata: plugin_data 1
 * (plugin_name 1, content 2), data_class 4 (DATA_CLASS_TENSOR is 2). */
void event_hparams(struct text *out, double wall_s, const char *tag,
                   struct text *data)
{
    struct text event = {0}, summary = {0}, value = {0}, metadata = {0},
                plugin = {0};

    protobuf_string(&plugin, 1, "hparams");
    protobuf_message(&plugin, 2, data);
    protobuf_message(&metadata, 1, &plugin);
    protobuf_int(&metadata, 4, 2);
    protobuf_string(&value, 1, tag);
    add_null_tensor(&value);
    protobuf_message(&value, 9, &metadata);
    protobuf_message(&summary, 1, &value);
    protobuf_double(&event, 1, wall_s);
    protobuf_message(&event, 5, &summary);
    if (text_lost(&event)) /* no memory: @out is to say so */
        text_join(out, &event);
    else
        put_data(out, text_so_far(&event), text_length(&event));
    text_deinit(&event);
}
