#include "cli/compare/contender.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "tuner/board/strategy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool is_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 0 && s[n] == '\0' && n < 64;
}

/* NULL: none of that name, which the configuration's check will say. */
static const struct strategy_ops *strategy_of(const char *name, size_t len)
{
    for (size_t i = 0; strategies_built_in[i]; i++)
        if (strlen(strategies_built_in[i]->name) == len &&
            strncmp(strategies_built_in[i]->name, name, len) == 0)
            return strategies_built_in[i];
    return NULL;
}

static bool is_sampled(const struct contender *c)
{
    const struct strategy_ops *ops =
        strategy_of(c->strategy, strlen(c->strategy));

    return ops && ops->proposer == PROPOSER_SAMPLING;
}

/* ---- reading ------------------------------------------------------------- */

/* "KEY=VALUE" into the settings; VALUE is JSON, else a text. */
static enum err read_setting(struct contender *c, char *text, struct fault *f)
{
    char *value = strchr(text, '=');
    json_t *json = NULL;
    enum err err = ERR_NOMEM;

    if (!value || value == text || !value[1])
        return fault_set(f, ERR_INVAL,
                         "\"%s\" of \"%s\": expected KEY=VALUE behind a +",
                         text, c->label);
    *value++ = '\0';
    if (!text_is_utf8(text))
        return fault_set(f, ERR_INVAL, "a key of \"%s\" is no text in UTF-8",
                         c->label);
    if (json_load(value, strlen(value), &json, NULL, NULL))
        json = json_string(value);
    if (!json && !text_is_utf8(value))
        return fault_set(f, ERR_INVAL, "a value of \"%s\" is no text in UTF-8",
                         c->label);
    if (!c->settings)
        c->settings = json_object();
    if (json && c->settings && !json_object_set(c->settings, text, json))
        err = ERR_OK;
    json_decref(json);
    return err ? fault_set(f, err, "out of memory") : ERR_OK;
}

/* A searcher that is named but would not be used is an error: two names would
 * be compared, and one thing. */
static enum err check_use(const struct contender *c, struct fault *f)
{
    const struct strategy_ops *ops =
        strategy_of(c->strategy, strlen(c->strategy));
    const char *how =
        json_string_value(json_object_get(c->settings, "sampling"));

    if (!c->searcher[0])
        return ERR_OK;
    if (ops && ops->proposer == PROPOSER_NONE)
        return fault_set(f, ERR_INVAL, "\"%s\": %s uses no searcher", c->label,
                         c->strategy);
    if (is_sampled(c) && how && strcmp(how, "random") == 0)
        return fault_set(f, ERR_INVAL,
                         "\"%s\": sampling=random uses no searcher: leave out "
                         "one of the two",
                         c->label);
    return ERR_OK;
}

static enum err read_one(const char *text, size_t len, struct contender *c,
                         struct fault *f)
{
    char copy[CONTENDER_TEXT_MAX], *plus, *colon;
    enum err err = ERR_OK;

    if (len == 0 || len >= sizeof(copy))
        return fault_set(f, ERR_INVAL,
                         "a contender of %zu characters: expected 1 to %zu",
                         len, sizeof(copy) - 1);
    memcpy(copy, text, len);
    copy[len] = '\0';
    memcpy(c->label, copy, len + 1);
    text_clean(c->label);
    for (plus = strchr(copy, '+'); plus && !err;) {
        char *next = strchr(plus + 1, '+');

        *plus = '\0';
        if (next)
            *next = '\0';
        err = read_setting(c, plus + 1, f);
        plus = next;
    }
    colon = strchr(copy, ':');
    if (colon)
        *colon = '\0';
    if (!err && (!is_name(copy) || (colon && !is_name(colon + 1))))
        err = fault_set(f, ERR_INVAL,
                        "\"%s\": expected STRATEGY[:SEARCHER][+KEY=VALUE]...",
                        c->label);
    if (err)
        return err;
    snprintf(c->strategy, sizeof(c->strategy), "%.63s", copy);
    snprintf(c->searcher, sizeof(c->searcher), "%.63s", colon ? colon + 1 : "");
    return check_use(c, f);
}

static enum err append(const char *text, size_t len, struct contenders *out,
                       struct fault *f)
{
    struct contender *c;
    enum err err;

    if (out->len == CONTENDERS_MAX)
        return fault_set(f, ERR_INVAL, "more than %d contenders",
                         CONTENDERS_MAX);
    c = &out->item[out->len++]; /* released with the list from here on */
    err = read_one(text, len, c, f);
    for (size_t i = 0; !err && i + 1 < out->len; i++)
        if (strcmp(out->item[i].label, c->label) == 0)
            err =
                fault_set(f, ERR_INVAL, "\"%s\" stands there twice", c->label);
    return err;
}

/* An entry of @len bytes, the first @name of which name the strategy, uses the
 * searcher that it is taken with. */
static bool uses_searcher(const char *text, size_t len, size_t name)
{
    static const char random[] = "+sampling=random";
    const struct strategy_ops *ops = strategy_of(text, name);

    if (!ops || ops->proposer == PROPOSER_SEARCHER)
        return true;
    if (ops->proposer == PROPOSER_NONE)
        return false;
    for (size_t i = name, n = sizeof(random) - 1; i + n <= len; i++)
        if (strncmp(text + i, random, n) == 0 &&
            (i + n == len || text[i + n] == '+'))
            return false;
    return true;
}

/* One entry, once for each searcher of the list where it has none. */
static enum err append_crossed(const char *text, size_t len,
                               const char *searchers, struct contenders *out,
                               struct fault *f)
{
    size_t name = strcspn(text, ":+,");
    bool crossed = searchers && (name >= len || text[name] != ':') &&
                   uses_searcher(text, len, name);
    enum err err = ERR_OK;

    if (!crossed)
        return append(text, len, out, f);
    if (name > len)
        name = len;
    for (const char *s = searchers; !err; s++) {
        size_t n = strcspn(s, ",");
        struct text t = {0};

        text_add(&t, text, name);
        text_puts(&t, ":");
        text_add(&t, s, n);
        text_add(&t, text + name, len - name);
        err = text_lost(&t) ? fault_set(f, ERR_NOMEM, "out of memory")
                            : append(text_so_far(&t), text_length(&t), out, f);
        text_deinit(&t);
        s += n;
        if (!*s)
            break;
    }
    return err;
}

enum err contenders_read(const char *strategies, const char *searchers,
                         struct contenders *out, struct fault *f)
{
    enum err err = ERR_OK;

    assert(strategies);
    assert(out);
    for (const char *s = strategies; !err; s++) {
        size_t n = strcspn(s, ",");

        err = append_crossed(s, n, searchers, out, f);
        s += n;
        if (!*s)
            break;
    }
    return err;
}

/* ---- what is set --------------------------------------------------------- */

/* "@path=JSON"; @value (transferred) NULL: out of memory. */
static enum err add_set(struct contender *c, const char *path, json_t *value,
                        struct fault *f)
{
    char *json = value ? json_write(value, 0) : NULL;
    struct text t = {0};

    json_decref(value);
    if (json)
        text_printf(&t, "%s=%s", path, json);
    mem_free(json);
    assert(c->sets_len < CONTENDER_SETS_MAX);
    c->set[c->sets_len] = json ? text_take(&t) : NULL;
    if (!c->set[c->sets_len])
        return fault_set(f, ERR_NOMEM, "out of memory");
    c->sets_len++;
    return ERR_OK;
}

static json_t *settings_of(const struct contender *c,
                           const struct run_config *base)
{
    bool same = strcmp(c->strategy, base->strategy->name) == 0;
    json_t *o = same ? json_copied(base->strategy_settings) : json_object();

    /* A searcher that is named is to be used. */
    if (o && ((c->searcher[0] && is_sampled(c) &&
               json_object_set_new(o, "sampling", json_string("searcher"))) ||
              (c->settings && json_object_update(o, c->settings)))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static enum err sets_of(struct contender *c, const struct run_config *base,
                        struct fault *f)
{
    enum err err = add_set(c, "/tuner/strategy", json_string(c->strategy), f);

    if (!err)
        err = add_set(c, "/tuner/strategy_settings", settings_of(c, base), f);
    /* None is to begin with what another one found, or an earlier run. */
    if (!err && (base->warm_auto || base->earlier))
        err = add_set(c, "/tuner/warm_start", json_string("none"), f);
    if (!err && c->searcher[0] &&
        strcmp(c->searcher, base->searcher ? base->searcher->name : "") != 0) {
        err = add_set(c, "/tuner/searcher", json_string(c->searcher), f);
        if (!err)
            err = add_set(c, "/tuner/searcher_settings", json_object(), f);
    }
    return err;
}

enum err contenders_sets(struct contenders *cs, const struct run_config *base,
                         struct fault *f)
{
    enum err err = ERR_OK;

    assert(base && cs->len <= CONTENDERS_MAX);
    for (size_t i = 0; i < cs->len && !err; i++)
        err = sets_of(&cs->item[i], base, f);
    return err;
}

void contenders_deinit(struct contenders *cs)
{
    for (size_t i = 0; i < cs->len; i++) {
        struct contender *c = &cs->item[i];

        json_decref(c->settings);
        for (size_t k = 0; k < c->sets_len; k++)
            mem_free(c->set[k]);
    }
    memset(cs, 0, sizeof(*cs));
}
