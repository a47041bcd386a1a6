/* `mltune ls`: the runs of a state folder or of a server, newest first. That
 * there are none is said, and is no error. */
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/render.h"

static int print_json(const json_t *runs)
{
    json_t *list = json_array();
    const json_t *run;
    size_t i;
    int code;

    json_array_foreach(runs, i, run)
    {
        if (json_array_append_new(list, render_members(run)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    code = console_json(list, 0);
    json_decref(list);
    return code;
}

static void say_none(const struct source *s)
{
    printf("no runs %s %s\n", s->url[0] ? "at" : "in",
           s->url[0] ? s->url : s->state);
}

static int tell(const struct source *s, enum err err, size_t runs,
                const struct fault *f)
{
    bool none = err == ERR_NOENT && !s->url[0]; /* nothing has run there yet */

    if (err && !none) {
        console_error("%s", f->text);
        return source_exit_code(err);
    }
    if (runs == 0)
        say_none(s);
    return EXIT_DONE;
}

static int list_there(struct source *s, bool json)
{
    struct fault f = {0};
    json_t *runs = NULL;
    enum err err = source_runs(s, &runs, &f);
    int code;

    if (json && err == ERR_NOENT && !s->url[0]) { /* nothing has run there */
        runs = json_array();
        err = ERR_OK;
    }
    if (json && !err) {
        code = print_json(runs);
    } else {
        code = tell(s, err, json_array_size(runs), &f);
        if (!err && json_array_size(runs) > 0)
            render_table(RENDER_RUNS, runs, NULL, "", stdout);
    }
    json_decref(runs);
    return code;
}

/* A table of a state folder needs the index of its journal only; a service that
 * was found is asked for what the folder cannot say, and for all where the
 * folder cannot be read. */
static int list(struct source *s, bool json)
{
    struct fault f = {0};
    size_t rows = 0;
    enum err err;

    if (json || (s->url[0] && !s->found))
        return list_there(s, json);
    err = render_runs(s, stdout, &rows, &f);
    return err && s->found ? list_there(s, false) : tell(s, err, rows, &f);
}

int verb_ls(int argc, char **argv)
{
    struct source_options from = SOURCE_OPTIONS_DEFAULT;
    bool json = false;
    const struct option_spec options[] = {
        SOURCE_OPTIONS(from),
        {"json", 0, OPTION_FLAG, NULL,
         "one JSON array: the runs as over HTTP (docs/http.md), with alive and "
         "resumable",
         &json},
    };
    const struct usage usage = {
        .verb = "ls",
        .operands = "",
        .details = "",
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct source source;
    int code = source_begin(&usage, argc, argv, &from, &operands, &source);

    if (code != OPTIONS_GO_ON)
        return code;
    code = list(&source, json);
    source_close(&source);
    return code;
}
