/* The machine's clocks. Only shells (`*_io.c`), cli and benchmarks ask them;
 * pure cores get time in their events. */
#ifndef BASE_CLOCK_IO_H
#define BASE_CLOCK_IO_H

#include <stdint.h>

typedef int64_t time_ns; /* nanoseconds; a difference, or since an epoch */

time_ns clock_monotonic(void);  /* CLOCK_MONOTONIC: for all intervals */
time_ns clock_wall(void);       /* CLOCK_REALTIME: for what people read */
time_ns clock_thread_cpu(void); /* CPU time of the calling thread */

#endif
