#include "base/json/json.h"

#include "base/json/json_text.h"
#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* jansson forgets that memory ran out: it calls the text malformed, drops a
 * byte of a string and goes on, or asserts that the byte is there. So the
 * allocator remembers, and while a text is parsed, what it lacks comes out of a
 * reserve: enough to get to the end of the piece, after which there is no
 * other. */
enum {
    PIECE_BYTES = 256,
    BYTE_RESERVE = 160,       /* an array for each byte of a piece, */
    TOKEN_RESERVE = 24 * 1024 /* and the text of a token */
};

static _Thread_local struct {
    bool no_memory;
    char *reserve; /* NULL: nothing is parsed */
    size_t size, used;
} parsing;

/* A short text needs little: its longest token and the copies of it, doubled
 * until they fit, take less than eight times as much. */
static size_t reserve_size(size_t len)
{
    size_t piece = len < PIECE_BYTES ? len : PIECE_BYTES;
    size_t token = len < TOKEN_RESERVE / 16 ? 8 * len + 1024 : TOKEN_RESERVE;

    return piece * BYTE_RESERVE + token;
}

static void *take_reserve(size_t size)
{
    size_t rounded = (size + 15) & ~(size_t)15;
    char *p = parsing.reserve + parsing.used;

    if (!parsing.reserve || rounded > parsing.size - parsing.used)
        return NULL;
    parsing.used += rounded;
    return p;
}

static void *alloc(size_t size)
{
    void *p = mem_alloc(size);

    if (p || size == 0)
        return p;
    parsing.no_memory = true;
    return take_reserve(size);
}

static void release(void *p)
{
    uintptr_t at = (uintptr_t)p, reserve = (uintptr_t)parsing.reserve;

    if (!reserve || at < reserve || at >= reserve + parsing.size)
        mem_free(p);
}

void json_count_memory(void)
{
    json_set_alloc_funcs(alloc, release);
}

/* ---- loading ------------------------------------------------------------- */

/* Offset of the bracket that nests deeper than JSON_DEPTH_MAX, or @len. */
static size_t too_deep_at(const char *text, size_t len)
{
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (quoted) {
            if (c == '\\')
                i++;
            else
                quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_DEPTH_MAX)
                return i;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return len;
}

static enum err fail_at(const char *text, size_t offset,
                        struct json_place *place, enum err code,
                        const char *what, struct fault *f)
{
    struct json_place p = json_place_at(text, offset);

    if (place)
        *place = p;
    return fault_set(f, code, "line %u, column %u: %s", p.line, p.column, what);
}

/* The part of a text that is not parsed yet. */
struct unparsed {
    const char *text;
    size_t len;
};

/* json_load_callback_t: the next piece, or none where memory has run out. */
static size_t next_piece(void *buffer, size_t size, void *arg)
{
    struct unparsed *rest = arg;
    size_t n = size < PIECE_BYTES ? size : PIECE_BYTES;

    if (parsing.no_memory)
        return (size_t)-1;
    if (n > rest->len)
        n = rest->len;
    memcpy(buffer, rest->text, n);
    rest->text += n;
    rest->len -= n;
    return n;
}

json_t *json_parse(const char *text, size_t len, size_t flags, json_error_t *e,
                   bool *lacking)
{
    struct unparsed rest = {text, len};
    json_t *value;

    assert(text && lacking);
    assert(!parsing.reserve);
    *lacking = true;
    parsing.no_memory = false;
    parsing.used = 0;
    parsing.size = reserve_size(len);
    parsing.reserve = mem_alloc(parsing.size);
    if (!parsing.reserve)
        return NULL;
    value = json_load_callback(next_piece, &rest,
                               JSON_REJECT_DUPLICATES | flags, e);
    *lacking = parsing.no_memory || (!value && !*e->text);
    if (*lacking) {
        json_decref(value);
        value = NULL;
    }
    mem_free(parsing.reserve);
    parsing.reserve = NULL;
    return value;
}

json_t *json_known(const char *text)
{
    json_error_t e;
    bool lacking;

    return json_parse(text, strlen(text), 0, &e, &lacking);
}

enum err json_load(const char *text, size_t len, json_t **out,
                   struct json_place *place, struct fault *f)
{
    size_t deep;
    json_error_t e;
    json_t *value;
    bool lacking;

    assert(text && out);
    if (place)
        place->line = place->column = 0;
    if (len > JSON_TEXT_MAX)
        return fault_set(f, ERR_LIMIT, "%zu bytes; at most %d are read", len,
                         JSON_TEXT_MAX);
    deep = too_deep_at(text, len);
    if (deep < len)
        return fail_at(text, deep, place, ERR_FORMAT, "nested too deep", f);
    value = json_parse(text, len, JSON_DECODE_ANY, &e, &lacking);
    if (lacking)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    if (!value) {
        size_t at = e.position < 0 ? 0 : (size_t)e.position;

        return fail_at(text, at > len ? len : at, place, ERR_FORMAT, e.text, f);
    }
    *out = value;
    return ERR_OK;
}

/* ---- writing ------------------------------------------------------------- */

void json_write_number(double number, char out[JSON_NUMBER_MAX])
{
    _Static_assert(JSON_NUMBER_MAX >= TEXT_NUMBER_MAX + 2, "and a .0");
    text_number(number, out);
    if (!strpbrk(out, ".e"))
        strcpy(out + strlen(out), ".0");
}

void json_write_string(struct text *t, const char *s, size_t len)
{
    size_t plain = 0;

    text_puts(t, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool c1 = len - i >= 2 && text_is_control(s + i, 2);

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !c1)
            continue;
        text_add(t, s + plain, i - plain);
        if (c1)
            c = (unsigned char)s[++i];
        plain = i + 1;
        if (c == '\n')
            text_puts(t, "\\n");
        else if (c == '"' || c == '\\')
            text_printf(t, "\\%c", c);
        else
            text_printf(t, "\\u%04x", c);
    }
    text_add(t, s + plain, len - plain);
    text_puts(t, "\"");
}

static void new_line(struct text *t, unsigned indent, unsigned depth)
{
    if (indent > 0)
        text_printf(t, "\n%*s", (int)(indent * depth), "");
}

static void write_value(struct text *t, const json_t *v, unsigned indent,
                        unsigned depth);

static void write_object(struct text *t, const json_t *object, unsigned indent,
                         unsigned depth)
{
    /* jansson's iterator wants a mutable object but does not change it. */
    json_t *o = (json_t *)object;
    const char *key, *separator = "";
    json_t *value;

    text_puts(t, "{");
    json_object_foreach(o, key, value)
    {
        text_puts(t, separator);
        new_line(t, indent, depth + 1);
        json_write_string(t, key, strlen(key));
        text_puts(t, indent > 0 ? ": " : ":");
        write_value(t, value, indent, depth + 1);
        separator = ",";
    }
    if (*separator)
        new_line(t, indent, depth);
    text_puts(t, "}");
}

/* Arrays of plain values stay on one line: they are mostly short. */
static bool is_flat(const json_t *array)
{
    json_t *value;
    size_t i;

    json_array_foreach(array, i, value)
    {
        if (json_is_object(value) || json_is_array(value))
            return false;
    }
    return true;
}

static void write_array(struct text *t, const json_t *array, unsigned indent,
                        unsigned depth)
{
    unsigned inner = is_flat(array) ? 0 : indent;
    json_t *value;
    size_t i;

    text_puts(t, "[");
    json_array_foreach(array, i, value)
    {
        if (i > 0)
            text_puts(t, indent > 0 && inner == 0 ? ", " : ",");
        new_line(t, inner, depth + 1);
        write_value(t, value, indent, depth + 1);
    }
    if (i > 0)
        new_line(t, inner, depth);
    text_puts(t, "]");
}

static void write_value(struct text *t, const json_t *v, unsigned indent,
                        unsigned depth)
{
    char number[JSON_NUMBER_MAX];

    switch (json_typeof(v)) {
    case JSON_OBJECT:
        write_object(t, v, indent, depth);
        return;
    case JSON_ARRAY:
        write_array(t, v, indent, depth);
        return;
    case JSON_STRING:
        json_write_string(t, json_string_value(v), json_string_length(v));
        return;
    case JSON_INTEGER:
        text_printf(t, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        return;
    case JSON_REAL:
        json_write_number(json_real_value(v), number);
        text_puts(t, number);
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        text_puts(t, json_is_true(v) ? "true" : "false");
        return;
    case JSON_NULL:
        text_puts(t, "null");
        return;
    }
}

char *json_write(const json_t *value, unsigned indent)
{
    struct text t = {0};

    assert(value);
    assert(value);
    write_value(&t, value, indent, 0);
    return text_take(&t);
}

/* ---- numbers ------------------------------------------------------------- */

json_t *json_whole(json_t *value, int failed)
{
    if (!failed)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *copied_object(const json_t *value)
{
    json_t *copy = json_object(), *member;
    const char *key;
    int failed = 0;

    json_object_foreach((json_t *)value, key, member)
    {
        failed |= json_object_set_new_nocheck(copy, key, json_copied(member));
    }
    return json_whole(copy, failed);
}

static json_t *copied_array(const json_t *value)
{
    json_t *copy = json_array();
    const json_t *item;
    int failed = 0;
    size_t i;

    json_array_foreach(value, i, item)
    {
        failed |= json_array_append_new(copy, json_copied(item));
    }
    return json_whole(copy, failed);
}

json_t *json_copied(const json_t *value)
{
    return json_is_object(value)  ? copied_object(value)
           : json_is_array(value) ? copied_array(value)
                                  : json_deep_copy(value);
}

json_t *json_copied_members(const json_t *o)
{
    json_t *copy = json_copy((json_t *)o);

    return json_whole(copy, json_object_size(copy) != json_object_size(o));
}

json_t *json_of_number(double number)
{
    if (!isfinite(number)) {
        char name[TEXT_NUMBER_MAX];

        text_real(number, name);
        return json_string(name);
    }
    return json_real(number);
}

bool json_to_number(const json_t *value, double *out)
{
    static const struct {
        const char *name;
        double number;
    } names[] = {{"nan", NAN},
                 {"inf", INFINITY},
                 {"-inf", -INFINITY},
                 {"infinity", INFINITY},
                 {"-infinity", -INFINITY}};

    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    for (size_t i = 0; json_is_string(value) && i < 5; i++)
        if (strcasecmp(json_string_value(value), names[i].name) == 0) {
            *out = names[i].number;
            return true;
        }
    return false;
}

/* ---- pointers ------------------------------------------------------------ */

size_t json_pointer_push(char *pointer, const char *token)
{
    size_t before = strlen(pointer), at = before;

    assert(before < JSON_POINTER_MAX);
    assert(before == 0 || *pointer == '/');
    if (at + 1 < JSON_POINTER_MAX)
        pointer[at++] = '/';
    for (; *token; token++) {
        bool escape = *token == '~' || *token == '/';

        if (at + (escape ? 2 : 1) >= JSON_POINTER_MAX)
            break;
        if (escape)
            pointer[at++] = '~';
        pointer[at++] = *token == '~' ? '0' : *token == '/' ? '1' : *token;
    }
    pointer[at] = '\0';
    return before;
}

size_t json_pointer_push_index(char *pointer, size_t index)
{
    char token[24];

    snprintf(token, sizeof(token), "%zu", index);
    return json_pointer_push(pointer, token);
}

void json_pointer_cut(char *pointer, size_t len)
{
    assert(len <= strlen(pointer));
    pointer[len] = '\0';
}

bool json_pointer_next(const char **pointer, char token[JSON_POINTER_MAX])
{
    const char *p = *pointer;
    size_t n = 0;

    if (*p++ != '/')
        return false;
    for (; *p && *p != '/'; p++) {
        char c = *p;

        if (c == '~' && (p[1] == '0' || p[1] == '1'))
            c = *++p == '0' ? '~' : '/';
        else if (c == '~')
            return false;
        if (n + 1 >= JSON_POINTER_MAX)
            return false;
        token[n++] = c;
    }
    token[n] = '\0';
    *pointer = p;
    return true;
}

/* Array index of @token: digits, no leading zero, at most @max. */
static bool index_of(const char *token, size_t max, size_t *out)
{
    size_t n = strspn(token, "0123456789");

    if (n == 0 || n > 9 || token[n] || (token[0] == '0' && n > 1))
        return false;
    *out = (size_t)strtoul(token, NULL, 10);
    return *out <= max;
}

static json_t *child(const json_t *value, const char *token)
{
    size_t index;

    if (json_is_object(value))
        return json_object_get(value, token);
    if (!json_is_array(value) || !index_of(token, SIZE_MAX, &index))
        return NULL;
    return json_array_get(value, index);
}

json_t *json_at(const json_t *root, const char *pointer)
{
    json_t *value = (json_t *)root;
    char token[JSON_POINTER_MAX];

    assert(pointer);
    while (value && json_pointer_next(&pointer, token))
        value = child(value, token);
    return *pointer ? NULL : value;
}

const char *json_text_at(const json_t *root, const char *pointer)
{
    const char *text = json_string_value(json_at(root, pointer));

    return text ? text : "";
}

double json_number_at(const json_t *root, const char *pointer)
{
    double number;

    return json_to_number(json_at(root, pointer), &number) ? number : NAN;
}

double json_time_at(const json_t *root, const char *pointer)
{
    struct tm tm = {0};
    const char *rest =
        strptime(json_text_at(root, pointer), "%Y-%m-%dT%H:%M:%S", &tm);

    if (!rest)
        return NAN;
    return (double)timegm(&tm) + (*rest == '.' ? strtod(rest, NULL) : 0);
}

static enum err put_in_array(json_t *array, const char *token, json_t *value)
{
    size_t size = json_array_size(array), index;

    if (strcmp(token, "-") == 0) {
        index = size;
    } else if (!index_of(token, SIZE_MAX, &index)) {
        json_decref(value);
        return ERR_INVAL;
    }
    if (index > size) {
        json_decref(value);
        return ERR_NOENT;
    }
    if (index == size)
        return json_array_append_new(array, value) == 0 ? ERR_OK : ERR_NOMEM;
    return json_array_set_new(array, index, value) == 0 ? ERR_OK : ERR_NOMEM;
}

static enum err put_in(json_t *parent, const char *token, json_t *value)
{
    if (json_is_array(parent))
        return put_in_array(parent, token, value);
    if (json_is_object(parent)) {
        int failed = json_object_set_new_nocheck(parent, token, value);

        return failed ? ERR_NOMEM : ERR_OK;
    }
    json_decref(value);
    return ERR_INVAL;
}

/* The rest of @pointer, below a value that exists, as an object around @value,
 * so that it can be put in one step. NULL when out of memory. */
static json_t *wrap(const char *rest, json_t *value)
{
    char token[JSON_POINTER_MAX];
    json_t *inner, *outer;

    if (!json_pointer_next(&rest, token))
        return value;
    inner = wrap(rest, value);
    outer = inner ? json_object() : NULL;
    if (!outer) {
        json_decref(inner);
        return NULL;
    }
    if (json_object_set_new_nocheck(outer, token, inner) != 0) {
        json_decref(outer);
        return NULL;
    }
    return outer;
}

static bool is_pointer(const char *pointer)
{
    char token[JSON_POINTER_MAX];
    unsigned depth = 0;

    while (json_pointer_next(&pointer, token))
        depth++;
    return depth > 0 && depth <= JSON_DEPTH_MAX && !*pointer;
}

enum err json_put(json_t *root, const char *pointer, json_t *value)
{
    char token[JSON_POINTER_MAX];
    json_t *parent = root, *next;

    assert(text_is_utf8(pointer));
    if (!value)
        return ERR_NOMEM;
    if (!is_pointer(pointer)) {
        json_decref(value);
        return ERR_INVAL;
    }
    json_pointer_next(&pointer, token);
    while (*pointer && (next = child(parent, token))) {
        parent = next;
        json_pointer_next(&pointer, token);
    }
    value = wrap(pointer, value);
    if (!value)
        return ERR_NOMEM;
    return put_in(parent, token, value);
}

/* ---- values with units --------------------------------------------------- */

/* Decimal number at *@s, which moves behind it. */
static bool take_decimal(const char **s, double *out)
{
    size_t n = strspn(*s, "0123456789.");
    char *end;

    if (n == 0 || n > 32 || !isdigit((unsigned char)**s))
        return false;
    *out = strtod(*s, &end);
    if (end != *s + n)
        return false; /* two points, or an exponent */
    *s = end;
    return true;
}

static bool take_seconds(const char **s, int *last_unit, double *total)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"d", 86400}, {"h", 3600}, {"ms", 1e-3}, {"m", 60}, {"s", 1}};
    static const int rank[] = {0, 1, 4, 2, 3};
    double number;

    if (!take_decimal(s, &number))
        return false;
    for (int i = 0; i < 5; i++) {
        size_t n = strlen(units[i].name);

        if (strncmp(*s, units[i].name, n) != 0)
            continue;
        if (rank[i] <= *last_unit)
            return false;
        *last_unit = rank[i];
        *total += number * units[i].seconds;
        *s += n;
        return true;
    }
    return false;
}

bool json_to_seconds(const json_t *value, double *out)
{
    const char *s = json_string_value(value);
    double total = 0;
    int unit = -1;

    if (json_is_number(value)) {
        total = json_number_value(value);
    } else {
        if (!s || !*s)
            return false;
        while (*s)
            if (!take_seconds(&s, &unit, &total))
                return false;
    }
    if (!(total >= 0) || isinf(total))
        return false;
    *out = total;
    return true;
}

/* Factor of the unit @s, or 0. */
static double byte_unit(const char *s)
{
    static const char letters[] = "kmgt";
    const char *letter;
    double exponent;

    if (!*s || strcasecmp(s, "B") == 0)
        return 1;
    letter = strchr(letters, tolower((unsigned char)*s));
    if (!letter)
        return 0;
    exponent = (double)(letter - letters + 1);
    if (!s[1] || strcasecmp(s + 1, "iB") == 0)
        return pow(1024, exponent);
    return strcasecmp(s + 1, "B") == 0 ? pow(1000, exponent) : 0;
}

bool json_to_bytes(const json_t *value, uint64_t *out)
{
    const char *s = json_string_value(value);
    double number;

    if (json_is_number(value)) {
        number = json_number_value(value);
    } else {
        if (!s || !take_decimal(&s, &number))
            return false;
        s += *s == ' ';
        number *= byte_unit(s);
        if (byte_unit(s) == 0)
            return false;
    }
    if (!(number >= 0) || number > 0x1p63 - 1024)
        return false;
    *out = (uint64_t)llround(number);
    return true;
}
