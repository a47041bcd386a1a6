/* Any bytes, compressed or not: the loader of bags of words refuses them with a
 * reason that names the file, or gives a corpus that, written out as LDA-C,
 * reads back the same. The same bytes as a vocabulary: words of sane length, or
 * a reason. */
#include "apps/formats/data_bow.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_LIMIT = 16 << 20, FUZZ_PAIR = 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_all(const void *bytes, size_t n, struct corpus *c,
                         struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("fuzz", bytes, n, &s, f);

    if (err)
        return err;
    err = bow_read(s, FUZZ_LIMIT, c, f);
    data_stream_close(s);
    return err;
}

static void round_trip(const struct corpus *c)
{
    char *text = malloc((c->entries + c->docs) * FUZZ_PAIR), *p = text;
    struct corpus again = {0};
    uint64_t d, i, tokens = 0;

    if (!text)
        abort();
    for (d = 0; d < c->docs; d++) {
        p += sprintf(p, "%" PRIu64, c->begin[d + 1] - c->begin[d]);
        for (i = c->begin[d]; i < c->begin[d + 1]; i++) {
            if (c->word[i] >= c->words || c->count[i] == 0)
                abort();
            tokens += c->count[i];
            p += sprintf(p, " %" PRIu32 ":%" PRIu32, c->word[i], c->count[i]);
        }
        *p++ = '\n';
    }
    /* Without a word in its first line it would read as another form. */
    if (tokens != c->tokens ||
        (c->begin[1] > 0 &&
         (read_all(text, (size_t)(p - text), &again, NULL) ||
          again.docs != c->docs || again.entries != c->entries ||
          memcmp(again.begin, c->begin, (c->docs + 1) * 8) != 0 ||
          memcmp(again.word, c->word, c->entries * 4) != 0 ||
          memcmp(again.count, c->count, c->entries * 4) != 0)))
        abort();
    corpus_deinit(&again);
    free(text);
}

static void as_vocabulary(const uint8_t *data, size_t size)
{
    struct vocabulary v = {0};
    struct fault fault = {0};
    struct data_stream *s;

    if (data_stream_memory("fuzz", data, size, &s, &fault))
        return;
    if (vocabulary_read(s, FUZZ_LIMIT, &v, &fault) == ERR_OK) {
        for (uint32_t i = 0; i < v.words; i++)
            if (strlen(vocabulary_word(&v, i)) > VOCABULARY_WORD_MAX)
                abort();
    } else if (!strstr(fault.text, "fuzz")) {
        abort();
    }
    vocabulary_deinit(&v);
    data_stream_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct corpus c = {0};
    struct fault fault = {0};

    if (read_all(data, size, &c, &fault) == ERR_OK)
        round_trip(&c);
    else if (!strstr(fault.text, "fuzz"))
        abort();
    corpus_deinit(&c);
    as_vocabulary(data, size);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
