#include "base/json/fields_digest.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* FNV-1a, of words; the shift lets high bits of a word act on low ones. */
static void mix(uint64_t *hash, uint64_t word)
{
    *hash = (*hash ^ word) * UINT64_C(1099511628211);
    *hash ^= *hash >> 29;
}

/* All that is no number is one, and 0 is -0. */
static void mix_real(uint64_t *hash, double x)
{
    uint64_t word = 1;

    x = x == 0 ? 0 : x;
    if (!isnan(x))
        memcpy(&word, &x, sizeof(word));
    mix(hash, word);
}

static void mix_text(uint64_t *hash, const char *s)
{
    size_t n = strlen(s);

    mix(hash, n);
    for (size_t i = 0; i < n; i++)
        mix(hash, (unsigned char)s[i]);
}

static void mix_fields(uint64_t *hash, const struct json_field fields[],
                       const void *base);

static void mix_list(uint64_t *hash, const struct json_field *f,
                     const void *base)
{
    const struct field_list *list = f->list;
    const char *items = (const char *)base + f->offset;
    uint32_t n = *(const uint32_t *)((const char *)base + list->count);

    if (list->owned)
        items = *(const char *const *)items;
    n = items ? n : 0;
    mix(hash, n);
    for (uint32_t i = 0; i < n; i++)
        mix_fields(hash, list->fields, items + i * list->item);
}

static void mix_fields(uint64_t *hash, const struct json_field fields[],
                       const void *base)
{
    for (const struct json_field *f = fields; f->name; f++) {
        const void *p = (const char *)base + f->offset;

        switch (f->kind) {
        case FIELD_BOOL:
            mix(hash, *(const bool *)p);
            break;
        case FIELD_U32:
        case FIELD_ID:
        case FIELD_ID_OR_NULL:
        case FIELD_ENUM:
            mix(hash, *(const uint32_t *)p);
            break;
        case FIELD_U64:
        case FIELD_I64:
            mix(hash, *(const uint64_t *)p);
            break;
        case FIELD_SECONDS:
        case FIELD_REAL:
            mix_real(hash, *(const double *)p);
            break;
        case FIELD_TEXT:
        case FIELD_REASON:
        case FIELD_JSON:
            mix_text(hash, p);
            break;
        case FIELD_OBJECTS:
        case FIELD_TUPLES:
        case FIELD_COLUMNS:
            mix_list(hash, f, base);
            break;
        case FIELD_PART:
            mix_fields(hash, f->part, p);
            break;
        case FIELD_STRING:
        case FIELD_OBJECT:
        case FIELD_ARRAY:
        case FIELD_TREE:
        case FIELD_CUSTOM:
            assert(!"a member that has a digest");
            break;
        }
    }
}

uint64_t fields_digest(const struct json_field fields[], const void *base)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    assert(fields && base);
    mix_fields(&hash, fields, base);
    return hash;
}
