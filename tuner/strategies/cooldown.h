/* Cooldown: the learning rate falls to nearly zero over a run's last epochs:
 * those of max_epochs, those that fit into max_time, or a share more where it
 * would end without progress.
 *
 * A steady rate leaves a run as far above its best as that rate's noise keeps
 * it. Who knows the last epoch lets the rate fall towards it: stable, then
 * decay (Haegele et al. 2024, who find it on a par with a cosine over the whole
 * run). Unlike a cosine it needs the end only once that is near. Pure.
 */
#ifndef TUNER_COOLDOWN_H
#define TUNER_COOLDOWN_H

#include "searchers/space/space.h"

#include <stdbool.h>
#include <stdint.h>

struct cooldown {
    double share;  /* of max_epochs, 0 .. 1; 0: there is none */
    uint32_t from; /* epochs that were over when it began; 0: it has not */
    uint32_t end;  /* epoch that it ends with; 0: the run's last */
    int rate;      /* index of the learning rate */
    double first;  /* that it falls from */
    double now;    /* that it has fallen to */
    bool due;      /* an epoch is over: the next one's rate is to be set */
};

/* Whether the learning rate may fall: it is any number of a range, acts, and
 * re-tunes may change it. Where the user lists or fixes values, those are
 * meant. */
bool cooldown_possible(const struct space *space);

/* Whether the epoch after @epochs is one of the last of @max that it has by its
 * share, at least one. The first epoch never is. */
bool cooldown_near(const struct cooldown *d, uint32_t epochs, uint32_t max);

/* Whether it is near, or may begin early: at least half of the epochs are over,
 * and no more are left than the @patience after which a run that makes no
 * progress ends. (A re-tune would find no time any more to prove itself.) */
bool cooldown_early(const struct cooldown *d, uint32_t epochs, uint32_t max,
                    uint32_t patience);

enum {
    COOLDOWN_LONG = 30 /* epochs of a run in which two more cost little */
};

/* Whether a run of @max epochs hardly ends before its cooldown: it has one, and
 * the @patience without progress that would end it is a third of the run or
 * more. Only of long ones, in which two epochs more, for looks at a lower rate,
 * are a fifteenth at most. */
bool cooldown_certain(const struct cooldown *d, uint32_t max,
                      uint32_t patience);

/* Begins after @epochs (>= 1), with @x in use; it is possible. */
void cooldown_begin(struct cooldown *d, const struct space *space,
                    uint32_t epochs, const struct setting *x);

/* Epoch with which a cooldown ends that begins after @epochs (>= 1) of at most
 * @max because there is no progress at a steady rate: its share of @epochs
 * more. 0: there is none, or no epoch is left. */
uint32_t cooldown_last(const struct cooldown *d, uint32_t epochs, uint32_t max);

/* Whether one that ends with its own epoch is over after @epochs: the last one,
 * or half of them where the rate's fall has brought nothing (@since epochs
 * without improvement, counted from before it began). */
bool cooldown_over(const struct cooldown *d, uint32_t epochs, uint32_t since);

/* @x, in use; once it has begun, as it was before. */
struct setting cooldown_before(const struct cooldown *d,
                               const struct setting *x);

/* @x, of before, as it is in the epoch after @epochs when the run ends with
 * epoch @max at the latest: with 1 - sqrt(p) of the rate, p being the part of
 * the cooldown that is over in the middle of that epoch. Never more than it has
 * fallen to, though @max may be later than was thought. As it is where none has
 * begun. */
struct setting cooldown_setting(const struct cooldown *d,
                                const struct setting *x, uint32_t epochs,
                                uint32_t max);

/* @x is trained with from now on, in a cooldown or not. */
void cooldown_takes(struct cooldown *d, const struct setting *x);

/* Another setting was chosen: the next cooldown begins anew. */
void cooldown_reset(struct cooldown *d);

#endif
