/* Failures: what is told of the trials of a search that failed.
 *
 * A trial that failed (an error of the application, no memory) is no divergence
 * and says nothing of speed; its reason says what is to be mended. Reasons that
 * differ in their numbers alone ("tried to allocate 2.5 GiB") count as one. Of
 * more than FAILURES_KINDS reasons the later ones are not counted each.
 *
 * Inside tuner/ only; pure.
 */
#ifndef TUNER_FAILURES_H
#define TUNER_FAILURES_H

#include "tuner/search/trials.h"

enum { FAILURES_KINDS = 16 };

struct failures {
    uint32_t tried, failed;
    uint32_t times; /* that the commonest reason was the reason */
    /* "30 of 30 trials failed: CUDA out of memory"; with the commonest reason
     * as it was first given. Where there were others, too: "30 of 30 trials
     * failed, 20 of them since: ...". "" where none failed. */
    char text[RECORD_TEXT_MAX];
};

/* Of all trials of the list. Cost O(trials x FAILURES_KINDS). */
struct failures failures_of(const struct trials *t);

/* Ends the run, of which no trial came to a setting that makes progress, where
 * some of them failed: then that is told. False: none did. */
bool failures_end(struct board *c, const struct failures *f);

#endif
