/* Any bytes as a configuration that is posted to a service: refused with every
 * fault, or taken by its rules: no program, no more than its share, and no file
 * beyond the data folder. */
#include "apps/data/gen.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/service/intake.h"
#include "tests/fuzz/must.h"
#ifndef FUZZ_REPLAY
#include "tests/unit/fixture/config_fixture.c" /* the target links no test helpers */
#endif
#include "tests/unit/fixture/config_fixture.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char intake_folder[PATH_MAX]; /* has data/ and a file beside it */
static char intake_data[PATH_MAX];
static struct registry intake_registry;
static struct intake in = {.registry = &intake_registry,
                           .data = intake_data,
                           .workers = 2,
                           .workers_max = 4,
                           .memory = 1 << 20,
                           .memory_max = 4 << 20};

static const char *const files[] = {"data/here.csv", "data/more/a.csv",
                                    "beside.csv"};
static const char *const folders[] = {"data", "data/more"};

static void at(const char *name, char path[PATH_MAX])
{
    must(snprintf(path, PATH_MAX, "%s/%s", intake_folder, name) < PATH_MAX);
}

static void forget(void)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        at(files[i], path);
        unlink(path);
    }
    for (size_t i = sizeof(folders) / sizeof(folders[0]); i > 0; i--) {
        at(folders[i - 1], path);
        rmdir(path);
    }
    rmdir(intake_folder);
}

/* Made once; its folder stays as it is. */
static void prepare(void)
{
    char made[] = "/tmp/fuzz_intake-XXXXXX", path[PATH_MAX];
    struct config_schemas *schemas;
    int fd;

    if (intake_folder[0])
        return;
    json_count_memory();
    must(mkdtemp(made) && realpath(made, intake_folder));
    atexit(forget);
    at("data", intake_data);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        at(folders[i], path);
        must(mkdir(path, 0700) == 0);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        at(files[i], path);
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        must(fd >= 0 && write(fd, "1,2\n", 4) == 4);
        close(fd);
    }
    config_fixture_fill(&intake_registry);
    must(config_schemas_new(&intake_registry, &schemas) == ERR_OK);
    in.schemas = schemas;
}

static bool is_inside(const char *path)
{
    size_t n = strlen(intake_data);
    char real[PATH_MAX];

    return !realpath(path, real) ||
           (strncmp(real, intake_data, n) == 0 && (!real[n] || real[n] == '/'));
}

/* Whether a part of @path is "..". */
static bool goes_up(const char *path)
{
    const char *up = strstr(path, "..");

    for (; up; up = strstr(up + 1, ".."))
        if ((up == path || up[-1] == '/') && (!up[2] || up[2] == '/'))
            return true;
    return false;
}

/* What @name is, and what it stands for as a pattern, lies in the data folder.
 * A wildcard that stands for ".." here does not for the service
 * (apps/data/data_path.h). */
static void check_path(const char *name)
{
    char path[PATH_MAX];
    glob_t found = {0};
    int n = *name == '/'
                ? snprintf(path, sizeof(path), "%s", name)
                : snprintf(path, sizeof(path), "%s/%s", intake_data, name);

    must(n < PATH_MAX);
    must(is_inside(path));
    if (glob(path, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            must(is_inside(found.gl_pathv[i]) ||
                 (goes_up(found.gl_pathv[i]) && !goes_up(name)));
    globfree(&found);
}

static void check_taken(const struct run_config *c)
{
    static const char *const names[] = {"/app/data", "/app/test", "/app/vocab"};

    must(intake_allows(&in, c->effective));
    must(!config_is_program(c) && !c->plugin && !c->searcher_own);
    must(c->workers >= 1 && c->workers <= in.workers_max);
    must(c->memory_limit > 0 && c->memory_limit <= in.memory_max);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *name = json_string_value(json_at(c->effective, names[i]));

        if (name && !gen_is(name))
            check_path(name);
    }
}

static void check_refused(enum err err, const struct problems *problems)
{
    struct response r = {0};
    json_t *body;

    must(problems_errors(problems) > 0);
    intake_refuse(err, problems, &r);
    must(r.status == (err == ERR_UNSUPPORTED ? 403 : 422));
    body = json_loadb(r.body, r.len, JSON_REJECT_DUPLICATES, NULL);
    must(json_array_size(json_object_get(body, "errors")) > 0);
    json_decref(body);
    response_deinit(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problems problems = {0};
    struct run_config *c = NULL;
    int64_t before;
    enum err err;

    prepare();
    before = mem_outstanding();
    err = intake_parse(&in, (const char *)data, size, &c, &problems);
    if (err == ERR_OK)
        check_taken(c);
    else if (err == ERR_INVAL || err == ERR_UNSUPPORTED)
        check_refused(err, &problems);
    else /* no JSON: the server has refused it before */
        must(err == ERR_FORMAT || err == ERR_LIMIT);
    run_config_free(c);
    problems_deinit(&problems);
    must(mem_outstanding() == before);
    return 0;
}
