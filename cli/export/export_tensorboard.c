/* TensorBoard: event files, two runs in a folder.
 *
 * An event file is a row of TFRecords: length, masked CRC-32C of the length,
 * data, masked CRC-32C of the data (tensorflow/core/lib/io/record_writer.h);
 * the data are protocol buffers `Event` (tensorflow/core/util/event.proto), of
 * which few fields are needed here: they are encoded by hand.
 */
#include "cli/export/export.h"

#include "base/bytes.h"
#include "base/crc32c.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_MAX = 256, TAG_MAX = 100 };

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

static void put_record(FILE *out, const struct message *m)
{
    struct message head = {.len = 0}, tail = {.len = 0};

    put_little(&head, m->len, 8);
    put_little(&head, masked(head.data, 8), 4);
    put_little(&tail, masked(m->data, m->len), 4);
    fwrite(head.data, 1, head.len, out);
    fwrite(m->data, 1, m->len, out);
    fwrite(tail.data, 1, tail.len, out);
}

/* Event: wall_time 1, step 2, file_version 3, summary 5. */
static void put_version(FILE *out, double wall_s)
{
    static const char version[] = "brain.Event:2";
    struct message m = {.len = 0};

    put_double(&m, 1, wall_s);
    put_bytes(&m, 3, version, sizeof(version) - 1);
    put_record(out, &m);
}

/* Summary: value 1; its value: tag 1, simple_value 2. */
static void put_scalar(FILE *out, double wall_s, uint64_t step, const char *tag,
                       double value)
{
    struct message event = {.len = 0}, summary = {.len = 0}, one = {.len = 0};

    put_bytes(&one, 1, tag, strnlen(tag, TAG_MAX));
    put_float(&one, 2, (float)value);
    put_bytes(&summary, 1, one.data, one.len);
    put_double(&event, 1, wall_s);
    put_field(&event, 2, WIRE_VARINT);
    put_varint(&event, step);
    put_bytes(&event, 5, summary.data, summary.len);
    put_record(out, &event);
}

/* ---- what is in them ----------------------------------------------------- */

static void put_setting(const struct export_source *s, FILE *out, double wall_s,
                        uint64_t step, const json_t *setting)
{
    char tag[TAG_MAX];

    for (size_t i = 0; i < space_len(&s->space); i++) {
        const char *name = space_name(&s->space, i);
        const json_t *value = json_object_get(setting, name);

        snprintf(tag, sizeof(tag), "setting/%s", name);
        if (json_is_number(value))
            put_scalar(out, wall_s, step, tag, json_number_value(value));
    }
}

/* Further metrics, those that have a value. */
static void put_extras(const struct export_source *s, FILE *out, double wall_s,
                       uint64_t step, const char *group, const double value[])
{
    const struct extras *names = history_extras(&s->run->history);
    char tag[TAG_MAX];

    for (uint32_t i = 0; i < names->len; i++) {
        snprintf(tag, sizeof(tag), "%s/%s", group, names->name[i]);
        if (!isnan(value[i]))
            put_scalar(out, wall_s, step, tag, value[i]);
    }
}

struct tensorboard_training {
    const struct export_source *s;
    FILE *out;
};

static enum err put_point(void *ctx, const struct export_point *p)
{
    const struct tensorboard_training *t = ctx;

    if (!p->surviving)
        return ERR_OK;
    put_scalar(t->out, export_wall(t->s, p->at_s), p->clock, "loss",
               window_mean(&p->w));
    put_extras(t->s, t->out, export_wall(t->s, p->at_s), p->clock, "values",
               p->extra);
    return ferror(t->out) ? ERR_IO : ERR_OK;
}

static enum err write_training(const struct export_source *s, FILE *out,
                               struct fault *f)
{
    const struct history *h = &s->run->history;
    struct tensorboard_training t = {s, out};

    for (size_t i = 0; i < history_choices_len(h); i++) {
        struct history_choice c = history_choice_at(h, i);
        json_t *setting = history_choice_setting(h, i);

        if (!setting)
            return ERR_NOMEM;
        put_setting(s, out, export_wall(s, c.at_s), c.c.clock, setting);
        json_decref(setting);
    }
    for (size_t i = 0; i < history_epochs_len(h); i++) {
        const struct record_epoch_ended *e = &history_epoch_at(h, i)->e;
        double wall = export_wall(s, history_epoch_at(h, i)->at_s);

        if (!e->surviving)
            continue;
        put_scalar(out, wall, e->epoch, "epoch/loss", e->loss);
        if (!isnan(e->metric))
            put_scalar(out, wall, e->epoch, "epoch/metric", e->metric);
        put_extras(s, out, wall, e->epoch, "epoch/values",
                   history_epoch_at(h, i)->extra);
    }
    return export_each_point(s, put_point, &t, f);
}

static enum err write_trials(const struct export_source *s, FILE *out,
                             struct fault *f)
{
    const struct history *h = &s->run->history;

    (void)f;
    for (size_t i = 0; i < history_trials_len(h); i++) {
        struct history_trial trial = history_trial_at(h, i);
        const struct record_trial *t = &trial.t;
        json_t *setting = history_trial_setting(h, i);
        double wall = export_wall(s, trial.started_at_s);

        if (!setting)
            return ERR_NOMEM;
        put_scalar(out, wall, t->trial, "trial/speed", t->figures.speed);
        put_scalar(out, wall, t->trial, "trial/seconds", t->figures.seconds);
        if (t->figures.points)
            put_scalar(out, wall, t->trial, "trial/loss",
                       t->figures.loss[t->figures.points - 1]);
        put_setting(s, out, wall, t->trial, setting);
        json_decref(setting);
    }
    return ERR_OK;
}

struct event_file {
    const struct export_source *s;
    double began;
    enum err (*write)(const struct export_source *s, FILE *out,
                      struct fault *f);
};

static enum err write_events(const void *ctx, FILE *out, struct fault *f)
{
    const struct event_file *file = ctx;

    put_version(out, file->began);
    return file->write(file->s, out, f);
}

static enum err tensorboard_write(const struct export_source *s,
                                  const struct export_target *t,
                                  struct fault *f)
{
    double began = (double)s->run->began_ns * 1e-9;
    const struct event_file training = {s, began, write_training};
    const struct event_file trials = {s, began, write_trials};
    char name[96];
    enum err err;

    snprintf(name, sizeof(name), "training/events.out.tfevents.%.0f.mltune",
             began);
    err = export_file(t, name, write_events, &training, f);
    snprintf(name, sizeof(name), "trials/events.out.tfevents.%.0f.mltune",
             began);
    return err ? err : export_file(t, name, write_events, &trials, f);
}

const struct export_ops export_tensorboard = {
    .name = "tensorboard",
    .summary =
        "a log folder: `training` by clock and epoch, `trials` by number",
    .folder = true,
    .write = tensorboard_write,
};
