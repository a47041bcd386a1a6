/* Texts as sequences of words, and the parsers of their plain form and of the
 * vocabulary that a model keeps.
 *
 * A word is what stands between blanks, or a run of letters, digits and
 * underscores with single apostrophes inside; everything beyond ASCII counts as
 * a letter but for the punctuation of Latin-1, of Unicode's general block and
 * of Chinese and Japanese. Texts are UTF-8. The end of a line, or a blank line,
 * is the end of a sentence, as is the end of a file.
 */
#ifndef APPS_DATA_WORDS_H
#define APPS_DATA_WORDS_H

#include "apps/formats/data_stream.h"
#include "apps/formats/word_map.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORDS_BREAK UINT32_MAX /* the end of a sentence */

enum words_form { WORDS_LETTERS, WORDS_BLANKS };
enum words_end { WORDS_LINES, WORDS_PARAGRAPHS, WORDS_FILES };

struct words_options {
    enum words_form form;
    enum words_end end;
    bool keep_case; /* else A to Z become a to z */
};

/* Zeroed: empty, every word is taken. Words are numbered as they came until
 * words_finish. */
struct text_words {
    uint64_t count;   /* of word[], breaks included */
    uint32_t *word;   /* [count] a number, or WORDS_BREAK; no two breaks follow
                       * each other: owned */
    uint64_t tokens;  /* those that are no break */
    uint64_t dropped; /* words that are not there: see words_finish, fixed;
                       * and those of more than VOCABULARY_WORD_MAX bytes */
    struct word_map map; /* owned */
    uint64_t *times;     /* [map.name.words] how often each occurs; where it is
                          * fixed, as it was said: owned */
    bool fixed;          /* words that are not in the map are dropped */
    size_t word_room, times_room;
};

void words_deinit(struct text_words *w);

/* Appends the word @text[@n] (1 to VOCABULARY_WORD_MAX bytes); the end of a
 * sentence, where one has begun. Errors: ERR_NOMEM, ERR_LIMIT (BOW_WORDS_MAX
 * different ones). */
enum err words_append(struct text_words *w, const char *text, size_t n);
enum err words_break(struct text_words *w);

/* Appends what @s holds, and a break. On error @w is fit for words_deinit only;
 * @f names file, line, what was expected and found. Errors: those of the
 * stream, ERR_FORMAT (not UTF-8), ERR_LIMIT (memory beyond @limit_bytes,
 * BOW_WORDS_MAX words), ERR_NOMEM. Cost: one pass, about 40 ns a word. */
enum err words_read(struct text_words *w, struct data_stream *s,
                    const struct words_options *o, uint64_t limit_bytes,
                    struct fault *f);

/* Drops words that occur less than @min_count times, and numbers the others by
 * how often they occur, the most frequent first, equal ones byte by byte.
 * Errors: ERR_NOMEM; fit for words_deinit only then. */
enum err words_finish(struct text_words *w, uint64_t min_count);

/* A vocabulary: `word times` on a line, times being 1 to 2^53; @w is empty
 * before and fixed then. Errors: those of the stream, ERR_FORMAT (line, what
 * was expected), ERR_LIMIT, ERR_NOMEM; empty then. */
enum err words_know(struct text_words *w, struct data_stream *s,
                    uint64_t limit_bytes, struct fault *f);

#endif
