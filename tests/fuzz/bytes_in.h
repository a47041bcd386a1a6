/* A fuzzer's input as a sequence of small numbers, for targets that play a
 * conversation: each takes what it needs, and zeros when there is no more.
 */
#ifndef FUZZ_BYTES_IN_H
#define FUZZ_BYTES_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes_in {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t in_byte(struct bytes_in *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static inline uint64_t in_below(struct bytes_in *in, uint64_t n)
{
    return in_byte(in) % n;
}

static inline bool in_chance(struct bytes_in *in)
{
    return in_byte(in) & 1;
}

/* Small mostly; sometimes at a limit of its type. */
static inline uint64_t in_number(struct bytes_in *in)
{
    static const uint64_t odd[] = {UINT64_MAX, INT64_MAX,         UINT32_MAX,
                                   INT32_MAX,  (uint64_t)1 << 63, 65536};
    uint8_t b = in_byte(in);

    return b < 250 ? b % 50 : odd[b - 250];
}

/* As the number, but also infinite, not a number, negative, or tiny. */
static inline double in_real(struct bytes_in *in)
{
    static const double odd[] = {0.0 / 0.0, 1.0 / 0.0, -1.0 / 0.0, 1e-300,
                                 1e300,     -1,        -0.0,       0.5};
    uint8_t b = in_byte(in);

    return b < 248 ? b / 16.0 : odd[b - 248];
}

#endif
