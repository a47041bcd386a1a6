/* Choices every strategy makes alike: the setting to start with, the record of
 * a setting taken up, the end when a branch breaks.
 */
#ifndef TUNER_CHOICE_H
#define TUNER_CHOICE_H

#include "tuner/board/board.h"

struct strategy_ops;

/* The setting `initial` asks for, else the defaults. Errors: ERR_INVAL (not in
 * the space; @f says which tunable), ERR_NOMEM. */
enum err choice_initial(const struct board *c, struct setting *out,
                        struct fault *f);

/* @settings (may be NULL) of strategy @ops, checked and completed with its
 * schema, as an object of the caller's. Errors: ERR_INVAL (@f: which one),
 * ERR_NOMEM. */
enum err choice_settings(const struct strategy_ops *ops, const json_t *settings,
                         json_t **out, struct fault *f);

/* Records that the surviving lineage uses @b's setting, from its first clock
 * on. */
void choice_record(struct board *c, const struct branch *b, const char *reason);

/* The same of a contest's leader: others go on beside it. */
void choice_record_leader(struct board *c, const struct branch *b,
                          const char *reason);

/* Ends the run because a branch that it cannot do without broke: diverged, an
 * error of the application, no memory. */
void choice_broken(struct board *c, const struct branch *b);

#endif
