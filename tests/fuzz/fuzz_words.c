/* Any bytes, compressed or not. The first says what they are taken for. A text,
 * by some settings: its reader refuses it with a reason that names the file, or
 * gives words that, written out plainly, are the same words. A vocabulary: the
 * same, with its counts. Questions: words of the map, as many as are said. */
#include "apps/formats/data_words.h"
#include "apps/word2vec/w2v_questions.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_LIMIT = 64 << 20, AS_TEXT = 12, AS_VOCABULARY = 13, FORMS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static struct data_stream *stream_of(const void *bytes, size_t n)
{
    struct data_stream *s;

    return data_stream_memory("fuzz", bytes, n, &s, NULL) ? NULL : s;
}

/* Words between blanks, sentences on lines: owned by the caller. It begins with
 * an empty line, and so with no mark of a compressed file. */
static char *written(const struct text_words *w, size_t *n)
{
    size_t room = 2;
    char *text;

    for (uint64_t i = 0; i < w->count; i++)
        room += w->word[i] == WORDS_BREAK
                    ? 1
                    : 1 + strlen(vocabulary_word(&w->map.name, w->word[i]));
    text = malloc(room);
    must(text);
    text[0] = '\n';
    *n = 1;
    for (uint64_t i = 0; i < w->count; i++) {
        const char *word = w->word[i] == WORDS_BREAK
                               ? "\n"
                               : vocabulary_word(&w->map.name, w->word[i]);

        *n = (size_t)(stpcpy(text + *n, word) - text);
        if (w->word[i] != WORDS_BREAK)
            text[(*n)++] = ' ';
    }
    return text;
}

static void read_again(const struct text_words *w)
{
    static const struct words_options plain = {WORDS_BLANKS, WORDS_LINES, true};
    struct text_words again = {0};
    struct data_stream *s;
    size_t n;
    char *text = written(w, &n);

    s = stream_of(text, n);
    must(s && words_read(&again, s, &plain, FUZZ_LIMIT, NULL) == ERR_OK);
    must(again.count == w->count && again.tokens == w->tokens);
    must(again.map.name.words == w->map.name.words);
    for (uint64_t i = 0; i < w->count; i++)
        must(again.word[i] == w->word[i]);
    data_stream_close(s);
    words_deinit(&again);
    free(text);
}

static void read_as_text(struct data_stream *s, unsigned form)
{
    const struct words_options o = {form & 1 ? WORDS_BLANKS : WORDS_LETTERS,
                                    (enum words_end)(form / 2 % 3), form >= 6};
    struct text_words w = {0};
    struct fault f = {0};

    if (words_read(&w, s, &o, FUZZ_LIMIT, &f)) {
        must(strstr(f.text, "fuzz"));
    } else {
        uint64_t all = w.tokens + w.dropped;

        read_again(&w);
        must(words_finish(&w, 2) == ERR_OK);
        must(w.tokens + w.dropped == all);
        for (uint32_t i = 0; i < w.map.name.words; i++)
            must(w.times[i] >= 2 && (i == 0 || w.times[i - 1] >= w.times[i]));
    }
    words_deinit(&w);
}

static void read_as_vocabulary(struct data_stream *s)
{
    struct text_words w = {0};
    struct fault f = {0};

    if (words_know(&w, s, FUZZ_LIMIT, &f)) {
        must(strstr(f.text, "fuzz") && w.map.name.words == 0);
        return;
    }
    for (uint32_t i = 0; i < w.map.name.words; i++) {
        const char *word = vocabulary_word(&w.map.name, i);

        must(w.times[i] >= 1);
        must(word_map_find(&w.map, word, strlen(word)) == i);
    }
    words_deinit(&w);
}

static void read_as_questions(struct data_stream *s, const uint8_t *data,
                              size_t size, bool lower)
{
    struct word_map map = {0};
    struct w2v_questions q;
    struct fault f = {0};
    uint32_t n;
    enum w2v_form form = w2v_form_of((const char *)data, size, true);

    must(word_map_add(&map, "a", 1, &n) == ERR_OK);
    must(word_map_add(&map, "B", 1, &n) == ERR_OK);
    if (form == W2V_TEXT)
        form = lower ? W2V_ANALOGIES : W2V_SIMILARITIES;
    if (w2v_questions_read(&q, form, s, &map, lower, FUZZ_LIMIT, &f)) {
        must(strstr(f.text, "fuzz") && q.count == 0);
    } else {
        must(q.count >= 1 && q.known <= q.count);
        for (uint64_t i = 0; i < q.count * W2V_QUESTION_WORDS; i++)
            must(q.word[i] < 2 || q.word[i] == WORD_NONE);
    }
    w2v_questions_deinit(&q);
    word_map_deinit(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    unsigned form = size ? data[0] % FORMS : 0;
    struct data_stream *s = size ? stream_of(data + 1, size - 1) : NULL;

    if (!s)
        return 0;
    if (form < AS_TEXT)
        read_as_text(s, form);
    else if (form == AS_VOCABULARY)
        read_as_vocabulary(s);
    else
        read_as_questions(s, data + 1, size - 1, form == AS_TEXT);
    data_stream_close(s);
    must(mem_outstanding() == before);
    return 0;
}
