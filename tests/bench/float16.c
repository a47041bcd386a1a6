/* 16-bit floats of rows: packed and unpacked, beside one value at a time and
 * beside a copy of the same 32-bit values. */
#include "ps/nodes/float16.h"
#include "base/bytes.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { VALUES = 1 << 16, REPEAT = 50 };

static float values[VALUES], back[VALUES];
static unsigned char packed[2 * VALUES];
static uint32_t width;

static void pack(void)
{
    for (size_t i = 0; i < VALUES; i += width)
        float16_pack(width, values + i, packed + 2 * i);
}

static void unpack(void)
{
    for (size_t i = 0; i < VALUES; i += width)
        float16_unpack(width, packed + 2 * i, back + i);
}

static void pack_one_by_one(void)
{
    for (size_t i = 0; i < VALUES; i++)
        bytes_put16(packed + 2 * i, float16_from_float(values[i]));
}

static void unpack_one_by_one(void)
{
    for (size_t i = 0; i < VALUES; i++)
        back[i] = float16_to_float(bytes_get16(packed + 2 * i));
}

static void copy(void)
{
    for (size_t i = 0; i < VALUES; i += width)
        memcpy(back + i, values + i, width * sizeof(float));
}

/* Million values a second. */
static double rate(void (*work)(void))
{
    struct timespec a, b;

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < REPEAT; i++) {
        work();
        bench_keep(packed);
        bench_keep(back);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    return 1e-6 * VALUES * REPEAT /
           ((double)(b.tv_sec - a.tv_sec) +
            1e-9 * (double)(b.tv_nsec - a.tv_nsec));
}

static void measure(const char *name, void (*ours)(void), void (*single)(void))
{
    struct bench_series a = {0}, b = {0}, c = {0};
    char params[32];

    snprintf(params, sizeof(params), "width=%u", width);
    for (size_t i = 0; i < bench_rounds(); i++) {
        bench_add(&a, rate(ours));
        bench_add(&b, rate(single));
        bench_add(&c, rate(copy));
    }
    bench_print(name, params, &a, "M/s");
    bench_print_ratio(name, params, "one_by_one", &a, &b, 0);
    bench_print_ratio(name, params, "copy", &a, &c, 0);
}

int main(void)
{
    static const uint32_t widths[] = {8, 32, 256, VALUES};

    for (size_t i = 0; i < VALUES; i++)
        values[i] = (float)((double)(i * 2654435761U % 4096) / 512 - 4);
    for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
        width = widths[i];
        measure("float16_pack", pack, pack_one_by_one);
        measure("float16_unpack", unpack, unpack_one_by_one);
    }
    return 0;
}
