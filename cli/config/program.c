#include "cli/config/program.h"

#include "base/subprocess_io.h"
#include "cli/config/plugins.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Members of the schema below; a text has the comma behind it, too. */
#define TEXT_MEMBER(name, rest, text)                                          \
    "\"" name "\": {\"type\": \"string\", \"minLength\": 1, " rest             \
    ", \"description\": \"" text "\"}, "
#define TIME_MEMBER(name, preset, text)                                        \
    "\"" name "\": {\"default\": \"" preset "\", "                             \
    "\"type\": [\"string\", \"number\"], \"format\": \"seconds\", "            \
    "\"minimum\": 0.1, \"maximum\": 1e9, \"description\": \"" text "\"}"
#define FOLDER                                                                 \
    TEXT_MEMBER("folder", "\"maxLength\": 4000, \"default\": \".\"",           \
                "where it works, from the configuration's folder")
#define NAME                                                                   \
    TEXT_MEMBER("name", "\"maxLength\": 63",                                   \
                "what it is called; train of train.py unless given")
#define HELLO_TIMEOUT                                                          \
    TIME_MEMBER("hello_timeout", "60s",                                        \
                "longest time from its start to its first message")
#define READY_TIMEOUT                                                          \
    TIME_MEMBER("ready_timeout", "10m", "longest time it may load")
#define CLOCK_TIMEOUT                                                          \
    TIME_MEMBER("clock_timeout", "10m", "longest time that a clock may take")

static const char settings_schema[] =
    "{\"required\": [\"command\"], \"additionalProperties\": false, "
    "\"properties\": {\"command\": {\"type\": \"array\", \"minItems\": 1, "
    "\"maxItems\": 60, \"items\": {\"type\": \"string\"}, \"description\": "
    "\"the program, by PATH or from the folder, and its arguments\"}, " FOLDER
        NAME "\"settings\": {\"type\": \"object\", \"default\": {}, "
    "\"description\": \"its own, as it wants them\"}, " HELLO_TIMEOUT
    ", " READY_TIMEOUT ", " CLOCK_TIMEOUT "}}";

const struct registry_entry program_entry = {
    .kind = REGISTRY_APP,
    .name = PROGRAM_ENTRY,
    .summary = "a program of your own",
    .settings = settings_schema,
    .hidden = true,
};

bool program_path(const char *folder, const char *name, char out[PATH_MAX])
{
    int n;

    assert(*folder == '/');
    while (strncmp(name, "./", 2) == 0)
        name += 2 + strspn(name + 2, "/");
    if (*name == '/')
        n = snprintf(out, PATH_MAX, "%s", name);
    else if (strcmp(name, ".") == 0 || !*name)
        n = snprintf(out, PATH_MAX, "%s", folder);
    else
        n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return n < PATH_MAX;
}

bool program_find(const char *folder, const char *name, char out[PATH_MAX])
{
    char path[PATH_MAX], here[PATH_MAX];
    struct stat st;

    assert(folder);
    assert(name);
    if (strchr(name, '/'))
        return program_path(folder, name, out) && stat(out, &st) == 0 &&
               S_ISREG(st.st_mode) && access(out, X_OK) == 0;
    /* A PATH may have folders that are not absolute: they are from here. */
    return subprocess_find(name, path, sizeof(path)) &&
           getcwd(here, sizeof(here)) && program_path(here, path, out);
}

bool program_python(char out[PATH_MAX])
{
    static const char *const place[] = {"../lib/mltune/python",
                                        "../../apps/python"};
    char folder[PATH_MAX], file[PATH_MAX];

    assert(out);
    if (!plugins_program_folder(folder))
        return false;
    for (size_t i = 0; i < sizeof(place) / sizeof(*place); i++) {
        int n = snprintf(file, sizeof(file), "%s/%s/mltune/__init__.py", folder,
                         place[i]);

        if (n >= PATH_MAX || access(file, R_OK) != 0)
            continue;
        return snprintf(out, PATH_MAX, "%s/%s", folder, place[i]) < PATH_MAX;
    }
    return false;
}
