/* Any text as the list of what `mltune compare` compares, and behind a line's
 * end the searchers that it is crossed with: refused with words that a terminal
 * may show, or strategies of a name each, no two alike, whose --set texts are
 * one assignment each. */
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/compare/contender.h"
#include "tests/fuzz/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_one(const struct contender *c)
{
    must(c->label[0] && strlen(c->label) < CONTENDER_TEXT_MAX);
    must(text_is_utf8(c->label));
    must(c->strategy[0]);
    for (size_t i = 0; i < c->sets_len; i++) {
        const char *value = strchr(c->set[i], '=');
        json_t *json = NULL;

        must(value != NULL && c->set[i][0] == '/');
        must(json_load(value + 1, strlen(value + 1), &json, NULL, NULL) ==
             ERR_OK);
        json_decref(json);
    }
}

static void check_all(struct contenders *cs)
{
    static const struct registry_entry mltuner = {.name = "mltuner"};
    static const struct registry_entry tpe = {.name = "tpe"};
    struct run_config base = {.strategy = &mltuner, .searcher = &tpe};

    must(cs->len >= 1 && cs->len <= CONTENDERS_MAX);
    base.strategy_settings = json_object();
    must(contenders_sets(cs, &base, NULL) == ERR_OK);
    json_decref((json_t *)base.strategy_settings);
    for (size_t i = 0; i < cs->len; i++) {
        check_one(&cs->item[i]);
        for (size_t k = 0; k < i; k++)
            must(strcmp(cs->item[i].label, cs->item[k].label) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct contenders cs; /* large */
    struct fault f = {0};
    char *text, *searchers;
    int64_t before;
    enum err err;

    json_count_memory();
    before = mem_outstanding();
    text = mem_alloc(size + 1);
    must(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    searchers = strchr(text, '\n');
    if (searchers)
        *searchers++ = '\0';
    err = contenders_read(text, searchers, &cs, &f);
    if (err)
        must(err == ERR_INVAL && f.code == err && f.text[0]);
    else
        check_all(&cs);
    contenders_deinit(&cs);
    mem_free(text);
    must(mem_outstanding() == before);
    return 0;
}
