/* Where the verbs that look get what they show: a server, or a state folder.
 *
 * Both answer the same targets of the HTTP interface with the same JSON: of a
 * state folder the journal is replayed and asked by the same routes, without a
 * socket. So what a verb prints does not depend on whether a server lives.
 */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "api/http/token_io.h"
#include "base/fault.h"
#include "cli/basics/options.h"
#include "cli/remote/client.h"
#include "cli/state/replay.h"

#include <jansson.h>

struct view;

struct source {
    char url[CLIENT_URL_MAX]; /* of the server; "": the state folder is read */
    char socket[FILE_PATH_MAX]; /* its Unix socket; "": none is known */
    bool found; /* the server is that of the folder, not one that was named */
    char state[FILE_PATH_MAX];
    char token[TOKEN_LEN_MAX + 1]; /* for a server of another machine; or "" */
    struct view *view;             /* of the run that was found in the folder */
    struct replayed run;
};

/* The server that is named: by the option @server, else by MLTUNE_SERVER; NULL:
 * none is. */
const char *source_server(const char *server);

/* Address and Unix socket (NULL: not asked for; "": it has none) of the service
 * that has the state folder @state; false: none lives. */
bool source_service(const char *state, char url[CLIENT_URL_MAX],
                    char socket[FILE_PATH_MAX]);

/* The token for a server of the state folder @state. Where there is none that
 * can be read but who listens at @socket ("": nobody), which needs none: "".
 * Errors: of token_read. */
enum err source_token(const char *state, const char *socket,
                      char token[TOKEN_LEN_MAX + 1], struct fault *f);

/* The token for a server that was named by its address: MLTUNE_TOKEN; else that
 * of the state folder, where a server of this folder that lives has the
 * address. Any other may be a stranger's: "". A certificate says whose a host
 * is, not that its server is this folder's. Errors: of token_read. */
enum err source_named_token(const char *state, const char *server,
                            char token[TOKEN_LEN_MAX + 1], struct fault *f);

/* Says that there is none, where source_named_token gave none. */
void source_say_no_token(const char *state, const char *server);

/* Source at @server, else of the folder @state. On error there is nothing to
 * close. Errors: ERR_INVAL the address is too long. */
enum err source_open(struct source *s, const char *server, const char *state,
                     struct fault *f);

/* Options by which a verb that looks is told where; zeroed but for the state's
 * default. */
struct source_options {
    const char *state, *server;
};

#define SOURCE_OPTIONS_DEFAULT                                                 \
    {                                                                          \
        .state = STATE_DEFAULT                                                 \
    }

/* Their table, into a `struct source_options`. */
#define SOURCE_OPTIONS(o)                                                      \
    STATE_OPTION((o).state),                                                   \
        {"server", 0, OPTION_TEXT, "URL", REPLAY_SERVER_HELP, &(o).server},    \
        CLIENT_CACERT_OPTION

/* Reads a verb's options and operands by @usage and opens the source that
 * @options, which are among them, then name, as source_open does; but where no
 * server is named and a service that answers has the folder, it is asked: it
 * knows what no record says, such as who waits. Returns OPTIONS_GO_ON, or the
 * exit code: then there is nothing to close, and what was wrong is said. */
int source_begin(const struct usage *usage, int argc, char **argv,
                 const struct source_options *options,
                 struct operands *operands, struct source *s);

/* Source of the one run @id called @name in the folder @state, whose history is
 * at hand (borrowed). Errors: ERR_NOMEM. */
enum err source_of_history(struct source *s, const char *state, const char *id,
                           const char *name, const struct history *history);

void source_close(struct source *s);

/* Id of the run called @word: its id, else the newest of that name, else the
 * only one whose id begins so. Of a state folder this also reads the run.
 * Errors: ERR_NOENT, ERR_INVAL more than one; of the client; of the journal. */
enum err source_find(struct source *s, const char *word,
                     char id[RUN_ID_MAX + 1], struct fault *f);

/* Id of the only run, or of the only one that is under way. Errors: ERR_NOENT
 * there is none, ERR_INVAL there are several: @f names some; those of
 * source_find, which has to come after it. */
enum err source_only(struct source *s, char id[RUN_ID_MAX + 1],
                     struct fault *f);

/* The request GET @target to the source's server, borrowing from @s. One that
 * was found is looked up anew: it may be another by now, at another port, and
 * the old port a stranger's. Errors: ERR_NODE none has the folder. */
enum err source_request(struct source *s, const char *target,
                        struct client_request *out, struct fault *f);

/* Answer to GET @target, the caller's. Of a state folder only targets of the
 * run that was found. Errors: ERR_NOENT (404), ERR_NODE (429, 5xx: it may
 * pass), ERR_INVAL (other refusals); those of the client. */
enum err source_get(struct source *s, const char *target, json_t **out,
                    struct fault *f);

/* The runs of a state folder, newest first, as render_cells has them; borrowed.
 * Of runs that have ended, as they were shown before (journal_list_io.h); what
 * is found of others that have is kept for the next time, where the journal can
 * be written. A service that was found says what those are that are not over;
 * it may know fewer runs than the folder has. Errors: as source_find's. */
typedef enum err source_text_visit(void *ctx, const char *text);
enum err source_each_row(struct source *s, source_text_visit *visit, void *ctx,
                         struct fault *f);

/* Visits all runs, newest first, each as a line of JSON (render_members),
 * borrowed; of a state folder as source_each_row does, and one is in memory at
 * a time. Whatever else than ERR_OK a visit returns ends it. Errors: as
 * source_runs', @visit's. */
enum err source_each_line(struct source *s, source_text_visit *visit, void *ctx,
                          struct fault *f);

/* All runs as the interface lists them, newest first, the caller's array. Those
 * of the folder that a service which was found does not list come behind; of
 * one that was named it is said that there may be more. Errors: as source_get's
 * and source_find's. */
enum err source_runs(struct source *s, json_t **out, struct fault *f);

/* Meaning of a server's answer: the JSON of @body[@len], the caller's, or a
 * refusal. Errors: as source_get's. */
enum err source_answer(const struct source *s, int status, const char *body,
                       size_t len, json_t **out, struct fault *f);

/* A piece of a run's log (GET /runs/RUN/log), bytes as they are. */
struct source_piece {
    char *bytes; /* owned (mem_free) */
    size_t len;
    uint64_t from, next; /* place of the first byte, and behind the last */
};

enum { SOURCE_PIECE_MAX = 1024 * 1024 };

/* The log of process @node of run @id, which was found: at most @limit bytes
 * (to SOURCE_PIECE_MAX) from byte @offset on, negative: from the end. Errors:
 * as source_get's; ERR_NOENT also where there is no log. */
enum err source_log(struct source *s, const char *id, unsigned node,
                    int64_t offset, size_t limit, struct source_piece *out,
                    struct fault *f);

/* All items of the list @name at @target, page by page, the caller's array.
 * @target has a query already if it has a '?'. */
enum err source_list(struct source *s, const char *target, const char *name,
                     json_t **out, struct fault *f);

/* Exit code of a verb to which a source did not give what it shows. */
int source_exit_code(enum err err);

#endif
