/* `mltune serve`: a service of many runs, submitted over HTTP. */
#include "cli/state/serve.h"
#include "api/http/token_io.h"
#include "api/service/server_io.h"
#include "apps/formats/data_root.h"
#include "base/deadlines.h"
#include "base/host/machine_io.h"
#include "base/host/notify_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/talk_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/signals.h"
#include "cli/basics/verbs.h"
#include "cli/config/config_table.h"
#include "cli/config/registry.h"
#include "cli/config/service_settings.h"
#include "cli/service/seat.h"
#include "cli/service/supervisor.h"
#include "cli/state/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    SLOTS_MAX = 64,
    FILES_WANTED = 4096,
    SILENCE_MIN = 3, /* it gives one a second */
    SILENCE_MAX = 86400
};

/* The HTTP thread, which goes round every few seconds, is stuck. */
static const time_ns HTTP_SILENT = 30000000000;

struct serve_arguments {
    const char *listen, *tls_cert, *tls_key, *read, *state, *data, *memory;
    const char *upload, *uploads;
    struct option_uint slots, workers, silence, keep, keep_days;
    struct option_list hook_hosts;
    const char *idle;
    bool programs, remove_resumable, hook_private, leave_queued;
};

struct service {
    char state[FILE_PATH_MAX], data[PATH_MAX];
    char token[TOKEN_LEN_MAX + 1];
    int signal_fd;
    struct seat seat;
    json_t *schema;
    struct config_schemas *schemas;
    struct view *view;
    struct desk *desk;
    struct api_server *server;
    struct fleet fleet;
    bool fleet_open;
    struct supervisor_options options;
    struct supervisor supervisor;
    struct notify notify;
};

/* ---- arguments ----------------------------------------------------------- */

static const char details[] =
    "POST /api/v1/runs with a configuration puts a run into the queue; "
    "docs/http.md\nhas the interface. Relative paths of a configuration start "
    "at the data folder and\nstay in it. Ctrl-C interrupts the runs after a "
    "snapshot; they go on when the next\nservice starts on the same state "
    "folder.";

static int parse_arguments(struct serve_arguments *a, int argc, char **argv)
{
    const struct option_spec options[] = {
        {"listen", 0, OPTION_TEXT, "ADDR",
         "address of the service (" SERVE_LISTEN_DEFAULT ")", &a->listen},
        {"tls-cert", 0, OPTION_TEXT, "FILE",
         "its certificate (PEM): https, and any address", &a->tls_cert},
        {"tls-key", 0, OPTION_TEXT, "FILE", "the certificate's key (PEM)",
         &a->tls_key},
        {"read", 0, OPTION_TEXT, "everyone|user|token",
         "who may read on loopback without the token; user: this user's "
         "processes, token: nobody, the default",
         &a->read},
        {"state", 0, OPTION_TEXT, "DIR",
         "where runs are kept (" STATE_DEFAULT ")", &a->state},
        {"data", 0, OPTION_TEXT, "DIR",
         "where the runs' data are (the working folder)", &a->data},
        {"slots", 0, OPTION_UINT, "N", "runs at a time (1)", &a->slots},
        {"workers", 0, OPTION_UINT, "N",
         "workers of all runs together (the cores of this machine)",
         &a->workers},
        {"memory", 0, OPTION_TEXT, "SIZE",
         "memory of all runs together (half of the machine's)", &a->memory},
        {"upload", 0, OPTION_TEXT, "SIZE",
         "largest file that may be uploaded (4GiB)", &a->upload},
        {"uploads", 0, OPTION_TEXT, "SIZE",
         "all uploaded files together (16GiB); 0: none may be", &a->uploads},
        {"keep", 0, OPTION_UINT, "N",
         SERVICE_KEEP_HELP " (runs.keep.number of STATE/" SERVICE_SETTINGS ")",
         &a->keep},
        {"keep-days", 0, OPTION_UINT, "DAYS",
         SERVICE_KEEP_AGE_HELP " (runs.keep.age)", &a->keep_days},
        {"remove-resumable", 0, OPTION_FLAG, NULL,
         "these also remove runs that could be continued: stopped ones, and "
         "failed ones with a snapshot or trials (runs.keep.resumable: false)",
         &a->remove_resumable},
        {"silence", 0, OPTION_UINT, "SECONDS",
         "a run whose tuner gives no sign of life for so long is started again "
         "(300)",
         &a->silence},
        {"idle", 0, OPTION_TEXT, "TIME",
         "end when nothing runs, and nobody has asked for so long, as 30m "
         "(never)",
         &a->idle},
        {"leave-queued", 0, OPTION_FLAG, NULL,
         "begin no run that waits in the state folder until it is continued; "
         "another service takes this one's place",
         &a->leave_queued},
        {"allow-programs", 0, OPTION_FLAG, NULL,
         "submitted configurations may name apps and searchers that are "
         "programs or shared objects",
         &a->programs},
        {"hook-host", 0, OPTION_LIST, "HOST",
         "submitted configurations may have webhooks to this host "
         "(repeatable; none)",
         &a->hook_hosts},
        {"hook-private", 0, OPTION_FLAG, NULL,
         "and to addresses that are not public", &a->hook_private},
    };
    const struct usage usage = {
        .verb = "serve",
        .operands = "",
        .details = details,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;

    return options_parse(&usage, argc, argv, &operands);
}

static int check_uploads(const struct serve_arguments *a,
                         struct upload_place *out)
{
    const char *text[] = {a->upload, a->uploads};
    uint64_t *size[] = {&out->file_max, &out->all_max};

    *out = (struct upload_place){.file_max = UPLOAD_FILE_MAX,
                                 .all_max = UPLOAD_ALL_MAX};
    for (int i = 0; i < 2; i++)
        if (text[i] && !options_size(text[i], 0, size[i])) {
            console_error("--%s: expected a size such as 8GiB, found \"%s\"",
                          i ? "uploads" : "upload", text[i]);
            return EXIT_USAGE;
        }
    return EXIT_DONE;
}

static int exit_code_at(enum err err)
{
    switch (err) {
    case ERR_INVAL:
    case ERR_UNSUPPORTED:
        return EXIT_CONFIG;
    case ERR_NOMEM:
        return EXIT_RUN_FAILED;
    default:
        return EXIT_IO;
    }
}

static int check_keep(const struct serve_arguments *a, struct retention *out)
{
    static const char *const name[] = {"keep", "keep-days"};
    static const uint64_t most[] = {SERVICE_KEEP_MAX, SERVICE_KEEP_DAYS_MAX};
    const struct option_uint *given[] = {&a->keep, &a->keep_days};
    struct fault f = {0};
    enum err err;

    for (int i = 0; i < 2; i++)
        if (given[i]->given &&
            (given[i]->value < 1 || given[i]->value > most[i])) {
            console_error("--%s: expected 1 to %" PRIu64, name[i], most[i]);
            return EXIT_USAGE;
        }
    *out = (struct retention){
        .number = a->keep.given ? (uint32_t)a->keep.value : 0,
        .age_ns = a->keep_days.given
                      ? (int64_t)a->keep_days.value * RETENTION_DAY_NS
                      : 0,
        .resumable = a->remove_resumable};
    err = retention_settle(a->state, out, &f);
    if (err) {
        console_error("%s", f.text);
        return exit_code_at(err);
    }
    if (a->remove_resumable && out->number == 0 && out->age_ns == 0) {
        console_error("--remove-resumable: expected --keep or --keep-days "
                      "beside it; alone it removes nothing");
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

static int check_arguments(const struct serve_arguments *a, struct service *s)
{
    struct supervisor_options *o = &s->options;
    uint64_t slots = a->slots.given ? a->slots.value : 1;
    uint64_t workers = a->workers.given ? a->workers.value : machine_cores("");
    uint64_t memory = machine_memory("") / 2;
    double idle = 0;
    int code;
    uint64_t silence =
        a->silence.given ? a->silence.value : DEADLINE_TUNER_SIGN_MS / 1000;

    if (strcmp(a->read, "everyone") != 0 && strcmp(a->read, "user") != 0 &&
        strcmp(a->read, "token") != 0) {
        console_error("--read: expected everyone, user or token");
        return EXIT_USAGE;
    }
    if (slots < 1 || slots > SLOTS_MAX) {
        console_error("--slots: expected 1 to %d", SLOTS_MAX);
        return EXIT_USAGE;
    }
    if (silence < SILENCE_MIN || silence > SILENCE_MAX) {
        console_error("--silence: expected %d to %d seconds", SILENCE_MIN,
                      SILENCE_MAX);
        return EXIT_USAGE;
    }
    if (workers < 1 || workers > 4096) {
        console_error("--workers: expected 1 to 4096");
        return EXIT_USAGE;
    }
    if (a->memory && !options_size(a->memory, 1 << 20, &memory)) {
        console_error("--memory: expected a size such as 8GiB, at least 1MiB, "
                      "found \"%s\"",
                      a->memory);
        return EXIT_USAGE;
    }
    if (a->idle && !options_time(a->idle, SERVE_IDLE_MAX, &idle)) {
        console_error("--idle: " SERVE_IDLE_EXPECTED ", found \"%s\"", a->idle);
        return EXIT_USAGE;
    }
    o->idle = (time_ns)(idle * 1e9);
    o->leaves_queue = a->leave_queued;
    code = check_uploads(a, &o->uploads);
    if (code == EXIT_DONE)
        code = check_keep(a, &o->keep);
    if (code != EXIT_DONE)
        return code;
    if (!realpath(a->data, s->data)) {
        console_error("--data %s: no such folder", a->data);
        return EXIT_USAGE;
    }
    o->limits =
        (struct queue_limits){(unsigned)slots, (unsigned)workers, memory};
    o->silence = (time_ns)silence * 1000000000;
    o->intake = (struct intake){
        .registry = cli_registry(),
        .data = s->data,
        .workers = (unsigned)(workers > slots ? workers / slots : 1),
        .workers_max = (unsigned)workers,
        .memory = memory / slots,
        .memory_max = memory,
        .programs = a->programs,
        .hook_hosts = &a->hook_hosts,
        .hook_private = a->hook_private,
    };
    return EXIT_DONE;
}

/* ---- setting up ---------------------------------------------------------- */

/* Every connection is a file. */
static void allow_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FILES_WANTED)
        return;
    limit.rlim_cur =
        limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static enum err make_view(struct service *s, struct fault *f)
{
    struct view_options view = {.registry = cli_registry(),
                                .state = s->state,
                                .fetch = fleet_fetch,
                                .fetch_ctx = s->state};
    enum err err = desk_new(&s->desk);

    /* Only for those who ask over HTTP: without it the service goes on. */
    if (config_full_schema(cli_registry(), &s->schema, NULL) != ERR_OK)
        s->schema = NULL;
    /* Without them it parses each configuration more slowly. */
    if (config_schemas_new(cli_registry(), &s->schemas) != ERR_OK)
        s->schemas = NULL;
    s->options.intake.schemas = s->schemas;
    view.schema = s->schema;
    view.desk = s->desk;
    if (!err)
        err = view_new(&view, &s->view);
    if (err)
        return fault_set(f, err, "%s", err_text(err));
    view_set_ready(s->view, "the service reads its runs");
    view_set_filling(s->view, true);
    return ERR_OK;
}

/* In the HTTP thread, or before there is one. */
static void keep_page(void *ctx, const char *code)
{
    const struct service *s = ctx;

    seat_page(&s->seat, code);
}

static enum err start_server(struct service *s, const struct serve_arguments *a,
                             struct fault *f)
{
    char local[FILE_PATH_MAX];
    struct api_server_options o = {.listen = a->listen,
                                   .local = local,
                                   .token = s->token,
                                   .state = s->state,
                                   .audit = true,
                                   .tls_cert = a->tls_cert,
                                   .tls_key = a->tls_key,
                                   .read = service_read_rule(a->read),
                                   .entered = keep_page,
                                   .entered_ctx = s,
                                   .view = s->view};
    enum err err = file_join(local, s->state, SERVE_SOCKET, f);

    if (!err)
        err = api_server_start(&o, &s->server, f);
    if (err)
        return err;
    if (api_server_no_local(s->server))
        console_note("%s: the command line uses the address and the token",
                     api_server_no_local(s->server));
    return seat_say(&s->seat, api_server_url(s->server),
                    !api_server_no_local(s->server), f);
}

/* Runs take data from the data folder alone, and nothing from the state folder
 * where that lies in it. */
static enum err confine(struct service *s, struct fault *f)
{
    char state[PATH_MAX];
    size_t n = strlen(s->data);

    if (!realpath(s->state, state))
        return fault_errno(f, ERR_IO, errno, "state folder %s", s->state);
    if (strcmp(s->data, "/") == 0 ||
        (strncmp(state, s->data, n) == 0 && (!state[n] || state[n] == '/')))
        console_note("the state folder %s lies in the data folder: no "
                     "configuration can name what is in it",
                     state);
    return data_confine(s->data, state) == ERR_OK
               ? ERR_OK
               : fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
}

static enum err set_up(struct service *s, const struct serve_arguments *a,
                       struct fault *f)
{
    const char *given = getenv("MLTUNE_TOKEN");
    enum err err =
        signals_open_guarded(&s->signal_fd, DEADLINE_STOP_SERVICE_MS, true, f);

    talk_hurry(true);
    s->options.token_given = given && *given;
    if (!err)
        err = state_make(a->state, s->state, f);
    if (!err)
        err = token_make(s->state, s->token, f);
    if (!err)
        err = confine(s, f);
    if (!err)
        err = seat_take(&s->seat, s->state, s->options.leaves_queue,
                        s->signal_fd, f);
    if (!err)
        err = make_view(s, f);
    if (!err)
        err = start_server(s, a, f);
    if (err)
        return err;
    state_sweep(s->state);
    s->fleet_open = true;
    return fleet_open(&s->fleet, s->state, s->view, f);
}

/* ---- the service --------------------------------------------------------- */

static void greet(const struct service *s)
{
    const struct queue_limits *l = &s->options.limits;
    char page[FILE_PATH_MAX], *way = NULL;
    size_t len;

    console_note("serving at %s: state %s, data %s, %u run%s at a time, %u "
                 "worker%s and %.1f GiB for all",
                 api_server_url(s->server), s->state, s->data, l->slots,
                 l->slots == 1 ? "" : "s", l->workers,
                 l->workers == 1 ? "" : "s", (double)l->memory / 0x1p30);
    if (file_join(page, s->state, SERVE_PAGE, NULL) == ERR_OK &&
        file_read(page, 127, &way, &len, NULL) == ERR_OK)
        console_note("the page, for one browser: %s%s (the next one: %s)",
                     api_server_url(s->server), way, page);
    mem_free(way);
    console_note("the token for whoever submits is in %s/token%s", s->state,
                 s->options.token_given ? ", or rather in MLTUNE_TOKEN" : "");
}

/* Both threads live, as far as can be seen from here. */
static void say_alive(void *ctx)
{
    struct service *s = ctx;
    time_ns now = clock_monotonic();

    if (now - api_server_turned(s->server) < HTTP_SILENT)
        notify_beat(&s->notify, now);
}

static time_ns used(void *ctx)
{
    const struct service *s = ctx;

    return api_server_used(s->server);
}

static int serve(struct service *s)
{
    struct supervisor *v = &s->supervisor;
    int number;

    s->options.state = s->state;
    s->options.uploads.data = s->data;
    s->options.uploads.state = s->state;
    s->options.token = s->token;
    s->options.turned = say_alive;
    s->options.used = used;
    s->options.ctx = s;
    *v = (struct supervisor){.o = &s->options,
                             .fleet = &s->fleet,
                             .desk = s->desk,
                             .signal_fd = s->signal_fd};
    greet(s);
    view_set_filling(s->view, false);
    view_set_ready(s->view, NULL);
    notify_say(&s->notify, "READY=1");
    number = supervisor_run(v);
    notify_say(&s->notify, "STOPPING=1");
    if (number == 0)
        console_note("nobody has asked for %g s: the service ends",
                     (double)s->options.idle * 1e-9);
    return number ? EXIT_SIGNAL + number : EXIT_DONE;
}

static void tear_down(struct service *s)
{
    api_server_stop(s->server);
    if (s->fleet_open)
        fleet_close(&s->fleet);
    view_free(s->view);
    desk_free(s->desk);
    json_decref(s->schema);
    config_schemas_free(s->schemas);
    seat_leave(&s->seat);
    signals_close(s->signal_fd);
    talk_hurry(false);
    notify_close(&s->notify);
}

int verb_serve(int argc, char **argv)
{
    struct serve_arguments a = {.listen = SERVE_LISTEN_DEFAULT,
                                .read = "token",
                                .state = STATE_DEFAULT,
                                .data = "."};
    struct service *s;
    struct fault f = {0};
    int code = parse_arguments(&a, argc, argv);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    s = mem_calloc(1, sizeof(*s));
    if (!s) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    s->signal_fd = s->seat.lock_fd = -1;
    notify_open(&s->notify);
    allow_files();
    code = check_arguments(&a, s);
    if (code == EXIT_DONE) {
        err = set_up(s, &a, &f);
        if (err)
            console_error("%s", f.text);
        code = err ? exit_code_at(err) : serve(s);
    }
    tear_down(s);
    mem_free(s);
    return code;
}
