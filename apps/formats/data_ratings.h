/* Ratings: (user, item, rating) triples, and the parser of their text form.
 *
 * One rating a line: user, item, rating and, optionally, a time stamp, which is
 * checked and dropped. Separators are "::", tab, comma or spaces, one kind a
 * file; a first line that starts with a letter is a header. Outside ids are any
 * integers from 0 to 2^63 - 1; inside, users and items are numbered densely in
 * order of first appearance. Duplicates are kept.
 */
#ifndef APPS_DATA_RATINGS_H
#define APPS_DATA_RATINGS_H

#include "apps/formats/data_stream.h"
#include "apps/formats/id_map.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RATINGS_LINE_MAX = 4096,
    RATING_BYTES = 12 /* of the arrays: user, item, value */
};

struct ratings {
    uint64_t count;
    uint32_t *user, *item; /* [count] dense numbers: owned */
    float *value;          /* [count] finite: owned */
    struct id_map users, items;
    uint64_t capacity;
};

void ratings_deinit(struct ratings *r);

/* Makes room for @count ratings in all. Errors: ERR_LIMIT (more than
 * @limit_bytes for the arrays), ERR_NOMEM. */
enum err ratings_reserve(struct ratings *r, uint64_t count,
                         uint64_t limit_bytes, struct fault *f);

/* Appends what @s holds to @r. On error @r holds part of it and is fit for
 * ratings_deinit only; @f names file, line, what was expected and found.
 * Errors: those of the stream, ERR_FORMAT, ERR_LIMIT (memory beyond
 * @limit_bytes), ERR_NOMEM. Cost: one pass, about 50 ns a line. */
enum err ratings_read(struct ratings *r, struct data_stream *s,
                      uint64_t limit_bytes, struct fault *f);

/* As ratings_read, but lines may also be a user and an item alone, in the whole
 * of @s; their ratings are 0. */
enum err ratings_read_pairs(struct ratings *r, struct data_stream *s,
                            uint64_t limit_bytes, struct fault *f);

/* Whether @text (the beginning of a file, @whole when it is all of it) reads
 * like ratings. */
bool ratings_sniff(const char *text, size_t len, bool whole);

/* Splits by a hash of seed and index: rating i goes to @test when the hash
 * falls below @fraction (0 <= fraction < 1), else it stays, in order. The maps
 * of @r keep all ids; @test holds numbers of @r's maps and has none of its own.
 * Errors: ERR_NOMEM (nothing changed). */
enum err ratings_split(struct ratings *r, double fraction, uint64_t seed,
                       struct ratings *test);

#endif
