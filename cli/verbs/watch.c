/* `mltune watch [RUN]`: the run as the dashboard shows it, in a terminal; a
 * line an event where there is none. */
#include "cli/watch/watch.h"

#include "base/deadlines.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/progress.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"
#include "cli/state/render.h"
#include "cli/watch/canvas.h"
#include "cli/watch/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_S = 60 }; /* of who reads lines; on a screen a user decides */

struct watch_arguments {
    const char *state, *server, *run;
    bool json, lines;
    struct option_uint wait;
};

struct watching {
    struct watch watch;
    bool json, screen;
    struct history history; /* of the events so far */
    bool torn;              /* some were not kept, or do not fit */
};

/* ---- lines --------------------------------------------------------------- */

static enum err print_harmless(const char *text, bool ascii, FILE *to)
{
    struct text line = {0};
    enum err err = ERR_OK;

    canvas_harmless(text, ascii, &line);
    if (text_lost(&line))
        err = ERR_NOMEM;
    else
        fprintf(to, "%s\n", line.s ? line.s : "");
    text_deinit(&line);
    return err;
}

static enum err print_event(struct watching *g, const struct record *r)
{
    char text[2 * PROGRESS_LINE_MAX], time[32];
    int n;

    progress_duration(r->at_s, time, sizeof(time));
    n = snprintf(text, sizeof(text), "%8s  ", time);
    if (!progress_event(&g->history, r, text + n, sizeof(text) - (size_t)n))
        return ERR_OK;
    return print_harmless(text, g->watch.ascii, stdout);
}

/* Written anew, so that whatever a server sends is one line of JSON. */
static enum err print_json(uint64_t id, const char *kind, json_t *data)
{
    json_t *line = json_pack("{s:I, s:s, s:O}", "id", (json_int_t)id, "event",
                             kind, "data", data);
    char *text = line ? json_write(line, 0) : NULL;

    json_decref(line);
    if (!text)
        return ERR_NOMEM;
    printf("%s\n", text);
    mem_free(text);
    return ERR_OK;
}

/* Events are numbered from 1 without gaps. */
static void fold(struct watching *g, uint64_t id, const struct record *r)
{
    if (g->torn || id <= history_records(&g->history))
        return;
    g->torn = id != history_records(&g->history) + 1 ||
              history_apply(&g->history, r) != ERR_OK;
}

static enum err on_event(void *ctx, uint64_t id, const char *kind,
                         const char *text)
{
    struct watching *g = ctx;
    struct record r;
    json_t *json = NULL;
    enum err err;

    watch_note(&g->watch, kind, text);
    if (g->screen)
        return ERR_OK;
    err = json_load(text, strlen(text), &json, NULL, NULL);
    if (!err && g->json) {
        err = print_json(id, kind, json);
    } else if (!err && record_from_json(json, &r, NULL) == ERR_OK) {
        /* A kind that a newer server has is passed over. */
        fold(g, id, &r);
        err = print_event(g, &r);
        record_deinit(&r);
    }
    json_decref(json);
    return err == ERR_FORMAT ? ERR_OK : err;
}

/* Remarks about the server that were made. */
struct watch_said {
    bool away, polls;
};

/* The server's absence, and its return, are said once. */
static void say_trouble(struct watching *g, struct watch_said *said)
{
    struct watch *w = &g->watch;
    time_ns since;

    if (w->follow.polls && !said->polls)
        console_note("%s; it is asked once a second", w->follow.trouble.text);
    said->polls |= w->follow.polls;
    if (watch_is_away(w, &since) == said->away)
        return;
    said->away = !said->away;
    if (said->away)
        console_note("%s; trying again",
                     w->away_since ? w->trouble.text : w->follow.trouble.text);
    else
        console_note("%s answers again", w->source.url);
}

static void say_missed(struct follow *w)
{
    if (w->missed)
        console_note("%" PRIu64 " events were not kept by the server",
                     w->missed);
    w->missed = 0;
}

/* A server has no events of a run that ended long ago; the summary is there. */
static enum err say_none(const struct watching *g, struct fault *f)
{
    const struct watch *w = &g->watch;

    if (!w->source.url[0] || w->follow.visited > 0)
        return ERR_OK;
    fault_set(f, ERR_NOENT, "the server keeps no events of run %s any more",
              w->id);
    if (g->json)
        return ERR_NOENT;
    console_note("%s", f->text);
    return ERR_OK;
}

/* Said once: what could not be written is not tried again at the end. */
static enum err lost_output(struct fault *f)
{
    fault_errno(f, ERR_IO, errno, "write to stdout");
    __fpurge(stdout);
    clearerr(stdout);
    return ERR_IO;
}

static enum err watch_in_lines(struct watching *g, int *number, struct fault *f)
{
    struct watch *w = &g->watch;
    struct watch_said said = {false, false};
    enum err err = ERR_OK;

    while (!err) {
        err = watch_step(w, true, 0, f);
        if (!err && (fflush(stdout) != 0 || ferror(stdout)))
            return lost_output(f);
        say_missed(&w->follow);
        if (!err && watch_is_over(w))
            return say_none(g, f);
        if (err)
            return err;
        say_trouble(g, &said);
        *number = watch_wait(w, NULL, 0, INT64_MAX);
        if (*number)
            return ERR_OK;
    }
    return err;
}

/* ---- the end ------------------------------------------------------------- */

/* The end of a run from its events: the server of `mltune run` ends with it,
 * and has seldom been asked after that. */
static enum err answer_from_events(const struct watching *g,
                                   struct run_answers *out)
{
    const json_t *run = g->watch.docs.shown[DOCS_RUN];
    const char *state = json_string_value(json_object_get(run, "state"));
    const char *name = json_string_value(json_object_get(run, "name"));
    struct source source;
    enum err err;

    if (g->torn || !history_finished(&g->history))
        return ERR_NOENT;
    err = source_of_history(&source, state ? state : "", g->watch.id,
                            name ? name : "", &g->history);
    if (err)
        return err;
    err = run_answers_get_few(&source, g->watch.id, out, NULL);
    source_close(&source);
    return err;
}

/* Answers about the run at its end: its source's, else from its events, else
 * the last that its server gave. */
static void last_answers(struct watching *g, struct run_answers *out)
{
    struct watch *w = &g->watch;
    const json_t *run;

    if (run_answers_get_few(&w->source, w->id, out, NULL) == ERR_OK) {
        run = json_object_get(out->run, "finished_at");
        if (!history_finished(&g->history) || json_is_string(run))
            return;
        run_answers_deinit(out);
    }
    if (answer_from_events(g, out) != ERR_OK)
        out->run = json_incref(w->docs.shown[DOCS_RUN]);
}

static enum err print_summary(struct watching *g)
{
    struct run_answers answers = {.run = NULL};
    char *text = NULL, *rest, *line;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);

    if (!to)
        return ERR_NOMEM;
    last_answers(g, &answers);
    render_head(answers.run, to);
    render_summary(&answers, to);
    run_answers_deinit(&answers);
    if (fclose(to) != 0) {
        free(text);
        return ERR_NOMEM;
    }
    for (rest = text; (line = strsep(&rest, "\n")) && rest;)
        print_harmless(line, g->watch.ascii, stdout);
    free(text);
    return ERR_OK;
}

static int code_of(const json_t *run)
{
    const char *status = json_string_value(json_object_get(run, "status"));

    if (status && strcmp(status, "failed") == 0)
        return EXIT_RUN_FAILED;
    if (status && strcmp(status, "interrupted") == 0)
        return EXIT_INTERRUPTED;
    return EXIT_DONE;
}

/* ---- the verb ------------------------------------------------------------ */

static enum err find_run(struct watch *w, const char *word, struct fault *f)
{
    char only[RUN_ID_MAX + 1];
    enum err err = ERR_OK;

    if (!word) {
        err = source_only(&w->source, only, f);
        word = only;
    }
    return err ? err : source_find(&w->source, word, w->id, f);
}

/* The first answer, waited for: a server that is not there is said at once. */
static enum err look_first(struct watch *w, struct fault *f)
{
    char target[RUN_ID_MAX + 32];

    snprintf(target, sizeof(target), "/api/v1/runs/%s", w->id);
    return source_get(&w->source, target, &w->docs.shown[DOCS_RUN], f);
}

/* Ctrl-C ends the program at once until the server has answered. */
static enum err begin(struct watching *g, const struct watch_arguments *a,
                      struct fault *f)
{
    struct watch *w = &g->watch;
    enum err err = find_run(w, a->run, f);

    if (!err)
        err = look_first(w, f);
    if (!err)
        err =
            signals_open_guarded(&w->signal_fd, DEADLINE_STOP_RUN_MS, false, f);
    if (err)
        return err;
    w->docs.source = &w->source;
    memcpy(w->docs.id, w->id, sizeof(w->id));
    return follow_open(&w->follow, &w->source, w->id, !g->screen, on_event, g,
                       f);
}

static enum err watch_run(struct watching *g, const struct watch_arguments *a,
                          int *number, bool *left, struct fault *f)
{
    struct watch *w = &g->watch;
    enum err err = begin(g, a, f);

    if (err)
        return err;
    err = g->screen ? watch_on_screen(w, number, left, f)
                    : watch_in_lines(g, number, f);
    follow_close(&w->follow);
    return err;
}

static int watch_source(struct watching *g, const struct watch_arguments *a)
{
    struct watch *w = &g->watch;
    struct fault f = {0};
    int number = 0, code;
    bool left = false;
    enum err err = watch_run(g, a, &number, &left, &f);

    signals_close(w->signal_fd);
    if (err) {
        console_error("%s", f.text[0] ? f.text : err_text(err));
        return source_exit_code(err);
    }
    if (number)
        return EXIT_SIGNAL + number;
    code = left ? EXIT_DONE : code_of(w->docs.shown[DOCS_RUN]);
    if (!left && !g->json && print_summary(g) != ERR_OK)
        console_error("out of memory");
    return code;
}

static bool wants_screen(const struct watch_arguments *a)
{
    const char *term = getenv("TERM");

    return !a->json && !a->lines && isatty(STDOUT_FILENO) && term && *term &&
           strcmp(term, "dumb") != 0;
}

static int watch_at(struct watching *g, const struct watch_arguments *a)
{
    struct watch *w = &g->watch;
    struct fault f = {0};
    enum err err =
        source_open(&w->source, source_server(a->server), a->state, &f);
    int code;

    if (err) {
        console_error("%s", f.text);
        return source_exit_code(err);
    }
    history_init(&g->history);
    w->signal_fd = -1;
    g->json = a->json;
    g->screen = wants_screen(a);
    w->ascii = !terminal_is_utf8();
    w->wait_s = a->wait.given ? (int)a->wait.value : g->screen ? 0 : WAIT_S;
    code = watch_source(g, a);
    picture_source_deinit(&w->docs);
    source_close(&w->source);
    history_deinit(&g->history);
    return code;
}

/* Too large for the stack: it holds histories. */
static int watch_verb(const struct watch_arguments *a)
{
    struct watching *g = mem_calloc(1, sizeof(*g));
    int code;

    if (!g) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    code = watch_at(g, a);
    mem_free(g);
    return code;
}

static const char details[] =
    "RUN is an id, the beginning of one, or a name (its newest run); it may be "
    "left out\nwhere there is one run, or one that is under way. Where stdout "
    "is no terminal, each\nevent is a line. q or Ctrl-C leaves, the run goes "
    "on. When it ends the summary is\nprinted; the exit code is 0, 1 (it "
    "failed) or 75 (it was interrupted).";

int verb_watch(int argc, char **argv)
{
    struct watch_arguments a = {.state = STATE_DEFAULT};
    const struct option_spec options[] = {
        SOURCE_OPTIONS(a),
        {"json", 0, OPTION_FLAG, NULL,
         "one JSON object an event: id, event, data (docs/http.md)", &a.json},
        {"lines", 0, OPTION_FLAG, NULL, "one line an event, also on a terminal",
         &a.lines},
        {"wait", 0, OPTION_UINT, "SECONDS",
         "how long a server may be away (lines: 60; screen: for ever, 0)",
         &a.wait},
    };
    const struct usage usage = {
        .verb = "watch",
        .operands = "[RUN]",
        .details = details,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (a.wait.given && a.wait.value > 86400) {
        console_error("--wait: expected at most 86400");
        return EXIT_USAGE;
    }
    if (operands.len > 0)
        a.run = operands_at(&operands, 0);
    return watch_verb(&a);
}
