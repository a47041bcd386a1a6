/* What holds of every configuration that was parsed, refused or accepted: for
 * the targets that parse one.
 */
#ifndef FUZZ_CONFIG_CHECK_H
#define FUZZ_CONFIG_CHECK_H

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/config/config.h"
#include "tests/fuzz/must.h"
#include "tests/fuzz/seen.h"
#ifndef FUZZ_REPLAY
#include "tests/unit/fixture/config_fixture.c" /* the target links no test helpers */
#endif
#include "tests/unit/fixture/config_fixture.h"

#include <stdlib.h>
#include <string.h>

static struct registry registry;
static struct config_schemas *schemas; /* of every input */
static struct config_env env = {.registry = &registry, .cores = 4};

static size_t lines_of(const char *text, size_t len)
{
    size_t n = 1;

    for (const char *at = text, *end = text + len;
         at && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        n++;
    return n;
}

static const char controls[] =
    "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22\23\24\25\26\27\30\31"
    "\32\33\34\35\36\37";

static void check_problem(const struct problem *p, size_t lines,
                          struct text *all)
{
    char line[2048];

    must(*p->expected);
    must(p->place.line <= lines);
    must(p->place.line > 0 || p->no_place);
    must(strlen(problem_text(p, "f", line, sizeof(line))) > 0);
    must(line[strcspn(line, controls)] == '\0');
    text_puts(all, line);
}

static void check_problems(const struct problems *ps, const char *text,
                           size_t len)
{
    static struct seen lists;
    size_t lines = lines_of(text, len);
    struct text all = {0};
    json_t *json;

    for (size_t i = 0; i < ps->len; i++)
        check_problem(&ps->item[i], lines, &all);
    if (ps->len == 0 ||
        !seen_lately(&lists, text_so_far(&all), text_length(&all), 1)) {
        json = problems_to_json(ps);
        must(json_array_size(json) == ps->len);
        json_decref(json);
    }
    text_deinit(&all);
}

/* The effective configuration, written, gives itself. */
static void check_round_trip(const struct run_config *c, const char *text)
{
    struct problems ps = {0};
    struct run_config *again;

    must(run_config_parse(&env, text, strlen(text), "/", NULL, &again, &ps) ==
         ERR_OK);
    must(ps.errors == 0);
    must(json_equal(c->effective, again->effective));
    run_config_free(again);
    problems_deinit(&ps);
}

/* Accepted: everything in it holds together, and nothing is lost. */
static void check_accepted(const struct run_config *c)
{
    static struct seen effective;
    char *text = json_write(c->effective, 0);
    struct setting x;

    must(text != NULL);
    space_default(&c->space, &x);
    must(space_check(&c->space, &x, NULL) == ERR_OK);
    must(c->workers >= 1 && c->max_epochs >= 1 && c->app && c->searcher);
    if (!seen_lately(&effective, text, strlen(text), 1))
        check_round_trip(c, text);
    mem_free(text);
}

static void prepare(void)
{
    static bool ready;

    if (ready)
        return;
    json_count_memory();
    config_fixture_fill(&registry);
    must(config_schemas_new(&registry, &schemas) == ERR_OK);
    env.schemas = schemas;
    ready = true;
}

/* Parses @text[@len] with @sets, and checks what comes of it. */
static void check_parse(const char *text, size_t len,
                        const struct option_list *sets)
{
    struct problems ps = {0};
    struct run_config *c = NULL;
    int64_t before = mem_outstanding();
    enum err err = run_config_parse(&env, text, len, "/", sets, &c, &ps);

    must(err == ERR_OK ? ps.errors == 0 : ps.errors > 0);
    check_problems(&ps, text, len);
    if (!err)
        check_accepted(c);
    run_config_free(c);
    problems_deinit(&ps);
    must(mem_outstanding() == before);
}

#endif
