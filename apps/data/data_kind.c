#include "apps/data/data_kind.h"

#include "apps/formats/data_cifar.h"
#include "apps/formats/data_idx.h"
#include "apps/formats/data_ratings.h"
#include "apps/formats/data_stream.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

static const struct {
    const char *name, *text;
} kinds[DATA_KIND_COUNT] = {
    [DATA_RATINGS] = {"ratings", "ratings (user, item, rating)"},
    [DATA_IDX] = {"idx", "an IDX array"},
    [DATA_LIBSVM] = {"libsvm", "libsvm lines (label index:value ...)"},
    [DATA_LDAC] = {"ldac", "LDA-C lines (count word:count ...)"},
    [DATA_DOCWORD] = {"bow", "a bag of words (UCI docword)"},
    [DATA_EDGES] = {"edges", "an edge list"},
    [DATA_CSV] = {"csv", "a table of numbers"},
    [DATA_CIFAR] = {"cifar", "CIFAR batches"},
    [DATA_TEXT] = {"text", "text"},
    [DATA_BINARY] = {"binary", "unknown binary data"},
    [DATA_EMPTY] = {"empty", "nothing (an empty file)"},
};

const char *data_kind_name(enum data_kind kind)
{
    return kinds[kind].name;
}

const char *data_kind_text(enum data_kind kind)
{
    return kinds[kind].text;
}

/* One line in tokens, told apart by their characters. */
struct data_shape {
    unsigned tokens;
    unsigned numbers; /* tokens that are a number */
    unsigned pairs;   /* tokens that are number:number */
    unsigned counts;  /* of these, with no sign, point or exponent */
    unsigned queries; /* tokens that are qid:number */
    unsigned long first;
    bool comma;
};

static const char *pass_number(const char *p, const char *end)
{
    const char *begin = p;

    while (p < end && (isdigit((unsigned char)*p) || strchr("+-.eE", *p)))
        p++;
    return p == begin || !isdigit((unsigned char)p[-1]) ? NULL : p;
}

static bool is_whole(const char *p, const char *end)
{
    while (p < end && isdigit((unsigned char)*p))
        p++;
    return p == end;
}

static void add_token(struct data_shape *shape, const char *p, const char *end)
{
    const char *q = pass_number(p, end), *begin = p;

    if (shape->tokens++ == 0) {
        for (; p < end && isdigit((unsigned char)*p); p++)
            shape->first = shape->first * 10 + (unsigned long)(*p - '0');
    }
    if (q == end)
        shape->numbers++;
    else if (q && *q == ':' && pass_number(q + 1, end) == end) {
        shape->pairs++;
        shape->counts += is_whole(begin, q) && is_whole(q + 1, end);
    } else if (end - begin > 4 && strncmp(begin, "qid:", 4) == 0)
        shape->queries++;
}

static struct data_shape line_shape(const char *p, const char *end)
{
    struct data_shape shape = {0};

    while (p < end) {
        const char *begin;

        while (p < end && strchr(" \t\r,;", *p)) {
            shape.comma |= *p == ',' || *p == ';';
            p++;
        }
        if (shape.pairs > 0 && p < end && *p == '#')
            break; /* a comment behind a sample */
        begin = p;
        while (p < end && !strchr(" \t\r,;", *p))
            p++;
        if (p > begin)
            add_token(&shape, begin, p);
    }
    return shape;
}

/* A line as libsvm has it; a comment may end it. */
static bool is_sample(const struct data_shape *shape)
{
    return shape->pairs + shape->queries > 0 && shape->numbers == 1 &&
           shape->queries <= 1 &&
           shape->pairs + shape->queries + shape->numbers == shape->tokens;
}

/* Whether libsvm's samples are an LDA-C corpus too: in each line from @p on as
 * many counts follow as its first number says. The last line may be cut off. A
 * line that is neither says nothing: its reader refuses it. */
static bool are_counted(const char *p, const char *end)
{
    while (p < end) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const char *stop = eol ? eol : end;
        struct data_shape shape = line_shape(p, stop);

        if (eol ? is_sample(&shape) && (shape.first != shape.pairs ||
                                        shape.counts != shape.pairs)
                : shape.first < shape.pairs)
            return false;
        p = eol ? eol + 1 : end;
    }
    return true;
}

static bool is_binary(const unsigned char *b, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++) {
        if (b[i] < 32 && !strchr("\t\n\r\f", b[i]))
            return true;
        if (b[i] == 0)
            return true;
    }
    return false;
}

/* Kind of a text by the first line that is neither blank nor a comment. */
static enum data_kind kind_of_text(const char *text, size_t len)
{
    const char *p = text, *end = text + len;
    bool header_passed = false;

    while (p < end) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const char *stop = eol ? eol : end;
        struct data_shape shape = line_shape(p, stop);
        const char *line = p;
        bool skip = shape.tokens == 0 || *p == '#' || *p == '%';

        p = eol ? eol + 1 : end;
        if (skip || (shape.tokens == 1 && shape.numbers == 1 &&
                     shape.first == 0)) /* LDA-C: a document without words */
            continue;
        if (is_sample(&shape))
            return are_counted(line, end) ? DATA_LDAC : DATA_LIBSVM;
        if (shape.numbers == shape.tokens && shape.tokens == 1)
            return DATA_DOCWORD;
        if (shape.numbers == shape.tokens && shape.tokens == 2 && !shape.comma)
            return DATA_EDGES;
        if (shape.numbers >= 2 && shape.numbers + 1 >= shape.tokens)
            return DATA_CSV;
        if (header_passed || !shape.comma)
            return DATA_TEXT;
        header_passed = true;
    }
    return DATA_TEXT;
}

/* Bytes without the token that was cut off at the end. */
static size_t whole_tokens(const char *text, size_t len)
{
    size_t n = len;

    while (n > 0 && !strchr(" \t\r\n,;", text[n - 1]))
        n--;
    return n ? n : len;
}

static bool names_cifar(const char *name)
{
    return strstr(name, "cifar") || strstr(name, "_batch");
}

/* Of a table with texts the content alone could be anything. */
static bool names_table(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return strstr(name, ".csv") || strstr(name, ".tsv");
}

enum data_kind data_kind_of(const char *name, const void *bytes, size_t len,
                            bool whole, unsigned *dims)
{
    enum data_kind kind;

    *dims = 0;
    if (len == 0)
        return DATA_EMPTY;
    if (idx_sniff(bytes, len, dims))
        return DATA_IDX;
    if (is_binary(bytes, len))
        return names_cifar(name) ||
                       (strstr(name, ".bin") && cifar_sniff(bytes, len))
                   ? DATA_CIFAR
                   : DATA_BINARY;
    if (ratings_sniff(bytes, len, whole))
        return DATA_RATINGS;
    kind = kind_of_text(bytes, whole ? len : whole_tokens(bytes, len));
    return kind == DATA_TEXT && names_table(name) ? DATA_CSV : kind;
}

enum err data_kind_of_file(const char *path, enum data_kind *kind,
                           unsigned *dims, struct fault *f)
{
    unsigned char bytes[DATA_SNIFF_BYTES];
    struct data_stream *s;
    size_t n;
    enum err err = data_stream_open(path, &s, f);

    if (err)
        return err;
    data_stream_glance(s);
    err = data_stream_read(s, bytes, sizeof(bytes), &n, f);
    data_stream_close(s);
    if (err)
        return err;
    *kind = data_kind_of(path, bytes, n, n < sizeof(bytes), dims);
    return ERR_OK;
}
