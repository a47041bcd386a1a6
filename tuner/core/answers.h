/* Answers: what those who give commands are told.
 *
 * Whoever gives a command is known by its ticket. It is answered once: by the
 * same event, or later where the training system has to answer first. Part of
 * the core (tuner/core/parts.h); pure.
 */
#ifndef TUNER_ANSWERS_H
#define TUNER_ANSWERS_H

#include "tuner/board/board.h"

/* Errors: ERR_NOMEM. */
enum err answers_init(struct board *c);
void answers_deinit(struct board *c);

/* A command is taken in; its ticket until the next one is. */
void answers_take(struct board *c, uint64_t ticket);
uint64_t answers_ticket(const struct board *c);

/* Answers who gave the command that is taken in. The answer is in the outbox:
 * the caller may add to it. */
struct tuner_answer *answers_give(struct board *c, enum err err, bool changed,
                                  const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Answers who gave an earlier command. */
struct tuner_answer *answers_give_to(struct board *c, uint64_t ticket,
                                     enum err err, bool changed,
                                     const char *text);

#endif
