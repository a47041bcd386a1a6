/* Benchmarks: series of measurements and the lines they print.
 *
 * A line is `name key=value ... value unit`; a peer measured beside it, in the
 * same rounds, gives a second line with the unit `ratio` and vs=PEER. Rounds of
 * both sides alternate, so that other tenants of the machine slow both. What is
 * printed is the median; `spread` is the distance of the quartiles divided by
 * the median.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include "base/clock_io.h"

#include <stddef.h>
#include <stdint.h>

enum { BENCH_ROUNDS_MAX = 101 };

struct bench_series {
    double value[BENCH_ROUNDS_MAX];
    size_t n;
};

/* Rounds to measure: 11, or the environment's BENCH_ROUNDS (odd, 1 ..
 * BENCH_ROUNDS_MAX). */
size_t bench_rounds(void);

/* CPU time of this process, all threads. */
time_ns bench_cpu(void);

void bench_add(struct bench_series *s, double value);
double bench_median(const struct bench_series *s);
double bench_spread(const struct bench_series *s);

/* "name params spread=... value unit" with the median of @s. @params is "" or
 * "key=value ..." and made by the caller. */
void bench_print(const char *name, const char *params,
                 const struct bench_series *s, const char *unit);

/* "name params vs=peer spread=... value ratio": the median over the rounds of
 * @ours[i] / @theirs[i] (rates), or with @times their inverse, so that more is
 * better for us in both cases. */
void bench_print_ratio(const char *name, const char *params, const char *peer,
                       const struct bench_series *ours,
                       const struct bench_series *theirs, int times);

/* Says on stdout, as a comment ("# name params skipped: ..."), what was not
 * measured. */
void bench_skip(const char *name, const char *params, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Memory that may be had without swapping (MemAvailable). */
uint64_t bench_available_bytes(void);

/* Keeps the compiler from leaving out what made @p. */
static inline void bench_keep(const void *p)
{
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* Ends the program: a benchmark that cannot do its work has no result. */
void bench_must(int ok, const char *what);

#endif
