/* Decay: how a learning rate falls with the epochs, by schedule.
 *
 * Closed forms of e, the epochs that are over: the rate for epoch e + 1. Pure.
 */
#ifndef TUNER_DECAY_H
#define TUNER_DECAY_H

#include "base/fault.h"

#include <jansson.h>
#include <stdint.h>

enum decay_kind { DECAY_NONE, DECAY_STEP, DECAY_EXPONENTIAL, DECAY_COSINE };

struct decay {
    enum decay_kind kind;
    double gamma;    /* 0 < gamma <= 1 */
    uint32_t every;  /* epochs a step, >= 1 */
    double floor;    /* of cosine: share of the first rate, 0 .. 1 */
    uint32_t epochs; /* that cosine falls over, >= 1 */
};

/* The members of a JSON schema's "properties" that decay_read reads. */
#define DECAY_SETTINGS                                                         \
    "\"schedule\": {\"enum\": [\"none\", \"step\", \"exponential\", "          \
    "\"cosine\"], \"default\": \"none\", \"description\": \"how the learning " \
    "rate falls\"}, "                                                          \
    "\"gamma\": {\"type\": \"number\", \"exclusiveMinimum\": 0, "              \
    "\"maximum\": 1, \"description\": \"factor at each step (0.1 if absent), " \
    "or each epoch of exponential (0.95 if absent)\"}, "                       \
    "\"every\": {\"type\": \"integer\", \"minimum\": 1, "                      \
    "\"maximum\": 1000000, \"default\": 30, \"description\": \"epochs from "   \
    "step to step\"}, "                                                        \
    "\"floor\": {\"type\": \"number\", \"minimum\": 0, \"maximum\": 1, "       \
    "\"default\": 0, \"description\": \"share of the first rate that cosine "  \
    "comes down to after stop.max_epochs\"}"

/* From checked and completed settings; @epochs: the job's max_epochs. */
void decay_read(const json_t *settings, uint32_t epochs, struct decay *out);

/* Rate after @e epochs, @first being that of epoch 1:
 *   step         first gamma^floor(e / every)
 *   exponential  first gamma^e
 *   cosine       first (floor + (1 - floor) (1 + cos(pi e / epochs)) / 2),
 *                from e = epochs on first floor. */
double decay_rate(const struct decay *d, double first, uint32_t e);

/* "step", ... */
const char *decay_name(const struct decay *d);

#endif
