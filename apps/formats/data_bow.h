/* Bags of words: documents as words with counts, and the parsers of their text
 * forms.
 *
 * LDA-C: a document a line, `n word:count word:count ...` with n pairs; words
 * are numbered from 0. UCI: three lines with the numbers of documents, of words
 * and of entries, then `document word count` a line, both numbered from 1. The
 * first line tells which. A vocabulary is a text of one word a line, the first
 * being the word of the lowest number.
 */
#ifndef APPS_DATA_BOW_H
#define APPS_DATA_BOW_H

#include "apps/formats/data_stream.h"
#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum {
    BOW_WORDS_MAX = 1 << 28,
    /* Counts are summed in floats, which are exact so far. */
    BOW_DOC_TOKENS_MAX = 1 << 24,
    VOCABULARY_WORD_MAX = 255 /* bytes */
};

/* Zeroed: empty. */
struct corpus {
    uint64_t docs, entries, tokens; /* tokens: the sum of the counts */
    uint32_t words;                 /* every word is below it */
    uint64_t *begin; /* [docs + 1] first entry of each document: owned */
    uint32_t *word;  /* [entries]: owned */
    uint32_t *count; /* [entries] >= 1: owned */
    size_t begin_room, word_room, count_room;
};

void corpus_deinit(struct corpus *c);

/* Reads @s into @out; documents may be empty. Errors: those of the stream,
 * ERR_FORMAT (line, what was expected and found), ERR_LIMIT (memory beyond
 * @limit_bytes, a document of over BOW_DOC_TOKENS_MAX tokens), ERR_NOMEM. */
enum err bow_read(struct data_stream *s, uint64_t limit_bytes,
                  struct corpus *out, struct fault *f);

/* Appends an entry to the last document, begins one. Errors: ERR_NOMEM. */
enum err corpus_add(struct corpus *c, uint32_t word, uint32_t count);
enum err corpus_begin_doc(struct corpus *c);

/* Splits by a hash of seed and index: document i goes to @test when the hash
 * falls below @fraction (0 <= fraction < 1), else it stays, in order. Errors:
 * ERR_NOMEM (nothing changed). */
enum err corpus_split(struct corpus *c, double fraction, uint64_t seed,
                      struct corpus *test);

/* Words by number. Zeroed: none. */
struct vocabulary {
    uint32_t words;
    char *text;      /* all words, each ended by a zero: owned */
    uint64_t *begin; /* [words] offsets in text: owned */
    size_t text_room, begin_room;
};

void vocabulary_deinit(struct vocabulary *v);

/* Word @i. Borrowed. */
static inline const char *vocabulary_word(const struct vocabulary *v,
                                          uint32_t i)
{
    return v->text + v->begin[i];
}

/* Appends @word[@n] (copied), which has no zero byte. Errors: ERR_NOMEM; then
 * nothing changed. */
enum err vocabulary_add(struct vocabulary *v, const char *word, size_t n);

/* Errors: those of the stream, ERR_FORMAT (a line that is empty, too long, or
 * holds control characters), ERR_LIMIT, ERR_NOMEM. */
enum err vocabulary_read(struct data_stream *s, uint64_t limit_bytes,
                         struct vocabulary *out, struct fault *f);

#endif
