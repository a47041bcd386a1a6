/* Questions to vectors of words, and the parser of their two forms:
 *
 *     : capital-common-countries      analogies, as word2vec's questions-words:
 *     Athens Greece Oslo Norway       a section's name, then a is to b as c to
 * d
 *
 *     tiger,cat,7.35                  similarities, as WordSim-353: two words
 *     tiger,tiger,10                  and a number, with commas, tabs or blanks
 *
 * Blank lines and lines that begin with '#' are passed over, and the first line
 * of similarities where its third field is no number.
 */
#ifndef APPS_W2V_QUESTIONS_H
#define APPS_W2V_QUESTIONS_H

#include "apps/formats/data_stream.h"
#include "apps/formats/word_map.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { W2V_QUESTION_WORDS = 4 };

enum w2v_form { W2V_TEXT, W2V_ANALOGIES, W2V_SIMILARITIES };

/* Zeroed: none. */
struct w2v_questions {
    enum w2v_form form;
    uint64_t count;
    uint64_t known; /* those whose words all are in the map */
    uint32_t *word; /* [count][W2V_QUESTION_WORDS] numbers, or WORD_NONE; a
                     * similarity has two: owned */
    double *said;   /* [count] of similarities: owned */
    size_t word_room, said_room;
};

void w2v_questions_deinit(struct w2v_questions *q);

/* What a file that begins with @text[@n] is: @whole, it is all of it. A text is
 * whatever is neither. */
enum w2v_form w2v_form_of(const char *text, size_t n, bool whole);

/* Reads @s, of the form @form, which is no text. Words are looked up in @map as
 * they are, and where they are not there, @lower, with a to z for A to Z. On
 * error empty. Errors: those of the stream, ERR_FORMAT, ERR_LIMIT, ERR_NOMEM.
 */
enum err w2v_questions_read(struct w2v_questions *q, enum w2v_form form,
                            struct data_stream *s, const struct word_map *map,
                            bool lower, uint64_t limit_bytes, struct fault *f);

/* Spearman's correlation of @a[@n] and @b[@n], equal values sharing their
 * ranks: the product-moment correlation of the ranks, which @a and @b become. 0
 * where either has one value alone. Errors: ERR_NOMEM. */
enum err w2v_spearman(double a[], double b[], size_t n, double *out);

#endif
