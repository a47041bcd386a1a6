#include "apps/formats/word_map.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { SLOTS_MIN = 1024 };

void word_map_deinit(struct word_map *m)
{
    vocabulary_deinit(&m->name);
    mem_free(m->slot);
    memset(m, 0, sizeof(*m));
}

/* FNV-1a, its high bits mixed in: slots are taken from the low ones. */
static size_t hash_of(const char *word, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)word[i]) * 0x100000001b3;
    return (size_t)(h ^ h >> 32);
}

static bool is_word(const struct word_map *m, uint32_t number, const char *word,
                    size_t n)
{
    const char *name = vocabulary_word(&m->name, number);

    /* @word may have a zero byte in it, which no name has. */
    return strlen(name) == n && memcmp(name, word, n) == 0;
}

/* The slot that has the word, or the free one that it would go to. */
static size_t place_of(const struct word_map *m, const char *word, size_t n)
{
    size_t i = hash_of(word, n) & (m->slots - 1);

    while (m->slot[i] != WORD_NONE && !is_word(m, m->slot[i], word, n))
        i = (i + 1) & (m->slots - 1);
    return i;
}

uint32_t word_map_find(const struct word_map *m, const char *word, size_t n)
{
    return m->slots ? m->slot[place_of(m, word, n)] : WORD_NONE;
}

static enum err make_room(struct word_map *m)
{
    struct word_map wider = {.name = m->name,
                             .slots = m->slots ? 2 * m->slots : SLOTS_MIN};

    if (2 * ((size_t)m->name.words + 1) <= m->slots)
        return ERR_OK;
    wider.slot = mem_alloc(wider.slots * sizeof(*wider.slot));
    if (!wider.slot)
        return ERR_NOMEM;
    memset(wider.slot, 0xff, wider.slots * sizeof(*wider.slot));
    for (uint32_t i = 0; i < m->name.words; i++) {
        const char *word = vocabulary_word(&m->name, i);

        wider.slot[place_of(&wider, word, strlen(word))] = i;
    }
    mem_free(m->slot);
    *m = wider;
    return ERR_OK;
}

enum err word_map_add(struct word_map *m, const char *word, size_t n,
                      uint32_t *out)
{
    enum err err = make_room(m);
    size_t at;

    assert(n >= 1 && n <= VOCABULARY_WORD_MAX);
    if (err)
        return err;
    at = place_of(m, word, n);
    if (m->slot[at] == WORD_NONE) {
        if (m->name.words == BOW_WORDS_MAX)
            return ERR_LIMIT;
        err = vocabulary_add(&m->name, word, n);
        if (err)
            return err;
        m->slot[at] = m->name.words - 1;
    }
    *out = m->slot[at];
    return ERR_OK;
}

uint64_t word_map_bytes(const struct word_map *m)
{
    return m->name.text_room + m->name.begin_room * sizeof(*m->name.begin) +
           m->slots * sizeof(*m->slot);
}
