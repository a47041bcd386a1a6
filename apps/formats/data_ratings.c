#include "apps/formats/data_ratings.h"

#include "apps/formats/data_number.h"
#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    READ_BYTES = 1 << 20, /* a block of text; far more than a line */
    FIRST_CAPACITY = 64,
    EXCERPT_MAX = 48,
};

enum separator { SEP_COLONS, SEP_TAB, SEP_COMMA, SEP_SPACES, SEP_COUNT };

static const char *const separator_name[] = {"\"::\"", "a tab", "a comma",
                                             "spaces"};

struct rating_record {
    int64_t user, item;
    float value;
};

/* Where a line went wrong. */
struct flaw {
    const char *at;
    const char *expected;
};

struct ratings_reader {
    struct ratings *r;
    struct data_stream *s;
    struct fault *f;
    uint64_t limit_bytes;
    uint64_t line;      /* number of the current line, from 1 */
    bool begun;         /* separator and columns are known */
    bool header_passed; /* the first line that holds anything is behind us */
    enum separator sep;
    bool pairs;  /* two columns will do */
    int columns; /* 2, 3 or 4 */
};

void ratings_deinit(struct ratings *r)
{
    mem_free(r->user);
    mem_free(r->item);
    mem_free(r->value);
    id_map_deinit(&r->users);
    id_map_deinit(&r->items);
    memset(r, 0, sizeof(*r));
}

static int resize(void **p, uint64_t count, size_t size)
{
    void *q = mem_realloc(*p, count * size);

    if (!q)
        return -1;
    *p = q;
    return 0;
}

enum err ratings_reserve(struct ratings *r, uint64_t count,
                         uint64_t limit_bytes, struct fault *f)
{
    enum err err;

    if (count <= r->capacity)
        return ERR_OK;
    if (count > UINT64_MAX / RATING_BYTES)
        return fault_set(f, ERR_LIMIT, "too many ratings");
    err = data_memory_check("ratings", count * RATING_BYTES, limit_bytes, f);
    if (err)
        return err;
    if (resize((void **)&r->user, count, sizeof(*r->user)) ||
        resize((void **)&r->item, count, sizeof(*r->item)) ||
        resize((void **)&r->value, count, sizeof(*r->value)))
        return fault_set(f, ERR_NOMEM, "ratings: out of memory");
    r->capacity = count;
    return ERR_OK;
}

static inline const char *pass_separator(const char *p, enum separator sep)
{
    switch (sep) {
    case SEP_COLONS:
        return p[0] == ':' && p[1] == ':' ? p + 2 : NULL;
    case SEP_TAB:
        return *p == '\t' ? p + 1 : NULL;
    case SEP_COMMA:
        return *p == ',' ? p + 1 : NULL;
    default:
        if (*p != ' ')
            return NULL;
        while (*p == ' ')
            p++;
        return p;
    }
}

/* A non-negative integer below 2^63; NULL when there is none. Every text ends
 * with a newline, which stops the loop. */
static inline const char *pass_id(const char *p, int64_t *out)
{
    uint64_t v = 0;
    const char *begin = p;

    for (; number_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (p - begin >= 18 && v > ((uint64_t)INT64_MAX - digit) / 10)
            return NULL;
        v = v * 10 + digit;
    }
    *out = (int64_t)v;
    return p == begin ? NULL : p;
}

static inline const char *flawed(struct flaw *flaw, const char *at,
                                 const char *expected)
{
    flaw->at = at;
    flaw->expected = expected;
    return NULL;
}

static inline const char *pass_end(const char *p, enum separator sep)
{
    if (sep == SEP_SPACES) {
        while (*p == ' ')
            p++;
    }
    if (*p == '\r')
        p++;
    return *p == '\n' ? p + 1 : NULL;
}

/* One line, which a newline ends. Returns the beginning of the next, or NULL
 * with the flaw. Inlined for each separator, so that the common ones cost no
 * dispatch. */
static inline __attribute__((always_inline)) const char *
parse_line(const char *p, enum separator sep, int columns,
           struct rating_record *out, struct flaw *flaw)
{
    const char *q;
    double value;

    if (sep == SEP_SPACES) {
        while (*p == ' ')
            p++;
    }
    q = pass_id(p, &out->user);
    if (!q)
        return flawed(flaw, p, "a user id (an integer from 0 to 2^63 - 1)");
    p = pass_separator(q, sep);
    if (!p)
        return flawed(flaw, q, separator_name[sep]);
    q = pass_id(p, &out->item);
    if (!q)
        return flawed(flaw, p, "an item id (an integer from 0 to 2^63 - 1)");
    out->value = 0;
    if (columns > 2) {
        p = pass_separator(q, sep);
        if (!p)
            return flawed(flaw, q, separator_name[sep]);
        q = number_pass(p, &value);
        out->value = (float)value;
        if (!q || !isfinite(out->value))
            return flawed(flaw, p, "a rating (a finite number)");
    }
    if (columns == 4) {
        p = pass_separator(q, sep);
        if (!p)
            return flawed(flaw, q, "a separator and a time stamp");
        q = number_pass(p, &value);
        if (!q)
            return flawed(flaw, p, "a time stamp (a number)");
    }
    p = pass_end(q, sep);
    if (!p)
        return flawed(flaw, q, "the end of the line");
    return p;
}

/* Printable beginning of the text at @p, at most to the end of its line. */
static const char *excerpt(const char *p, char text[EXCERPT_MAX + 4])
{
    size_t n = 0;

    while (n < EXCERPT_MAX && p[n] != '\n' && p[n] != '\r') {
        text[n] = isprint((unsigned char)p[n]) ? p[n] : '?';
        n++;
    }
    text[n] = '\0';
    if (n == EXCERPT_MAX)
        memcpy(text + n, "...", 4);
    return text;
}

static enum err line_fault(const struct ratings_reader *rd,
                           const struct flaw *flaw)
{
    char text[EXCERPT_MAX + 4];

    excerpt(flaw->at, text);
    return fault_set(
        rd->f, ERR_FORMAT, "%s: line %" PRIu64 ": expected %s, found %s%s%s",
        data_stream_name(rd->s), rd->line, flaw->expected, *text ? "\"" : "",
        *text ? text : "the end of the line", *text ? "\"" : "");
}

static bool is_blank(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r')
        p++;
    return *p == '\n';
}

static bool is_header(const char *p)
{
    while (*p == ' ' || *p == '"' || *p == '\'')
        p++;
    return isalpha((unsigned char)*p) || *p == '_';
}

/* The separator and the number of columns, from @least on, with which the line
 * at @p reads as a rating. */
static bool find_format(const char *p, int least, enum separator *sep,
                        int *columns)
{
    struct rating_record record;
    struct flaw flaw;
    int s, c;

    for (s = 0; s < SEP_COUNT; s++) {
        for (c = least; c <= 4; c++) {
            if (parse_line(p, (enum separator)s, c, &record, &flaw)) {
                *sep = (enum separator)s;
                *columns = c;
                return true;
            }
        }
    }
    return false;
}

static const char *line_end(const char *p)
{
    return (const char *)rawmemchr(p, '\n') + 1;
}

/* Passes blank lines and the header, then finds the format. *@p is where the
 * first rating starts, or @end. */
static enum err begin(struct ratings_reader *rd, const char **p,
                      const char *end)
{
    struct flaw flaw;

    while (*p < end) {
        if (!is_blank(*p)) {
            if (find_format(*p, rd->pairs ? 2 : 3, &rd->sep, &rd->columns)) {
                rd->begun = true;
                return ERR_OK;
            }
            if (rd->header_passed || !is_header(*p)) {
                flawed(&flaw, *p,
                       rd->pairs ? "user and item, and perhaps a rating and a "
                                   "time stamp, separated by tab, comma, "
                                   "\"::\" or spaces"
                                 : "user, item, rating and perhaps a time "
                                   "stamp, separated by tab, comma, \"::\" or "
                                   "spaces");
                return line_fault(rd, &flaw);
            }
            rd->header_passed = true;
        }
        *p = line_end(*p);
        rd->line++;
    }
    return ERR_OK;
}

static enum err grow(struct ratings_reader *rd)
{
    struct ratings *r = rd->r;
    uint64_t want = r->capacity ? 2 * r->capacity : FIRST_CAPACITY;
    uint64_t maps = id_map_bytes(&r->users) + id_map_bytes(&r->items);
    uint64_t limit = rd->limit_bytes > maps ? rd->limit_bytes - maps : 0;
    enum err err = ratings_reserve(r, want, limit, rd->f);

    if (err)
        fault_wrap(rd->f, "%s: line %" PRIu64, data_stream_name(rd->s),
                   rd->line);
    return err;
}

/* Number of @id. A map that is to grow asks for it each time: the limit is that
 * of both maps and the arrays. */
static enum err add_id(struct ratings_reader *rd, struct id_map *m,
                       const struct id_map *other, int64_t id, uint32_t *out)
{
    uint64_t taken;
    enum err err;

    m->room = 1;
    err = id_map_add(m, id, out);
    if (err != ERR_LIMIT || m->count == ID_NONE)
        return err;
    taken = rd->r->capacity * RATING_BYTES + id_map_bytes(other);
    m->room = rd->limit_bytes > taken ? rd->limit_bytes - taken : 1;
    return id_map_add(m, id, out);
}

static enum err id_fault(const struct ratings_reader *rd, enum err err)
{
    const struct ratings *r = rd->r;

    if (err == ERR_LIMIT && r->users.count < ID_NONE &&
        r->items.count < ID_NONE) {
        return fault_set(
            rd->f, err,
            "%s: line %" PRIu64 ": %zu users and %zu items and their %" PRIu64
            " ratings need more memory than the %.1f MiB that are left",
            data_stream_name(rd->s), rd->line, r->users.count, r->items.count,
            r->count, (double)rd->limit_bytes / 1048576);
    }
    return fault_set(rd->f, err, "%s: line %" PRIu64 ": %s",
                     data_stream_name(rd->s), rd->line,
                     err == ERR_LIMIT ? "more than 2^32 - 1 users or items"
                                      : err_text(err));
}

static inline enum err append(struct ratings_reader *rd,
                              const struct rating_record *record)
{
    struct ratings *r = rd->r;
    enum err err = ERR_OK;

    if (r->count == r->capacity) {
        err = grow(rd);
        if (err)
            return err;
    }
    err = add_id(rd, &r->users, &r->items, record->user, &r->user[r->count]);
    if (!err)
        err =
            add_id(rd, &r->items, &r->users, record->item, &r->item[r->count]);
    if (err)
        return id_fault(rd, err);
    r->value[r->count++] = record->value;
    return ERR_OK;
}

static inline __attribute__((always_inline)) enum err
parse_lines(struct ratings_reader *rd, const char *p, const char *end,
            enum separator sep, int columns)
{
    struct rating_record record;
    struct flaw flaw;
    enum err err;

    while (p < end) {
        const char *next = parse_line(p, sep, columns, &record, &flaw);

        if (next) {
            err = append(rd, &record);
            if (err)
                return err;
        } else if (is_blank(p)) {
            next = line_end(p);
        } else {
            return line_fault(rd, &flaw);
        }
        rd->line++;
        p = next;
    }
    return ERR_OK;
}

/* The text p .. end - 1: whole lines, the last one ended by a newline too. */
static enum err parse_text(struct ratings_reader *rd, const char *p,
                           const char *end)
{
    enum err err;

    if (!rd->begun) {
        err = begin(rd, &p, end);
        if (err || !rd->begun)
            return err;
    }
    switch (rd->sep) {
    case SEP_COLONS:
        return parse_lines(rd, p, end, SEP_COLONS, rd->columns);
    case SEP_TAB:
        return parse_lines(rd, p, end, SEP_TAB, rd->columns);
    case SEP_COMMA:
        return parse_lines(rd, p, end, SEP_COMMA, rd->columns);
    default:
        return parse_lines(rd, p, end, SEP_SPACES, rd->columns);
    }
}

static enum err long_line(const struct ratings_reader *rd)
{
    return fault_set(rd->f, ERR_FORMAT,
                     "%s: line %" PRIu64 ": longer than %d bytes; expected "
                     "user, item, rating",
                     data_stream_name(rd->s), rd->line, RATINGS_LINE_MAX);
}

/* Bytes of @text[len] that are whole lines. */
static size_t whole_lines(const char *text, size_t len)
{
    const char *last = memrchr(text, '\n', len);

    return last ? (size_t)(last - text) + 1 : 0;
}

/* Length of the byte order mark that some editors put first. */
static size_t mark_len(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* @block bytes of text at a time. */
static enum err read_blocks(struct ratings_reader *rd, char *text, size_t block)
{
    size_t held = 0, got, lines, mark;
    enum err err;

    do {
        err = data_stream_read(rd->s, text + held, block, &got, rd->f);
        if (err)
            return err;
        held += got;
        if (got < block && held > 0 && text[held - 1] != '\n')
            text[held++] = '\n';
        mark = rd->begun ? 0 : mark_len(text, held);
        lines = whole_lines(text, held);
        err = parse_text(rd, text + mark, text + lines);
        if (err)
            return err;
        held -= lines;
        memmove(text, text + lines, held);
        if (held > RATINGS_LINE_MAX)
            return long_line(rd);
    } while (got == block);
    return ERR_OK;
}

static enum err read_all(struct ratings *r, bool pairs, struct data_stream *s,
                         uint64_t limit_bytes, struct fault *f)
{
    struct ratings_reader rd = {.r = r,
                                .s = s,
                                .f = f,
                                .limit_bytes = limit_bytes,
                                .line = 1,
                                .pairs = pairs};
    uint64_t before = r->count;
    size_t block = data_stream_portion(s, READ_BYTES);
    char *text = mem_alloc(block + RATINGS_LINE_MAX + 2);
    enum err err;

    if (!text)
        return fault_set(f, ERR_NOMEM, "%s: out of memory",
                         data_stream_name(s));
    err = read_blocks(&rd, text, block);
    mem_free(text);
    r->users.room = r->items.room = 0;
    if (!err && r->count == before)
        err = fault_set(f, ERR_FORMAT, "%s: no rating in it",
                        data_stream_name(s));
    return err;
}

enum err ratings_read(struct ratings *r, struct data_stream *s,
                      uint64_t limit_bytes, struct fault *f)
{
    return read_all(r, false, s, limit_bytes, f);
}

enum err ratings_read_pairs(struct ratings *r, struct data_stream *s,
                            uint64_t limit_bytes, struct fault *f)
{
    return read_all(r, true, s, limit_bytes, f);
}

bool ratings_sniff(const char *text, size_t len, bool whole)
{
    char copy[RATINGS_LINE_MAX + 1];
    enum separator sep;
    const char *p = copy, *end;
    int columns, tries = 0;

    len = len < RATINGS_LINE_MAX ? len : RATINGS_LINE_MAX;
    memcpy(copy, text, len);
    if (whole && len > 0 && copy[len - 1] != '\n')
        copy[len++] = '\n';
    end = copy + whole_lines(copy, len);
    p += mark_len(copy, len);
    for (; p < end && tries < 2; p = line_end(p)) {
        if (is_blank(p))
            continue;
        if (find_format(p, 3, &sep, &columns))
            return true;
        if (tries++ > 0 || !is_header(p))
            return false;
    }
    return false;
}

enum err ratings_split(struct ratings *r, double fraction, uint64_t seed,
                       struct ratings *test)
{
    struct ratings made = {0};
    uint64_t below = (uint64_t)(fraction * 0x1p64);
    uint64_t kept = 0, count = 0, i;
    enum err err;

    assert(fraction >= 0 && fraction < 1);
    for (i = 0; i < r->count; i++)
        count += rng_mix(seed, i) < below;
    err = ratings_reserve(&made, count, UINT64_MAX, NULL);
    if (err) {
        ratings_deinit(&made);
        return err;
    }
    for (i = 0; i < r->count; i++) {
        bool out = rng_mix(seed, i) < below;
        struct ratings *to = out ? &made : r;
        uint64_t at = out ? made.count++ : kept++;

        assert(to->user && to->item && to->value);
        to->user[at] = r->user[i];
        to->item[at] = r->item[i];
        to->value[at] = r->value[i];
    }
    r->count = kept;
    *test = made;
    return ERR_OK;
}
