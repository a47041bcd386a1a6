/* The inner loops of lda: collapsed Gibbs sampling (Griffiths and Steyvers
 * 2004, eq. 5), word by word.
 *
 *   p(z = k | rest) ~ (n_dk + alpha) phi_k,  phi_k = (n_wk + beta) / (n_k + V
 * beta)
 *
 * with counts that leave out the token itself. The tokens of one word are
 * sampled one after another, so that phi of all topics is made once and then
 * changed at the two topics that a token moves between: every draw is from the
 * exact conditional. The documents at hand are few enough to stay in cache.
 *
 * One owner thread. Counts are floats, exact up to 2^24.
 */
#ifndef APPS_LDA_KERNEL_H
#define APPS_LDA_KERNEL_H

#include "base/err.h"
#include "base/rng.h"

#include <stddef.h>
#include <stdint.h>

enum {
    LDA_LANES = 8,
    LDA_TOPICS_MAX = 32768,
    LDA_LOG_TABLE = 4096 /* counts whose logarithms are kept */
};

/* Constants of a model. */
struct lda_prior {
    uint32_t topics, words;
    double alpha, beta;
    double log_beta[LDA_LOG_TABLE];  /* lgamma(n + beta) - lgamma(beta) */
    double log_alpha[LDA_LOG_TABLE]; /* log(n + alpha) */
    double log_doc[LDA_LOG_TABLE];   /* lgamma(n + alpha) - lgamma(alpha) */
};

/* alpha, beta > 0. */
void lda_prior_init(struct lda_prior *p, uint32_t topics, uint32_t words,
                    double alpha, double beta);

/* A topic's share of a word's row in log p(w, z): the sum over the row's counts
 * of lgamma(n + beta) - lgamma(beta). @row[topics], each >= 0. */
double lda_row_log(const struct lda_prior *p, const int32_t row[]);

/* The same of a document: lgamma(n + alpha) - lgamma(alpha), over its counts,
 * and what its length gives. */
double lda_doc_log(const struct lda_prior *p, const float count[]);

/* Likelihood of the totals: the sum of lgamma(V beta) - lgamma(n + V beta). */
double lda_totals_log(const struct lda_prior *p, const int32_t total[]);

/* Scratch of a worker for sampling. */
struct lda_sampler {
    const struct lda_prior *prior;
    uint32_t stride;  /* topics rounded up to whole columns of vectors */
    int32_t *total;   /* [topics] tokens of each topic, as this worker knows */
    float *inverse;   /* [stride] 1 / (total + V beta) */
    float *phi;       /* [stride] of the present word; 0 past the topics */
    int32_t *word;    /* [topics] counts of the present word */
    float *product;   /* [stride] scratch of a draw */
    uint32_t *change; /* [2 * run_max + 2] from, to */
    uint32_t changes; /* of the present word */
    float *count;     /* [docs_max][stride] of the documents of a clock */
    uint32_t docs, docs_max, run_max;
};

/* Bytes that lda_sampler_init will take. */
uint64_t lda_sampler_bytes(const struct lda_prior *prior, uint32_t docs_max,
                           uint32_t run_max);

/* For clocks of up to @docs_max documents and @run_max tokens of a word.
 * Errors: ERR_NOMEM. */
enum err lda_sampler_init(struct lda_sampler *s, const struct lda_prior *prior,
                          uint32_t docs_max, uint32_t run_max);
void lda_sampler_deinit(struct lda_sampler *s);

/* @docs documents, all empty. */
void lda_docs_begin(struct lda_sampler *s, uint32_t docs);

/* Counts @n tokens: of document @doc[i] with topic @z[i]. Returns their share
 * of log p(w, z): the sum over documents and topics of lgamma(n + alpha) -
 * lgamma(alpha). */
double lda_docs_count(struct lda_sampler *s, size_t n, const uint32_t doc[],
                      const uint16_t z[]);

/* Topic totals that the following words see; copied. Negative ones, which a
 * stale view may have, count as 0. */
void lda_totals_begin(struct lda_sampler *s, const int32_t total[]);

/* Begins a word whose counts are @row[topics]; copied. */
void lda_word_begin(struct lda_sampler *s, const int32_t row[]);

/* Draws new topics for @n tokens of the word, in order: of documents @doc[i],
 * with topics @z[i] until now and afterwards. The moves are s->change. */
void lda_word_sample(struct lda_sampler *s, size_t n, const uint32_t doc[],
                     uint16_t z[], struct rng *rng);

/* The same, where the documents' counts lie elsewhere: @count[i] is that of
 * token i, [stride], zeros past the topics. */
void lda_word_sample_rows(struct lda_sampler *s, size_t n, float *const count[],
                          uint16_t z[], struct rng *rng);

/* Topics, rounded up as struct lda_sampler has them. */
uint32_t lda_stride(const struct lda_prior *prior);

#endif
