/* Any bytes as the file of named tokens: refused with what is wrong, or what is
 * read is written and read again the same; every name, role and hash is one
 * that a token may have, no secret that was guessed is found, and each token
 * can be taken out. */
#include "api/http/tokens.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct named_tokens *a, const struct named_tokens *b)
{
    for (size_t i = 0; i < a->len && i < b->len; i++)
        if (strcmp(a->item[i].name, b->item[i].name) != 0 ||
            strcmp(a->item[i].made, b->item[i].made) != 0 ||
            strcmp(a->item[i].hash, b->item[i].hash) != 0 ||
            a->item[i].role != b->item[i].role ||
            a->item[i].upload_limited != b->item[i].upload_limited ||
            a->item[i].upload_max != b->item[i].upload_max)
            return false;
    return a->len == b->len;
}

static void use(struct named_tokens *t)
{
    must(t->len <= TOKENS_MAX);
    must(!tokens_find(t, "guessed", 7));
    for (size_t i = 0; i < t->len; i++) {
        const struct named_token *k = &t->item[i];

        must(token_name_valid(k->name));
        must(k->role >= ROLE_READ && k->role <= ROLE_ADMIN);
        must(strlen(k->hash) == TOKENS_HASH_LEN);
        must(k->upload_max <= TOKENS_UPLOAD_MAX);
        must(tokens_named(t, k->name) == k);
        must(tokens_has(t, token_number(k)));
    }
    while (t->len > 0) {
        char name[TOKENS_NAME_MAX + 1];

        strcpy(name, t->item[t->len / 2].name);
        must(tokens_remove(t, name));
        must(!tokens_named(t, name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct named_tokens t = {.len = 0}, again = {.len = 0};
    struct fault f = {0};
    enum err err = tokens_parse((const char *)data, size, &t, &f);
    char *text;

    if (err) {
        must(f.code == err && f.text[0] && t.len == 0 && !t.item);
        return 0;
    }
    text = tokens_print(&t);
    must(text != NULL);
    must(tokens_parse(text, strlen(text), &again, &f) == ERR_OK);
    must(same(&t, &again));
    mem_free(text);
    use(&again);
    tokens_deinit(&t);
    tokens_deinit(&again);
    return 0;
}
