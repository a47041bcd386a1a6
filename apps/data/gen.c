#include "apps/data/gen.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "gen:";

#define BOW_KEYS(docs, words, tokens, topics, alpha, beta)                       \
    {                                                                            \
        {"docs", docs, 1, 1e9, true, "number of documents"},                     \
            {"words", words, 1, 100e6, true, "words of the vocabulary"},         \
            {"tokens", tokens, 1, 10e9, true, "length of all documents"},        \
            {"topics", topics, 1, 100000, true, "topics underneath"},            \
            {"alpha", alpha, 1e-4,                                               \
             100,     false, "prior of a topic in a document"},                  \
            {"beta", beta, 1e-4, 100, false, "mean prior of a word in a topic"}, \
            {"seed", 1, 0, 0x1p53, true, "another seed, other data"},            \
    }

static const struct gen_kind kinds[] = {
    {.name = "ratings",
     .summary = "low rank plus noise, long-tailed users and items",
     .kind = DATA_RATINGS,
     .bytes = gen_ratings_bytes,
     .keys = 6,
     .key = {{"users", 2000, 1, 100e6, true, "number of users"},
             {"items", 1000, 1, 100e6, true, "number of items"},
             {"ratings", 100000, 1, 10e9, true, "number of ratings"},
             {"rank", 8, 1, 1024, true, "rank of what lies underneath"},
             {"noise", 0.5, 0, 10, false, "standard deviation of the noise"},
             {"seed", 1, 0, 0x1p53, true, "another seed, other data"}}},
    {.name = "digits",
     .summary = "rendered digits 0-9, distorted, with noise",
     .kind = DATA_IDX,
     .bytes = gen_digits_bytes,
     .keys = 5,
     .key = {{"samples", 10000, 1, 100e6, true, "training images"},
             {"size", 28, 8, 256, true, "pixels a side"},
             {"test", -1, -1, 100e6, true,
              "test images; -1 is a sixth of samples"},
             {"noise", 0.1, 0, 1, false,
              "standard deviation of the noise, of full intensity"},
             {"seed", 1, 0, 0x1p53, true, "another seed, other data"}}},
    {.name = "bow",
     .summary = "bags of words from known topics",
     .kind = DATA_DOCWORD,
     .bytes = gen_bow_bytes,
     .keys = 7,
     .key = BOW_KEYS(500, 1000, 50000, 10, 0.1, 0.05)},
    {.name = "nips",
     .summary = "bags of words of the NIPS corpus's shape",
     .kind = DATA_DOCWORD,
     .bytes = gen_bow_bytes,
     .keys = 7,
     .key = BOW_KEYS(1500, 12419, 1930000, 100, 0.03, 0.005)},
    {.name = "edges",
     .summary = "a directed graph with popular nodes",
     .kind = DATA_EDGES,
     .bytes = gen_edges_bytes,
     .keys = 3,
     .key = {{"nodes", 1000, 1, 1e9, true, "number of nodes, at most"},
             {"edges", 10000, 1, 10e9, true, "number of edges"},
             {"seed", 1, 0, 0x1p53, true, "another seed, other data"}}},
    {.name = "libsvm",
     .summary = "sparse samples from a linear model",
     .kind = DATA_LIBSVM,
     .bytes = gen_libsvm_bytes,
     .keys = 6,
     .key = {{"samples", 10000, 1, 1e9, true, "number of samples"},
             {"columns", 1000, 1, SPARSE_COLUMNS_MAX - 1, true,
              "number of columns"},
             {"entries", 20, 1, 1e6, true, "columns that a sample has, about"},
             {"classes", 2, 0, 256, true, "0: labels are numbers"},
             {"noise", 0.3, 0, 10, false, "standard deviation of the noise"},
             {"seed", 1, 0, 0x1p53, true, "another seed, other data"}}},
    {.name = "text",
     .summary = "sentences whose words have a row and a column",
     .kind = DATA_TEXT,
     .bytes = gen_text_bytes,
     .keys = 6,
     .key = {{"tokens", 200000, 1, 10e9, true, "number of words"},
             {"rows", 12, 1, 1e6, true, "rows underneath"},
             {"columns", 12, 1, 1e6, true, "columns underneath"},
             {"near", 8, 1, 1e4, true, "words that go with a row or column"},
             {"length", 10, 2, 1e4, true, "words of a sentence"},
             {"seed", 1, 0, 0x1p53, true, "another seed, other data"}}},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

bool gen_is(const char *spec)
{
    return strncmp(spec, prefix, strlen(prefix)) == 0;
}

/* "a, b, c" */
static void list_keys(const struct gen_kind *kind, char *out, size_t size)
{
    size_t i, n = 0;

    *out = '\0';
    for (i = 0; i < kind->keys && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "",
                              kind->key[i].name);
}

static enum err find_kind(const char *spec, size_t len,
                          const struct gen_kind **out, struct fault *f)
{
    const char *name = spec + strlen(prefix);
    char list[128];
    size_t i, n = 0;

    for (i = 0; i < KINDS; i++) {
        if (strlen(kinds[i].name) == len &&
            strncmp(kinds[i].name, name, len) == 0) {
            *out = &kinds[i];
            return ERR_OK;
        }
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
                              kinds[i].name);
    }
    return fault_set(f, ERR_INVAL, "%s: no generator \"%.*s\"; there are: %s",
                     spec, (int)len, name, list);
}

static enum err unknown_key(const char *spec, const struct gen_kind *kind,
                            const char *key, struct fault *f)
{
    const char *names[GEN_KEYS_MAX];
    const char *near;
    char list[160];
    size_t i;

    for (i = 0; i < kind->keys; i++)
        names[i] = kind->key[i].name;
    near = text_nearest(key, names, kind->keys);
    list_keys(kind, list, sizeof(list));
    return fault_set(f, ERR_INVAL,
                     "%s: gen:%s has no key \"%s\"%s%s%s; its keys: %s", spec,
                     kind->name, key, near ? " (did you mean \"" : "",
                     near ? near : "", near ? "\"?)" : "", list);
}

static enum err set_value(const char *spec, const struct gen_key *key,
                          const char *text, double *out, struct fault *f)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end || !isfinite(v) || v < key->min || v > key->max ||
        (key->whole && v != floor(v)))
        return fault_set(
            f, ERR_INVAL, "%s: %s: expected %s from %g to %g, found \"%s\"",
            spec, key->name, key->whole ? "an integer" : "a number", key->min,
            key->max, text);
    *out = v;
    return ERR_OK;
}

/* One "key=value" of @len bytes. */
static enum err parse_pair(const char *spec, const struct gen_kind *kind,
                           const char *pair, size_t len, double value[],
                           struct fault *f)
{
    char text[64];
    char *equals;
    size_t i;

    if (len >= sizeof(text))
        return fault_set(f, ERR_INVAL, "%s: \"%.*s\" is too long", spec,
                         (int)len, pair);
    memcpy(text, pair, len);
    text[len] = '\0';
    equals = strchr(text, '=');
    if (!equals)
        return fault_set(f, ERR_INVAL, "%s: expected key=value, found \"%s\"",
                         spec, text);
    *equals = '\0';
    for (i = 0; i < kind->keys; i++) {
        if (strcmp(kind->key[i].name, text) == 0)
            return set_value(spec, &kind->key[i], equals + 1, &value[i], f);
    }
    return unknown_key(spec, kind, text, f);
}

enum err gen_parse(const char *spec, const struct gen_kind **kind,
                   double value[GEN_KEYS_MAX], struct fault *f)
{
    const char *p = spec + strlen(prefix);
    size_t len = strcspn(p, "?");
    enum err err = find_kind(spec, len, kind, f);
    size_t i;

    if (err)
        return err;
    for (i = 0; i < (*kind)->keys; i++)
        value[i] = (*kind)->key[i].fallback;
    p += len;
    while (*p) {
        p++; /* '?' or '&' */
        len = strcspn(p, "&");
        if (len > 0) {
            err = parse_pair(spec, *kind, p, len, value, f);
            if (err)
                return err;
        }
        p += len;
    }
    return ERR_OK;
}

enum err gen_bytes(const char *spec, uint64_t *out, struct fault *f)
{
    const struct gen_kind *kind;
    double value[GEN_KEYS_MAX];
    enum err err = gen_parse(spec, &kind, value, f);

    if (!err)
        *out = kind->bytes(value);
    return err;
}
