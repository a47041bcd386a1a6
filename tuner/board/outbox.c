#include "tuner/board/outbox.h"

#include "base/mem.h"
#include "base/text.h"
#include "tuner/board/clockwork.h"
#include "tuner/board/parts.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

struct outbox {
    struct tuner_actions *out; /* borrowed, during a step */
};

enum err outbox_init(struct board *c)
{
    assert(!c->outbox);
    c->outbox = mem_calloc(1, sizeof(*c->outbox));
    return c->outbox ? ERR_OK : ERR_NOMEM;
}

void outbox_deinit(struct board *c)
{
    mem_free(c->outbox);
    c->outbox = NULL;
}

void outbox_open(struct board *c, struct tuner_actions *out)
{
    assert(!c->outbox->out);
    assert(out->capacity >= TUNER_ACTIONS_MAX);
    c->outbox->out = out;
}

void outbox_close(struct board *c)
{
    assert(c->outbox->out);
    c->outbox->out = NULL;
}

struct tuner_action *outbox_add(struct board *c, enum tuner_action_kind kind)
{
    struct tuner_actions *out = c->outbox->out;
    struct tuner_action *a;

    assert(out);
    assert(out->count < out->capacity);
    a = &out->item[out->count++];
    a->kind = kind;
    return a;
}

static struct record *add_record(struct board *c, enum record_kind kind)
{
    struct record *r = &outbox_add(c, TUNER_RECORD)->record;

    record_init(r, kind);
    r->at_s = clockwork_record_s(c);
    r->clock = board_next_clock(c);
    return r;
}

#define BOARD_RECORD(name, lower, what)                                        \
    struct record_##what *board_record_##lower(struct board *c)                \
    {                                                                          \
        return &add_record(c, RECORD_##name)->what;                            \
    }
RECORD_LIST(BOARD_RECORD)
#undef BOARD_RECORD

struct record_decision *board_decision(struct board *c, const char *decision,
                                       const char *format, ...)
{
    struct record_decision *d = board_record_decision(c);
    va_list args;

    snprintf(d->decision, sizeof(d->decision), "%s", decision);
    va_start(args, format);
    vsnprintf(d->text, sizeof(d->text), format, args);
    va_end(args);
    text_to_utf8(d->text); /* what others said may be cut anywhere */
    return d;
}

void board_decision_number(struct record_decision *d, const char *name,
                           double value)
{
    assert(d->numbers < RECORD_NUMBERS_MAX);
    snprintf(d->number[d->numbers].name, sizeof(d->number[0].name), "%s", name);
    d->number[d->numbers++].value = value;
}
