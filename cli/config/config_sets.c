/* Values of a configuration that are set from outside: --set PATH=VALUE. */
#include "base/json/json.h"
#include "base/text.h"
#include "cli/config/config_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* "stop.max_epochs" or "/stop/max_epochs", @len bytes, as a pointer. */
static bool set_pointer(const char *path, size_t len,
                        char pointer[JSON_POINTER_MAX])
{
    char token[JSON_POINTER_MAX];

    *pointer = '\0';
    if (len == 0 || len >= JSON_POINTER_MAX - 1)
        return false;
    if (*path == '/') {
        memcpy(pointer, path, len);
        pointer[len] = '\0';
        return true;
    }
    for (size_t at = 0; at <= len;) {
        size_t n = 0;

        while (at + n < len && path[at + n] != '.')
            n++;
        memcpy(token, path + at, n);
        token[n] = '\0';
        json_pointer_push(pointer, token);
        at += n + 1;
    }
    return true;
}

/* JSON where @text is, else the text itself. */
static enum err set_value(const char *text, json_t **out)
{
    enum err err = json_load(text, strlen(text), out, NULL, NULL);

    if (err == ERR_OK || err == ERR_NOMEM)
        return err;
    *out = json_string(text);
    return *out ? ERR_OK : ERR_NOMEM;
}

enum err config_set(struct config_parse *p, const char *item)
{
    const char *equals = strchr(item, '=');
    char pointer[JSON_POINTER_MAX] = "";
    struct problem *problem;
    json_t *value;
    enum err err = ERR_INVAL;

    assert(item);
    assert(p->problems);
    if (equals && text_is_utf8(item) &&
        set_pointer(item, (size_t)(equals - item), pointer)) {
        err = set_value(equals + 1, &value);
        if (!err)
            err = json_put(p->root, pointer, value);
    }
    if (err == ERR_OK || err == ERR_NOMEM)
        return err;
    problem = problems_add(p->problems, pointer, NULL,
                           "PATH=VALUE, where PATH leads through objects");
    if (problem) {
        problem->no_place = true;
        snprintf(problem->found, sizeof(problem->found), "--set %.200s",
                 text_is_utf8(item) ? item : "with bytes that are not UTF-8");
    }
    return ERR_OK;
}

void config_mark_sets(const struct option_list *sets, struct problems *problems)
{
    assert(problems);
    for (size_t i = 0; sets && i < sets->len; i++) {
        char pointer[JSON_POINTER_MAX];
        size_t path = strcspn(sets->item[i], "="), n;

        if (!set_pointer(sets->item[i], path, pointer))
            continue;
        n = strlen(pointer);
        for (size_t k = 0; k < problems->len; k++) {
            struct problem *problem = &problems->item[k];

            if (problem->no_place ||
                strncmp(problem->pointer, pointer, n) != 0 ||
                (problem->pointer[n] && problem->pointer[n] != '/'))
                continue;
            problem->no_place = true;
            if (!*problem->hint)
                snprintf(problem->hint, sizeof(problem->hint), "set by --set");
        }
    }
}
