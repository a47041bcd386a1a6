/* What comes of a session: the result, the books, the exit code. */
#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/run/session_internal.h"
#include "cli/state/render.h"
#include "cli/state/replay.h"
#include "searchers/searcher.h"
#include "tuner/board/strategy.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- exit codes ---------------------------------------------------------- */

/* What the training system could not load is for the user to mend: the data,
 * the settings, or the memory that the job needs. */
static int load_exit_code(enum err err)
{
    switch (err) {
    case ERR_IO:
        return EXIT_IO;
    case ERR_INVAL:
    case ERR_NOENT:
    case ERR_FORMAT:
    case ERR_LIMIT:
    case ERR_VERSION:
    case ERR_UNSUPPORTED:
        return EXIT_CONFIG;
    default:
        return EXIT_RUN_FAILED;
    }
}

int session_exit_code(const struct loop_result *r)
{
    if (r->finish.status == RUN_INTERRUPTED && r->load_error)
        return load_exit_code(r->load_error);
    if (r->finish.status == RUN_INTERRUPTED &&
        strcmp(r->finish.reason, "changed") == 0)
        return EXIT_CONFIG;
    if (r->finish.status == RUN_INTERRUPTED && r->snapshot_error &&
        !r->ended_at_once)
        return EXIT_IO; /* not as clean as the other codes promise */
    if (r->finish.status == RUN_INTERRUPTED && r->own_error)
        return EXIT_IO;
    if (r->finish.status == RUN_INTERRUPTED)
        return r->signal ? EXIT_SIGNAL + r->signal : EXIT_INTERRUPTED;
    if (r->finish.status != RUN_FAILED)
        return EXIT_DONE;
    if (r->own_error)
        return r->own_error == ERR_NOMEM ? EXIT_RUN_FAILED : EXIT_IO;
    return r->load_error ? load_exit_code(r->load_error) : EXIT_RUN_FAILED;
}

/* What stopped a run that could not begin. */
static int set_up_exit_code(enum err err)
{
    switch (err) {
    case ERR_EXIST: /* --out */
        return EXIT_USAGE;
    case ERR_INVAL: /* settings of searcher or strategy, an address */
    case ERR_UNSUPPORTED:
        return EXIT_CONFIG;
    case ERR_NOMEM:
        return EXIT_RUN_FAILED;
    default:
        return EXIT_IO;
    }
}

/* The same of a run that was to go on: unknown, ended, running. */
static int resume_exit_code(enum err err)
{
    switch (err) {
    case ERR_NOENT:
    case ERR_INVAL:
    case ERR_BUSY:
        return EXIT_RUN_FAILED;
    default:
        return set_up_exit_code(err);
    }
}

int session_refusal_code(const struct session *s, enum err err)
{
    return s->o->resume ? resume_exit_code(err) : set_up_exit_code(err);
}

/* ---- the end ------------------------------------------------------------- */

/* The contract's object. A run that ended before its training system was loaded
 * has no record of what it was. */
static json_t *result_object(struct session *s)
{
    const struct tuner_options *t = s->o->tuner;
    const struct tuner_finish *finish = &s->result.finish;
    json_t *o = history_result(&s->history, s->state, s->url);
    const char *searcher = t->searcher ? t->searcher->name : "";
    int failed;

    if (!o)
        return NULL;
    if (s->history.started) /* a strategy may insist on its own */
        searcher = s->history.run.searcher;
    failed =
        json_object_set_new(o, "run", json_string(s->folder.id)) |
        json_object_set_new(o, "status",
                            json_string(run_status_name(finish->status))) |
        json_object_set_new(o, "reason", json_string(finish->reason)) |
        json_object_set_new(o, "strategy", json_string(t->strategy->name)) |
        json_object_set_new(o, "searcher", json_string(searcher)) |
        json_object_set_new(o, "seed", json_integer((json_int_t)t->seed));
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static void explain_failure(const struct session *s)
{
    console_error("run %s %s: %s", s->folder.id,
                  s->result.finish.status == RUN_FAILED ? "failed"
                                                        : "cannot go on",
                  s->result.finish.message[0] ? s->result.finish.message
                                              : s->result.finish.reason);
    session_last_words(s);
}

/* The summary that `mltune show` gives of the run. */
static void print_summary(const struct session *s)
{
    struct run_answers answers = {.run = NULL};
    struct source source;
    struct fault f = {0};
    enum err err = source_of_history(&source, s->state, s->folder.id,
                                     s->o->tuner->name, &s->history);

    if (!err) {
        err = run_answers_get_few(&source, s->folder.id, &answers, &f);
        source_close(&source);
    }
    if (err)
        console_error("%s", f.text[0] ? f.text : err_text(err));
    else
        render_summary(&answers, stdout);
    run_answers_deinit(&answers);
}

static void print_result(const struct session *s, const char *json)
{
    const struct tuner_finish *finish = &s->result.finish;

    if (finish->status == RUN_FAILED || s->result.load_error ||
        s->result.own_error || strcmp(finish->reason, "changed") == 0 ||
        strcmp(finish->reason, "restore_failed") == 0)
        explain_failure(s);
    if (s->o->json && json)
        printf("%s\n", json);
    if (s->o->json || (finish->status == RUN_FAILED && !s->history.epochs))
        return;
    printf("run       %s %s: %s\n", s->folder.id,
           run_status_name(finish->status), finish->message);
    print_summary(s);
    if (s->history.model.path[0])
        printf("next      mltune eval %s DATA\n", s->history.model.path);
    printf("%s mltune %s %s",
           s->history.model.path[0] ? "         " : "next     ",
           finish->status == RUN_INTERRUPTED ? "resume" : "show", s->folder.id);
    if (strcmp(s->o->state, STATE_DEFAULT) != 0)
        printf(" --state %s", s->o->state);
    printf("\n");
}

void session_finish(struct session *s)
{
    const struct tuner_finish *end = &s->result.finish;
    json_t *object = result_object(s);
    char *json = object ? json_write(object, 0) : NULL;
    struct fault f = {0};

    json_decref(object);
    if (journal_end_run(s->journal, run_status_name(end->status), end->reason,
                        json, clock_wall(), &f) != ERR_OK)
        log_event(LOG_ERROR, "end_not_journaled", "reason=\"%s\"", f.text);
    if (s->view)
        view_set_ready(s->view, "the run is over, the program about to end");
    api_server_stop(s->server);
    s->server = NULL;
    if (s->watching)
        progress_stop(&s->progress);
    s->watching = false;
    if (!s->result.ended_at_once)
        print_result(s, json);
    mem_free(json);
}

void session_give_up(struct session *s, const struct fault *f)
{
    if (s->watching)
        progress_stop(&s->progress);
    s->watching = false;
    console_error("%s", f->text);
    if (s->begun)
        journal_end_run(
            s->journal,
            run_status_name(s->recalled ? RUN_INTERRUPTED : RUN_FAILED),
            err_name(f->code), NULL, clock_wall(), NULL);
    else if (s->recalled || s->o->resume)
        return;
    else if (s->folder.path[0])
        folder_remove(s->folder.path, NULL);
}
