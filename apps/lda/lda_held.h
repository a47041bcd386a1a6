/* Held-out documents: perplexity by document completion (Wallach et al. 2009,
 * section 4; Rosen-Zvi et al. 2004). Half of a document's tokens, drawn by the
 * seed, tell its mix of topics, the other half are predicted.
 *
 *   theta_k ~ alpha + sum over observed tokens of p(k | w, theta)
 *   log p(w) = log sum_k theta_k phi_wk
 *
 * theta is the fixed point of the first line, LDA_HELD_STEPS times from the
 * even mix: no random number, so that two models are compared on equal terms.
 */
#ifndef APPS_LDA_HELD_H
#define APPS_LDA_HELD_H

#include "apps/formats/data_bow.h"
#include "base/err.h"

#include <stdint.h>

enum { LDA_HELD_STEPS = 20 };

/* Documents of at least two tokens, split. */
struct lda_held {
    uint64_t docs;
    uint64_t *begin; /* [docs + 1]: owned */
    struct lda_split {
        uint32_t word, seen, asked; /* seen + asked >= 1 */
    } * word;                       /* [entries]: owned */
    uint64_t asked;                 /* tokens to predict, all documents */
    uint32_t entries_max;           /* of a document */
};

/* Splits the documents of @c; words from @words on are left out. Errors:
 * ERR_NOMEM. */
enum err lda_held_init(struct lda_held *h, const struct corpus *c,
                       uint32_t words, uint64_t seed);
void lda_held_deinit(struct lda_held *h);

/* All documents of @c, whole: nothing is asked. Words from @words on are left
 * out, and a document may have none left. Errors: ERR_NOMEM. */
enum err lda_held_whole(struct lda_held *h, const struct corpus *c,
                        uint32_t words);

/* Log probability of document @doc's asked tokens, summed.
 *
 * @stride    topics rounded up to LDA_LANES
 * @phi       [entries of the document][stride] p(w | k) of its words; 0 past
 *            the topics
 * @alpha     of each topic
 * @mix       [2][stride] scratch
 * @tokens    their number
 */
double lda_held_log(const struct lda_held *h, uint64_t doc, uint32_t topics,
                    uint32_t stride, const float phi[], double alpha,
                    float mix[], uint64_t *tokens);

/* The mix of topics of document @doc, from the tokens that are seen: theta,
 * which adds up to 1, into @share[topics]. The rest as above. */
void lda_held_mix(const struct lda_held *h, uint64_t doc, uint32_t topics,
                  uint32_t stride, const float phi[], double alpha, float mix[],
                  double share[]);

#endif
