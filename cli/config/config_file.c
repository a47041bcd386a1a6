#include "cli/config/config_file.h"

#include "base/host/machine_io.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/config/registry.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All of @file, at most JSON_TEXT_MAX bytes and one more. */
static char *read_all(FILE *file, size_t *len)
{
    char *text = NULL, *grown;
    size_t n = 0, got = 1;

    while (got > 0 && n <= JSON_TEXT_MAX) {
        grown = mem_realloc(text, n + 65536);
        if (!grown)
            break;
        text = grown;
        got = fread(text + n, 1, 65536, file);
        n += got;
    }
    *len = n;
    if (got > 0 && n <= JSON_TEXT_MAX) {
        mem_free(text);
        errno = ENOMEM;
        return NULL;
    }
    return text;
}

static char *read_config(const char *path, size_t *len)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    char *text;

    if (!file)
        return NULL;
    text = read_all(file, len);
    if (text && ferror(file)) {
        mem_free(text);
        text = NULL;
    }
    if (!is_stdin)
        fclose(file);
    return text;
}

/* Absolute folder of @path, or the working one for stdin. */
static bool folder_of(const char *path, char out[PATH_MAX])
{
    char copy[PATH_MAX];

    if (strlen(path) >= sizeof(copy)) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(copy, sizeof(copy), "%s", strcmp(path, "-") == 0 ? "./-" : path);
    return realpath(dirname(copy), out) != NULL;
}

/* @text[len] with an end. */
static char *copy_of(const char *text, size_t len)
{
    char *copy = mem_alloc(len + 1);

    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

/* As run_config_check; @kept (NULL: nobody wants it) becomes the text. */
static int check(const char *path, const struct option_list *sets,
                 struct run_config **out, struct problems *problems,
                 char **kept)
{
    const struct config_env env = {.registry = cli_registry(),
                                   .cores = machine_cores("")};
    char folder[PATH_MAX];
    size_t len = 0;
    char *text = read_config(path, &len);
    enum err err;

    if (!text || !folder_of(path, folder)) {
        console_error("%s: %s%s", path, strerror(errno),
                      errno == ENOENT ? " (mltune schema says what a "
                                        "configuration holds)"
                                      : "");
        mem_free(text);
        return EXIT_IO;
    }
    err = run_config_parse(&env, text, len, folder, sets, out, problems);
    if (!err && kept) {
        *kept = copy_of(text, len);
        if (!*kept) {
            run_config_free(*out);
            *out = NULL;
            err = ERR_NOMEM;
        }
    }
    mem_free(text);
    if (err == ERR_INVAL)
        return EXIT_CONFIG;
    if (err)
        console_error("%s: %s", path, err_text(err));
    return exit_code_of(err);
}

int run_config_check(const char *path, const struct option_list *sets,
                     struct run_config **out, struct problems *problems)
{
    assert(path);
    assert(out);
    assert(problems);
    return check(path, sets, out, problems, NULL);
}

static bool lacks_app(const struct problems *problems)
{
    for (size_t i = 0; i < problems->len; i++)
        if (strcmp(problems->item[i].pointer, "/app") == 0 &&
            !problems->item[i].warning)
            return true;
    return false;
}

void run_config_say(const char *path, const struct problems *problems)
{
    const char *file = strcmp(path, "-") == 0 ? "(stdin)" : path;
    char line[2048];

    assert(path);
    assert(problems);
    for (size_t i = 0; i < problems->len; i++) {
        const struct problem *p = &problems->item[i];

        problem_text(p, file, line, sizeof(line));
        if (p->warning)
            console_note("%s", line);
        else
            console_error("%s", line);
    }
    if (lacks_app(problems))
        console_note("the smallest configuration: {\"app\": {\"name\": \"mf\", "
                     "\"data\": \"ratings.dat\"}}; mltune apps lists what "
                     "trains");
    if (problems->errors > problems->recorded)
        console_error("%s: %zu errors more", file,
                      problems->errors - problems->recorded);
}

static int load(const char *path, const struct option_list *sets,
                struct run_config **out, char **text)
{
    struct problems problems = {0};
    int code = check(path, sets, out, &problems, text);

    run_config_say(path, &problems);
    problems_deinit(&problems);
    return code;
}

int run_config_load(const char *path, const struct option_list *sets,
                    struct run_config **out)
{
    assert(path);
    assert(out);
    return load(path, sets, out, NULL);
}

int run_config_load_text(const char *path, const struct option_list *sets,
                         struct run_config **out, char **text)
{
    assert(path);
    assert(out);
    assert(text);
    *text = NULL;
    return load(path, sets, out, text);
}
