#include "base/proto/window.h"

#include <assert.h>
#include <math.h>

void window_join(struct progress_window *to, const struct progress_window *w)
{
    assert(to && w);
    if (isfinite(to->sum))
        to->sum = isfinite(w->sum) ? to->sum + w->sum : w->sum;
    to->samples += w->samples;
    to->clocks += w->clocks;
    to->seconds += w->seconds;
    to->wait_s += w->wait_s;
    to->copy_s += w->copy_s;
    to->stalled_s += w->stalled_s;
}

double window_mean(const struct progress_window *w)
{
    assert(w);
    if (w->samples == 0)
        return isfinite(w->sum) ? NAN : w->sum;
    return w->sum / (double)w->samples;
}
