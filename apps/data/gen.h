/* Generators: data sets that need no download, the same on every machine.
 *
 * A generator is named like a file: "gen:KIND?key=value&key=value". Every key
 * has a default; an unknown key is refused with the list of those there are.
 * Equal texts give equal data; `seed` is a key like any other.
 */
#ifndef APPS_GEN_H
#define APPS_GEN_H

#include "apps/data/data_kind.h"
#include "apps/formats/data_bow.h"
#include "apps/formats/data_edges.h"
#include "apps/formats/data_idx.h"
#include "apps/formats/data_libsvm.h"
#include "apps/formats/data_ratings.h"
#include "apps/formats/data_words.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GEN_KEYS_MAX = 8 };

/* One key of a generator: a finite number. */
struct gen_key {
    const char *name;
    double fallback, min, max;
    bool whole; /* an integer */
    const char *help;
};

struct gen_kind {
    const char *name; /* "ratings" */
    const char *summary;
    enum data_kind kind;
    struct gen_key key[GEN_KEYS_MAX];
    size_t keys;
    uint64_t (*bytes)(const double value[]); /* of what it makes */
};

/* Whether @spec names a generator (begins with "gen:"). */
bool gen_is(const char *spec);

/* The kind that @spec names, and a value for each of its keys. Errors:
 * ERR_INVAL, saying which key, what was expected, and the keys there are. */
enum err gen_parse(const char *spec, const struct gen_kind **kind,
                   double value[GEN_KEYS_MAX], struct fault *f);

/* Bytes that the data of @spec take while they are made, without making them.
 * Errors: as gen_parse. */
enum err gen_bytes(const char *spec, uint64_t *out, struct fault *f);

/* The same for one generator, of the values of its keys. */
uint64_t gen_ratings_bytes(const double value[]);
uint64_t gen_digits_bytes(const double value[]);
uint64_t gen_bow_bytes(const double value[]);
uint64_t gen_libsvm_bytes(const double value[]);
uint64_t gen_edges_bytes(const double value[]);
uint64_t gen_text_bytes(const double value[]);

/* gen:ratings: rating = 3.5 + 0.8 L.R / sqrt(rank) + noise, rounded to half
 * stars in 0.5 .. 5; L and R standard normal. Users' activity is log-normal
 * (sigma 1.2), items' popularity (n/100 + place)^-1.8, which is about the shape
 * of MovieLens. Grouped by user; outside ids are 1 .. users and 1 .. items; a
 * user rates an item once. Errors: ERR_INVAL (also: kind), ERR_LIMIT,
 * ERR_NOMEM. Cost: 100 ns a rating. */
enum err gen_ratings(const char *spec, uint64_t limit_bytes,
                     struct ratings *out, struct fault *f);

/* gen:digits: strokes of 0 .. 9 under a random affine map, with jittered
 * points, random thickness and noise; a training set and a test set. Errors: as
 * above. Cost: 15 us an image of 28 x 28. */
enum err gen_digits(const char *spec, uint64_t limit_bytes,
                    struct images *train, struct images *test, struct fault *f);

/* gen:bow: the model of latent Dirichlet allocation itself. Each topic is a
 * Dirichlet draw over words whose parameters follow Zipf's law, their mean
 * being beta; each document mixes topics by a Dirichlet draw of alpha; lengths
 * are log-normal (sigma 0.5) and add up to `tokens`. gen:nips is the same with
 * the NIPS corpus's shape for defaults. Errors: as above. Cost: 0.3 us a token
 * and 0.15 us a word and topic. */
enum err gen_bow(const char *spec, uint64_t limit_bytes, struct corpus *out,
                 struct fault *f);

/* The topics that gen_bow draws from: @out[topics][words] probabilities.
 * Errors: ERR_INVAL, ERR_NOMEM. */
enum err gen_bow_topics(const char *spec, double out[], struct fault *f);

/* gen:libsvm: sparse samples of about `entries` columns each, whose popularity
 * falls as 1 / place, and of length 1, as texts are. The label is what normal
 * weights and noise make of them: the sign (classes 2: -1, 1), the number of
 * the largest of `classes` scores, or the score itself (classes 0). Indexes
 * count from 1. Errors: as above. Cost: 40 ns an entry and class. */
enum err gen_libsvm(const char *spec, uint64_t limit_bytes, struct sparse *out,
                    struct fault *f);

/* gen:edges: edges between two nodes each, drawn apart, with popularities that
 * fall as 1 / place; ids are 1 .. nodes. Nodes that are never drawn are not
 * there; some have no edge away from them. Errors: as above. Cost: 200 ns an
 * edge. */
enum err gen_edges(const char *spec, uint64_t limit_bytes, struct edges *out,
                   struct fault *f);

/* gen:text: sentences of `length` words. Each has a row, a column, and one word
 * of both, w3_7; its others go with the row (r3_0 ...) or with the column
 * (c7_0 ...), `near` for each. All popularities fall as 1 / place. Vectors that
 * know which words occur together have w3_7 - w3_8 as w4_7 - w4_8. Appended to
 * @w, whose words may be fixed. Errors: as above, ERR_NOMEM; fit for
 * words_deinit only then. Cost: 200 ns a word. */
enum err gen_text(const char *spec, uint64_t limit_bytes, struct text_words *w,
                  struct fault *f);

#endif
