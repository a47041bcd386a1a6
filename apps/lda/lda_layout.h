/* The order in which tokens are sampled: parts of a pass, workers' shares,
 * words within them.
 *
 *   worker's share ─► part (clock) ─► run of one word ─► tokens
 *
 * A part is whole documents, drawn by the seed, of about equal numbers of
 * tokens whatever the number of workers; its documents are dealt to the
 * workers. Within a worker's part tokens are sorted by word, so that a word's
 * row is read, made into probabilities and added to once a clock. Topics of
 * tokens are kept in the same order, each part beginning at a row of its own.
 */
#ifndef APPS_LDA_LAYOUT_H
#define APPS_LDA_LAYOUT_H

#include "apps/formats/data_bow.h"
#include "base/err.h"

#include <stdint.h>

enum { LDA_ROW_TOKENS = 2048 }; /* topics (two bytes each) in a row of them */

/* One worker's documents of one part. */
struct lda_part {
    uint32_t docs;
    uint32_t *id;     /* [docs] in the corpus: owned */
    uint32_t *length; /* [docs] tokens, >= 1: owned */
    uint64_t tokens;
    uint32_t *doc; /* [tokens] below docs, by word: owned */
    struct lda_run {
        uint32_t word, count;
    } * run; /* [runs] words ascending: owned */
    uint32_t runs;
    uint64_t first_row; /* of the worker's rows of topics */
};

struct lda_share {
    uint32_t parts;
    struct lda_part *part; /* [parts]: owned */
    uint64_t tokens, rows; /* rows of LDA_ROW_TOKENS topics */
    /* The most of any part: tokens, documents; tokens of one word. */
    uint64_t tokens_max;
    uint32_t docs_max, run_max;
};

struct lda_layout {
    unsigned workers;
    uint32_t parts;
    uint64_t tokens;
    uint64_t *part_tokens;   /* [parts] of all workers: owned */
    struct lda_share *share; /* [workers]: owned */
};

/* Lays @c out in at most @parts parts (fewer where there are fewer documents
 * that are not empty; at least one must be). Errors: ERR_NOMEM. Cost: O(tokens
 * + parts * workers * words). */
enum err lda_layout_init(struct lda_layout *l, const struct corpus *c,
                         uint32_t parts, unsigned workers, uint64_t seed);
void lda_layout_deinit(struct lda_layout *l);

/* Deals a part's documents, of @length[@docs] tokens in the part's order, to
 * @workers: the number that each has, one worker after the other, into
 * @out[@workers]. */
void lda_layout_deal(const uint32_t length[], uint64_t docs, unsigned workers,
                     uint64_t out[]);

static inline uint64_t lda_rows_of(uint64_t tokens)
{
    return (tokens + LDA_ROW_TOKENS - 1) / LDA_ROW_TOKENS;
}

#endif
