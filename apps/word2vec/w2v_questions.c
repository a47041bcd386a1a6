#include "apps/word2vec/w2v_questions.h"

#include "apps/formats/data_number.h"
#include "apps/formats/data_text.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 5, CHECKED = 1 << 12, BYTES_A_QUESTION = 48 };

void w2v_questions_deinit(struct w2v_questions *q)
{
    mem_free(q->word);
    mem_free(q->said);
    memset(q, 0, sizeof(*q));
}

/* ---- forms --------------------------------------------------------------- */

static bool separates(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == ',';
}

static bool is_number(const char *p, size_t n)
{
    char text[NUMBER_CHARS_MAX + 1];
    double value;
    const char *end;

    if (n == 0 || n > NUMBER_CHARS_MAX)
        return false;
    memcpy(text, p, n);
    text[n] = '\0';
    end = number_pass(text, &value);
    return end && *end == '\0' && isfinite(value);
}

/* The fields of a line up to @end, and whether the third is a number. */
static unsigned fields_of(const char *p, const char *end, bool *number)
{
    unsigned n = 0;

    *number = false;
    while (p < end) {
        const char *begin;

        while (p < end && separates(*p))
            p++;
        begin = p;
        while (p < end && !separates(*p))
            p++;
        if (p > begin && ++n == 3)
            *number = is_number(begin, (size_t)(p - begin));
    }
    return n;
}

enum w2v_form w2v_form_of(const char *text, size_t n, bool whole)
{
    const char *p = text, *end = text + n;
    unsigned lines = 0, scored = 0;
    bool number;

    while (p < end) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const char *line = p, *stop = eol ? eol : end;
        unsigned fields = fields_of(p, stop, &number);

        p = eol ? eol + 1 : end;
        if (fields == 0 || *line == '#' || (!eol && !whole && lines > 0))
            continue; /* the last line may be cut off */
        if (lines == 0 && *line == ':')
            return W2V_ANALOGIES;
        if (fields != 3 || (!number && lines > 0))
            return W2V_TEXT;
        lines++;
        scored += number;
    }
    return scored > 0 ? W2V_SIMILARITIES : W2V_TEXT;
}

/* ---- reading ------------------------------------------------------------- */

struct questions_reader {
    struct w2v_questions *q;
    struct data_text *t;
    const struct word_map *map;
    bool lower;
    uint64_t limit_bytes;
};

static uint32_t look_up(const struct questions_reader *rd, const char *p,
                        size_t n)
{
    char low[VOCABULARY_WORD_MAX];
    uint32_t number = word_map_find(rd->map, p, n);

    if (number != WORD_NONE || !rd->lower || n > sizeof(low))
        return number;
    for (size_t i = 0; i < n; i++)
        low[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] - 'A' + 'a' : p[i]);
    return word_map_find(rd->map, low, n);
}

/* The field that stands here, in the window: *@n bytes. */
static enum err field(struct questions_reader *rd, const char *what,
                      const char **out, size_t *n)
{
    const char *p = data_text_skip_blanks(rd->t), *end;
    const char *stop = rd->t->window + rd->t->end;

    for (end = p; end < stop && !separates(*end) && *end != '\n'; end++)
        if (end - p == VOCABULARY_WORD_MAX)
            return data_text_expected(rd->t, "a word of at most 255 bytes");
    if (end == p)
        return data_text_expected(rd->t, what);
    *out = p;
    *n = (size_t)(end - p);
    return ERR_OK;
}

static void pass_comma(struct questions_reader *rd)
{
    const char *p = data_text_skip_blanks(rd->t);

    if (rd->q->form == W2V_SIMILARITIES && *p == ',')
        data_text_go(rd->t, p + 1);
}

static enum err read_words(struct questions_reader *rd, unsigned words,
                           uint32_t word[W2V_QUESTION_WORDS], bool *known)
{
    const char *p = NULL;
    size_t n = 0;

    for (unsigned i = 0; i < words; i++) {
        enum err err =
            field(rd,
                  rd->q->form == W2V_ANALOGIES ? "a word (an analogy has four)"
                                               : "a word (two, then a number)",
                  &p, &n);

        if (err)
            return err;
        word[i] = look_up(rd, p, n);
        *known = *known && word[i] != WORD_NONE;
        data_text_go(rd->t, p + n);
        pass_comma(rd);
    }
    return ERR_OK;
}

static enum err read_number(struct questions_reader *rd, double *out)
{
    const char *p = NULL;
    size_t n = 0;
    enum err err = field(rd, "how similar they are, a number", &p, &n);

    if (err)
        return err;
    if (!is_number(p, n))
        return data_text_expected(rd->t, "how similar they are, a number");
    number_pass(p, out);
    data_text_go(rd->t, p + n);
    return ERR_OK;
}

static enum err make_room(struct questions_reader *rd)
{
    struct w2v_questions *q = rd->q;
    uint64_t n = q->count + 1;

    if (n % CHECKED == 0 &&
        data_memory_check(data_stream_name(rd->t->s), 2 * n * BYTES_A_QUESTION,
                          rd->limit_bytes, rd->t->f))
        return ERR_LIMIT;
    if (mem_grow((void **)&q->word, &q->word_room, sizeof(*q->word),
                 n * W2V_QUESTION_WORDS) ||
        mem_grow((void **)&q->said, &q->said_room, sizeof(*q->said), n))
        return fault_set(rd->t->f, ERR_NOMEM, "%s: out of memory",
                         data_stream_name(rd->t->s));
    return ERR_OK;
}

static enum err read_question(struct questions_reader *rd)
{
    struct w2v_questions *q = rd->q;
    bool analogy = q->form == W2V_ANALOGIES, known = true;
    uint32_t word[W2V_QUESTION_WORDS] = {0};
    double said = 0;
    enum err err = make_room(rd);

    if (!err)
        err = read_words(rd, analogy ? W2V_QUESTION_WORDS : 2, word, &known);
    if (!err && !analogy)
        err = read_number(rd, &said);
    if (!err && !data_text_pass_line_end(rd->t))
        err = data_text_expected(rd->t, "the end of the line");
    if (err)
        return err;
    memcpy(q->word + q->count * W2V_QUESTION_WORDS, word, sizeof(word));
    q->said[q->count++] = said;
    q->known += known;
    return ERR_OK;
}

/* The first line of similarities names the columns where its third field is no
 * number: what is in the window decides. */
static bool is_header(struct questions_reader *rd)
{
    const char *p = data_text_at(rd->t), *end = rd->t->window + rd->t->end;
    const char *eol = memchr(p, '\n', (size_t)(end - p));
    bool number;

    return rd->q->form == W2V_SIMILARITIES && rd->q->count == 0 &&
           fields_of(p, eol ? eol : end, &number) == 3 && !number;
}

static enum err read_lines(struct questions_reader *rd)
{
    bool first = true;
    enum err err = ERR_OK;

    while (!err && !data_text_ended(rd->t)) {
        char c = *data_text_skip_blanks(rd->t);
        bool skip = c == '#' || (rd->q->form == W2V_ANALOGIES && c == ':') ||
                    (c != '\n' && first && is_header(rd));

        first = first && (c == '#' || c == '\n');
        if (skip)
            data_text_skip_line(rd->t);
        if (!data_text_pass_line_end(rd->t))
            err = read_question(rd);
    }
    return err ? err : rd->t->err;
}

enum err w2v_questions_read(struct w2v_questions *q, enum w2v_form form,
                            struct data_stream *s, const struct word_map *map,
                            bool lower, uint64_t limit_bytes, struct fault *f)
{
    struct questions_reader rd = {q, data_text_new(s, f), map, lower,
                                  limit_bytes};
    enum err err;

    *q = (struct w2v_questions){.form = form};
    if (!rd.t)
        return ERR_NOMEM;
    err = read_lines(&rd);
    data_text_free(rd.t);
    if (!err && q->count == 0)
        err = fault_set(f, ERR_FORMAT, "%s: no question in it",
                        data_stream_name(s));
    if (err)
        w2v_questions_deinit(q);
    return err;
}

/* ---- ranks --------------------------------------------------------------- */

/* A value and whose it is, to be sorted. */
struct placed {
    double value;
    uint32_t at;
};

static int by_value(const void *a, const void *b)
{
    double x = ((const struct placed *)a)->value;
    double y = ((const struct placed *)b)->value;

    return (x > y) - (x < y);
}

/* Values become ranks from 0; equal ones have the mean of theirs. */
static void rank(double value[], size_t n, struct placed place[])
{
    for (size_t i = 0; i < n; i++)
        place[i] = (struct placed){value[i], (uint32_t)i};
    qsort(place, n, sizeof(*place), by_value);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && place[end].value == place[i].value;)
            end++;
        for (size_t k = i; k < end; k++)
            value[place[k].at] = (double)(i + end - 1) / 2;
    }
}

enum err w2v_spearman(double a[], double b[], size_t n, double *out)
{
    struct placed *place = mem_alloc((n + 1) * sizeof(*place));
    double mean = ((double)n - 1) / 2, ab = 0, aa = 0, bb = 0;

    if (!place)
        return ERR_NOMEM;
    rank(a, n, place);
    rank(b, n, place);
    for (size_t i = 0; i < n; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    mem_free(place);
    *out = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
    return ERR_OK;
}
