#include "apps/samples/csv_record.h"

#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { QUOTE = '"', FIRST_TEXT = 4096 };

enum err csv_record_init(struct csv_record *r, struct data_stream *s,
                         char separator, struct fault *f)
{
    *r = (struct csv_record){.stream = s, .separator = separator};
    r->block = mem_alloc(CSV_BLOCK_BYTES);
    if (!r->block)
        return fault_set(f, ERR_NOMEM, "%s: out of memory",
                         data_stream_name(s));
    return ERR_OK;
}

void csv_record_deinit(struct csv_record *r)
{
    mem_free(r->block);
    mem_free(r->text);
    mem_free((void *)r->field);
    memset(r, 0, sizeof(*r));
}

static enum err no_memory(const struct csv_record *r, struct fault *f)
{
    return fault_set(f, ERR_NOMEM, "%s: out of memory",
                     data_stream_name(r->stream));
}

static enum err refuse(const struct csv_record *r, size_t field,
                       const char *expected, struct fault *f)
{
    return fault_set(f, ERR_FORMAT,
                     "%s: line %" PRIu64 ", column %zu: expected %s",
                     data_stream_name(r->stream), r->line, field + 1, expected);
}

/* ---- the bytes of a record ----------------------------------------------- */

/* *@n bytes are at block_pos; none at the end. */
static enum err fill(struct csv_record *r, size_t *n, struct fault *f)
{
    if (r->block_pos == r->block_len) {
        uint64_t at = data_stream_offset(r->stream);
        enum err err = data_stream_read(r->stream, r->block, CSV_BLOCK_BYTES,
                                        &r->block_len, f);

        r->block_pos = 0;
        if (err)
            return err;
        if (at == 0 && r->block_len >= 3 &&
            memcmp(r->block, "\xef\xbb\xbf", 3) == 0)
            r->block_pos = 3;
    }
    *n = r->block_len - r->block_pos;
    return ERR_OK;
}

static enum err append(struct csv_record *r, const char *bytes, size_t n,
                       struct fault *f)
{
    if (r->len + n >= CSV_RECORD_MAX)
        return fault_set(f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected a record of less than "
                         "1 MiB, found no end of it (a quote that is not "
                         "closed?)",
                         data_stream_name(r->stream), r->line);
    if (mem_grow((void **)&r->text, &r->text_capacity, 1,
                 r->len + n + 1 < FIRST_TEXT ? FIRST_TEXT : r->len + n + 1))
        return no_memory(r, f);
    memcpy(r->text + r->len, bytes, n);
    r->len += n;
    return ERR_OK;
}

/* Length of what belongs to the record of @bytes[n]; *@ended with its line
 * break, *@quoted across calls. */
static size_t scan(struct csv_record *r, const char *bytes, size_t n,
                   bool *quoted, bool *ended)
{
    size_t i;

    for (i = 0; i < n; i++) {
        *quoted ^= bytes[i] == QUOTE;
        if (bytes[i] != '\n')
            continue;
        r->lines++;
        if (!*quoted) {
            *ended = true;
            return i + 1;
        }
    }
    return n;
}

/* One record's bytes, its line break left out. *@got: there was one. */
static enum err read_bytes(struct csv_record *r, bool *got, struct fault *f)
{
    bool quoted = false, ended = false;

    r->len = 0;
    r->line = r->lines + 1;
    *got = false;
    while (!ended) {
        size_t n, used;
        enum err err = fill(r, &n, f);

        if (err)
            return err;
        if (n == 0)
            break;
        *got = true;
        used = scan(r, r->block + r->block_pos, n, &quoted, &ended);
        err = append(r, r->block + r->block_pos, used, f);
        if (err)
            return err;
        r->block_pos += used;
    }
    if (!*got)
        return ERR_OK;
    if (memchr(r->text, '\0', r->len))
        return fault_set(f, ERR_FORMAT,
                         "%s: line %" PRIu64 ": expected text, found a NUL "
                         "byte",
                         data_stream_name(r->stream), r->line);
    while (r->len > 0 && strchr("\r\n", r->text[r->len - 1]))
        r->len--;
    r->text[r->len] = '\0';
    return ERR_OK;
}

/* ---- its fields ---------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* The first of tab, semicolon, comma that is outside quotes; else blanks. */
static char find_separator(const char *text)
{
    static const char known[] = "\t;,";
    const char *sep, *p;

    for (sep = known; *sep; sep++) {
        bool quoted = false;

        for (p = text; *p; p++) {
            quoted ^= *p == QUOTE;
            if (!quoted && *p == *sep)
                return *sep;
        }
    }
    return ' ';
}

static bool at_end(const struct csv_record *r, const char *p)
{
    return *p == '\0' || *p == r->separator ||
           (r->separator == ' ' && *p == '\t');
}

static const char *pass_blanks(const struct csv_record *r, const char *p)
{
    while (is_blank(*p) && (*p != r->separator || r->separator == ' '))
        p++;
    return p;
}

/* The quoted field whose first quote is at *@p, taken apart in place. */
static enum err take_quoted(const struct csv_record *r, char **p,
                            struct fault *f)
{
    char *from = *p + 1, *to = *p;
    char *begin = to;

    for (;; from++) {
        if (*from == '\0')
            return refuse(r, r->fields,
                          "a closing quote, found the end of the file", f);
        if (*from == QUOTE && *++from != QUOTE)
            break;
        *to++ = *from;
    }
    from += pass_blanks(r, from) - from;
    /* Blanks that separate were passed: what follows is the next field. */
    if (!at_end(r, from) && !(r->separator == ' ' && is_blank(from[-1])))
        return refuse(r, r->fields, "a separator behind the closing quote", f);
    *p = from;
    *to = '\0';
    r->field[r->fields] = begin;
    return ERR_OK;
}

static enum err take_plain(const struct csv_record *r, char **p,
                           struct fault *f)
{
    char *begin = *p, *end = begin;

    while (!at_end(r, end)) {
        if (*end == QUOTE)
            return refuse(r, r->fields,
                          "quotes around the whole field, found one inside it",
                          f);
        end++;
    }
    *p = end;
    while (end > begin && is_blank(end[-1]))
        end--;
    r->field[r->fields] = begin;
    if (end < *p)
        *end = '\0';
    return ERR_OK;
}

static enum err split(struct csv_record *r, struct fault *f)
{
    char *p = r->text;
    bool more = true;

    r->fields = 0;
    while (more) {
        char *end;
        enum err err;

        if (mem_grow((void **)&r->field, &r->field_capacity, sizeof(char *),
                     r->fields + 1))
            return no_memory(r, f);
        p += pass_blanks(r, p) - p;
        if (r->separator == ' ' && r->fields > 0 && *p == '\0')
            break;
        err = *p == QUOTE ? take_quoted(r, &p, f) : take_plain(r, &p, f);
        if (err)
            return err;
        r->fields++;
        end = p;
        more = *end != '\0';
        /* Behind a quoted field, blanks that separate are behind us. */
        if (more && at_end(r, end)) {
            *end = '\0';
            p++;
        }
    }
    return ERR_OK;
}

static bool is_all_blank(const char *text)
{
    return text[strspn(text, " \t\r")] == '\0';
}

enum err csv_record_next(struct csv_record *r, bool *got, struct fault *f)
{
    enum err err;

    do {
        err = read_bytes(r, got, f);
        if (err || !*got)
            return err;
        /* A line of tabs alone is blank too: it says nothing. */
    } while (is_all_blank(r->text));
    if (r->separator == '\0')
        r->separator = find_separator(r->text);
    err = split(r, f);
    assert(err || r->fields > 0);
    return err;
}
