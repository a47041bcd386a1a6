#include "base/rng.h"

#include <assert.h>
#include <math.h>

static uint64_t splitmix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t rng_mix(uint64_t a, uint64_t b)
{
    return splitmix(splitmix(a) ^ b);
}

void rng_init(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = rng_mix(seed, (uint64_t)i);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double rng_uniform(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1.0p-53;
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
    /* Lemire 2019: multiply, and reject the few values that would bias. */
    uint64_t floor;

    assert(n > 0);
    floor = -n % n;
    for (;;) {
        unsigned __int128 m = (unsigned __int128)rng_next(rng) * n;

        if ((uint64_t)m >= floor)
            return (uint64_t)(m >> 64);
    }
}

double rng_normal(struct rng *rng)
{
    for (;;) {
        double u = 2 * rng_uniform(rng) - 1;
        double v = 2 * rng_uniform(rng) - 1;
        double r = u * u + v * v;

        if (r > 0 && r < 1)
            return u * sqrt(-2 * log(r) / r);
    }
}

void perm_init(struct perm *perm, uint64_t n, uint64_t seed)
{
    assert(n >= 1);
    assert(n <= (uint64_t)1 << 62);
    perm->n = n;
    perm->half_bits = 1;
    while ((uint64_t)1 << (2 * perm->half_bits) < n)
        perm->half_bits++;
    for (unsigned i = 0; i < 4; i++)
        perm->key[i] = rng_mix(seed, i);
}

static uint64_t feistel(const struct perm *perm, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << perm->half_bits) - 1;
    uint64_t left = x >> perm->half_bits;
    uint64_t right = x & mask;

    for (unsigned i = 0; i < 4; i++) {
        uint64_t f = (right ^ perm->key[i]) * 0x9e3779b97f4a7c15u;
        uint64_t next;

        f = (f ^ (f >> 32)) * 0xd6e8feb86659fd93u;
        next = left ^ ((f >> 32) & mask);
        left = right;
        right = next;
    }
    return left << perm->half_bits | right;
}

uint64_t perm_at(const struct perm *perm, uint64_t i)
{
    assert(i < perm->n);
    do
        i = feistel(perm, i);
    while (i >= perm->n);
    return i;
}
