/* Pairs of words drawn from a text: which words of it stay, how far a window
 * reaches, which words are negative examples (Mikolov et al. 2013, as their
 * program has it).
 *
 * Pure functions; what is drawn from may be shared by threads.
 */
#ifndef APPS_W2V_PAIRS_H
#define APPS_W2V_PAIRS_H

#include "apps/formats/data_words.h"
#include "base/err.h"
#include "base/rng.h"

#include <stddef.h>
#include <stdint.h>

enum { W2V_WINDOW_MAX = 100, W2V_NEGATIVE_MAX = 100 };

struct w2v_source {
    uint32_t words;
    unsigned window, negative;
    float *keep; /* [words] chance that an occurrence stays: owned */
    /* Walker's alias table over times^0.75: word i stands for itself with
     * chance own[i], else for other[i]: owned. */
    float *own;
    uint32_t *other;
};

/* Of words that occur @times[@words]. An occurrence of one that has the share f
 * of the text stays with chance sqrt(sample / f) + sample / f; @sample 0: all
 * stay. Errors: ERR_NOMEM. */
enum err w2v_source_init(struct w2v_source *s, const uint64_t times[],
                         uint32_t words, double sample, unsigned window,
                         unsigned negative);
void w2v_source_deinit(struct w2v_source *s);

/* A negative example. */
uint32_t w2v_negative(const struct w2v_source *s, struct rng *rng);

/* Zeroed: none. */
struct w2v_pairs {
    size_t pairs;
    uint32_t *in; /* [pairs] the word around: owned */
    uint32_t
        *out; /* [pairs][1 + negative] the word in the middle, then negative
               * examples; WORD_NONE where one is the former: owned */
    uint32_t *kept; /* scratch: owned */
    size_t in_room, out_room, kept_room;
};

void w2v_pairs_deinit(struct w2v_pairs *p);

/* Draws the pairs whose word in the middle is among @text[@first .. @first +
 * @count - 1] of @text[@length]; a window ends at a WORDS_BREAK and at the ends
 * of the text, and reaches beyond those places. Errors: ERR_NOMEM. Cost: 10 ns
 * a negative example. */
enum err w2v_draw(const struct w2v_source *s, const uint32_t text[],
                  uint64_t length, uint64_t first, uint64_t count,
                  struct rng *rng, struct w2v_pairs *out);

#endif
