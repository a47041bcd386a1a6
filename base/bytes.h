/* Numbers in outside bytes: little-endian, at any address. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint64_t bytes_swap(uint64_t x, unsigned n)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(x) >> (64 - 8 * n);
#else
    (void)n;
    return x;
#endif
}

static inline uint16_t bytes_get16(const unsigned char *in)
{
    uint16_t x;

    memcpy(&x, in, sizeof(x));
    return (uint16_t)bytes_swap(x, 2);
}

static inline uint32_t bytes_get32(const unsigned char *in)
{
    uint32_t x;

    memcpy(&x, in, sizeof(x));
    return (uint32_t)bytes_swap(x, 4);
}

static inline uint64_t bytes_get64(const unsigned char *in)
{
    uint64_t x;

    memcpy(&x, in, sizeof(x));
    return bytes_swap(x, 8);
}

static inline void bytes_put16(unsigned char *out, uint16_t x)
{
    x = (uint16_t)bytes_swap(x, 2);
    memcpy(out, &x, sizeof(x));
}

static inline void bytes_put32(unsigned char *out, uint32_t x)
{
    x = (uint32_t)bytes_swap(x, 4);
    memcpy(out, &x, sizeof(x));
}

static inline void bytes_put64(unsigned char *out, uint64_t x)
{
    x = bytes_swap(x, 8);
    memcpy(out, &x, sizeof(x));
}

#endif
