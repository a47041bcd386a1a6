#include "apps/formats/data_bow.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1 << 16, FOUND_MAX = 24 };
enum { AT_END = -1, AT_FAULT = -2 }; /* beside characters */

/* A text, read character by character. */
struct bow_text {
    struct data_stream *s;
    struct fault *f;
    uint64_t limit_bytes;
    uint64_t line; /* from 1 */
    enum err err;  /* of the stream */
    size_t at, end;
    unsigned char buf[TEXT_BYTES];
};

static struct bow_text *text_new(struct data_stream *s, uint64_t limit_bytes,
                                 struct fault *f)
{
    struct bow_text *t = mem_alloc(sizeof(*t));

    if (!t) {
        fault_set(f, ERR_NOMEM, "%s: out of memory", data_stream_name(s));
        return NULL;
    }
    t->s = s;
    t->f = f;
    t->limit_bytes = limit_bytes;
    t->line = 1;
    t->err = ERR_OK;
    t->at = t->end = 0;
    return t;
}

static int refill(struct bow_text *t)
{
    t->at = 0;
    t->end = 0;
    t->err = data_stream_read(t->s, t->buf, sizeof(t->buf), &t->end, t->f);
    if (t->err)
        return AT_FAULT;
    return t->end ? t->buf[0] : AT_END;
}

/* The next character, which stays. */
static inline int peek(struct bow_text *t)
{
    return t->at < t->end ? t->buf[t->at] : refill(t);
}

static void skip_blanks(struct bow_text *t)
{
    int c = peek(t);

    while (c == ' ' || c == '\t' || c == '\r') {
        t->at++;
        c = peek(t);
    }
}

/* Passes the end of the line, if it is there; the end of the text is one. */
static bool pass_line_end(struct bow_text *t)
{
    skip_blanks(t);
    if (peek(t) == AT_END)
        return true;
    if (peek(t) != '\n')
        return false;
    t->at++;
    t->line++;
    return true;
}

/* Refusal of a text that is neither LDA-C nor UCI, quoting what stands there.
 */
static enum err expected(struct bow_text *t, const char *what)
{
    char found[FOUND_MAX + 1];
    uint64_t line = t->line;
    size_t n = 0;
    int c;

    for (c = peek(t); n < FOUND_MAX && c >= 0 && !strchr(" \t\r\n", c);
         c = peek(t)) {
        found[n++] = isprint(c) ? (char)c : '?';
        t->at++;
    }
    found[n] = '\0';
    if (t->err)
        return t->err;
    return fault_set(t->f, ERR_FORMAT,
                     "%s: line %" PRIu64 ": expected %s, found %s%s%s",
                     data_stream_name(t->s), line, what, n ? "\"" : "",
                     n             ? found
                     : c == '\n'   ? "the end of the line"
                     : c == AT_END ? "the end of the file"
                                   : "a blank",
                     n ? "\"" : "");
}

/* isdigit would not have what peek answers at the end or at a fault. */
static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* A number from @min to @max behind blanks. Says @what it should be. */
static enum err read_number(struct bow_text *t, uint64_t min, uint64_t max,
                            const char *what, uint64_t *out)
{
    uint64_t v = 0;
    int digits = 0;

    skip_blanks(t);
    while (is_digit(peek(t)) && digits < 18) {
        v = v * 10 + (uint64_t)(t->buf[t->at++] - '0');
        digits++;
    }
    if (t->err)
        return t->err;
    if (digits == 0)
        return expected(t, what);
    if (v < min || v > max || is_digit(peek(t)))
        return fault_set(t->f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected %s, found %" PRIu64
                         "%s",
                         data_stream_name(t->s), t->line, what, v,
                         is_digit(peek(t)) ? "..." : "");
    *out = v;
    return ERR_OK;
}

/* ---- the corpus ---------------------------------------------------------- */

void corpus_deinit(struct corpus *c)
{
    mem_free(c->begin);
    mem_free(c->word);
    mem_free(c->count);
    memset(c, 0, sizeof(*c));
}

enum err corpus_begin_doc(struct corpus *c)
{
    if (mem_grow((void **)&c->begin, &c->begin_room, sizeof(*c->begin),
                 c->docs + 2))
        return ERR_NOMEM;
    c->begin[c->docs++] = c->entries;
    c->begin[c->docs] = c->entries;
    return ERR_OK;
}

enum err corpus_add(struct corpus *c, uint32_t word, uint32_t count)
{
    assert(c->docs > 0 && count > 0);
    if (mem_grow((void **)&c->word, &c->word_room, sizeof(*c->word),
                 c->entries + 1) ||
        mem_grow((void **)&c->count, &c->count_room, sizeof(*c->count),
                 c->entries + 1))
        return ERR_NOMEM;
    c->word[c->entries] = word;
    c->count[c->entries++] = count;
    c->begin[c->docs] = c->entries;
    c->tokens += count;
    if (word >= c->words)
        c->words = word + 1;
    return ERR_OK;
}

/* Arrays grow by doubling: what they will need is asked for before. */
static enum err check_room(struct bow_text *t, const struct corpus *c)
{
    uint64_t bytes = 2 * (c->entries * 8 + c->docs * 8);

    return bytes < TEXT_BYTES ? ERR_OK
                              : data_memory_check(data_stream_name(t->s), bytes,
                                                  t->limit_bytes, t->f);
}

static enum err no_memory(struct bow_text *t)
{
    return fault_set(t->f, ERR_NOMEM, "%s: line %" PRIu64 ": out of memory",
                     data_stream_name(t->s), t->line);
}

static enum err check_length(struct bow_text *t, uint64_t tokens)
{
    if (tokens <= BOW_DOC_TOKENS_MAX)
        return ERR_OK;
    return fault_set(t->f, ERR_LIMIT,
                     "%s: line %" PRIu64 ": a document of over %d tokens",
                     data_stream_name(t->s), t->line, BOW_DOC_TOKENS_MAX);
}

/* ---- LDA-C --------------------------------------------------------------- */

static const char a_word[] = "a word (a number from 0 to 2^28 - 1)";
static const char a_count[] = "a count (a number from 1 to 2^24)";

static enum err read_pair(struct bow_text *t, struct corpus *c)
{
    uint64_t word = 0, count = 0;
    enum err err = read_number(t, 0, BOW_WORDS_MAX - 1, a_word, &word);

    if (err)
        return err;
    if (peek(t) != ':')
        return expected(t, "\":\" and a count behind the word");
    t->at++;
    err = read_number(t, 1, BOW_DOC_TOKENS_MAX, a_count, &count);
    if (err)
        return err;
    return corpus_add(c, (uint32_t)word, (uint32_t)count) ? no_memory(t)
                                                          : ERR_OK;
}

/* The rest of a line that promised @pairs pairs. */
static enum err read_pairs(struct bow_text *t, struct corpus *c, uint64_t pairs)
{
    uint64_t before = c->tokens, i;
    enum err err = corpus_begin_doc(c) ? no_memory(t) : check_room(t, c);

    for (i = 0; i < pairs && !err; i++) {
        err = read_pair(t, c);
        if (!err)
            err = check_length(t, c->tokens - before);
    }
    if (!err && !pass_line_end(t))
        err = expected(t, "the end of the line behind as many word:count pairs "
                          "as its first number says");
    return err ? err : t->err;
}

static const char pairs_text[] =
    "the number of word:count pairs that follow on the line";

static enum err read_lines(struct bow_text *t, struct corpus *c, uint64_t pairs)
{
    enum err err = read_pairs(t, c, pairs);

    while (!err && peek(t) >= 0) {
        if (pass_line_end(t)) /* blank */
            continue;
        err = read_number(t, 0, UINT32_MAX, pairs_text, &pairs);
        if (!err)
            err = read_pairs(t, c, pairs);
    }
    return err ? err : t->err;
}

/* ---- UCI ----------------------------------------------------------------- */

struct entries {
    uint32_t *doc, *word, *count; /* [n]: owned */
    size_t doc_room, word_room, count_room;
    uint64_t n;
};

static void entries_deinit(struct entries *e)
{
    mem_free(e->doc);
    mem_free(e->word);
    mem_free(e->count);
}

static enum err entries_add(struct entries *e, uint64_t doc, uint64_t word,
                            uint64_t count)
{
    if (mem_grow((void **)&e->doc, &e->doc_room, 4, e->n + 1) ||
        mem_grow((void **)&e->word, &e->word_room, 4, e->n + 1) ||
        mem_grow((void **)&e->count, &e->count_room, 4, e->n + 1))
        return ERR_NOMEM;
    e->doc[e->n] = (uint32_t)(doc - 1);
    e->word[e->n] = (uint32_t)(word - 1);
    e->count[e->n++] = (uint32_t)count;
    return ERR_OK;
}

static enum err read_entry(struct bow_text *t, uint64_t docs, uint64_t words,
                           struct entries *e)
{
    char text[96];
    uint64_t doc = 0, word = 0, count = 0;
    enum err err;

    snprintf(text, sizeof(text), "a document (a number from 1 to %" PRIu64 ")",
             docs);
    err = read_number(t, 1, docs, text, &doc);
    if (err)
        return err;
    snprintf(text, sizeof(text), "a word (a number from 1 to %" PRIu64 ")",
             words);
    err = read_number(t, 1, words, text, &word);
    if (!err)
        err = read_number(t, 1, BOW_DOC_TOKENS_MAX, a_count, &count);
    if (!err && !pass_line_end(t))
        err = expected(t, "the end of the line");
    if (err)
        return err;
    return entries_add(e, doc, word, count) ? no_memory(t) : ERR_OK;
}

/* Entries by document, in the order in which they came. */
static enum err take_entries(struct bow_text *t, struct corpus *c,
                             const struct entries *e)
{
    uint64_t *length = mem_calloc(c->docs, sizeof(*length));
    enum err err = ERR_OK;
    uint64_t i;

    c->begin = mem_calloc(c->docs + 1, sizeof(*c->begin));
    c->begin_room = c->docs + 1;
    c->word = mem_alloc((e->n ? e->n : 1) * 4);
    c->count = mem_alloc((e->n ? e->n : 1) * 4);
    c->word_room = c->count_room = e->n;
    if (!length || !c->begin || !c->word || !c->count) {
        mem_free(length);
        return no_memory(t);
    }
    for (i = 0; i < e->n && !err; i++) {
        c->begin[e->doc[i] + 1]++;
        length[e->doc[i]] += e->count[i];
        c->tokens += e->count[i];
        err = check_length(t, length[e->doc[i]]);
    }
    for (i = 0; i < c->docs; i++)
        c->begin[i + 1] += c->begin[i];
    memset(length, 0, c->docs * sizeof(*length));
    for (i = 0; i < e->n; i++) {
        uint64_t at = c->begin[e->doc[i]] + length[e->doc[i]]++;

        c->word[at] = e->word[i];
        c->count[at] = e->count[i];
    }
    c->entries = e->n;
    mem_free(length);
    return err;
}

static enum err read_header_line(struct bow_text *t, uint64_t max,
                                 const char *what, uint64_t *out)
{
    enum err err = read_number(t, 1, max, what, out);

    if (!err && !pass_line_end(t))
        err = expected(t, "the end of the line");
    return err;
}

static enum err read_docword(struct bow_text *t, struct corpus *c,
                             uint64_t docs)
{
    struct entries e = {0};
    uint64_t words = 0, entries = 0, i;
    enum err err = pass_line_end(t) ? ERR_OK : expected(t, pairs_text);

    if (!err)
        err = read_header_line(t, BOW_WORDS_MAX,
                               "the number of words (up to 2^28)", &words);
    if (!err)
        err = read_header_line(t, UINT64_MAX / 64,
                               "the number of entries (lines that follow)",
                               &entries);
    if (!err && docs > UINT32_MAX)
        err = fault_set(t->f, ERR_FORMAT,
                        "%s: line 1: expected at most 2^32 - 1 documents",
                        data_stream_name(t->s));
    if (!err) /* the entries twice, while they are sorted */
        err = data_memory_check(data_stream_name(t->s),
                                docs * 16 + entries * 20, t->limit_bytes, t->f);
    for (i = 0; i < entries && !err; i++)
        err = read_entry(t, docs, words, &e);
    while (!err && peek(t) >= 0)
        if (!pass_line_end(t))
            err = expected(t, "the end of the file behind as many entries as "
                              "its third line says");
    if (!err)
        err = t->err;
    if (!err) {
        c->docs = docs;
        c->words = (uint32_t)words;
        err = take_entries(t, c, &e);
    }
    entries_deinit(&e);
    return err;
}

static enum err read_text(struct bow_text *t, struct corpus *c)
{
    static const char first_text[] =
        "a number: of word:count pairs that follow (LDA-C) or of documents "
        "(UCI)";
    uint64_t first = 0;
    enum err err = ERR_OK;

    while (peek(t) >= 0 && pass_line_end(t))
        ;
    err = t->err ? t->err
                 : read_number(t, 0, UINT64_MAX / 64, first_text, &first);
    if (err)
        return err;
    skip_blanks(t);
    /* A document without a word is a line "0". */
    if (first == 0 || is_digit(peek(t)))
        err = read_lines(t, c, first);
    else
        err = read_docword(t, c, first);
    if (!err && c->tokens == 0)
        err = fault_set(t->f, ERR_FORMAT, "%s: no word in it",
                        data_stream_name(t->s));
    return err;
}

enum err bow_read(struct data_stream *s, uint64_t limit_bytes,
                  struct corpus *out, struct fault *f)
{
    struct bow_text *t = text_new(s, limit_bytes, f);
    struct corpus c = {0};
    enum err err;

    if (!t)
        return ERR_NOMEM;
    err = read_text(t, &c);
    mem_free(t);
    if (err) {
        corpus_deinit(&c);
        return err;
    }
    *out = c;
    return ERR_OK;
}

enum err corpus_split(struct corpus *c, double fraction, uint64_t seed,
                      struct corpus *test)
{
    struct corpus kept = {0}, made = {0};
    uint64_t below = (uint64_t)(fraction * 0x1p64);
    uint64_t d, i;
    enum err err = ERR_OK;

    assert(fraction >= 0 && fraction < 1);
    for (d = 0; d < c->docs && !err; d++) {
        struct corpus *to = rng_mix(seed, d) < below ? &made : &kept;

        err = corpus_begin_doc(to);
        for (i = c->begin[d]; i < c->begin[d + 1] && !err; i++)
            err = corpus_add(to, c->word[i], c->count[i]);
    }
    if (err) {
        corpus_deinit(&kept);
        corpus_deinit(&made);
        return err;
    }
    kept.words = made.words = c->words;
    corpus_deinit(c);
    *c = kept;
    *test = made;
    return ERR_OK;
}

/* ---- vocabulary ---------------------------------------------------------- */

void vocabulary_deinit(struct vocabulary *v)
{
    mem_free(v->text);
    mem_free(v->begin);
    memset(v, 0, sizeof(*v));
}

/* Bytes of the texts. */
static uint64_t vocabulary_bytes(const struct vocabulary *v)
{
    uint64_t last = v->words ? v->begin[v->words - 1] : 0;

    return v->words ? last + strlen(v->text + last) + 1 : 0;
}

enum err vocabulary_add(struct vocabulary *v, const char *word, size_t n)
{
    uint64_t at = vocabulary_bytes(v);

    if (mem_grow((void **)&v->text, &v->text_room, 1, at + n + 1) ||
        mem_grow((void **)&v->begin, &v->begin_room, sizeof(*v->begin),
                 v->words + (size_t)1))
        return ERR_NOMEM;
    memcpy(v->text + at, word, n);
    v->text[at + n] = '\0';
    v->begin[v->words++] = at;
    return ERR_OK;
}

/* One line without its end and the blanks before that. */
static enum err read_word(struct bow_text *t, char word[VOCABULARY_WORD_MAX],
                          size_t *n)
{
    int c = peek(t);

    for (*n = 0; c >= 0 && c != '\n'; c = peek(t)) {
        if (*n == VOCABULARY_WORD_MAX)
            return fault_set(t->f, ERR_FORMAT,
                             "%s: line %" PRIu64 ": expected a word of at most "
                             "%d bytes",
                             data_stream_name(t->s), t->line,
                             VOCABULARY_WORD_MAX);
        word[(*n)++] = (char)c;
        t->at++;
    }
    while (*n > 0 && word[*n - 1] && strchr(" \t\r", word[*n - 1]))
        --*n;
    for (size_t i = 0; i < *n && !t->err; i++)
        if ((unsigned char)word[i] < 32 || word[i] == 127)
            return fault_set(t->f, ERR_FORMAT,
                             "%s: line %" PRIu64
                             ": expected a word, found a control character",
                             data_stream_name(t->s), t->line);
    return t->err;
}

static enum err read_vocabulary(struct bow_text *t, struct vocabulary *v)
{
    char word[VOCABULARY_WORD_MAX];
    uint64_t blank = 0;
    size_t n;
    enum err err = ERR_OK;

    while (!err && peek(t) >= 0) {
        err = read_word(t, word, &n);
        if (!err && n == 0 && !blank)
            blank = t->line;
        if (!err && n > 0 && blank)
            err = fault_set(t->f, ERR_FORMAT,
                            "%s: line %" PRIu64 ": expected a word, found none",
                            data_stream_name(t->s), blank);
        if (!err && n > 0 && v->words == BOW_WORDS_MAX)
            err = fault_set(t->f, ERR_LIMIT, "%s: more than 2^28 words",
                            data_stream_name(t->s));
        if (!err && n > 0)
            err = vocabulary_add(v, word, n) ? no_memory(t) : ERR_OK;
        if (!err && vocabulary_bytes(v) > TEXT_BYTES)
            err = data_memory_check(data_stream_name(t->s),
                                    2 * vocabulary_bytes(v), t->limit_bytes,
                                    t->f);
        pass_line_end(t);
    }
    if (!err)
        err = t->err;
    if (!err && v->words == 0)
        err = fault_set(t->f, ERR_FORMAT, "%s: no word in it",
                        data_stream_name(t->s));
    return err;
}

enum err vocabulary_read(struct data_stream *s, uint64_t limit_bytes,
                         struct vocabulary *out, struct fault *f)
{
    struct bow_text *t = text_new(s, limit_bytes, f);
    struct vocabulary v = {0};
    enum err err;

    if (!t)
        return ERR_NOMEM;
    err = read_vocabulary(t, &v);
    mem_free(t);
    if (err) {
        vocabulary_deinit(&v);
        return err;
    }
    *out = v;
    return ERR_OK;
}
