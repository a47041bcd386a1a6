#include "base/json/fields_pack.h"

#include "base/bytes.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_MAX = 120,   /* of a member, with those of the parts it is in */
    MEMBERS_MAX = 96, /* of a struct, its parts' with it */
    DEPTH_MAX = 3     /* of lists in lists */
};

/* The ways in which a member is written. */
enum how {
    HOW_END = 0,
    HOW_NUMBER = 'i',
    HOW_REAL = 'r',
    HOW_TEXT = 't',
    HOW_JSON = 'j',
    HOW_LIST = 'l'
};

/* What the length of JSON says instead: there is none; that of the item before.
 */
enum { JSON_NONE, JSON_SAME, JSON_LENGTH };

static enum how how_of(const struct json_field *f)
{
    switch (f->kind) {
    case FIELD_BOOL:
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_I64:
    case FIELD_ID:
    case FIELD_ID_OR_NULL:
    case FIELD_ENUM:
        return HOW_NUMBER;
    case FIELD_SECONDS:
    case FIELD_REAL:
        return HOW_REAL;
    case FIELD_TEXT:
    case FIELD_REASON:
    case FIELD_JSON:
    case FIELD_STRING:
        return HOW_TEXT;
    case FIELD_OBJECT:
    case FIELD_ARRAY:
    case FIELD_TREE:
    case FIELD_CUSTOM:
        return HOW_JSON;
    case FIELD_OBJECTS:
    case FIELD_TUPLES:
    case FIELD_COLUMNS:
        return HOW_LIST;
    case FIELD_PART:
        break;
    }
    assert(!"a part is written as its members");
    return HOW_END;
}

static const char *at_of(const struct json_field *f, const void *base)
{
    return (const char *)base + f->offset;
}

static uint32_t count_at(const struct json_field *f, const void *base)
{
    uint32_t n;

    memcpy(&n, (const char *)base + f->list->count, sizeof(n));
    return n;
}

static const char *items_at(const struct json_field *f, const void *base)
{
    const char *p = at_of(f, base);

    return f->list->owned ? *(char *const *)(const void *)p : p;
}

/* ---- writing ------------------------------------------------------------- */

void pack_number(struct text *out, uint64_t n)
{
    unsigned char bytes[10];
    size_t len = 0;

    for (; n >= 128; n >>= 7)
        bytes[len++] = (unsigned char)(n | 128);
    bytes[len++] = (unsigned char)n;
    text_add(out, (const char *)bytes, len);
}

void pack_real(struct text *out, double x)
{
    unsigned char bytes[8];
    uint64_t n;

    memcpy(&n, &x, sizeof(n));
    bytes_put64(bytes, n);
    text_add(out, (const char *)bytes, sizeof(bytes));
}

void pack_bytes(struct text *out, const void *data, size_t n)
{
    assert(out);
    if (n > 0)
        text_add(out, data, n);
}

static void plan_of(struct text *out, const struct json_field fields[],
                    const char *within)
{
    char name[NAME_MAX + 1];

    for (const struct json_field *f = fields; f->name; f++) {
        int n = snprintf(name, sizeof(name), "%s%s%s", within,
                         *within ? "." : "", f->name);

        assert(n > 0 && n <= NAME_MAX);
        if (f->kind == FIELD_PART) {
            plan_of(out, f->part, name);
            continue;
        }
        pack_number(out, how_of(f));
        pack_number(out, (uint64_t)n);
        pack_bytes(out, name, (size_t)n);
        if (how_of(f) == HOW_LIST)
            pack_plan(out, f->list->fields);
    }
}

void pack_plan(struct text *out, const struct json_field fields[])
{
    assert(out && fields);
    plan_of(out, fields, "");
    pack_number(out, HOW_END);
}

static uint64_t number_at(const struct json_field *f, const void *base)
{
    const char *p = at_of(f, base);
    uint64_t wide;
    uint32_t n;

    if (f->kind == FIELD_BOOL)
        return *(const bool *)(const void *)p;
    if (f->kind == FIELD_U64 || f->kind == FIELD_I64) {
        memcpy(&wide, p, sizeof(wide));
        return wide;
    }
    memcpy(&n, p, sizeof(n));
    return n;
}

static enum err pack_text(struct text *out, const struct json_field *f,
                          const void *base)
{
    const char *s = at_of(f, base);

    if (f->kind == FIELD_STRING)
        s = *(char *const *)(const void *)s;
    else if (!memchr(s, 0, f->max + 1))
        return ERR_INVAL;
    pack_number(out, s ? strlen(s) : 0);
    pack_bytes(out, s ? s : "", s ? strlen(s) : 0);
    return ERR_OK;
}

static json_t *json_of(const struct json_field *f, const void *base)
{
    return *(json_t *const *)(const void *)at_of(f, base);
}

static enum err pack_json_text(struct text *out, const json_t *value)
{
    char *s = value ? json_write(value, 0) : NULL;

    if (!s)
        return ERR_NOMEM;
    pack_number(out, strlen(s) + JSON_LENGTH);
    pack_bytes(out, s, strlen(s));
    mem_free(s);
    return ERR_OK;
}

static enum err pack_json(struct text *out, const struct json_field *f,
                          const void *base, const void *before)
{
    json_t *value, *last;
    enum err err;

    if (f->kind == FIELD_CUSTOM) {
        value = f->custom->to_json(at_of(f, base));
        err = pack_json_text(out, value);
        json_decref(value);
        return err;
    }
    value = json_of(f, base);
    last = before ? json_of(f, before) : NULL;
    if (!value || (last && (last == value || json_equal(last, value)))) {
        pack_number(out, value ? JSON_SAME : JSON_NONE);
        return ERR_OK;
    }
    return pack_json_text(out, value);
}

static enum err pack_list(struct text *out, const struct json_field *f,
                          const void *base)
{
    uint32_t n = count_at(f, base);
    enum err err = n > f->max ? ERR_INVAL : ERR_OK;

    pack_number(out, n);
    for (uint32_t i = 0; !err && i < n; i++)
        err = pack_fields(out, f->list->fields,
                          items_at(f, base) + i * f->list->item, NULL);
    return err;
}

static enum err pack_field(struct text *out, const struct json_field *f,
                           const void *base, const void *before)
{
    double x;

    if (f->kind == FIELD_PART)
        return pack_fields(out, f->part, at_of(f, base),
                           before ? at_of(f, before) : NULL);
    switch (how_of(f)) {
    case HOW_NUMBER:
        pack_number(out, number_at(f, base));
        return ERR_OK;
    case HOW_REAL:
        memcpy(&x, at_of(f, base), sizeof(x));
        pack_real(out, x);
        return ERR_OK;
    case HOW_TEXT:
        return pack_text(out, f, base);
    case HOW_JSON:
        return pack_json(out, f, base, before);
    case HOW_LIST:
        return pack_list(out, f, base);
    case HOW_END:
        break;
    }
    return ERR_INVAL;
}

enum err pack_fields(struct text *out, const struct json_field fields[],
                     const void *base, const void *before)
{
    enum err err = ERR_OK;

    assert(out && fields && base);
    for (const struct json_field *f = fields; !err && f->name; f++)
        err = pack_field(out, f, base, before);
    return !err && text_lost(out) ? ERR_NOMEM : err;
}

/* ---- reading ------------------------------------------------------------- */

bool unpack_number(struct packed_bytes *in, uint64_t *out)
{
    uint64_t n = 0;

    for (unsigned shift = 0; shift < 64 && in->left > 0; shift += 7) {
        unsigned char byte = *in->at;

        if (shift == 63 && byte > 1)
            return false;
        in->at++;
        in->left--;
        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out = n;
            return true;
        }
    }
    return false;
}

bool unpack_bytes(struct packed_bytes *in, size_t n, const unsigned char **out)
{
    assert(in && out);
    if (n > in->left)
        return false;
    *out = in->at;
    in->at += n;
    in->left -= n;
    return true;
}

bool unpack_real(struct packed_bytes *in, double *out)
{
    const unsigned char *bytes;
    uint64_t n;

    if (!unpack_bytes(in, 8, &bytes))
        return false;
    n = bytes_get64(bytes);
    memcpy(out, &n, sizeof(n));
    return true;
}

struct packed_member {
    enum how how;
    const struct json_field *field; /* NULL: it is passed over */
    size_t shift;             /* of the part that it is in, from the struct */
    struct packed_plan *list; /* owned: of a list's items */
};

struct packed_plan {
    size_t members;
    struct packed_member member[MEMBERS_MAX];
};

void packed_plan_free(struct packed_plan *p)
{
    for (size_t i = 0; p && i < p->members; i++)
        packed_plan_free(p->member[i].list);
    mem_free(p);
}

/* The member of that name, which may be one of a part: "limits.max_time_s". */
static const struct json_field *find(const struct json_field fields[],
                                     const char *name, size_t len,
                                     size_t *shift)
{
    for (const struct json_field *f = fields; f->name; f++) {
        size_t n = strlen(f->name);

        if (f->kind == FIELD_PART && len > n + 1 && name[n] == '.' &&
            memcmp(name, f->name, n) == 0) {
            *shift += f->offset;
            return find(f->part, name + n + 1, len - n - 1, shift);
        }
        if (f->kind != FIELD_PART && len == n && memcmp(name, f->name, n) == 0)
            return f;
    }
    return NULL;
}

static const struct json_field no_fields[] = {{.name = NULL}};

static enum err read_plan(struct packed_bytes *in,
                          const struct json_field fields[], unsigned depth,
                          struct packed_plan **out);

static enum err read_member(struct packed_bytes *in,
                            const struct json_field fields[], unsigned depth,
                            uint64_t how, struct packed_member *m)
{
    const unsigned char *name;
    uint64_t len;

    *m = (struct packed_member){.how = (enum how)how};
    if (how != HOW_NUMBER && how != HOW_REAL && how != HOW_TEXT &&
        how != HOW_JSON && how != HOW_LIST)
        return ERR_FORMAT;
    if (!unpack_number(in, &len) || len == 0 || len > NAME_MAX ||
        !unpack_bytes(in, len, &name))
        return ERR_FORMAT;
    m->field = find(fields, (const char *)name, len, &m->shift);
    if (m->field && how_of(m->field) != m->how)
        m->field = NULL;
    if (m->how != HOW_LIST)
        return ERR_OK;
    return read_plan(in, m->field ? m->field->list->fields : no_fields,
                     depth + 1, &m->list);
}

/* Whether the last member of @p is one before it, too: the second value would
 * lose what the first owns. */
static bool is_repeated(const struct packed_plan *p)
{
    const struct packed_member *last = &p->member[p->members - 1];

    for (size_t i = 0; last->field && i + 1 < p->members; i++)
        if (p->member[i].field == last->field &&
            p->member[i].shift == last->shift)
            return true;
    return false;
}

static enum err read_plan(struct packed_bytes *in,
                          const struct json_field fields[], unsigned depth,
                          struct packed_plan **out)
{
    struct packed_plan *p = NULL;
    enum err err = ERR_OK;
    uint64_t how;

    if (depth > DEPTH_MAX)
        return ERR_FORMAT;
    p = mem_calloc(1, sizeof(*p));
    if (!p)
        return ERR_NOMEM;
    while (!err) {
        if (!unpack_number(in, &how) ||
            (how != HOW_END && p->members == MEMBERS_MAX)) {
            err = ERR_FORMAT;
            break;
        }
        if (how == HOW_END)
            break;
        err = read_member(in, fields, depth, how, &p->member[p->members]);
        p->members++;
        if (!err && is_repeated(p))
            err = ERR_FORMAT;
    }
    if (err)
        packed_plan_free(p);
    else
        *out = p;
    return err;
}

enum err unpack_plan(struct packed_bytes *in, const struct json_field fields[],
                     struct packed_plan **out)
{
    assert(in && fields && out);
    return read_plan(in, fields, 0, out);
}

/* ---- values -------------------------------------------------------------- */

/* The lowest and highest of what fits is the table's; an id may be none, too.
 */
static bool number_fits(const struct json_field *f, uint64_t n)
{
    switch (f->kind) {
    case FIELD_BOOL:
        return n <= 1;
    case FIELD_ID:
    case FIELD_ID_OR_NULL:
        return n <= FIELD_NO_ID;
    case FIELD_U32:
    case FIELD_ENUM:
        return n <= f->max && n <= UINT32_MAX;
    default:
        return true;
    }
}

static enum err take_number(struct packed_bytes *in, const struct json_field *f,
                            char *to)
{
    uint64_t n;
    uint32_t narrow;

    if (!unpack_number(in, &n) || (f && !number_fits(f, n)))
        return ERR_FORMAT;
    if (!f)
        return ERR_OK;
    narrow = (uint32_t)n;
    if (f->kind == FIELD_BOOL)
        *(bool *)(void *)to = n;
    else if (f->kind == FIELD_U64 || f->kind == FIELD_I64)
        memcpy(to, &n, sizeof(n));
    else
        memcpy(to, &narrow, sizeof(narrow));
    return ERR_OK;
}

static enum err take_real(struct packed_bytes *in, const struct json_field *f,
                          char *to)
{
    double x;

    if (!unpack_real(in, &x))
        return ERR_FORMAT;
    if (f)
        memcpy(to, &x, sizeof(x));
    return ERR_OK;
}

static enum err take_text(struct packed_bytes *in, const struct json_field *f,
                          char *to)
{
    const unsigned char *s;
    char *copy;
    uint64_t n;

    if (!unpack_number(in, &n) || !unpack_bytes(in, n, &s))
        return ERR_FORMAT;
    if (!f)
        return ERR_OK;
    if (memchr(s, 0, n) || !text_bytes_are_utf8((const char *)s, n) ||
        (f->kind != FIELD_STRING && n > f->max))
        return ERR_FORMAT;
    if (f->kind != FIELD_STRING) {
        memcpy(to, s, n);
        to[n] = '\0';
        return ERR_OK;
    }
    copy = n > 0 ? mem_alloc(n + 1) : NULL;
    if (n > 0 && !copy)
        return ERR_NOMEM;
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    *(char **)(void *)to = copy;
    return ERR_OK;
}

static bool tree_fits(enum field_kind kind, const json_t *v)
{
    return (kind != FIELD_ARRAY && json_is_object(v)) ||
           (kind != FIELD_OBJECT && json_is_array(v));
}

static enum err take_json_text(const unsigned char *s, size_t n,
                               const struct json_field *f, char *to)
{
    json_t *v = NULL;
    enum err err = json_load((const char *)s, n, &v, NULL, NULL);

    if (err)
        return err == ERR_NOMEM ? err : ERR_FORMAT;
    if (f->kind == FIELD_CUSTOM) {
        err = f->custom->from_json(v, to) ? ERR_OK : ERR_FORMAT;
        json_decref(v);
        return err;
    }
    if (!tree_fits(f->kind, v)) {
        json_decref(v);
        return ERR_FORMAT;
    }
    *(json_t **)(void *)to = v;
    return ERR_OK;
}

static enum err take_json(struct packed_bytes *in, const struct json_field *f,
                          char *to, const char *before)
{
    const unsigned char *s;
    uint64_t n;

    if (!unpack_number(in, &n))
        return ERR_FORMAT;
    if (n >= JSON_LENGTH) {
        if (!unpack_bytes(in, n - JSON_LENGTH, &s))
            return ERR_FORMAT;
        return f ? take_json_text(s, n - JSON_LENGTH, f, to) : ERR_OK;
    }
    if (n == JSON_NONE || !f)
        return ERR_OK;
    if (!before || f->kind == FIELD_CUSTOM)
        return ERR_FORMAT;
    *(json_t **)(void *)to =
        json_incref(*(json_t *const *)(const void *)before);
    return ERR_OK;
}

static enum err take_list(struct packed_bytes *in,
                          const struct packed_member *m, void *base)
{
    const struct json_field *f = m->field;
    char *items = NULL, *owned = NULL;
    enum err err = ERR_OK;
    uint32_t count;
    uint64_t n;

    assert(!f || base);
    if (!unpack_number(in, &n) || n > in->left || (f && n > f->max))
        return ERR_FORMAT;
    if (f && f->list->owned && n > 0) {
        owned = mem_calloc(n, f->list->item);
        if (!owned)
            return ERR_NOMEM;
        memcpy((char *)base + f->offset, &owned, sizeof(owned));
    }
    items = owned ? owned : f ? (char *)base + f->offset : NULL;
    for (uint64_t i = 0; !err && i < n; i++)
        err = unpack_fields(in, m->list,
                            items ? items + i * f->list->item : NULL, NULL);
    count = (uint32_t)n;
    if (f && !err)
        memcpy((char *)base + f->list->count, &count, sizeof(count));
    return err;
}

static enum err take_member(struct packed_bytes *in,
                            const struct packed_member *m, char *base,
                            const char *before)
{
    const struct json_field *f = base ? m->field : NULL;
    char *to = f ? base + m->shift + f->offset : NULL;

    switch (m->how) {
    case HOW_NUMBER:
        return take_number(in, f, to);
    case HOW_REAL:
        return take_real(in, f, to);
    case HOW_TEXT:
        return take_text(in, f, to);
    case HOW_JSON:
        return take_json(in, f, to,
                         f && before ? before + m->shift + f->offset : NULL);
    case HOW_LIST: {
        struct packed_member known = *m;

        known.field = f;
        return take_list(in, &known, f ? base + m->shift : NULL);
    }
    case HOW_END:
        break;
    }
    return ERR_FORMAT;
}

enum err unpack_fields(struct packed_bytes *in, const struct packed_plan *plan,
                       void *base, const void *before)
{
    enum err err = ERR_OK;

    assert(in && plan);
    for (size_t i = 0; !err && i < plan->members; i++)
        err = take_member(in, &plan->member[i], base, before);
    return err;
}
