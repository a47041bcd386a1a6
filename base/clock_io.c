#include "base/clock_io.h"

#include <time.h>

static time_ns read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (time_ns)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

time_ns clock_monotonic(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

time_ns clock_wall(void)
{
    return read_clock(CLOCK_REALTIME);
}

time_ns clock_thread_cpu(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
