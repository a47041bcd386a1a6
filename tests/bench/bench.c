#include "tests/bench/bench.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

size_t bench_rounds(void)
{
    const char *text = getenv("BENCH_ROUNDS");
    long n = text ? strtol(text, NULL, 10) : 11;

    bench_must(n >= 1 && n <= BENCH_ROUNDS_MAX && n % 2 == 1,
               "BENCH_ROUNDS is an odd number from 1 to 101");
    return (size_t)n;
}

time_ns bench_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (time_ns)t.tv_sec * 1000000000 + t.tv_nsec;
}

void bench_add(struct bench_series *s, double value)
{
    assert(s->n < BENCH_ROUNDS_MAX);
    s->value[s->n++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(const struct bench_series *s, double q)
{
    double sorted[BENCH_ROUNDS_MAX];

    assert(s->n > 0);
    memcpy(sorted, s->value, s->n * sizeof(*sorted));
    qsort(sorted, s->n, sizeof(*sorted), compare);
    return sorted[(size_t)(q * (double)(s->n - 1) + 0.5)];
}

double bench_median(const struct bench_series *s)
{
    return quantile(s, 0.5);
}

double bench_spread(const struct bench_series *s)
{
    double width = quantile(s, 0.75) - quantile(s, 0.25);

    return width > 0 ? width / bench_median(s) : 0;
}

static void print_name(const char *name, const char *params)
{
    printf("%s%s%s", name, *params ? " " : "", params);
}

void bench_print(const char *name, const char *params,
                 const struct bench_series *s, const char *unit)
{
    print_name(name, params);
    printf(" rounds=%zu spread=%.3f %.4g %s\n", s->n, bench_spread(s),
           bench_median(s), unit);
    fflush(stdout);
}

void bench_print_ratio(const char *name, const char *params, const char *peer,
                       const struct bench_series *ours,
                       const struct bench_series *theirs, int times)
{
    struct bench_series ratio = {.n = 0};

    assert(ours->n == theirs->n);
    for (size_t i = 0; i < ours->n; i++)
        bench_add(&ratio, times ? theirs->value[i] / ours->value[i]
                                : ours->value[i] / theirs->value[i]);
    print_name(name, params);
    printf(" vs=%s rounds=%zu spread=%.3f %.3f ratio\n", peer, ratio.n,
           bench_spread(&ratio), bench_median(&ratio));
    fflush(stdout);
}

void bench_skip(const char *name, const char *params, const char *fmt, ...)
{
    va_list ap;

    printf("# ");
    print_name(name, params);
    printf(" skipped: ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

uint64_t bench_available_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    uint64_t kib = 0;
    char line[256];

    bench_must(f != NULL, "read /proc/meminfo");
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
            break;
    fclose(f);
    return kib * 1024;
}

void bench_must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "benchmark failed: %s\n", what);
    exit(1);
}
