#include "apps/lda/lda_kernel.h"

#include "base/mem.h"
#include "base/simd.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    LANES = LDA_LANES,
    STRANDS = 4, /* columns of vectors that are summed side by side */
    COLUMNS = STRANDS * LANES,
    COUNTED = 8, /* values that are counted without a search */
    DRAWS = 64,  /* random numbers made at a time */
    SKIP = 16,   /* counts of a row that are passed over when all are zero */
    WORDS_OF_SKIP = SKIP * 4 / 8,
    ALIGN = 64
};

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));
typedef float vec_any
    __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef uint64_t words_any
    __attribute__((vector_size(SKIP * 4), aligned(4), may_alias));

KERNEL_PART vec load(const float *p)
{
    return *(const vec_any *)(const void *)p;
}

KERNEL_PART void store(float *p, vec v)
{
    *(vec_any *)(void *)p = v;
}

/* ---- log p(w, z) --------------------------------------------------------- */

void lda_prior_init(struct lda_prior *p, uint32_t topics, uint32_t words,
                    double alpha, double beta)
{
    double sum = 0, doc = 0;
    int n;

    assert(topics >= 1 && topics <= LDA_TOPICS_MAX && words >= 1);
    assert(alpha > 0 && beta > 0);
    p->topics = topics;
    p->words = words;
    p->alpha = alpha;
    p->beta = beta;
    for (n = 0; n < LDA_LOG_TABLE; n++) {
        p->log_alpha[n] = log(n + alpha);
        p->log_beta[n] = sum;
        p->log_doc[n] = doc;
        sum += log(n + beta);
        doc += p->log_alpha[n];
    }
}

static double log_gamma(double x)
{
    int sign; /* lgamma(3) would write a global one */

    return lgamma_r(x, &sign);
}

static double log_beyond(const struct lda_prior *p, int32_t n)
{
    return log_gamma(n + p->beta) - log_gamma(p->beta);
}

/* The sum of the logarithms of @n counts, whatever they are. */
static double logs_of(const struct lda_prior *p, const int32_t row[],
                      uint32_t n)
{
    double sum = 0;

    for (uint32_t j = 0; j < n; j++)
        if (row[j] >= LDA_LOG_TABLE)
            sum += log_beyond(p, row[j]);
        else if (row[j] > 0) /* a stale view's may be below 0 */
            sum += p->log_beta[row[j]];
    return sum;
}

/* The bits of SKIP counts, all ORed: 0 if each is 0; below LDA_LOG_TABLE, a
 * power of two, if each is in the table, so none is negative. */
KERNEL_PART uint32_t bits_of(const int32_t row[])
{
    words_any w = *(const words_any *)(const void *)row;
    uint64_t any = 0;

    for (uint32_t j = 0; j < WORDS_OF_SKIP; j++)
        any |= w[j];
    return (uint32_t)any | (uint32_t)(any >> 32);
}

/* Most counts of a row are zero. Groups of them are passed over; in a group
 * with another one zeros are looked up too (they have 0 in the table), since a
 * branch on each, which chance decides, takes several times as long. Sums side
 * by side do not wait for one another. */
KERNEL double lda_row_log(const struct lda_prior *p, const int32_t row[])
{
    const double *restrict log_beta = p->log_beta;
    uint32_t k = 0, j;
    double sum[4] = {0};

    _Static_assert((LDA_LOG_TABLE & (LDA_LOG_TABLE - 1)) == 0, "bits_of");
    for (; k + SKIP <= p->topics; k += SKIP) {
        uint32_t bits = bits_of(row + k);

        if (bits >= LDA_LOG_TABLE)
            return logs_of(p, row, p->topics);
        if (bits == 0)
            continue;
        for (j = 0; j < SKIP; j++)
            sum[j % 4] += log_beta[row[k + j]];
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) +
           logs_of(p, row + k, p->topics - k);
}

double lda_doc_log(const struct lda_prior *p, const float count[])
{
    double prior = p->alpha * p->topics, sum = 0, length = 0;
    double least = log_gamma(p->alpha);

    for (uint32_t k = 0; k < p->topics; k++) {
        uint32_t n = (uint32_t)count[k];

        sum +=
            n < LDA_LOG_TABLE ? p->log_doc[n] : log_gamma(n + p->alpha) - least;
        length += n;
    }
    return sum + log_gamma(prior) - log_gamma(prior + length);
}

double lda_totals_log(const struct lda_prior *p, const int32_t total[])
{
    double empty = log_gamma(p->words * p->beta), sum = 0;
    uint32_t k;

    for (k = 0; k < p->topics; k++)
        if (total[k] > 0) /* a stale view's may be below 0 */
            sum += empty - log_gamma(total[k] + p->words * p->beta);
    return sum;
}

/* ---- memory -------------------------------------------------------------- */

uint32_t lda_stride(const struct lda_prior *prior)
{
    return (prior->topics + COLUMNS - 1) / COLUMNS * COLUMNS;
}

uint64_t lda_sampler_bytes(const struct lda_prior *prior, uint32_t docs_max,
                           uint32_t run_max)
{
    const struct lda_sampler *s = NULL;
    uint64_t column = sizeof(*s->total) + sizeof(*s->word) +
                      sizeof(*s->inverse) + sizeof(*s->phi) +
                      sizeof(*s->product) +
                      (docs_max + UINT64_C(1)) * sizeof(*s->count);

    return lda_stride(prior) * column +
           (run_max + UINT64_C(1)) * 2 * sizeof(*s->change);
}

enum err lda_sampler_init(struct lda_sampler *s, const struct lda_prior *prior,
                          uint32_t docs_max, uint32_t run_max)
{
    uint32_t stride = lda_stride(prior);
    size_t bytes = stride * sizeof(float);

    memset(s, 0, sizeof(*s));
    s->prior = prior;
    s->stride = stride;
    s->docs_max = docs_max;
    s->run_max = run_max;
    s->total = mem_calloc(stride, sizeof(*s->total));
    s->word = mem_calloc(stride, sizeof(*s->word));
    s->inverse = mem_aligned(ALIGN, bytes);
    s->phi = mem_aligned(ALIGN, bytes);
    s->product = mem_aligned(ALIGN, bytes);
    /* One more: a token that stays is written, but not counted. */
    s->change = mem_calloc(run_max + (size_t)1, 2 * sizeof(*s->change));
    s->count = mem_aligned(ALIGN, (docs_max + (size_t)1) * bytes);
    if (!s->total || !s->word || !s->inverse || !s->phi || !s->product ||
        !s->change || !s->count) {
        lda_sampler_deinit(s);
        return ERR_NOMEM;
    }
    memset(s->inverse, 0, bytes);
    memset(s->phi, 0, bytes);
    return ERR_OK;
}

void lda_sampler_deinit(struct lda_sampler *s)
{
    mem_free(s->total);
    mem_free(s->word);
    mem_free(s->inverse);
    mem_free(s->phi);
    mem_free(s->product);
    mem_free(s->change);
    mem_free(s->count);
    memset(s, 0, sizeof(*s));
}

/* ---- documents ----------------------------------------------------------- */

void lda_docs_begin(struct lda_sampler *s, uint32_t docs)
{
    assert(docs <= s->docs_max);
    s->docs = docs;
    memset(s->count, 0, (size_t)docs * s->stride * sizeof(float));
}

/* Telescopes: the terms log(j + alpha) for j = 0 .. n - 1 make lgamma(n +
 * alpha)
 * - lgamma(alpha). */
double lda_docs_count(struct lda_sampler *s, size_t n, const uint32_t doc[],
                      const uint16_t z[])
{
    const struct lda_prior *p = s->prior;
    double sum = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        uint32_t before;

        assert(doc[i] < s->docs && z[i] < p->topics);
        before = (uint32_t)s->count[(size_t)doc[i] * s->stride + z[i]]++;
        sum += before < LDA_LOG_TABLE ? p->log_alpha[before]
                                      : log(before + p->alpha);
    }
    return sum;
}

/* ---- words --------------------------------------------------------------- */

KERNEL_PART int32_t not_below_zero(int32_t n)
{
    return n > 0 ? n : 0;
}

KERNEL void lda_totals_begin(struct lda_sampler *s, const int32_t total[])
{
    const float v_beta = (float)(s->prior->words * s->prior->beta);
    uint32_t k;

    for (k = 0; k < s->prior->topics; k++) {
        s->total[k] = total[k];
        s->inverse[k] = 1 / ((float)not_below_zero(total[k]) + v_beta);
    }
}

KERNEL void lda_word_begin(struct lda_sampler *s, const int32_t row[])
{
    const float beta = (float)s->prior->beta;
    int32_t *restrict word = s->word;
    float *restrict phi = s->phi;
    const float *restrict inverse = s->inverse;
    uint32_t k, topics = s->prior->topics;

    for (k = 0; k < topics; k++) {
        word[k] = row[k];
        phi[k] = ((float)not_below_zero(row[k]) + beta) * inverse[k];
    }
    s->changes = 0;
}

/* Sums of lanes 0 .. j. */
KERNEL_PART vec running_sums(vec v)
{
    const vec zero = {0};

    v += __builtin_shufflevector(zero, v, 0, 8, 9, 10, 11, 12, 13, 14);
    v += __builtin_shufflevector(zero, v, 0, 1, 8, 9, 10, 11, 12, 13);
    return v + __builtin_shufflevector(zero, v, 0, 1, 2, 3, 8, 9, 10, 11);
}

/* Lane where @u falls between the running sums upto[1 ..] (upto[0] is 0); @u
 * keeps what is beyond the lanes before it. */
KERNEL_PART uint32_t pick_lane(const float upto[LANES + 1], float *u)
{
    uint32_t lane = 0, j;

    for (j = 1; j < LANES; j++)
        lane += upto[j] <= *u;
    *u -= upto[lane];
    return lane;
}

/* Number of those of upto[0], upto[LANES], ... (@n rising values) that are at
 * most @u. */
KERNEL_PART uint32_t count_below(const float upto[], uint32_t n, float u)
{
    uint32_t base = 0, below = 0;

    while (n > COUNTED) {
        uint32_t half = n / 2;

        base += upto[(size_t)(base + half - 1) * LANES] <= u ? half : 0;
        n -= half;
    }
    for (uint32_t v = base; v < base + n; v++)
        below += upto[(size_t)v * LANES] <= u;
    return base + below;
}

/* Running sums of (count + alpha) phi over all topics. Topics lie in STRANDS
 * times LANES columns that are summed side by side, since sums that wait for
 * one another are what takes the time. */
struct sums {
    float lane[LANES + 1]; /* running sums over lanes, from 0 */
    const float *upto;     /* [strands][length][LANES] down each column */
    uint32_t length;
};

KERNEL_PART void sum_topics(struct lda_sampler *s, const float *count,
                            float alpha, struct sums *out)
{
    const float *phi = s->phi;
    float *upto = s->product;
    uint32_t length = s->stride / COLUMNS, v, c;
    vec sum[STRANDS] = {{0}};

    for (v = 0; v < length; v++)
        for (c = 0; c < STRANDS; c++) {
            size_t at = ((size_t)c * length + v) * LANES;

            sum[c] += (load(count + at) + alpha) * load(phi + at);
            store(upto + at, sum[c]);
        }
    out->lane[0] = 0;
    store(out->lane + 1, running_sums((sum[0] + sum[1]) + (sum[2] + sum[3])));
    out->upto = upto;
    out->length = length;
}

/* The topic where @u, uniform in [0, 1), falls: its lane, strand and place,
 * each found without a branch that chance decides. *@rest is how far into the
 * topic's own share it falls. */
KERNEL_PART uint32_t pick_topic(const struct lda_sampler *s,
                                const struct sums *sums, float u, float *rest)
{
    const size_t next = (size_t)sums->length * LANES;
    uint32_t lane, strand = 0, v, c;
    float strands[STRANDS + 1] = {0};
    const float *upto;

    u *= sums->lane[LANES];
    lane = pick_lane(sums->lane, &u);
    for (c = 1; c < STRANDS; c++) {
        strands[c] = strands[c - 1] + sums->upto[c * next - LANES + lane];
        strand += strands[c] <= u;
    }
    u -= strands[strand];
    upto = sums->upto + strand * next + lane;
    v = count_below(upto, sums->length, u);
    v = v < sums->length ? v : sums->length - 1;
    *rest = v > 0 ? u - upto[(size_t)(v - 1) * LANES] : u;
    v = (uint32_t)(strand * next) + v * LANES + lane;
    return v < s->prior->topics ? v : s->prior->topics - 1;
}

/* Adds @by to the counts of topic @k. */
KERNEL_PART void change_topic(struct lda_sampler *s, uint32_t k, int32_t by,
                              float beta, float v_beta)
{
    int32_t word = s->word[k] += by, total = s->total[k] += by;

    s->inverse[k] = 1 / ((float)not_below_zero(total) + v_beta);
    s->phi[k] = ((float)not_below_zero(word) + beta) * s->inverse[k];
}

static float uniform(struct rng *rng)
{
    return (float)(rng_next(rng) >> 40) * 0x1p-24f;
}

/* One token's new topic. Most tokens keep theirs: so the first draw is from the
 * counts with the token still in them, and nothing is written. Where it falls
 * on the token's own topic, but beyond the share that this has without the
 * token, it is rejected, and the token is taken out for a second one. Both give
 * the conditional distribution exactly; counts that did not change make the
 * next token wait for nothing. */
KERNEL_PART uint16_t draw(struct lda_sampler *s, float *count, uint16_t old,
                          float u, struct rng *rng)
{
    const float alpha = (float)s->prior->alpha, beta = (float)s->prior->beta;
    const float v_beta = (float)(s->prior->words * s->prior->beta);
    float without = (count[old] - 1 + alpha) *
                    ((float)not_below_zero(s->word[old] - 1) + beta) /
                    ((float)not_below_zero(s->total[old] - 1) + v_beta);
    struct sums sums = {0};
    uint32_t new;
    float rest = 0;

    sum_topics(s, count, alpha, &sums);
    new = pick_topic(s, &sums, u, &rest);
    if (new == old && rest < without)
        return old;
    change_topic(s, old, -1, beta, v_beta);
    count[old] -= 1;
    if (new == old) {
        sum_topics(s, count, alpha, &sums);
        new = pick_topic(s, &sums, uniform(rng), &rest);
    }
    count[new] += 1;
    change_topic(s, new, 1, beta, v_beta);
    return (uint16_t) new;
}

/* What a token's draw changed. */
KERNEL_PART void note(struct lda_sampler *s, uint16_t old, uint16_t new)
{
    s->change[2 * (size_t)s->changes] = old;
    s->change[2 * (size_t)s->changes + 1] = new;
    s->changes += new != old;
}

KERNEL static void sample(struct lda_sampler *s, size_t n, const uint32_t doc[],
                          uint16_t z[], const float u[], struct rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t old = z[i];

        z[i] = draw(s, s->count + (size_t)doc[i] * s->stride, old, u[i], rng);
        note(s, old, z[i]);
    }
}

KERNEL static void sample_rows(struct lda_sampler *s, size_t n,
                               float *const count[], uint16_t z[],
                               const float u[], struct rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t old = z[i];

        z[i] = draw(s, count[i], old, u[i], rng);
        note(s, old, z[i]);
    }
}

/* Random numbers of the next tokens; how many. */
static size_t draw_numbers(size_t left, float u[DRAWS], struct rng *rng)
{
    size_t take = left < DRAWS ? left : DRAWS;

    for (size_t i = 0; i < take; i++)
        u[i] = uniform(rng);
    return take;
}

void lda_word_sample(struct lda_sampler *s, size_t n, const uint32_t doc[],
                     uint16_t z[], struct rng *rng)
{
    float u[DRAWS];

    assert(s->changes + n <= s->run_max);
    for (size_t done = 0; done < n;) {
        size_t take = draw_numbers(n - done, u, rng);

        sample(s, take, doc + done, z + done, u, rng);
        done += take;
    }
}

void lda_word_sample_rows(struct lda_sampler *s, size_t n, float *const count[],
                          uint16_t z[], struct rng *rng)
{
    float u[DRAWS];

    assert(s->changes + n <= s->run_max);
    for (size_t done = 0; done < n;) {
        size_t take = draw_numbers(n - done, u, rng);

        sample_rows(s, take, count + done, z + done, u, rng);
        done += take;
    }
}
