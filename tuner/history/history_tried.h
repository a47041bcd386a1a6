/* What a trial came to, in short (history_read.c). */
#ifndef TUNER_HISTORY_TRIED_H
#define TUNER_HISTORY_TRIED_H

#include "tuner/history/history.h"

struct history_tried {
    uint32_t trial, search;
    bool incumbent;
    enum trial_label label;
    double speed; /* > 0; else 0 */
};

/* Of trial @i < history_trials_len. */
struct history_tried history_tried_at(const struct history *h, size_t i);

#endif
