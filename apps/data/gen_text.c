/* gen:text (apps/data/gen.h). */
#include "apps/data/gen.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_TOKENS, KEY_ROWS, KEY_COLUMNS, KEY_NEAR, KEY_LENGTH, KEY_SEED };

enum { STREAM_TEXT = 400, NAME_MAX_BYTES = 64, BYTES_A_TOKEN = 8 };
enum { BYTES_A_WORD = 64 };

uint64_t gen_text_bytes(const double v[])
{
    double words = v[KEY_ROWS] * v[KEY_COLUMNS] +
                   (v[KEY_ROWS] + v[KEY_COLUMNS]) * v[KEY_NEAR];

    return (uint64_t)(v[KEY_TOKENS] * BYTES_A_TOKEN + words * BYTES_A_WORD);
}

/* A place whose popularity falls as 1 / place. */
static uint64_t draw_place(double places, struct rng *rng)
{
    double at = pow(places + 1, rng_uniform(rng)) - 1;

    return at < places ? (uint64_t)at : (uint64_t)places - 1;
}

/* A word that goes with row @row or, as often, with column @column. */
static int name_near(const double v[], uint64_t row, uint64_t column,
                     struct rng *rng, char name[NAME_MAX_BYTES])
{
    bool of_row = rng_below(rng, 2) == 0;
    uint64_t which = draw_place(v[KEY_NEAR], rng);

    return snprintf(name, NAME_MAX_BYTES, "%c%" PRIu64 "_%" PRIu64,
                    of_row ? 'r' : 'c', of_row ? row : column, which);
}

static enum err add_sentence(struct text_words *w, const double v[],
                             struct rng *rng)
{
    uint64_t row = draw_place(v[KEY_ROWS], rng);
    uint64_t column = draw_place(v[KEY_COLUMNS], rng);
    uint64_t length = (uint64_t)v[KEY_LENGTH];
    uint64_t at = rng_below(rng, length);
    char name[NAME_MAX_BYTES];
    enum err err = ERR_OK;

    for (uint64_t i = 0; i < length && !err; i++) {
        int n = i == at ? snprintf(name, sizeof(name), "w%" PRIu64 "_%" PRIu64,
                                   row, column)
                        : name_near(v, row, column, rng, name);

        err = words_append(w, name, (size_t)n);
    }
    return err ? err : words_break(w);
}

enum err gen_text(const char *spec, uint64_t limit_bytes, struct text_words *w,
                  struct fault *f)
{
    const struct gen_kind *kind;
    double v[GEN_KEYS_MAX];
    struct rng rng;
    enum err err = gen_parse(spec, &kind, v, f);

    if (err)
        return err;
    if (kind->kind != DATA_TEXT)
        return fault_set(f, ERR_INVAL, "%s: makes %s; expected a text", spec,
                         data_kind_text(kind->kind));
    err = data_memory_check(spec, gen_text_bytes(v), limit_bytes, f);
    if (err)
        return err;
    rng_init(&rng, rng_mix((uint64_t)v[KEY_SEED], STREAM_TEXT));
    while (w->tokens + w->dropped < (uint64_t)v[KEY_TOKENS] && !err)
        err = add_sentence(w, v, &rng);
    return err ? fault_set(f, err, "%s: %s", spec, err_text(err)) : ERR_OK;
}
