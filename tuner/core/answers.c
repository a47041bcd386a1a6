#include "tuner/core/answers.h"

#include "base/mem.h"
#include "tuner/board/outbox.h"
#include "tuner/core/parts.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

struct answers {
    uint64_t ticket; /* of the command that is taken in */
};

enum err answers_init(struct board *c)
{
    assert(!c->owner->answers);
    c->owner->answers = mem_calloc(1, sizeof(*c->owner->answers));
    return c->owner->answers ? ERR_OK : ERR_NOMEM;
}

void answers_deinit(struct board *c)
{
    mem_free(c->owner->answers);
    c->owner->answers = NULL;
}

void answers_take(struct board *c, uint64_t ticket)
{
    c->owner->answers->ticket = ticket;
}

uint64_t answers_ticket(const struct board *c)
{
    return c->owner->answers->ticket;
}

static struct tuner_answer *add(struct board *c, uint64_t ticket, enum err err,
                                bool changed)
{
    struct tuner_answer *a = &outbox_add(c, TUNER_ANSWER)->answer;

    assert(!err || !changed);
    *a = (struct tuner_answer){
        .ticket = ticket,
        .err = err,
        .changed = changed,
        .branch = BRANCH_NONE,
        .limits = board_limits(c),
    };
    return a;
}

struct tuner_answer *answers_give(struct board *c, enum err err, bool changed,
                                  const char *format, ...)
{
    struct tuner_answer *a = add(c, c->owner->answers->ticket, err, changed);
    va_list args;

    va_start(args, format);
    vsnprintf(a->text, sizeof(a->text), format, args);
    va_end(args);
    return a;
}

struct tuner_answer *answers_give_to(struct board *c, uint64_t ticket,
                                     enum err err, bool changed,
                                     const char *text)
{
    struct tuner_answer *a = add(c, ticket, err, changed);

    assert(text);
    snprintf(a->text, sizeof(a->text), "%s", text);
    return a;
}
