/* gen:bow and gen:nips (apps/data/gen.h). Each topic and each document draws
 * from a generator of its own, so that nothing depends on the order of the
 * work. */
#include "apps/data/gen.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_DOCS,
    KEY_WORDS,
    KEY_TOKENS,
    KEY_TOPICS,
    KEY_ALPHA,
    KEY_BETA,
    KEY_SEED
};

static const double length_sigma = 0.5;

/* Distinct streams of the seed. */
enum bow_stream { STREAM_LENGTH = 100, STREAM_PLACE, STREAM_TOPIC, STREAM_DOC };

struct bow_maker {
    uint64_t docs, words, tokens, topics, seed;
    double alpha, beta;
    double *weight;   /* [words] base measure of the topics: mean 1 */
    float *upto;      /* [topics][words] cumulated */
    uint64_t *length; /* [docs] */
    double *share;    /* [max(topics, docs, words)] scratch */
    uint32_t *drawn;  /* [longest document] */
};

static void maker_deinit(struct bow_maker *m)
{
    mem_free(m->weight);
    mem_free(m->upto);
    mem_free(m->length);
    mem_free(m->share);
    mem_free(m->drawn);
}

static struct rng stream(const struct bow_maker *m, enum bow_stream s,
                         uint64_t index)
{
    struct rng rng;

    rng_init(&rng, rng_mix(rng_mix(m->seed, s), index));
    return rng;
}

/* Gamma with @shape > 0 and scale 1: Marsaglia and Tsang (2000); below 1 by
 * their power of a uniform number. */
static double draw_gamma(struct rng *rng, double shape)
{
    double boost = 1, d, c, x, v, u;

    if (shape < 1) {
        boost = pow(1 - rng_uniform(rng), 1 / shape);
        shape += 1;
    }
    d = shape - 1.0 / 3;
    c = 1 / sqrt(9 * d);
    do {
        do {
            x = rng_normal(rng);
            v = 1 + c * x;
        } while (v <= 0);
        v = v * v * v;
        u = 1 - rng_uniform(rng);
    } while (log(u) >= 0.5 * x * x + d - d * v + d * log(v));
    return boost * d * v;
}

/* A Dirichlet draw with parameters scale * weight[i] (weight NULL: 1). */
static void draw_dirichlet(struct rng *rng, uint64_t n, double scale,
                           const double weight[], double out[])
{
    double sum = 0;
    uint64_t i;

    for (i = 0; i < n; i++) {
        out[i] = draw_gamma(rng, weight ? scale * weight[i] : scale);
        sum += out[i];
    }
    if (!(sum > 0)) { /* all of them underflowed: one takes all */
        out[rng_below(rng, n)] = 1;
        sum = 1;
    }
    for (i = 0; i < n; i++)
        out[i] /= sum;
}

/* Zipf's law, in an order of its own so that a word's number says nothing. */
static void weigh_words(struct bow_maker *m)
{
    struct perm place;
    double total = 0;
    uint64_t i;

    perm_init(&place, m->words, rng_mix(m->seed, STREAM_PLACE));
    for (i = 0; i < m->words; i++) {
        m->weight[i] =
            1 / (1 + (double)m->words / 200 + (double)perm_at(&place, i));
        total += m->weight[i];
    }
    for (i = 0; i < m->words; i++)
        m->weight[i] *= (double)m->words / total;
}

static void draw_topic(const struct bow_maker *m, uint64_t topic, double out[])
{
    struct rng rng = stream(m, STREAM_TOPIC, topic);

    draw_dirichlet(&rng, m->words, m->beta, m->weight, out);
}

/* First i with u < upto[i]; the last where rounding leaves none. */
static uint32_t find(const float upto[], uint64_t n, float u)
{
    uint64_t low = 0, high = n - 1;

    while (low < high) {
        uint64_t mid = (low + high) / 2;

        if (u < upto[mid])
            high = mid;
        else
            low = mid + 1;
    }
    return (uint32_t)low;
}

static void cumulate(uint64_t n, const double p[], float upto[])
{
    double sum = 0;
    uint64_t i;

    for (i = 0; i < n; i++) {
        sum += p[i];
        upto[i] = (float)sum;
    }
}

/* One token a document, the rest in proportion to a log-normal weight. */
static uint64_t share_out(struct bow_maker *m)
{
    uint64_t rest = m->tokens - m->docs, given = 0, longest = 0, d;
    double total = 0, sum = 0;

    for (d = 0; d < m->docs; d++) {
        struct rng rng = stream(m, STREAM_LENGTH, d);

        m->share[d] = exp(length_sigma * rng_normal(&rng));
        total += m->share[d];
    }
    for (d = 0; d < m->docs; d++) {
        uint64_t upto;

        sum += m->share[d];
        upto = d + 1 == m->docs ? rest : (uint64_t)(sum / total * (double)rest);
        m->length[d] = 1 + upto - given;
        given = upto;
        if (m->length[d] > longest)
            longest = m->length[d];
    }
    return longest;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static enum err make_doc(struct bow_maker *m, uint64_t doc, float topic_upto[],
                         struct corpus *c)
{
    struct rng rng = stream(m, STREAM_DOC, doc);
    uint64_t n = m->length[doc], i, j;
    enum err err = corpus_begin_doc(c);

    draw_dirichlet(&rng, m->topics, m->alpha, NULL, m->share);
    cumulate(m->topics, m->share, topic_upto);
    for (i = 0; i < n; i++) {
        uint32_t k = find(topic_upto, m->topics, (float)rng_uniform(&rng));

        m->drawn[i] =
            find(m->upto + k * m->words, m->words, (float)rng_uniform(&rng));
    }
    qsort(m->drawn, n, sizeof(*m->drawn), by_number);
    for (i = 0; i < n && !err; i = j) {
        for (j = i; j < n && m->drawn[j] == m->drawn[i]; j++)
            ;
        err = corpus_add(c, m->drawn[i], (uint32_t)(j - i));
    }
    return err;
}

static enum err make(struct bow_maker *m, struct corpus *c)
{
    uint64_t longest, most = m->topics, i;
    float *topic_upto = mem_alloc(m->topics * sizeof(*topic_upto));
    enum err err = ERR_OK;

    most = most < m->docs ? m->docs : most;
    most = most < m->words ? m->words : most;
    m->weight = mem_alloc(m->words * sizeof(*m->weight));
    m->upto = mem_calloc(m->topics * m->words, sizeof(*m->upto));
    m->length = mem_alloc(m->docs * sizeof(*m->length));
    m->share = mem_alloc(most * sizeof(*m->share));
    if (!topic_upto || !m->weight || !m->upto || !m->length || !m->share) {
        mem_free(topic_upto);
        return ERR_NOMEM;
    }
    weigh_words(m);
    for (i = 0; i < m->topics; i++) {
        draw_topic(m, i, m->share);
        cumulate(m->words, m->share, m->upto + i * m->words);
    }
    longest = share_out(m);
    m->drawn = mem_alloc(longest * sizeof(*m->drawn));
    if (!m->drawn)
        err = ERR_NOMEM;
    for (i = 0; i < m->docs && !err; i++)
        err = make_doc(m, i, topic_upto, c);
    mem_free(topic_upto);
    return err;
}

static enum err read_spec(const char *spec, struct bow_maker *m,
                          struct fault *f)
{
    const struct gen_kind *kind;
    double v[GEN_KEYS_MAX];
    enum err err = gen_parse(spec, &kind, v, f);

    if (err)
        return err;
    if (kind->kind != DATA_DOCWORD)
        return fault_set(f, ERR_INVAL, "%s: makes %s; expected bags of words",
                         spec, data_kind_text(kind->kind));
    *m = (struct bow_maker){.docs = (uint64_t)v[KEY_DOCS],
                            .words = (uint64_t)v[KEY_WORDS],
                            .tokens = (uint64_t)v[KEY_TOKENS],
                            .topics = (uint64_t)v[KEY_TOPICS],
                            .alpha = v[KEY_ALPHA],
                            .beta = v[KEY_BETA],
                            .seed = (uint64_t)v[KEY_SEED]};
    if (m->tokens < m->docs || m->tokens / m->docs > BOW_DOC_TOKENS_MAX / 64)
        return fault_set(f, ERR_INVAL,
                         "%s: expected from 1 to %d tokens a document, found "
                         "%.0f in %.0f",
                         spec, BOW_DOC_TOKENS_MAX / 64, v[KEY_TOKENS],
                         v[KEY_DOCS]);
    return ERR_OK;
}

static uint64_t bytes_of(const struct bow_maker *m)
{
    return m->topics * (m->words * 4 + 12) + m->words * 16 + m->docs * 40 +
           m->tokens * 12;
}

uint64_t gen_bow_bytes(const double v[])
{
    const struct bow_maker m = {.docs = (uint64_t)v[KEY_DOCS],
                                .words = (uint64_t)v[KEY_WORDS],
                                .tokens = (uint64_t)v[KEY_TOKENS],
                                .topics = (uint64_t)v[KEY_TOPICS]};

    return bytes_of(&m);
}

enum err gen_bow(const char *spec, uint64_t limit_bytes, struct corpus *out,
                 struct fault *f)
{
    struct corpus c = {0};
    struct bow_maker m = {0};
    enum err err = read_spec(spec, &m, f);

    if (err)
        return err;
    err = data_memory_check(spec, bytes_of(&m), limit_bytes, f);
    if (err)
        return err;
    err = make(&m, &c);
    c.words = (uint32_t)m.words;
    maker_deinit(&m);
    if (err) {
        corpus_deinit(&c);
        return fault_set(f, err, "%s: %s", spec, err_text(err));
    }
    *out = c;
    return ERR_OK;
}

enum err gen_bow_topics(const char *spec, double out[], struct fault *f)
{
    struct bow_maker m = {0};
    enum err err = read_spec(spec, &m, f);

    if (err)
        return err;
    m.weight = mem_alloc(m.words * sizeof(*m.weight));
    if (!m.weight)
        return fault_set(f, ERR_NOMEM, "%s: out of memory", spec);
    weigh_words(&m);
    for (uint64_t i = 0; i < m.topics; i++)
        draw_topic(&m, i, out + i * m.words);
    maker_deinit(&m);
    return ERR_OK;
}
