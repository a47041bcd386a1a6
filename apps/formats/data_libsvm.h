/* Sparse samples: a label and some columns' values each, and the parser of
 * their text form.
 *
 * libsvm: a sample a line, `label index:value index:value ...`, the indexes
 * ascending. `qid:NUMBER` behind the label is checked and dropped; what follows
 * a '#' is a comment. Indexes count from 0 or from 1: they are kept as they
 * are, so that files of both kinds mean the same columns by the same numbers
 * (where they count from 1, column 0 is empty).
 */
#ifndef APPS_DATA_LIBSVM_H
#define APPS_DATA_LIBSVM_H

#include "apps/formats/data_stream.h"
#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum { SPARSE_COLUMNS_MAX = 1 << 30 };

/* Zeroed: empty. */
struct sparse {
    uint64_t count, entries;
    uint32_t columns; /* every index is below it */
    uint32_t lowest;  /* the lowest index; with no entries 0 */
    uint64_t *begin;  /* [count + 1] first entry of each sample: owned */
    uint32_t *index;  /* [entries], ascending within a sample: owned */
    float *value;     /* [entries] finite: owned */
    double *label;    /* [count] finite: owned */
    size_t begin_room, index_room, value_room, label_room;
};

void sparse_deinit(struct sparse *s);

/* Begins a sample; appends an entry to the last one, @index above those that it
 * has. Errors: ERR_NOMEM. */
enum err sparse_begin_sample(struct sparse *s, double label);
enum err sparse_add(struct sparse *s, uint32_t index, float value);

/* Appends what @stream holds to @s. On error @s is fit for sparse_deinit only;
 * @f names file, line, what was expected and found. Errors: those of the
 * stream, ERR_FORMAT, ERR_LIMIT (memory beyond @limit_bytes), ERR_NOMEM.
 * Cost: one pass, about 15 ns an entry. */
enum err libsvm_read(struct sparse *s, struct data_stream *stream,
                     uint64_t limit_bytes, struct fault *f);

/* Splits by a hash of seed and number: sample i goes to @test when the hash
 * falls below @fraction (0 <= fraction < 1), else it stays, in order. Both keep
 * the columns. Errors: ERR_NOMEM (nothing changed). */
enum err sparse_split(struct sparse *s, double fraction, uint64_t seed,
                      struct sparse *test);

/* The different labels in ascending order, at most @max, into @out; returns how
 * many there are, @max + 1 where there are more. */
size_t sparse_labels(const struct sparse *s, size_t max, double out[]);

#endif
