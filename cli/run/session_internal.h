/* A session from inside: what its files share. Only cli/run/session*.c. */
#ifndef CLI_SESSION_INTERNAL_H
#define CLI_SESSION_INTERNAL_H

#include "api/http/event_log.h"
#include "api/http/token_io.h"
#include "api/service/server_io.h"
#include "api/view/view.h"
#include "base/host/lookup_io.h"
#include "base/run_key_io.h"
#include "cli/basics/progress.h"
#include "cli/run/hooks.h"
#include "cli/run/session.h"
#include "cli/run/tensorboard.h"
#include "tuner/history/history.h"
#include "tuner/history/journal_io.h"
#include "tuner/shell/launcher_io.h"
#include "tuner/shell/loop_io.h"
#include "tuner/shell/mailbox_io.h"
#include "tuner/shell/socket_io.h"
#include "tuner/shell/state_io.h"

enum { SESSION_HOOKS = 2 }; /* the command, the webhook */

struct session {
    const struct session_options *o;
    char state[FILE_PATH_MAX];
    char model_dir[FILE_PATH_MAX];
    char snapshot_dir[FILE_PATH_MAX];
    uint64_t not_shown; /* records that do not fit the history */
    bool sweep_due;     /* folders may be there that no record speaks of */
    bool went_on;       /* a snapshot was journaled since the run went on */
    char kept_dir[FILE_PATH_MAX]; /* what a model needs of the data */
    bool data_tried;              /* the list of their files is a new one */
    bool trained;                 /* a slice was journaled since it went on */
    char log_path[FILE_PATH_MAX];
    struct run_folder folder;
    struct journal *journal;
    bool begun;    /* the journal knows the run */
    bool untold;   /* who started it cannot know its id: it goes again */
    bool hooked;   /* its hooks are there to be told */
    bool recalled; /* history and folder are those of a run that goes on */
    bool unclosed; /* whose end the journal's list of runs does not say */
    int signal_fd, log_fd;
    bool watching;    /* progress has been started */
    time_ns recorded; /* when a record was last made; else when it began */
    struct progress progress;
    struct history history; /* changed under the view's lock */
    struct view *view;
    struct mailbox *mailbox;
    struct event_log *events;
    struct api_server *server;
    char url[128], url_path[FILE_PATH_MAX];
    char token[TOKEN_LEN_MAX + 1];
    struct tuner_socket socket;
    struct node_process node[KEEPER_NODES_MAX];
    unsigned nodes, starts; /* how often they were started */
    double logs_seen_s;     /* when their logs were looked at */
    bool unsaid;            /* there was no memory to write the result */
    int64_t log_cut;        /* of our own, as log_file_cut knows it */
    bool logs_grow;         /* that they cannot be cut was told */
    uint16_t port;          /* where programs may meet, of this start */
    char meet[FILE_PATH_MAX];
    struct session_cluster {
        const struct engine *engine;   /* that starts the nodes */
        char address[LOOKUP_HOST_MAX]; /* where those elsewhere find us */
        unsigned hosts;
        char (*host)[ENGINE_HOST_MAX]; /* [hosts] in turn for nodes; owned */
    } cluster;
    struct msg config; /* for the nodes; its members are borrowed */
    json_t *lowered;   /* owned: o->config with a lower memory.limit; or NULL */
    uint64_t oom_kills;        /* by the kernel, when the nodes were started */
    char key[RUN_KEY_LEN + 1]; /* of this start */
    struct tuner *tuner;
    struct session_kept {
        struct checkpoint_start start; /* owned */
        int64_t began_ns;
        uint64_t last, before; /* records in the newest checkpoint, and in the
                                * one before it; 0: none of this process */
        uint64_t bytes;        /* that the newest one takes */
        uint64_t grown;        /* the journal's bytes at that time */
        double again_s;        /* not before, where it could not be written */
        double log_s;          /* when SQLite's log was looked at */
        uint64_t log_bytes;    /* what was left of it when it was last folded */
        bool due, mends, told;
    } kept;
    struct hooks hook[SESSION_HOOKS];
    struct tensorboard board;     /* its TensorBoard files */
    bool board_told;              /* that they cannot be written */
    uint64_t notes_mark;          /* of the file of notes that is shown */
    char reason[RECORD_TEXT_MAX]; /* why it goes on */
    struct loop_result result;
};

/* Its files (session_folder.c). */

/* Folder, model's place and log of a new run, or of the one that goes on, whose
 * history is then read. Errors: as run_folder_new and run_folder_open,
 * ERR_EXIST the model's folder holds something else, those of the journal. */
enum err session_make_folder(struct session *s, struct fault *f);

/* The journal takes records of the run from here on. */
enum err session_register(struct session *s, struct fault *f);

/* A run that goes on has no end any more: once a record says so, and with the
 * configuration that it goes on with. */
enum err session_reopen(struct session *s, struct fault *f);

/* Where the list of the data's files is a new one, it counts from here on if
 * the run has @trained with them, else the old one does. */
void session_data_end(struct session *s, bool trained);

/* Shows what people wrote to the run, where that is new. */
void session_notes_look(struct session *s);

/* ---- session_kept.c: the journal stays within its limit ------------------ */

/* What each checkpoint says of the run's beginning. Errors: ERR_NOMEM. */
enum err session_kept_begin(struct session *s, struct fault *f);

/* @record has been journaled. */
void session_kept_record(struct session *s, const struct record *record);

/* Writes a checkpoint where one is due, and gives up the records that are
 * needed no more. Errors: ERR_LIMIT the journal takes more than journal.limit,
 * all the same; those of the journal. */
enum err session_kept_look(struct session *s, double now_s, struct fault *f);

/* The run is over: a last one, so that it is read quickly. */
void session_kept_end(struct session *s);

/* A sign of life, and logs are kept within their bound: about once a second. */
void session_beat(struct session *s);

/* Its training system's processes (session_nodes.c). */

/* Where they are started, and the socket by which they find the tuner; starts
 * them. Errors: with the reason; then none runs. */
enum err session_start_nodes(struct session *s, struct fault *f);

/* Starts all anew, with another key; none runs. Errors: as above. */
enum err session_launch_nodes(struct session *s, struct fault *f);

/* loop_hooks.again. */
enum err session_launch_again(void *ctx, uint32_t node, struct fault *f);

/* The file that process @node writes into. Errors: ERR_LIMIT. */
enum err session_node_log(const struct session *s, unsigned node,
                          char out[FILE_PATH_MAX], struct fault *f);

/* Its hooks (session_hooks.c). */

void session_hooks_begin(struct session *s);

/* Starts and ends what is due. */
void session_hooks_turn(struct session *s);

/* @record has been journaled and taken in. */
void session_hooks_record(struct session *s, const struct record *record);

/* The run is over, and its end journaled: waits for what the hooks do, briefly
 * after a signal. */
void session_hooks_end(struct session *s);

/* Kills what runs still. */
void session_hooks_deinit(struct session *s);

/* Its TensorBoard files (session_tensorboard.c), where the configuration wants
 * them. What cannot be written does the run no harm: it is told once, and tried
 * again at the next record. */

void session_tensorboard_begin(struct session *s);

/* @record has been journaled and taken in. */
void session_tensorboard_record(struct session *s, const struct record *record);

/* Removes folders of snapshots that the history does not know: they were
 * written in vain. @written_now: another one may be under way. Only once the
 * run has gone on (went_on): until then nobody knows which of them is of use.
 */
void session_sweep_snapshots(const struct session *s, bool written_now);

/* The configuration that nodes are given (borrowed), and another one from here
 * on: borrowed too, for as long as the session. */
const json_t *session_config(const struct session *s);
void session_set_config(struct session *s, json_t *config);

/* Its memory (session_memory.c). */

/* The nodes are about to start: what the kernel has killed so far was none of
 * them. */
void session_memory_begin(struct session *s);

/* The nodes are lost. Where the kernel killed one for memory, those that follow
 * get less, and s->reason, which says why they were lost, says that too.
 * Errors: ERR_NOMEM. */
enum err session_memory_lower(struct session *s);

/* loop_hooks.model: completes the model in @dir with what it was made from. */
enum err session_complete_model(void *ctx, const char *dir, const json_t *data,
                                struct fault *f);

#endif
