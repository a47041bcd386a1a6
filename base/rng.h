/* Seeded random numbers and permutations, the same on every machine.
 *
 * xoshiro256++ (Blackman and Vigna 2019) seeded by splitmix64. A generator is
 * plain data: copy it to fork it. Nothing here is fit for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

/* Two numbers mixed into one well-spread 64-bit number (splitmix64's
 * finaliser): the way to derive a seed for a part of the work. */
uint64_t rng_mix(uint64_t a, uint64_t b);

void rng_init(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);

/* Uniform in [0, 1), 53 bits. */
double rng_uniform(struct rng *rng);

/* Uniform in 0 .. @n - 1, without bias; @n > 0. */
uint64_t rng_below(struct rng *rng, uint64_t n);

/* Standard normal (Marsaglia's polar method; no state is kept between calls).*/
double rng_normal(struct rng *rng);

/* A permutation of 0 .. n - 1 that needs no memory: any position in any order,
 * so that a branch's cursor is a number and nothing else. A four-round Feistel
 * network over the next power of four, walked until it falls inside (Black and
 * Rogaway 2002); at most four evaluations on average. */
struct perm {
    uint64_t n;
    uint64_t key[4];
    unsigned half_bits;
};

/* @n in 1 .. 2^62. */
void perm_init(struct perm *perm, uint64_t n, uint64_t seed);

/* The element at position @i, 0 <= @i < n. */
uint64_t perm_at(const struct perm *perm, uint64_t i);

#endif
