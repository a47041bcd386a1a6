/* Any bytes as a vocabulary, compressed or not: refused with a reason that
 * names the file, or words that, written out plainly, read back the same. */
#include "apps/formats/data_bow.h"
#include "base/mem.h"
#include "base/text.h"
#include "tests/fuzz/must.h"

#include <stdlib.h>
#include <string.h>

enum { VOCABULARY_FUZZ_LIMIT = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_words(const void *bytes, size_t n, struct vocabulary *v,
                           struct fault *f)
{
    struct data_stream *s;
    enum err err = data_stream_memory("fuzz", bytes, n, &s, f);

    if (err)
        return err;
    err = vocabulary_read(s, VOCABULARY_FUZZ_LIMIT, v, f);
    data_stream_close(s);
    return err;
}

static void round_trip(const struct vocabulary *v)
{
    struct vocabulary again = {0};
    struct text t = {0};

    for (uint32_t i = 0; i < v->words; i++) {
        const char *word = vocabulary_word(v, i);

        must(*word);
        for (const char *c = word; *c; c++)
            must((unsigned char)*c >= 0x20 && *c != 0x7f);
        text_puts(&t, word);
        text_puts(&t, "\n");
    }
    must(read_words(t.s, t.len, &again, NULL) == ERR_OK);
    must(again.words == v->words);
    for (uint32_t i = 0; i < v->words; i++)
        must(strcmp(vocabulary_word(v, i), vocabulary_word(&again, i)) == 0);
    vocabulary_deinit(&again);
    text_deinit(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct vocabulary v = {0};
    struct fault f = {0};
    enum err err = read_words(data, size, &v, &f);

    if (err)
        must(f.code == err && strstr(f.text, "fuzz"));
    else if (v.words > 0)
        round_trip(&v);
    vocabulary_deinit(&v);
    must(mem_outstanding() == before);
    return 0;
}
