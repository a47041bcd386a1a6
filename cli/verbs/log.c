/* `mltune log RUN`: what the training system wrote, from the state folder or
 * from a server.
 *
 * A log may have any length and hold any bytes: it is read piece by piece, and
 * tamed for a terminal.
 */
#include "base/clock_io.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/printable.h"
#include "cli/basics/verbs.h"
#include "cli/state/source.h"
#include "cli/watch/follow.h"
#include "tuner/history/record.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_MS = 200,      /* how often a folder is looked at, and a server once
                         * the run is over */
    ASK_MS = 1000,      /* how often a server is asked, and for how long after
                         * the run is over */
    AWAY_S = 10,        /* a server may be away for so long */
    LINES_MAX = 1000000 /* of --lines */
};

struct log_arguments {
    const char *run, *state, *server;
    bool follow;
    struct option_uint node, lines;
};

struct logging {
    const struct log_arguments *a;
    struct source source;
    struct follow follow; /* says when the run is over */
    char id[RUN_ID_MAX + 1];
    bool terminal;
    struct printable said;
    bool following; /* follow is open */
    bool there;     /* some of the log was read */
    int64_t at;     /* next byte */
    time_ns asked;  /* when the server was last asked whether the run is over */
    time_ns away;   /* since when it does not answer; 0: it does */
    time_ns over;   /* since when the run is over at a server; 0: it is not */
};

/* ---- pieces -------------------------------------------------------------- */

static enum err piece(struct logging *g, int64_t offset, size_t limit,
                      struct source_piece *out, struct fault *f)
{
    return source_log(&g->source, g->id, (unsigned)g->a->node.value, offset,
                      limit, out, f);
}

static enum err print_printable(struct logging *g, const char *s, size_t n,
                                struct fault *f)
{
    struct text out = {0};
    enum err err = ERR_OK;

    printable_add(&g->said, s, n, &out);
    if (text_lost(&out))
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    else if (fwrite(text_so_far(&out), 1, text_length(&out), stdout) !=
             text_length(&out))
        err = fault_set(f, ERR_IO, "cannot write to stdout");
    text_deinit(&out);
    return err;
}

static enum err print(struct logging *g, const char *s, size_t n,
                      struct fault *f)
{
    enum err err = ERR_OK;

    if (g->terminal)
        err = print_printable(g, s, n, f);
    else if (fwrite(s, 1, n, stdout) != n)
        err = fault_set(f, ERR_IO, "cannot write to stdout");
    if (!err && fflush(stdout) != 0)
        err = fault_set(f, ERR_IO, "cannot write to stdout");
    return err;
}

/* Prints what is there from @g->at on. */
static enum err print_rest(struct logging *g, struct fault *f)
{
    struct source_piece p = {.bytes = NULL};
    enum err err = ERR_OK;
    size_t len;

    do {
        err = piece(g, g->at, SOURCE_PIECE_MAX, &p, f);
        if (err)
            return err;
        if (p.from > (uint64_t)g->at)
            console_note("bytes %" PRId64 " to %" PRIu64
                         " of the log are not kept any more",
                         g->at, p.from);
        len = p.len;
        g->there = true;
        g->at = (int64_t)p.next;
        err = print(g, p.bytes, len, f);
        mem_free(p.bytes);
    } while (!err && len == SOURCE_PIECE_MAX);
    return err;
}

/* Where the last @lines lines of @p begin, as a place in the log; -1: before
 * it. *@found: ends of lines so far; the last byte of the log is none. */
static int64_t nth_line(const struct source_piece *p, bool last, uint64_t lines,
                        uint64_t *found)
{
    for (size_t i = p->len; i > 0; i--) {
        if (p->bytes[i - 1] != '\n' || (last && i == p->len))
            continue;
        if (++*found == lines)
            return (int64_t)(p->from + i);
    }
    return -1;
}

/* Sets @g->at so that the last @lines lines come: backwards, piece by piece, to
 * the first byte that is kept. */
static enum err seek_lines(struct logging *g, uint64_t lines, struct fault *f)
{
    struct source_piece p = {.bytes = NULL};
    int64_t at = -SOURCE_PIECE_MAX, place = -1;
    size_t limit = SOURCE_PIECE_MAX;
    uint64_t found = 0, end = UINT64_MAX; /* where the piece behind begins */
    bool last = true, first;
    enum err err;

    while (place < 0) {
        err = piece(g, at, limit, &p, f);
        if (err)
            return err;
        if (p.from > end)
            p.from = end;
        if (p.len > end - p.from)
            p.len = (size_t)(end - p.from);
        first = p.from == 0 || (at >= 0 && p.from > (uint64_t)at);
        place = lines ? nth_line(&p, last, lines, &found) : (int64_t)p.next;
        if (place < 0 && first)
            place = (int64_t)p.from;
        end = p.from;
        limit = end < SOURCE_PIECE_MAX ? (size_t)end : SOURCE_PIECE_MAX;
        at = (int64_t)(end - limit);
        last = false;
        mem_free(p.bytes);
    }
    g->at = place;
    return ERR_OK;
}

/* ---- following ----------------------------------------------------------- */

/* Events, of which one matters: the server of `mltune run` ends with the run,
 * and has seldom been asked after that. */
static enum err take_event(void *ctx, uint64_t id, const char *kind,
                           const char *json)
{
    struct logging *g = ctx;

    (void)id;
    (void)json;
    if (strcmp(kind, "run_finished") == 0 && !g->over)
        g->over = clock_monotonic();
    return ERR_OK;
}

static enum err ask_over(struct logging *g, struct fault *f)
{
    char target[RUN_ID_MAX + 64];
    json_t *run = NULL;
    enum err err;

    if (g->over || clock_monotonic() - g->asked < (time_ns)ASK_MS * 1000000)
        return ERR_OK;
    g->asked = clock_monotonic();
    snprintf(target, sizeof(target), "/api/v1/runs/%s", g->id);
    err = source_get(&g->source, target, &run, f);
    if (!err &&
        run_status_names_end(json_string_value(json_object_get(run, "status"))))
        g->over = g->asked;
    json_decref(run);
    return err;
}

/* A log that is not there yet may come; of a run that is over it does not. */
static enum err print_new(struct logging *g, bool over, struct fault *f)
{
    enum err err = print_rest(g, f);

    return err == ERR_NOENT && !g->there && !over ? ERR_OK : err;
}

/* Whether the run is over is asked before its last words are read. The program
 * may write until its tuner is gone. */
static enum err follow_here(struct logging *g, struct fault *f)
{
    bool over = false;
    enum err err;

    for (;;) {
        err = follow_step(&g->follow, f);
        if (err)
            return err;
        over = g->follow.over && !run_folder_alive(g->source.state, g->id);
        err = print_new(g, over, f);
        if (err || over)
            return err;
        poll(NULL, 0, LOOK_MS);
    }
}

/* A server that does not answer is asked again for a while. */
static bool may_pass(struct logging *g, enum err err, struct fault *f)
{
    time_ns now = clock_monotonic();
    struct fault why = *f;

    if (err != ERR_NODE)
        return false;
    if (!g->away)
        g->away = now;
    if (now - g->away < (time_ns)AWAY_S * 1000000000)
        return true;
    fault_set(f, ERR_NODE, "the server is gone since %d s: %.300s", AWAY_S,
              why.text);
    return false;
}

/* Waits, and takes meanwhile what the server tells. */
static enum err wait_there(struct logging *g, struct fault *f)
{
    time_ns now = clock_monotonic(), due;
    time_ns until = now + (time_ns)(g->over ? LOOK_MS : ASK_MS) * 1000000;
    bool was_over = g->over;
    struct pollfd fd;
    enum err err = ERR_OK;
    nfds_t n;

    while (!err && now < until && (was_over || !g->over)) {
        n = follow_poll(&g->follow, &fd, &due);
        due = due < until ? due : until;
        poll(&fd, n, due > now ? (int)((due - now) / 1000000) + 1 : 0);
        err = follow_step(&g->follow, f);
        now = clock_monotonic();
    }
    return err;
}

/* A server says that the run is over a moment before its program ends. One that
 * has said it and does not answer has ended with it. */
static enum err follow_there(struct logging *g, struct fault *f)
{
    enum err err;
    bool late;

    for (;;) {
        late =
            g->over && clock_monotonic() - g->over >= (time_ns)ASK_MS * 1000000;
        err = ask_over(g, f);
        if (!err)
            err = print_new(g, late, f);
        if (err == ERR_NODE && g->over) {
            console_note("the run is over, and its server has ended: what came "
                         "after byte %" PRId64 " of the log is not shown",
                         g->at);
            return ERR_OK;
        }
        if (err && !may_pass(g, err, f))
            return err;
        if (!err && late)
            return ERR_OK;
        if (!err)
            g->away = 0;
        err = wait_there(g, f);
        if (err)
            return err;
    }
}

/* ---- the verb ------------------------------------------------------------ */

static enum err show_log(struct logging *g, struct fault *f)
{
    const struct log_arguments *a = g->a;
    enum err err = source_find(&g->source, a->run, g->id, f);

    if (!err && a->lines.given)
        err = seek_lines(g, a->lines.value, f);
    if (err == ERR_NOENT && g->id[0] && a->follow)
        err = ERR_OK;
    if (err)
        return err;
    if (!a->follow)
        return print_rest(g, f);
    err = follow_open(&g->follow, &g->source, g->id, false, take_event, g, f);
    g->following = !err;
    if (err)
        return err;
    return g->source.url[0] ? follow_there(g, f) : follow_here(g, f);
}

static enum err end_output(struct logging *g, struct fault *f)
{
    struct text out = {0};
    enum err err = ERR_OK;

    printable_end(&g->said, &out);
    if (text_lost(&out))
        err = fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    else if (text_length(&out) > 0 &&
             (fwrite(text_so_far(&out), 1, text_length(&out), stdout) !=
                  text_length(&out) ||
              fflush(stdout) != 0))
        err = fault_set(f, ERR_IO, "cannot write to stdout");
    text_deinit(&out);
    return err;
}

static int log_at(struct logging *g)
{
    struct fault f = {0};
    enum err err =
        source_open(&g->source, source_server(g->a->server), g->a->state, &f);

    if (!err) {
        g->terminal = isatty(STDOUT_FILENO);
        err = show_log(g, &f);
        if (!err)
            err = end_output(g, &f);
        if (g->following)
            follow_close(&g->follow);
        source_close(&g->source);
    }
    if (err)
        console_error("%s", f.text);
    return source_exit_code(err);
}

int verb_log(int argc, char **argv)
{
    struct log_arguments a = {.state = STATE_DEFAULT};
    const struct option_spec options[] = {
        {"follow", 'f', OPTION_FLAG, NULL,
         "print what comes as well, until the run ends", &a.follow},
        {"node", 0, OPTION_UINT, "N", "process N of several, from 0 (0)",
         &a.node},
        {"lines", 0, OPTION_UINT, "N", "the last N lines only (all)", &a.lines},
        SOURCE_OPTIONS(a),
    };
    const struct usage usage = {
        .verb = "log",
        .operands = "RUN",
        .details = RUN_OPERAND,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct logging *g;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (a.node.value > 63 || a.lines.value > LINES_MAX) {
        console_error(a.node.value > 63 ? "--node: expected 0 to 63"
                                        : "--lines: expected at most 1000000");
        return EXIT_USAGE;
    }
    a.run = operands_at(&operands, 0);
    g = mem_calloc(1, sizeof(*g));
    if (!g) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    g->a = &a;
    code = log_at(g);
    mem_free(g);
    return code;
}
