/* `mltune log RUN`: what the training system wrote, from the state folder or
 * from a server.
 *
 * A log may have any length and hold any bytes: it is read piece by piece, and
 * on a terminal control characters become '?'.
 */
#include "base/clock_io.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/source.h"
#include "cli/watch/follow.h"
#include "tuner/shell/state_io.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_MS = 200,      /* how often a folder is looked at */
    ASK_MS = 1000,      /* how often a server is asked */
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
    struct follow follow; /* of a state folder: says when the run is over */
    char id[RUN_ID_MAX + 1];
    bool terminal;
    bool following; /* follow is open */
    int64_t at;     /* next byte */
    time_ns asked;  /* when the server was last asked whether the run is over */
    time_ns away;   /* since when it does not answer; 0: it does */
};

/* ---- pieces -------------------------------------------------------------- */

static enum err piece(struct logging *g, int64_t offset, size_t limit,
                      struct source_piece *out, struct fault *f)
{
    return source_log(&g->source, g->id, (unsigned)g->a->node.value, offset,
                      limit, out, f);
}

/* Bytes that a terminal would obey are not shown to it. */
static void clean(char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == 127)
            s[i] = '?';
    }
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
        len = p.len;
        g->at = (int64_t)p.next;
        if (g->terminal)
            clean(p.bytes, len);
        if (fwrite(p.bytes, 1, len, stdout) != len || fflush(stdout) != 0)
            err = fault_set(f, ERR_IO, "cannot write to stdout");
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

/* Sets @g->at so that the last @lines lines come: backwards, piece by piece. */
static enum err seek_lines(struct logging *g, uint64_t lines, struct fault *f)
{
    struct source_piece p = {.bytes = NULL};
    int64_t at = -SOURCE_PIECE_MAX, place;
    size_t limit = SOURCE_PIECE_MAX;
    uint64_t found = 0;
    enum err err;
    bool last = true;

    do {
        err = piece(g, at, limit, &p, f);
        if (err)
            return err;
        place = lines ? nth_line(&p, last, lines, &found) : (int64_t)p.next;
        if (place < 0 && p.from == 0)
            place = 0;
        limit = p.from < SOURCE_PIECE_MAX ? (size_t)p.from : SOURCE_PIECE_MAX;
        at = (int64_t)(p.from - limit);
        last = false;
        mem_free(p.bytes);
    } while (place < 0);
    g->at = place;
    return ERR_OK;
}

/* ---- following ----------------------------------------------------------- */

static enum err ignore_event(void *ctx, uint64_t id, const char *kind,
                             const char *json)
{
    (void)ctx;
    (void)id;
    (void)kind;
    (void)json;
    return ERR_OK;
}

static bool is_end(const char *status)
{
    return status &&
           (strcmp(status, "finished") == 0 || strcmp(status, "failed") == 0 ||
            strcmp(status, "stopped") == 0 ||
            strcmp(status, "interrupted") == 0);
}

static enum err ask_over(struct logging *g, bool *over, struct fault *f)
{
    char target[RUN_ID_MAX + 64];
    json_t *run = NULL;
    enum err err;

    if (clock_monotonic() - g->asked < (time_ns)ASK_MS * 1000000)
        return ERR_OK;
    g->asked = clock_monotonic();
    snprintf(target, sizeof(target), "/api/v1/runs/%s", g->id);
    err = source_get(&g->source, target, &run, f);
    if (!err)
        *over = is_end(json_string_value(json_object_get(run, "status")));
    json_decref(run);
    return err;
}

static enum err look_over(struct logging *g, bool *over, struct fault *f)
{
    enum err err = follow_step(&g->follow, f);

    /* The program may write until its tuner is gone. */
    *over = g->follow.over && !run_folder_alive(g->source.state, g->id);
    return err;
}

/* A server that does not answer is asked again for a while. */
static bool may_pass(struct logging *g, enum err err, struct fault *f)
{
    time_ns now = clock_monotonic();
    struct fault why = *f;

    if (err != ERR_NODE) {
        g->away = 0;
        return false;
    }
    if (!g->away)
        g->away = now;
    if (now - g->away < (time_ns)AWAY_S * 1000000000)
        return true;
    fault_set(f, ERR_NODE, "the server is gone since %d s: %.300s", AWAY_S,
              why.text);
    return false;
}

/* Whether the run is over is asked before its last words are read; a server
 * says so a moment before its program ends. A log that is not there yet may
 * come. */
static enum err follow_log(struct logging *g, struct fault *f)
{
    bool over = false, was_over;
    enum err err;

    for (;;) {
        was_over = over;
        err = g->following ? look_over(g, &over, f) : ask_over(g, &over, f);
        if (!err)
            err = print_rest(g, f);
        if (err == ERR_NOENT)
            err = ERR_OK;
        if (err && !may_pass(g, err, f))
            return err;
        if (!err) {
            g->away = 0;
            if (over && (was_over || g->following))
                return ERR_OK;
        }
        poll(NULL, 0, g->following ? LOOK_MS : ASK_MS);
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
    if (!g->source.url[0]) {
        err = follow_open(&g->follow, &g->source, g->id, false, ignore_event, g,
                          f);
        g->following = !err;
    }
    return err ? err : follow_log(g, f);
}

static int log_at(struct logging *g)
{
    struct fault f = {0};
    enum err err =
        source_open(&g->source, source_server(g->a->server), g->a->state, &f);

    if (!err) {
        g->terminal = isatty(STDOUT_FILENO);
        err = show_log(g, &f);
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
        {"state", 0, OPTION_TEXT, "DIR", "state folder (" STATE_DEFAULT ")",
         &a.state},
        {"server", 0, OPTION_TEXT, "URL", REPLAY_SERVER_HELP, &a.server},
        CLIENT_CACERT_OPTION,
    };
    const struct usage usage = {
        .verb = "log",
        .operands = "RUN",
        .summary = "what a run's training system wrote to stdout and stderr",
        .details = "RUN is an id, the beginning of one, or a name (its newest "
                   "run).",
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
