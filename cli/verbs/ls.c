/* `mltune ls`: the runs of a state folder or of a server, newest first. That
 * there are none is said, and is no error. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/render.h"

/* Prints the runs as one array, each as it comes: they may be many. */
static enum err print_run(void *ctx, const char *line)
{
    size_t *printed = ctx;

    fputs((*printed)++ ? "," : "[", stdout);
    fputs(line, stdout);
    return ferror(stdout) ? ERR_CANCELED : ERR_OK; /* nobody reads it */
}

static int print_all(struct source *s)
{
    struct fault f = {0};
    size_t printed = 0;
    enum err err = source_each_line(s, print_run, &printed, &f);

    if (err == ERR_NOENT && !s->url[0] && !printed)
        err = ERR_OK; /* nothing has run there */
    if (err == ERR_CANCELED)
        return EXIT_DONE; /* which console_flush finds */
    if (printed || !err)  /* whole JSON, whatever came */
        puts(printed ? "]" : "[]");
    if (err)
        console_error("%s", f.text);
    return err ? source_exit_code(err) : EXIT_DONE;
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

static int list_there(struct source *s)
{
    struct fault f = {0};
    json_t *runs = NULL;
    enum err err = source_runs(s, &runs, &f);
    int code = tell(s, err, json_array_size(runs), &f);

    if (!err && json_array_size(runs) > 0)
        render_table(RENDER_RUNS, runs, NULL, "", stdout);
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

    if (json)
        return print_all(s);
    if (s->url[0] && !s->found)
        return list_there(s);
    err = render_runs(s, stdout, &rows, &f);
    return err && s->found ? list_there(s) : tell(s, err, rows, &f);
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
