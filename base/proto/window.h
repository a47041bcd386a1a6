/* Windows of progress: some clocks of a slice, reported as one.
 *
 * Nodes report them, records keep them, the history joins them to points.
 */
#ifndef BASE_WINDOW_H
#define BASE_WINDOW_H

#include <stdint.h>

/* Over all workers. */
struct progress_window {
    double sum; /* of the loss, or of the metric in a testing branch; may be
                 * non-finite */
    uint64_t samples;
    uint64_t clocks;
    double
        seconds;   /* wall time of these clocks, without copy_s and stalled_s;
                    * from the end of the clock before to the end of the last */
    double wait_s; /* of seconds: waiting at barriers and for rows (mean over
                    * workers); in no journal, which has it of whole nodes */
    double copy_s; /* copying chunks on first write (each clock's slowest
                    * worker) */
    double stalled_s; /* the machine stood still */
};

/* Makes @to the window of both, which ran one after the other. A sum that is
 * not finite stays. */
void window_join(struct progress_window *to, const struct progress_window *w);

/* Mean of what was summed; NAN of an empty window, and a sum that is not finite
 * as it is. */
double window_mean(const struct progress_window *w);

#endif
