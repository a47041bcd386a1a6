#include "cli/state/source.h"

#include "api/service/service.h"
#include "api/view/view.h"
#include "base/host/local_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/remote/refusal.h"
#include "cli/state/address_io.h"
#include "cli/state/mend.h"
#include "cli/state/notes_file.h"
#include "cli/state/render.h"
#include "cli/state/serve.h"
#include "tuner/history/journal_list_io.h"
#include "tuner/history/run_guess.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *source_server(const char *server)
{
    const char *named = server ? server : getenv("MLTUNE_SERVER");

    return named && *named ? named : NULL;
}

bool source_service(const char *state, char url[CLIENT_URL_MAX],
                    char socket[FILE_PATH_MAX])
{
    char path[FILE_PATH_MAX];
    bool has = true;
    bool found = file_join(path, state, SERVE_LOCK, NULL) == ERR_OK &&
                 file_locked(path, NULL) &&
                 file_join(path, state, SERVE_URL, NULL) == ERR_OK &&
                 address_read(path, url, &has, NULL) == ERR_OK;

    assert(state);
    if (!found || !socket)
        return found;
    socket[0] = '\0';
    return !has || file_join(socket, state, SERVE_SOCKET, NULL) == ERR_OK;
}

enum err source_token(const char *state, const char *socket,
                      char token[TOKEN_LEN_MAX + 1], struct fault *f)
{
    enum err err = token_read(state, token, f);
    int fd = err && socket[0] ? local_connect(socket) : -1;

    if (fd < 0)
        return err;
    close(fd);
    token[0] = '\0';
    return ERR_OK;
}

enum err source_named_token(const char *state, const char *server,
                            char token[TOKEN_LEN_MAX + 1], struct fault *f)
{
    const char *given = getenv("MLTUNE_TOKEN");

    token[0] = '\0';
    /* token_read takes an empty one for none. */
    if (!(given && *given) && !address_is_own(state, server))
        return ERR_OK;
    return token_read(state, token, f);
}

void source_say_no_token(const char *state, const char *server)
{
    console_note("no token is sent to %s: no server of %s that lives has this "
                 "address. MLTUNE_TOKEN names one that is sent all the same",
                 server, state);
}

enum err source_open(struct source *s, const char *server, const char *state,
                     struct fault *f)
{
    assert(!server || *server);
    memset(s, 0, sizeof(*s));
    history_init(&s->run.history);
    if (server && strlen(server) >= sizeof(s->url))
        return fault_set(f, ERR_INVAL, "--server: too long");
    if (server)
        snprintf(s->url, sizeof(s->url), "%s", server);
    snprintf(s->state, sizeof(s->state), "%s", state);
    return ERR_OK;
}

enum err source_request(struct source *s, const char *target,
                        struct client_request *out, struct fault *f)
{
    char url[CLIENT_URL_MAX];

    assert(s->url[0] && target[0] == '/');
    if (s->found && !source_service(s->state, url, s->socket))
        return fault_set(f, ERR_NODE,
                         "nobody answers at %s: no service has the state "
                         "folder %s",
                         s->url, s->state);
    if (s->found)
        memcpy(s->url, url, sizeof(url));
    /* Without one it can still be asked: on loopback none is needed. */
    else if (source_named_token(s->state, s->url, s->token, NULL) != ERR_OK)
        s->token[0] = '\0';
    *out = (struct client_request){.url = s->url,
                                   .socket = s->socket,
                                   .method = "GET",
                                   .target = target,
                                   .token = s->token[0] ? s->token : NULL};
    return ERR_OK;
}

static enum err get_there(struct source *s, const char *target, int *status,
                          json_t **out, struct fault *f)
{
    struct client_request q;
    struct client_answer answer = {0};
    enum err err = source_request(s, target, &q, f);

    if (!err)
        err = client_ask(&q, &answer, f);
    *status = answer.status;
    *out = answer.json;
    return err;
}

/* Whether the service is ready: one that reads its runs yet, hangs, or has a
 * certificate that is not known here keeps nobody from what is in the folder.
 */
static bool answers(struct source *s)
{
    json_t *json = NULL;
    int status = 0;
    enum err err = get_there(s, "/readyz", &status, &json, NULL);

    json_decref(json);
    return !err && status == 200;
}

/* As source_open, but a service that answers and has the folder is asked. */
static enum err look(struct source *s, const char *server, const char *state,
                     struct fault *f)
{
    enum err err = source_open(s, server, state, f);

    assert(s);
    if (err || server)
        return err;
    s->found = source_service(state, s->url, s->socket);
    if (!s->found || !answers(s)) {
        s->url[0] = '\0';
        s->found = false;
        return ERR_OK;
    }
    /* Its own service, found by the lock in the folder. */
    if (token_read(state, s->token, NULL) != ERR_OK)
        s->token[0] = '\0';
    return ERR_OK;
}

int source_begin(const struct usage *usage, int argc, char **argv,
                 const struct source_options *options,
                 struct operands *operands, struct source *s)
{
    int code = options_parse(usage, argc, argv, operands);
    struct fault f = {0};
    enum err err;

    assert(options->state);
    if (code != OPTIONS_GO_ON)
        return code;
    err = look(s, source_server(options->server), options->state, &f);
    if (!err)
        return OPTIONS_GO_ON;
    console_error("%s", f.text);
    return source_exit_code(err);
}

void source_close(struct source *s)
{
    view_free(s->view);
    replayed_deinit(&s->run);
}

/* ---- answers ------------------------------------------------------------- */

/* Faults of the server itself, or of how much it is asked, may pass. */
static enum err code_of(int status)
{
    if (status == 404)
        return ERR_NOENT;
    return status == 429 || status >= 500 ? ERR_NODE : ERR_INVAL;
}

/* @answer is taken over; NULL: it is no JSON. */
static enum err judge(int status, json_t *answer, json_t **out, struct fault *f)
{
    struct text said = {0};
    enum err err;

    if (status < 300) {
        *out = answer;
        return ERR_OK;
    }
    refusal_say(status, answer, &said);
    err = fault_set(f, code_of(status), "%s", text_so_far(&said));
    text_deinit(&said);
    json_decref(answer);
    return err;
}

static enum err get_here(struct source *s, const char *target, int *status,
                         json_t **out, struct fault *f)
{
    struct response r = {0};
    enum err err;

    assert(s->view);
    service_respond(s->view, "GET", target, &r);
    *status = r.status;
    err = json_load(r.body, r.len, out, NULL, f);
    response_deinit(&r);
    return err;
}

enum err source_get(struct source *s, const char *target, json_t **out,
                    struct fault *f)
{
    json_t *json = NULL;
    int status = 0;
    enum err err = s->url[0] ? get_there(s, target, &status, &json, f)
                             : get_here(s, target, &status, &json, f);

    assert(target[0] == '/');
    return err ? err : judge(status, json, out, f);
}

enum err source_answer(const struct source *s, int status, const char *body,
                       size_t len, json_t **out, struct fault *f)
{
    struct fault why = {0};
    json_t *json = NULL;
    enum err err = json_load(body, len, &json, NULL, &why);

    assert(s->url[0]);
    /* A proxy before the server says in words of its own that it is away. */
    if (err == ERR_FORMAT && status < 300)
        return fault_set(f, err, "what answers at %s is no mltune", s->url);
    if (err && err != ERR_FORMAT)
        return fault_set(f, err, "%s", err_text(err));
    return judge(status, json, out, f);
}

/* ---- logs ---------------------------------------------------------------- */

/* A refusal of @status with @body; @out->bytes is set where there is none. */
static enum err take_piece(int status, const char *body, size_t len,
                           struct source_piece *out, struct fault *f)
{
    json_t *json = NULL, *none = NULL;

    if (status != 200) {
        if (json_load(body, len, &json, NULL, NULL) != ERR_OK)
            json = NULL;
        return judge(status < 300 ? 500 : status, json, &none, f);
    }
    out->bytes = mem_alloc(len + 1);
    if (!out->bytes)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    memcpy(out->bytes, body, len);
    out->len = len;
    return ERR_OK;
}

static enum err log_there(struct source *s, const char *target,
                          struct source_piece *out, struct fault *f)
{
    struct client_request q;
    struct client_exchange x;
    const char *body = NULL;
    size_t len = 0;
    int status = 0;
    enum err err = source_request(s, target, &q, f);

    if (!err)
        err = client_open(&q, &x, f);
    if (err)
        return err;
    err = client_wait(&x, &status, &body, &len, f);
    if (!err)
        err = take_piece(status, body, len, out, f);
    if (!err && (!client_header(&x, "Log-Offset", &out->from) ||
                 !client_header(&x, "Log-Next-Offset", &out->next))) {
        mem_free(out->bytes);
        err = fault_set(f, ERR_FORMAT,
                        "what answers at %s knows nothing of logs", s->url);
    }
    client_close(&x);
    return err;
}

static enum err log_here(struct source *s, const char *target,
                         struct source_piece *out, struct fault *f)
{
    struct response r = {0};
    enum err err;

    assert(s->view);
    service_respond(s->view, "GET", target, &r);
    err = take_piece(r.status, r.body, r.len, out, f);
    if (!err) {
        out->from = strtoull(r.log_from, NULL, 10);
        out->next = strtoull(r.log_next, NULL, 10);
    }
    response_deinit(&r);
    return err;
}

enum err source_log(struct source *s, const char *id, unsigned node,
                    int64_t offset, size_t limit, struct source_piece *out,
                    struct fault *f)
{
    char target[RUN_ID_MAX + 128];

    assert(limit > 0 && limit <= SOURCE_PIECE_MAX);
    snprintf(target, sizeof(target),
             "/api/v1/runs/%s/log?node=%u&offset=%" PRId64 "&limit=%zu", id,
             node, offset, limit);
    return s->url[0] ? log_there(s, target, out, f)
                     : log_here(s, target, out, f);
}

enum err source_list(struct source *s, const char *target, const char *name,
                     json_t **out, struct fault *f)
{
    char page[512], token[128] = "";
    json_t *all = json_array();
    enum err err = all ? ERR_OK : ERR_NOMEM;

    assert(target[0] == '/' && *name);
    do {
        const char *next;
        json_t *json = NULL;

        snprintf(page, sizeof(page), "%s%cpage_size=1000%s%s", target,
                 strchr(target, '?') ? '&' : '?',
                 token[0] ? "&page_token=" : "", token);
        if (!err)
            err = source_get(s, page, &json, f);
        if (!err && json_array_extend(all, json_object_get(json, name)) != 0)
            err = fault_set(f, ERR_FORMAT, "what answers at %s is no mltune",
                            s->url);
        next = json_string_value(json_object_get(json, "next_page_token"));
        snprintf(token, sizeof(token), "%s", next ? next : "");
        json_decref(json);
    } while (!err && token[0]);
    if (err == ERR_NOMEM)
        fault_set(f, err, "%s", err_text(err));
    if (err)
        json_decref(all);
    else
        *out = all;
    return err;
}

/* ---- runs ---------------------------------------------------------------- */

/* The view of one run. */
static enum err show_history(struct source *s, const char *id, const char *name,
                             const struct history *history)
{
    const struct view_options options = {.state = s->state};
    enum err err = view_new(&options, &s->view);

    if (!err)
        err = view_add_run(s->view, id, name, history);
    return err;
}

enum err source_of_history(struct source *s, const char *state, const char *id,
                           const char *name, const struct history *history)
{
    enum err err;

    assert(state && id && name && history);
    memset(s, 0, sizeof(*s));
    history_init(&s->run.history);
    snprintf(s->state, sizeof(s->state), "%s", state);
    err = show_history(s, id, name, history);
    if (err)
        source_close(s);
    return err;
}

/* Run @word of the journal @j becomes the source's. */
static enum err read_here(struct source *s, struct journal *j, const char *word,
                          struct fault *f)
{
    struct view_job job;
    json_t *notes = NULL;
    enum err err;

    view_free(s->view);
    s->view = NULL;
    replayed_deinit(&s->run);
    err = replay_run(j, s->state, word, &s->run, f);
    if (err)
        return err;
    if (s->run.damage[0])
        console_error("run %s: %s%s", s->run.id, s->run.damage,
                      s->run.passed_over ? "; it is shown without what is lost"
                                         : "; a copy serves");
    err = show_history(s, s->run.id, s->run.name, &s->run.history);
    if (err)
        return fault_set(f, err, "%s", err_text(err));
    view_keep_run(s->view, s->run.id, s->run.config, s->run.result);
    replay_told(&s->run, &job);
    view_set_job(s->view, s->run.id, &job);
    /* One that is damaged harms nothing else. */
    if (notes_file_read(s->state, s->run.id, &notes, NULL) == ERR_OK)
        view_set_notes(s->view, s->run.id, notes);
    return ERR_OK;
}

static enum err open_here(struct source *s, struct journal **out,
                          struct fault *f)
{
    char path[FILE_PATH_MAX];
    enum err err = replay_open(s->state, path, out, f);

    if (!err)
        memcpy(s->state, path, sizeof(s->state)); /* from the root */
    return err;
}

static enum err find_here(struct source *s, const char *word, struct fault *f)
{
    struct journal *j = NULL;
    enum err err = open_here(s, &j, f);

    if (!err)
        err = read_here(s, j, word, f);
    journal_close(j);
    return err;
}

/* ---- all runs ------------------------------------------------------------ */

/* Ids of runs, newest first: each is then replayed by itself, so that no query
 * is open while another runs. */
struct source_ids {
    char (*id)[RUN_ID_MAX + 1]; /* owned */
    size_t len, capacity;
};

static enum err take_id(void *ctx, const char *id)
{
    struct source_ids *ids = ctx;
    void *grown = ids->id;

    if (mem_grow(&grown, &ids->capacity, sizeof(*ids->id), ids->len + 1))
        return ERR_NOMEM;
    ids->id = grown;
    snprintf(ids->id[ids->len++], sizeof(*ids->id), "%s", id);
    return ERR_OK;
}

/* A run is shown as a line of JSON, or as its row of a table. */
struct source_row {
    int64_t began_ns;
    int64_t key; /* of the index, which has its JSON; where this lacks: */
    char *text;  /* owned, or NULL */
};

struct source_rows {
    struct source_row *row; /* owned */
    size_t len, capacity;
    bool json;
    bool ask;               /* a service, for what it knows better */
    size_t replayed;        /* runs whose records were read */
    const json_t *known;    /* members named as runs to leave out; NULL: none */
    struct source_ids read; /* those that are to be read: owned */
    struct journal *j;      /* borrowed */
};

/* What the row owns is transferred. */
static enum err add_row(struct source_rows *rows, struct source_row row)
{
    if ((!row.text && !row.key) ||
        mem_grow((void **)&rows->row, &rows->capacity, sizeof(row),
                 rows->len + 1)) {
        mem_free(row.text);
        return ERR_NOMEM;
    }
    rows->row[rows->len++] = row;
    return ERR_OK;
}

static void rows_deinit(struct source_rows *rows)
{
    for (size_t i = 0; i < rows->len; i++)
        mem_free(rows->row[i].text);
    mem_free(rows->row);
    mem_free(rows->read.id);
}

/* The line of @run in `mltune ls --json`, the caller's; NULL: no memory. */
static char *line_of(const json_t *run)
{
    json_t *shown = render_members(run);
    char *text = shown ? json_write(shown, 0) : NULL;

    json_decref(shown);
    return text;
}

static bool is_known(const struct source_rows *rows, const char *id)
{
    return rows->known && json_object_get(rows->known, id);
}

static bool may_wait(const char *status)
{
    return !status || strcmp(status, run_status_name(RUN_INTERRUPTED)) == 0;
}

/* Of a damaged entry only the run is believed. */
static enum err take_damaged(struct source_rows *rows,
                             const struct journal_listed *l)
{
    char *id = NULL;
    enum err err = journal_listed_id(rows->j, l->key, &id, NULL);

    if (!err && !is_known(rows, id))
        err = take_id(&rows->read, id);
    mem_free(id);
    return err == ERR_NOENT ? ERR_OK : err;
}

/* An interrupted run may wait in the queue of a service: it is read last. */
static enum err take_listed(void *ctx, const struct journal_listed *l)
{
    struct source_rows *rows = ctx;
    struct source_row row = {.began_ns = l->began_ns, .key = l->key};

    if (l->damaged)
        return take_damaged(rows, l);
    if (is_known(rows, l->id))
        return ERR_OK;
    if (rows->ask && may_wait(l->status))
        return take_id(&rows->read, l->id);
    if (!rows->json) {
        row.key = 0;
        row.text = mem_strdup(l->cells);
    }
    return add_row(rows, row);
}

/* Keeps what was found of a run that has ended, for the next time. That needs
 * no luck: what cannot be written now is found again. */
static void keep_row(struct journal *writer, const struct replayed *r,
                     const char *json, const char *cells)
{
    const struct journal_listed l = {
        .id = r->id, .status = r->status, .cells = cells, .json = json};

    if (writer && json && cells && r->ended && !r->damage[0])
        journal_list_put(writer, &l, NULL);
}

static enum err read_run_here(struct source *s, struct journal *j,
                              const char *id, json_t **out, struct fault *f)
{
    char target[RUN_ID_MAX + 64];
    int status = 0;
    enum err err = read_here(s, j, id, f);

    snprintf(target, sizeof(target), "/api/v1/runs/%s", id);
    if (!err)
        err = get_here(s, target, &status, out, f);
    return err ? err : judge(status, *out, out, f);
}

/* What is shown of run @id by its records; the caller's. @writer may be NULL.
 */
static enum err text_here(struct source *s, struct journal *j,
                          struct journal *writer, const char *id, bool json,
                          char **out, struct fault *f)
{
    json_t *run = NULL;
    char *line, *cells;
    enum err err = read_run_here(s, j, id, &run, f);

    if (err)
        return err;
    line = json || writer ? line_of(run) : NULL;
    cells = !json || writer ? render_cells(run) : NULL;
    json_decref(run);
    keep_row(writer, &s->run, line, cells);
    *out = json ? line : cells;
    mem_free(json ? cells : line);
    return *out ? ERR_OK : ERR_NOMEM;
}

static enum err add_run_here(struct source *s, struct journal *writer,
                             const char *id, struct source_rows *rows,
                             struct fault *f)
{
    struct source_row row = {.text = NULL};
    enum err err = text_here(s, rows->j, writer, id, rows->json, &row.text, f);

    if (err)
        return err;
    row.began_ns = s->run.began_ns;
    return add_row(rows, row);
}

struct source_seen {
    int64_t began_ns;
    bool may_wait; /* it has no end, or may go on by itself */
};

static enum err see_run(void *ctx, const struct journal_run *run)
{
    struct source_seen *seen = ctx;

    *seen = (struct source_seen){run->began_ns, may_wait(run->status)};
    return ERR_OK;
}

/* What the service of the folder says of run @id, which is not over: it knows
 * what no file says, and has read it already. */
static enum err add_run_there(struct source *s, int64_t began_ns,
                              const char *id, struct source_rows *rows)
{
    char target[RUN_ID_MAX + 64];
    struct source_row row = {.began_ns = began_ns};
    json_t *run = NULL;
    enum err err;

    snprintf(target, sizeof(target), "/api/v1/runs/%s", id);
    err = source_get(s, target, &run, NULL);
    if (err)
        return err;
    row.text = rows->json ? line_of(run) : render_cells(run);
    json_decref(run);
    return add_row(rows, row);
}

/* Runs that are over are read once, and then known to the index. So many at a
 * time while there is a service, which has read the others already. */
enum { REPLAYS_BESIDE_SERVICE = 32 };

/* A service that fails to answer is not asked again: what is in the folder does
 * not depend on it. */
static enum err add_run(struct source *s, struct journal *writer,
                        const char *id, struct source_rows *rows,
                        struct fault *f)
{
    struct source_seen seen = {0};
    enum err err;

    if (is_known(rows, id))
        return ERR_OK;
    if (!rows->ask)
        return add_run_here(s, writer, id, rows, f);
    err = journal_find_run(rows->j, id, see_run, &seen, f);
    if (err)
        return err;
    err = seen.may_wait || rows->replayed++ >= REPLAYS_BESIDE_SERVICE
              ? add_run_there(s, seen.began_ns, id, rows)
              : ERR_NOENT;
    if (err && err != ERR_NOENT && err != ERR_NOMEM)
        rows->ask = false;
    return err && err != ERR_NOMEM ? add_run_here(s, writer, id, rows, f) : err;
}

/* Newest first; of two that began at once, as they were found. */
static int by_age(const void *a, const void *b)
{
    const struct source_row *x = a, *y = b;

    return (x->began_ns < y->began_ns) - (x->began_ns > y->began_ns);
}

/* An index that SQLite cannot read costs time alone: each run is read. */
static enum err take_all(struct source_rows *rows, const struct fault *damage,
                         struct fault *f)
{
    int64_t after = 0;

    console_error("%s: until then each run is read by itself", damage->text);
    for (size_t i = 0; i < rows->len; i++)
        mem_free(rows->row[i].text);
    rows->len = rows->read.len = 0;
    return journal_each_new(rows->j, &after, take_id, &rows->read, f);
}

/* The rows that the index has; the other runs are to be read. */
static enum err take_index(struct source_rows *rows, bool *damaged,
                           struct fault *f)
{
    struct fault why = {0};
    enum err err = journal_each_listed(rows->j, take_listed, rows, &why);

    if (!err)
        err = journal_each_unlisted(rows->j, take_id, &rows->read, &why);
    *damaged = err == ERR_FORMAT;
    if (*damaged)
        return take_all(rows, &why, f);
    return err ? fault_set(f, err, "%s", why.text) : ERR_OK;
}

static enum err add_unlisted(struct source *s, struct source_rows *rows,
                             bool damaged, struct fault *f)
{
    const struct source_ids *ids = &rows->read;
    struct journal *writer = NULL;
    enum err err = ERR_OK;

    if (ids->len > 0 && !damaged)
        (void)mend_open(s->state, true, 0, &writer, NULL);
    for (size_t i = 0; i < ids->len && !err; i++)
        err = add_run(s, writer, ids->id[i], rows, f);
    journal_close(writer);
    return err;
}

/* The rows of the folder, in their order; its journal is open then, or NULL:
 * the caller's. */
static enum err rows_here(struct source *s, struct source_rows *rows,
                          struct fault *f)
{
    bool damaged = false;
    enum err err = open_here(s, &rows->j, f);

    if (!err)
        err = take_index(rows, &damaged, f);
    if (!err)
        err = add_unlisted(s, rows, damaged, f);
    if (err == ERR_NOMEM)
        fault_set(f, err, "%s", err_text(err));
    if (!err && rows->len > 1)
        qsort(rows->row, rows->len, sizeof(*rows->row), by_age);
    return err;
}

/* A damaged line is made anew from the run's records. */
static enum err mend_line(struct source *s, struct source_rows *rows,
                          int64_t key, char **out, struct fault *f)
{
    struct journal *writer = NULL;
    char *id = NULL;
    enum err err = journal_listed_id(rows->j, key, &id, f);

    if (!err)
        (void)mend_open(s->state, true, 0, &writer, NULL);
    if (!err)
        err = text_here(s, rows->j, writer, id, true, out, f);
    journal_close(writer);
    mem_free(id);
    return err;
}

/* Visits a run's line: one at a time is in memory. One that was removed
 * meanwhile is passed over. */
static enum err visit_row(struct source *s, struct source_rows *rows,
                          struct source_row *row, source_text_visit *visit,
                          void *ctx, struct fault *f)
{
    char *text = row->text;
    enum err err = ERR_OK;

    row->text = NULL;
    if (!text)
        err = journal_listed_json(rows->j, row->key, &text, f);
    if (err == ERR_FORMAT)
        err = mend_line(s, rows, row->key, &text, f);
    if (err)
        return err == ERR_NOENT ? ERR_OK : err;
    err = visit(ctx, text);
    mem_free(text);
    return err;
}

/* Visits the runs of the folder that are not in @known (NULL: none is), newest
 * first. */
static enum err each_here(struct source *s, const json_t *known,
                          source_text_visit *visit, void *ctx, struct fault *f)
{
    struct source_rows rows = {
        .json = true, .known = known, .ask = s->found && !known};
    enum err err = rows_here(s, &rows, f);

    for (size_t i = 0; i < rows.len && !err; i++)
        err = visit_row(s, &rows, &rows.row[i], visit, ctx, f);
    rows_deinit(&rows);
    journal_close(rows.j);
    return err;
}

enum err source_each_row(struct source *s, source_text_visit *visit, void *ctx,
                         struct fault *f)
{
    struct source_rows rows = {.json = false, .ask = s->found};
    enum err err;

    assert((!s->url[0] || s->found) && visit);
    err = rows_here(s, &rows, f);
    for (size_t i = 0; i < rows.len && !err; i++)
        err = visit(ctx, rows.row[i].text);
    rows_deinit(&rows);
    journal_close(rows.j);
    return err;
}

/* A run as the interface lists it, borrowed. Whatever else than ERR_OK ends the
 * visits. */
typedef enum err run_visit(void *ctx, json_t *run);

/* Visitors of the one kind as such of the other. */
struct as_json {
    run_visit *visit;
    void *ctx;
};

static enum err visit_as_json(void *ctx, const char *line)
{
    const struct as_json *to = ctx;
    json_t *run = NULL;
    enum err err = json_load(line, strlen(line), &run, NULL, NULL);

    if (!err)
        err = to->visit(to->ctx, run);
    json_decref(run);
    return err;
}

struct as_line {
    source_text_visit *visit;
    void *ctx;
};

static enum err visit_as_line(void *ctx, json_t *run)
{
    const struct as_line *to = ctx;
    char *line = line_of(run);
    enum err err = line ? to->visit(to->ctx, line) : ERR_NOMEM;

    mem_free(line);
    return err;
}

/* Visits those of @list; @known gets their ids. */
static enum err each_of(const json_t *list, json_t *known, run_visit *visit,
                        void *ctx)
{
    json_t *run;
    size_t k;
    enum err err = known ? ERR_OK : ERR_NOMEM;

    json_array_foreach(list, k, run)
    {
        if (!err &&
            json_object_set_new(known, json_text_at(run, "/run"), json_true()))
            err = ERR_NOMEM;
        if (!err)
            err = visit(ctx, run);
    }
    return err;
}

/* A service lists so many at most. Those that it does not are over, and older:
 * they are in its folder. */
static enum err each_there(struct source *s, run_visit *visit, void *ctx,
                           struct fault *f)
{
    struct as_json rest = {visit, ctx};
    json_t *list = NULL, *known = json_object();
    enum err err = source_list(s, "/api/v1/runs?order=desc", "runs", &list, f);
    bool whole = json_array_size(list) < VIEW_RUNS_MAX;

    if (!err)
        err = each_of(list, known, visit, ctx);
    json_decref(list);
    if (!err && !whole && s->found)
        err = each_here(s, known, visit_as_json, &rest, f);
    else if (!err && !whole)
        console_note("the service lists %d runs; older ones that are over are "
                     "in its state folder",
                     VIEW_RUNS_MAX);
    json_decref(known);
    return err;
}

struct counted_lines {
    source_text_visit *visit;
    void *ctx;
    size_t lines;
};

static enum err count_line(void *ctx, const char *line)
{
    struct counted_lines *c = ctx;

    c->lines++;
    return c->visit(c->ctx, line);
}

enum err source_each_line(struct source *s, source_text_visit *visit, void *ctx,
                          struct fault *f)
{
    struct counted_lines c = {visit, ctx, 0};
    struct as_line line = {visit, ctx};
    bool there = s->url[0] && !s->found;
    enum err err;

    assert(visit);
    err = there ? ERR_OK : each_here(s, NULL, count_line, &c, f);
    /* Where the folder cannot be read, its service may still tell. */
    if (there || (err && s->found && c.lines == 0))
        err = each_there(s, visit_as_line, &line, f);
    if (err == ERR_NOMEM)
        fault_set(f, err, "%s", err_text(err));
    return err;
}

static enum err append_run(void *ctx, json_t *run)
{
    return json_array_append(ctx, run) == 0 ? ERR_OK : ERR_NOMEM;
}

enum err source_runs(struct source *s, json_t **out, struct fault *f)
{
    json_t *list = json_array();
    struct as_json here = {append_run, list};
    enum err err = list ? ERR_OK : ERR_NOMEM;

    if (!err)
        err = s->url[0] ? each_there(s, append_run, list, f)
                        : each_here(s, NULL, visit_as_json, &here, f);
    if (err == ERR_NOMEM)
        fault_set(f, err, "%s", err_text(err));
    if (err)
        json_decref(list);
    else
        *out = list;
    return err;
}

/* ---- one run by its name ------------------------------------------------- */

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text ? text : "";
}

/* Id of the run that @word names among @runs, which are oldest first. */
static enum err choose(const json_t *runs, const char *word,
                       char id[RUN_ID_MAX + 1], struct fault *f)
{
    const char *same = NULL, *named = NULL, *begun = NULL;
    struct run_guess guess = {.word = word};
    size_t i, n = strlen(word);
    const json_t *run;

    json_array_foreach(runs, i, run)
    {
        const char *its = text_of(run, "run");

        if (strcmp(its, word) == 0)
            same = its;
        if (strcmp(text_of(run, "name"), word) == 0)
            named = its;
        if (n > 0 && strncmp(its, word, n) == 0)
            begun = its;
        run_guess_add(&guess, its, text_of(run, "name"));
    }
    if (!same && !named && (guess.begins != 1 || !begun))
        return run_guess_fault(&guess, "at the server", f);
    same = same ? same : named ? named : begun;
    if (strlen(same) > RUN_ID_MAX)
        return fault_set(f, ERR_FORMAT, "run \"%s\" has no valid id", same);
    snprintf(id, RUN_ID_MAX + 1, "%s", same);
    return ERR_OK;
}

enum err source_find(struct source *s, const char *word,
                     char id[RUN_ID_MAX + 1], struct fault *f)
{
    json_t *runs = NULL;
    enum err err;

    assert(word);
    assert(id);
    if (!s->url[0]) {
        err = find_here(s, word, f);
        if (!err)
            snprintf(id, RUN_ID_MAX + 1, "%s", s->run.id);
        return err;
    }
    err = source_list(s, "/api/v1/runs", "runs", &runs, f);
    if (!err)
        err = choose(runs, word, id, f);
    json_decref(runs);
    return err;
}

/* ---- the only one -------------------------------------------------------- */

enum { NAMED_MAX = 5 };

struct count {
    const char *state;
    size_t runs, live;
    char only[RUN_ID_MAX + 1], only_live[RUN_ID_MAX + 1];
    struct text names; /* of the first few */
};

static void count_one(struct count *c, const char *id, bool live)
{
    if (c->runs++ < NAMED_MAX)
        text_printf(&c->names, "%s%s", c->runs > 1 ? ", " : "", id);
    snprintf(c->only, sizeof(c->only), "%s", id);
    if (!live)
        return;
    c->live++;
    snprintf(c->only_live, sizeof(c->only_live), "%s", id);
}

static enum err count_stored(void *ctx, const struct journal_run *run)
{
    struct count *c = ctx;

    count_one(c, run->id, !run->status && run_folder_alive(c->state, run->id));
    return ERR_OK;
}

static enum err count_here(struct source *s, struct count *c, struct fault *f)
{
    struct journal *j = NULL;
    enum err err = open_here(s, &j, f);

    c->state = s->state;
    if (!err)
        err = journal_each_run(j, count_stored, c, f);
    journal_close(j);
    return err;
}

static enum err count_there(struct source *s, struct count *c, struct fault *f)
{
    json_t *runs = NULL;
    const json_t *run;
    size_t i;
    enum err err = source_runs(s, &runs, f);

    json_array_foreach(runs, i, run)
        count_one(c, text_of(run, "run"),
                  json_is_null(json_object_get(run, "finished_at")) &&
                      strcmp(text_of(run, "status"), "interrupted") != 0);
    json_decref(runs);
    return err;
}

enum err source_only(struct source *s, char id[RUN_ID_MAX + 1], struct fault *f)
{
    struct count c = {.runs = 0};
    enum err err = s->url[0] ? count_there(s, &c, f) : count_here(s, &c, f);

    assert(id);
    if (!err && c.runs == 0)
        err = fault_set(f, ERR_NOENT, "there is no run in %s",
                        s->url[0] ? s->url : s->state);
    else if (!err && c.runs > 1 && c.live != 1)
        err = fault_set(f, ERR_INVAL, "there are %zu runs, name one: %s%s",
                        c.runs, c.names.s ? c.names.s : "",
                        c.runs > NAMED_MAX ? ", ..." : "");
    if (!err)
        snprintf(id, RUN_ID_MAX + 1, "%s", c.live == 1 ? c.only_live : c.only);
    text_deinit(&c.names);
    return err;
}

int source_exit_code(enum err err)
{
    switch (err) {
    case ERR_NODE:
        return EXIT_NO_SERVER;
    case ERR_FORMAT:
        return EXIT_CONFIG;
    default:
        return replay_exit_code(err);
    }
}
