#include "apps/formats/data_words.h"

#include "apps/formats/data_number.h"
#include "apps/formats/data_text.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED_BYTES = 1 << 16 }; /* below it no array is looked at */

static const double times_max = 0x1p53;

/* No part of a word: a text that is written out may begin with it. */
static const char byte_order_mark[] = "\xef\xbb\xbf";

void words_deinit(struct text_words *w)
{
    word_map_deinit(&w->map);
    mem_free(w->word);
    mem_free(w->times);
    memset(w, 0, sizeof(*w));
}

/* ---- appending ----------------------------------------------------------- */

static enum err put(struct text_words *w, uint32_t word)
{
    if (mem_grow((void **)&w->word, &w->word_room, sizeof(*w->word),
                 w->count + 1))
        return ERR_NOMEM;
    w->word[w->count++] = word;
    return ERR_OK;
}

/* A word that the map had not. */
static enum err count_new(struct text_words *w)
{
    uint32_t words = w->map.name.words;

    if (mem_grow((void **)&w->times, &w->times_room, sizeof(*w->times), words))
        return ERR_NOMEM;
    w->times[words - 1] = 0;
    return ERR_OK;
}

enum err words_append(struct text_words *w, const char *text, size_t n)
{
    uint32_t known = w->map.name.words, number = WORD_NONE;
    enum err err = ERR_OK;

    if (w->fixed)
        number = word_map_find(&w->map, text, n);
    else
        err = word_map_add(&w->map, text, n, &number);
    if (!err && w->map.name.words > known)
        err = count_new(w);
    if (err)
        return err;
    if (number == WORD_NONE) {
        w->dropped++;
        return ERR_OK;
    }
    err = put(w, number);
    if (err)
        return err;
    if (!w->fixed)
        w->times[number]++;
    w->tokens++;
    return ERR_OK;
}

enum err words_break(struct text_words *w)
{
    return w->count == 0 || w->word[w->count - 1] == WORDS_BREAK
               ? ERR_OK
               : put(w, WORDS_BREAK);
}

/* ---- reading ------------------------------------------------------------- */

struct words_reader {
    struct text_words *w;
    struct data_text *t;
    const struct words_options *o;
    uint64_t limit_bytes;
    bool blank; /* the line has had no word yet */
};

enum character { LETTER, APOSTROPHE, LINE_END, BETWEEN, NOT_UTF8 };

static enum character ascii(char c, enum words_form form)
{
    if (c == '\n')
        return LINE_END;
    if (form == WORDS_BLANKS)
        return c > ' ' && c < 127 ? LETTER : BETWEEN;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || number_digit(c) ||
        c == '_')
        return LETTER;
    return c == '\'' ? APOSTROPHE : BETWEEN;
}

static bool is_in(const unsigned char *c, const char *first, const char *last,
                  size_t bytes)
{
    return memcmp(c, first, bytes) >= 0 && memcmp(c, last, bytes) <= 0;
}

/* A character of two bytes or more: punctuation is U+0080 to U+00BF but for the
 * two ordinal signs and the micro sign, U+2000 to U+206F and U+3000 to U+303F.
 */
static enum character beyond_ascii(const char *p, size_t bytes)
{
    const unsigned char *c = (const unsigned char *)p;

    if (bytes == 2)
        return c[0] == 0xc2 && c[1] != 0xaa && c[1] != 0xb5 && c[1] != 0xba
                   ? BETWEEN
                   : LETTER;
    if (bytes != 3)
        return LETTER;
    if (memcmp(c, "\xe2\x80\x99", 3) == 0)
        return APOSTROPHE;
    return is_in(c, "\xe2\x80\x80", "\xe2\x81\xaf", 3) ||
                   is_in(c, "\xe3\x80\x80", "\xe3\x80\xbf", 3)
               ? BETWEEN
               : LETTER;
}

/* What stands at @p, before @end, in *@bytes; nothing stands at the end. */
static enum character character(const char *p, const char *end,
                                enum words_form form, size_t *bytes)
{
    *bytes = 1;
    if (p == end)
        return BETWEEN;
    if ((unsigned char)*p < 0x80)
        return ascii(*p, form);
    *bytes = text_utf8_length(p, (size_t)(end - p));
    if (*bytes == 0)
        return NOT_UTF8;
    if (memcmp(p, byte_order_mark, *bytes) == 0)
        return BETWEEN;
    if (form == WORDS_BLANKS)
        return text_is_control(p, (size_t)(end - p)) ? BETWEEN : LETTER;
    return beyond_ascii(p, *bytes);
}

static const char *window_end(const struct data_text *t)
{
    return t->window + t->end;
}

/* Where what goes on with a word at @p ends, or NULL; an apostrophe does where
 * a letter follows. *@as: the bytes to take for it. */
static const char *goes_on(const struct words_reader *rd, const char *p,
                           const char **as, size_t *bytes)
{
    const char *end = window_end(rd->t), *next;
    enum character c = character(p, end, rd->o->form, bytes);
    size_t more;

    *as = p;
    if (c == LETTER)
        return p + *bytes;
    next = p + *bytes;
    if (c != APOSTROPHE || character(next, end, rd->o->form, &more) != LETTER)
        return NULL;
    *as = "'";
    *bytes = 1;
    return next;
}

/* The word that begins here. */
static enum err read_word(struct words_reader *rd)
{
    char word[VOCABULARY_WORD_MAX];
    const char *as, *next;
    size_t n = 0, bytes;
    bool fits = true;

    while ((next = goes_on(rd, data_text_at(rd->t), &as, &bytes))) {
        fits = fits && n + bytes <= sizeof(word);
        for (size_t i = 0; i < bytes && fits; i++) {
            bool capital = as[i] >= 'A' && as[i] <= 'Z' && !rd->o->keep_case;

            word[n++] = (char)(capital ? as[i] - 'A' + 'a' : as[i]);
        }
        data_text_go(rd->t, next);
    }
    rd->blank = false;
    rd->w->dropped += !fits;
    return fits ? words_append(rd->w, word, n) : ERR_OK;
}

static enum err pass_line(struct words_reader *rd)
{
    bool end = rd->o->end == WORDS_LINES ||
               (rd->o->end == WORDS_PARAGRAPHS && rd->blank);

    rd->blank = true;
    rd->t->line++;
    return end ? words_break(rd->w) : ERR_OK;
}

/* Arrays grow by doubling: what they will need is asked for before. */
static enum err check_room(const struct words_reader *rd)
{
    const struct text_words *w = rd->w;
    uint64_t bytes = w->count * sizeof(*w->word) + word_map_bytes(&w->map) +
                     w->times_room * sizeof(*w->times);

    if (bytes < CHECKED_BYTES ||
        (w->count < w->word_room && 2 * bytes <= rd->limit_bytes))
        return ERR_OK;
    return data_memory_check(data_stream_name(rd->t->s), 2 * bytes,
                             rd->limit_bytes, rd->t->f);
}

static enum err refuse_byte(const struct words_reader *rd, char byte)
{
    return fault_set(rd->t->f, ERR_FORMAT,
                     "%s: line %" PRIu64 ": expected UTF-8, found the byte "
                     "0x%02x (iconv -f latin1 -t utf-8 FILE makes UTF-8 of "
                     "Latin-1)",
                     data_stream_name(rd->t->s), rd->t->line,
                     (unsigned)(unsigned char)byte);
}

/* What stands here, and the reader is behind it. */
static enum err read_next(struct words_reader *rd)
{
    const char *p = data_text_at(rd->t);
    size_t bytes;
    enum character c = character(p, window_end(rd->t), rd->o->form, &bytes);
    enum err err = ERR_OK;

    if (c == NOT_UTF8)
        return refuse_byte(rd, *p);
    if (c == LETTER) {
        err = check_room(rd);
        if (err)
            return err;
        err = read_word(rd);
    } else {
        data_text_go(rd->t, p + bytes);
        if (c == LINE_END)
            err = pass_line(rd);
    }
    return err ? fault_set(rd->t->f, err, "%s: line %" PRIu64 ": %s",
                           data_stream_name(rd->t->s), rd->t->line,
                           err == ERR_LIMIT ? "more than 2^28 different words"
                                            : err_text(err))
               : ERR_OK;
}

enum err words_read(struct text_words *w, struct data_stream *s,
                    const struct words_options *o, uint64_t limit_bytes,
                    struct fault *f)
{
    struct words_reader rd = {w, data_text_new(s, f), o, limit_bytes, true};
    enum err err = ERR_OK;

    if (!rd.t)
        return ERR_NOMEM;
    while (!err && !data_text_ended(rd.t))
        err = read_next(&rd);
    if (!err)
        err = rd.t->err;
    if (!err && words_break(w))
        err = fault_set(f, ERR_NOMEM, "%s: out of memory", data_stream_name(s));
    data_text_free(rd.t);
    return err;
}

/* ---- by frequency -------------------------------------------------------- */

/* A word, to be sorted: qsort has no argument to find the names by. */
struct ranked {
    uint64_t times;
    const char *name;
    uint32_t number;
};

static int by_times(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->times != y->times)
        return x->times > y->times ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The map and the counts of the first @n of @r; @w keeps its own on error. */
static enum err take_ranked(struct text_words *w, const struct ranked r[],
                            uint32_t n)
{
    struct word_map map = {0};
    uint32_t number;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < n && !err; i++)
        err = word_map_add(&map, r[i].name, strlen(r[i].name), &number);
    if (err) {
        word_map_deinit(&map);
        return err;
    }
    for (uint32_t i = 0; i < n; i++)
        w->times[i] = r[i].times;
    word_map_deinit(&w->map);
    w->map = map;
    return ERR_OK;
}

/* Numbers by @place[]; what has none is dropped, and breaks that follow each
 * other are one. */
static void renumber(struct text_words *w, const uint32_t place[])
{
    uint64_t n = 0;

    w->tokens = 0;
    for (uint64_t i = 0; i < w->count; i++) {
        uint32_t word =
            w->word[i] == WORDS_BREAK ? WORDS_BREAK : place[w->word[i]];

        if (w->word[i] != WORDS_BREAK && word == WORD_NONE) {
            w->dropped++;
            continue;
        }
        if (word == WORDS_BREAK && (n == 0 || w->word[n - 1] == WORDS_BREAK))
            continue;
        w->tokens += word != WORDS_BREAK;
        w->word[n++] = word;
    }
    w->count = n;
}

enum err words_finish(struct text_words *w, uint64_t min_count)
{
    uint32_t words = w->map.name.words, kept = 0;
    struct ranked *r = mem_alloc((words + (size_t)1) * sizeof(*r));
    uint32_t *place = mem_alloc((words + (size_t)1) * sizeof(*place));
    enum err err = r && place ? ERR_OK : ERR_NOMEM;

    assert(!w->fixed);
    for (uint32_t i = 0; i < words && !err; i++) {
        place[i] = WORD_NONE;
        if (w->times[i] >= min_count)
            r[kept++] = (struct ranked){w->times[i],
                                        vocabulary_word(&w->map.name, i), i};
    }
    if (!err) {
        qsort(r, kept, sizeof(*r), by_times);
        for (uint32_t i = 0; i < kept; i++)
            place[r[i].number] = i;
        err = take_ranked(w, r, kept);
    }
    if (!err)
        renumber(w, place);
    mem_free(r);
    mem_free(place);
    return err;
}

/* ---- a vocabulary -------------------------------------------------------- */

/* Bytes up to the next blank or end of line, at most TEXT_TOKEN_MAX. */
static size_t token_bytes(struct data_text *t)
{
    const char *p = data_text_at(t), *end = window_end(t);
    size_t n = 0;

    while (p + n < end && n < TEXT_TOKEN_MAX && !strchr(" \t\r\n", p[n]) &&
           p[n])
        n++;
    return n;
}

static enum err read_times(struct words_reader *rd, uint64_t *out)
{
    const char *p = data_text_skip_blanks(rd->t);
    double times = 0;
    const char *end = number_digit(*p) ? number_pass(p, &times) : NULL;

    if (!end || !(times >= 1 && times <= times_max) ||
        times != (double)(uint64_t)times)
        return data_text_expected(rd->t, "how often the word occurs");
    data_text_go(rd->t, end);
    *out = (uint64_t)times;
    return ERR_OK;
}

static enum err know_word(struct words_reader *rd)
{
    size_t n = token_bytes(rd->t);
    const char *p = data_text_at(rd->t);
    struct text_words *w = rd->w;
    uint64_t tokens = w->tokens;
    enum err err = check_room(rd);

    if (err)
        return err;
    if (n == 0 || n > VOCABULARY_WORD_MAX || !text_bytes_are_utf8(p, n))
        return data_text_expected(rd->t, "a word (UTF-8, at most 255 bytes)");
    if (word_map_find(&w->map, p, n) != WORD_NONE)
        return data_text_expected(rd->t, "a word that is not there before");
    err = words_append(w, p, n);
    if (err)
        return fault_set(rd->t->f, err, "%s: %s", data_stream_name(rd->t->s),
                         err_text(err));
    w->tokens = tokens;
    w->count = 0;
    data_text_go(rd->t, p + n);
    err = read_times(rd, &w->times[w->map.name.words - 1]);
    if (!err && !data_text_pass_line_end(rd->t))
        err = data_text_expected(rd->t, "the end of the line");
    return err;
}

enum err words_know(struct text_words *w, struct data_stream *s,
                    uint64_t limit_bytes, struct fault *f)
{
    const struct words_options none = {0};
    struct words_reader rd = {w, data_text_new(s, f), &none, limit_bytes, true};
    enum err err = ERR_OK;

    assert(w->map.name.words == 0);
    if (!rd.t)
        return ERR_NOMEM;
    while (!err && !data_text_ended(rd.t))
        err = know_word(&rd);
    if (!err)
        err = rd.t->err;
    data_text_free(rd.t);
    if (!err && w->map.name.words == 0)
        err =
            fault_set(f, ERR_FORMAT, "%s: no word in it", data_stream_name(s));
    w->fixed = true;
    if (err)
        words_deinit(w);
    return err;
}
