#include "api/http/tokens.h"

#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

/* VERSION_LIMITS: of a text in which a token has a limit. */
enum { HASH_BYTES = TOKENS_HASH_LEN / 2, VERSION = 1, VERSION_LIMITS };

static const char name_first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789";
static const char name_more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789._@-";

void tokens_deinit(struct named_tokens *t)
{
    mem_free(t->item);
    *t = (struct named_tokens){.len = 0};
}

bool token_name_valid(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= TOKENS_NAME_MAX && strchr(name_first, name[0]) &&
           strspn(name, name_more) == n;
}

bool token_hash(const char *secret, size_t len, char out[TOKENS_HASH_LEN + 1])
{
    unsigned char bytes[HASH_BYTES];

    assert(secret || len == 0);
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, secret, len, bytes) != 0)
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return true;
}

/* ---- text ---------------------------------------------------------------- */

static enum err wrong(struct fault *f, size_t i, const char *member,
                      const char *expected)
{
    return fault_set(f, ERR_FORMAT, "/tokens/%zu%s%s: expected %s", i,
                     *member ? "/" : "", member, expected);
}

/* The text @name of @o, which has 1 to @max characters; NULL: it has not. */
static const char *text_of(const json_t *o, const char *name, size_t max)
{
    const json_t *value = json_object_get(o, name);
    size_t n = json_string_length(value);
    const char *text = json_string_value(value);

    return text && n > 0 && n <= max && strlen(text) == n ? text : NULL;
}

/* @o may have a limit. */
static enum err parse_limit(const json_t *o, size_t i, struct named_token *out,
                            struct fault *f)
{
    const json_t *limit = json_object_get(o, "upload_limit");
    json_int_t bytes = json_integer_value(limit);

    if (!limit)
        return ERR_OK;
    if (!json_is_integer(limit) || bytes < 0 ||
        (uint64_t)bytes > TOKENS_UPLOAD_MAX)
        return wrong(f, i, "upload_limit", "a whole number of bytes");
    out->upload_limited = true;
    out->upload_max = (uint64_t)bytes;
    return ERR_OK;
}

static enum err parse_token(const json_t *o, size_t i, struct named_token *out,
                            struct fault *f)
{
    bool limited = json_object_get(o, "upload_limit") != NULL;
    const char *name = text_of(o, "name", TOKENS_NAME_MAX);
    const char *role = text_of(o, "role", 16);
    const char *made = text_of(o, "made", TOKENS_MADE_MAX);
    const char *hash = text_of(o, "sha256", TOKENS_HASH_LEN);

    *out = (struct named_token){.role = role ? role_of_name(role) : ROLE_UNSET};
    if (json_object_size(o) != (limited ? 5 : 4))
        return wrong(f, i, "", "an object of name, role, made and sha256");
    if (!name || !token_name_valid(name))
        return wrong(f, i, "name", "1 to 64 of A-Z a-z 0-9 . _ @ -");
    if (out->role == ROLE_UNSET)
        return wrong(f, i, "role", ROLE_NAMES);
    if (!made || strspn(made, "0123456789-:.TZ") != strlen(made))
        return wrong(f, i, "made", "a time as 2026-11-23T20:40:00Z");
    if (!hash || strspn(hash, "0123456789abcdef") != TOKENS_HASH_LEN)
        return wrong(f, i, "sha256", "64 hexadecimal digits");
    memcpy(out->name, name, strlen(name) + 1);
    memcpy(out->made, made, strlen(made) + 1);
    memcpy(out->hash, hash, strlen(hash) + 1);
    return parse_limit(o, i, out, f);
}

static enum err parse_all(const json_t *array, struct named_tokens *out,
                          struct fault *f)
{
    size_t n = json_array_size(array);
    enum err err = ERR_OK;

    for (size_t i = 0; i < n && !err; i++) {
        struct named_token token;

        err = parse_token(json_array_get(array, i), i, &token, f);
        if (!err)
            err = tokens_put(out, &token);
        if (err == ERR_EXIST)
            err = wrong(f, i, "name", "a name that comes once");
        else if (err == ERR_LIMIT)
            err = fault_set(f, ERR_FORMAT, "/tokens: expected at most %d",
                            TOKENS_MAX);
        else if (err == ERR_NOMEM)
            fault_set(f, err, "%s", err_text(err));
    }
    return err;
}

enum err tokens_parse(const char *text, size_t len, struct named_tokens *out,
                      struct fault *f)
{
    struct named_tokens t = {.len = 0};
    json_t *root = NULL;
    const json_t *version, *array;
    enum err err;

    assert(text || len == 0);
    if (len > TOKENS_TEXT_MAX)
        return fault_set(f, ERR_FORMAT, "expected at most %d bytes",
                         TOKENS_TEXT_MAX);
    err = json_load(text, len, &root, NULL, f);
    if (err)
        return err;
    version = json_object_get(root, "version");
    array = json_object_get(root, "tokens");
    if (json_integer_value(version) > VERSION_LIMITS)
        err = fault_set(f, ERR_VERSION,
                        "/version: a later mltune wrote it; this one knows %d",
                        VERSION_LIMITS);
    else if (json_integer_value(version) < VERSION ||
             json_object_size(root) != 2 || !json_is_array(array))
        err = fault_set(f, ERR_FORMAT,
                        "expected an object of version %d and tokens", VERSION);
    else
        err = parse_all(array, &t, f);
    json_decref(root);
    if (err)
        tokens_deinit(&t);
    else
        *out = t;
    return err;
}

char *tokens_print(const struct named_tokens *t)
{
    json_t *array = json_array(), *root;
    int version = VERSION;
    char *text;

    for (size_t i = 0; array && i < t->len; i++) {
        const struct named_token *k = &t->item[i];
        json_t *o =
            json_pack("{s:s, s:s, s:s, s:s}", "name", k->name, "role",
                      role_name(k->role), "made", k->made, "sha256", k->hash);
        int failed = 0;

        if (k->upload_limited) {
            version = VERSION_LIMITS;
            failed = json_object_set_new(
                o, "upload_limit", json_integer((json_int_t)k->upload_max));
        }
        if (json_array_append_new(array, o) != 0 || failed) {
            json_decref(array);
            array = NULL;
        }
    }
    root = json_pack("{s:i, s:o}", "version", version, "tokens", array);
    text = root ? json_write(root, 2) : NULL;
    json_decref(root);
    return text;
}

/* ---- list ---------------------------------------------------------------- */

const struct named_token *tokens_find(const struct named_tokens *t,
                                      const char *secret, size_t len)
{
    const struct named_token *found = NULL;
    char hash[TOKENS_HASH_LEN + 1];

    if (t->len == 0 || !token_hash(secret, len, hash))
        return NULL;
    for (size_t i = 0; i < t->len; i++) /* in constant time each */
        if (gnutls_memcmp(hash, t->item[i].hash, TOKENS_HASH_LEN) == 0)
            found = &t->item[i];
    return found;
}

/* Of the hash, whose first digits are as random as the rest. */
uint64_t token_number(const struct named_token *token)
{
    char digits[17];
    uint64_t number;

    snprintf(digits, sizeof(digits), "%.16s", token->hash);
    number = strtoull(digits, NULL, 16);
    return number ? number : 1;
}

bool tokens_has(const struct named_tokens *t, uint64_t number)
{
    bool found = false;

    assert(number);
    for (size_t i = 0; i < t->len && !found; i++)
        found = token_number(&t->item[i]) == number;
    return found;
}

const struct named_token *tokens_named(const struct named_tokens *t,
                                       const char *name)
{
    assert(name);
    for (size_t i = 0; i < t->len; i++)
        if (strcmp(t->item[i].name, name) == 0)
            return &t->item[i];
    return NULL;
}

enum err tokens_put(struct named_tokens *t, const struct named_token *token)
{
    void *items = t->item;

    assert(token_name_valid(token->name));
    assert(token->role >= ROLE_READ && token->role <= ROLE_ADMIN);
    if (tokens_named(t, token->name))
        return ERR_EXIST;
    if (t->len >= TOKENS_MAX)
        return ERR_LIMIT;
    if (mem_grow(&items, &t->capacity, sizeof(*t->item), t->len + 1) != 0)
        return ERR_NOMEM;
    t->item = items;
    t->item[t->len++] = *token;
    return ERR_OK;
}

bool tokens_remove(struct named_tokens *t, const char *name)
{
    const struct named_token *found = tokens_named(t, name);
    size_t i;

    if (!found)
        return false;
    i = (size_t)(found - t->item);
    memmove(&t->item[i], &t->item[i + 1], (t->len - i - 1) * sizeof(*t->item));
    t->len--;
    return true;
}
