#include "apps/lda/lda_held.h"

#include "apps/lda/lda_kernel.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/simd.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { LANES = LDA_LANES };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float vec_any
    __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

void lda_held_deinit(struct lda_held *h)
{
    mem_free(h->begin);
    mem_free(h->word);
    memset(h, 0, sizeof(*h));
}

/* Tokens of document @d whose word is known. */
static uint64_t known_tokens(const struct corpus *c, uint64_t d, uint32_t words)
{
    uint64_t sum = 0, i;

    for (i = c->begin[d]; i < c->begin[d + 1]; i++)
        sum += c->word[i] < words ? c->count[i] : 0;
    return sum;
}

/* Every second token is asked for, beginning with the first or the second. */
static void split_doc(struct lda_held *h, const struct corpus *c, uint64_t d,
                      uint32_t words, uint64_t seed)
{
    uint64_t at = h->begin[h->docs], i;
    uint32_t odd = (uint32_t)(rng_mix(seed, d) & 1);

    for (i = c->begin[d]; i < c->begin[d + 1]; i++) {
        uint32_t n = c->count[i], asked = (n + odd) / 2;

        if (c->word[i] >= words)
            continue;
        h->word[at++] = (struct lda_split){c->word[i], n - asked, asked};
        h->asked += asked;
        odd ^= n & 1;
    }
    if (at - h->begin[h->docs] > h->entries_max)
        h->entries_max = (uint32_t)(at - h->begin[h->docs]);
    h->begin[++h->docs] = at;
}

static enum err make_room(struct lda_held *h, const struct corpus *c)
{
    memset(h, 0, sizeof(*h));
    h->begin = mem_calloc(c->docs + 1, sizeof(*h->begin));
    h->word = mem_alloc((c->entries + 1) * sizeof(*h->word));
    if (h->begin && h->word)
        return ERR_OK;
    lda_held_deinit(h);
    return ERR_NOMEM;
}

enum err lda_held_whole(struct lda_held *h, const struct corpus *c,
                        uint32_t words)
{
    enum err err = make_room(h, c);

    if (err)
        return err;
    for (uint64_t d = 0; d < c->docs; d++) {
        uint64_t at = h->begin[d];

        for (uint64_t i = c->begin[d]; i < c->begin[d + 1]; i++)
            if (c->word[i] < words)
                h->word[at++] = (struct lda_split){c->word[i], c->count[i], 0};
        if (at - h->begin[d] > h->entries_max)
            h->entries_max = (uint32_t)(at - h->begin[d]);
        h->begin[d + 1] = at;
    }
    h->docs = c->docs;
    return ERR_OK;
}

enum err lda_held_init(struct lda_held *h, const struct corpus *c,
                       uint32_t words, uint64_t seed)
{
    uint64_t d;
    enum err err = make_room(h, c);

    if (err)
        return err;
    for (d = 0; d < c->docs; d++)
        if (known_tokens(c, d, words) >= 2)
            split_doc(h, c, d, words, seed);
    return ERR_OK;
}

KERNEL_PART float sum_lanes(vec v)
{
    float sum = 0;

    for (int k = 0; k < LANES; k++)
        sum += v[k];
    return sum;
}

KERNEL_PART float dot(uint32_t n, const float a[], const float b[])
{
    vec sum = {0};

    for (uint32_t k = 0; k < n; k += LANES)
        sum += *(const vec_any *)(const void *)(a + k) *
               *(const vec_any *)(const void *)(b + k);
    return sum_lanes(sum);
}

/* to[k] += scale a[k] b[k] */
KERNEL_PART void add_product(uint32_t n, float scale, const float a[],
                             const float b[], float to[])
{
    for (uint32_t k = 0; k < n; k += LANES)
        *(vec_any *)(void *)(to + k) +=
            scale * (*(const vec_any *)(const void *)(a + k) *
                     *(const vec_any *)(const void *)(b + k));
}

/* One step from @mix to @next; both add up to alpha topics + seen tokens, but
 * for the even mix at the beginning. */
KERNEL void held_step(size_t n, const struct lda_split word[], uint32_t stride,
                      const float phi[], const float mix[], float next[]);
KERNEL void held_step(size_t n, const struct lda_split word[], uint32_t stride,
                      const float phi[], const float mix[], float next[])
{
    for (size_t i = 0; i < n; i++) {
        const float *p = phi + i * stride;

        if (word[i].seen)
            add_product(stride, (float)word[i].seen / dot(stride, mix, p), mix,
                        p, next);
    }
}

KERNEL double held_sum(size_t n, const struct lda_split word[], uint32_t stride,
                       const float phi[], const float mix[], double total);
KERNEL double held_sum(size_t n, const struct lda_split word[], uint32_t stride,
                       const float phi[], const float mix[], double total)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        if (word[i].asked)
            sum += word[i].asked *
                   log((double)dot(stride, mix, phi + i * stride) / total);
    return sum;
}

/* The mix of document @doc, times *@total, in one half of @mix. */
static const float *complete(const struct lda_held *h, uint64_t doc,
                             uint32_t topics, uint32_t stride,
                             const float phi[], double alpha, float mix[],
                             double *total)
{
    const struct lda_split *word = h->word + h->begin[doc];
    size_t n = h->begin[doc + 1] - h->begin[doc], i;
    float *now = mix, *next = mix + stride;
    uint32_t k;

    assert(doc < h->docs && stride >= topics);
    *total = alpha * topics;
    for (i = 0; i < n; i++)
        *total += word[i].seen;
    for (k = 0; k < stride; k++)
        now[k] = k < topics ? 1 : 0;
    for (int step = 0; step < LDA_HELD_STEPS; step++) {
        float *old = now;

        for (k = 0; k < stride; k++)
            next[k] = k < topics ? (float)alpha : 0;
        held_step(n, word, stride, phi, now, next);
        now = next;
        next = old;
    }
    return now;
}

double lda_held_log(const struct lda_held *h, uint64_t doc, uint32_t topics,
                    uint32_t stride, const float phi[], double alpha,
                    float mix[], uint64_t *tokens)
{
    const struct lda_split *word = h->word + h->begin[doc];
    size_t n = h->begin[doc + 1] - h->begin[doc], i;
    const float *now;
    double total;

    *tokens = 0;
    for (i = 0; i < n; i++)
        *tokens += word[i].asked;
    now = complete(h, doc, topics, stride, phi, alpha, mix, &total);
    return held_sum(n, word, stride, phi, now, total);
}

void lda_held_mix(const struct lda_held *h, uint64_t doc, uint32_t topics,
                  uint32_t stride, const float phi[], double alpha, float mix[],
                  double share[])
{
    double total, sum = 0;
    const float *now =
        complete(h, doc, topics, stride, phi, alpha, mix, &total);

    for (uint32_t k = 0; k < topics; k++)
        sum += (double)now[k];
    for (uint32_t k = 0; k < topics; k++)
        share[k] = (double)now[k] / sum;
}
