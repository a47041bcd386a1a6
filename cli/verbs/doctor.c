/* `mltune doctor`: what this machine can do for a run, what is missing, and how
 * to get it. */
#include "api/http/token_io.h"
#include "base/clock_io.h"
#include "base/file_io.h"
#include "base/host/local_io.h"
#include "base/host/machine_io.h"
#include "base/subprocess_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/fold.h"
#include "cli/basics/options.h"
#include "cli/basics/table.h"
#include "cli/basics/verbs.h"
#include "cli/remote/client.h"
#include "cli/state/replay.h"
#include "cli/state/serve.h"
#include "cli/state/source.h"
#include "ps/space/open_io.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>
#include <zmq.h>

/* NOTE: good to have; BAD: nothing works without. */
enum doctor_verdict { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_BAD, DOCTOR_VERDICTS };

struct doctor {
    const char *state;  /* folder */
    const char *server; /* URL; NULL: MLTUNE_SERVER, else found in @state */
    struct text_table table;
    json_t *list; /* owned */
    int failed;   /* not 0: a line of it found no memory */
    bool bad;
};

static const char *const verdict_name[DOCTOR_VERDICTS] = {"ok", "note",
                                                          "missing"};

/* Runs on less, but not for long. */
static const uint64_t memory_least = 1u << 30, disk_least = 1u << 30;

/* Adds one line; @advice: what to do, "" where nothing is to be done. */
__attribute__((format(printf, 5, 6))) static void
say(struct doctor *d, enum doctor_verdict v, const char *what,
    const char *advice, const char *fmt, ...)
{
    char found[TABLE_CELL_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(found, sizeof(found), fmt, ap);
    va_end(ap);
    d->bad |= v == DOCTOR_BAD;
    table_add(&d->table, "%s", verdict_name[v]);
    table_add(&d->table, "%s", what);
    table_add(&d->table, "%s", found);
    table_add(&d->table, "%s", v == DOCTOR_OK ? "" : advice);
    d->failed |= json_array_append_new(
        d->list, json_pack("{s:s, s:s, s:s, s:s}", "check", what, "verdict",
                           verdict_name[v], "found", found, "advice",
                           v == DOCTOR_OK ? "" : advice));
}

/* First line of a file of the kernel's; false: it cannot be read. */
static bool read_line(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    bool got = file && fgets(out, (int)size, file);

    if (file)
        fclose(file);
    if (got)
        out[strcspn(out, "\n")] = '\0';
    return got;
}

/* ---- machine ------------------------------------------------------------- */

static void look_at_machine(struct doctor *d)
{
    uint64_t memory = machine_memory_left("");
    uint64_t limit = machine_memory_limit("");
    unsigned cores = machine_cores("");
    char pages[128] = "";

    say(d, cores > 1 ? DOCTOR_OK : DOCTOR_NOTE, "cores",
        "one worker is all that trains at full speed", "%u", cores);
    say(d, memory >= memory_least ? DOCTOR_OK : DOCTOR_NOTE, "memory",
        "end other programs, or run elsewhere: five models must fit",
        "%.1f GiB available", (double)memory / 0x1p30);
    if (limit != UINT64_MAX)
        say(d, DOCTOR_NOTE, "memory limit", "set memory.limit below it",
            "%.1f GiB (of the control group)", (double)limit / 0x1p30);
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", pages,
              sizeof(pages));
    say(d, *pages && !strstr(pages, "[never]") ? DOCTOR_OK : DOCTOR_NOTE,
        "huge pages",
        "as root: echo madvise >/sys/kernel/mm/transparent_hugepage/enabled",
        "%s", *pages ? pages : "the kernel does not say");
}

static void look_at_limits(struct doctor *d)
{
    struct rlimit files = {0}, space = {0};

    getrlimit(RLIMIT_NOFILE, &files);
    say(d, files.rlim_max >= 4096 ? DOCTOR_OK : DOCTOR_NOTE, "open files",
        "ulimit -Hn 4096: the service has up to 704 clients", "up to %" PRIu64,
        (uint64_t)files.rlim_max);
    getrlimit(RLIMIT_AS, &space);
    say(d, space.rlim_cur == RLIM_INFINITY ? DOCTOR_OK : DOCTOR_NOTE,
        "address space", "ulimit -v unlimited", "%s",
        space.rlim_cur == RLIM_INFINITY ? "unlimited" : "limited");
}

/* ---- libraries and programs ---------------------------------------------- */

static void look_at_libraries(struct doctor *d)
{
    int major, minor, patch;

    zmq_version(&major, &minor, &patch);
    say(d, DOCTOR_OK, "libraries", "",
        "zmq %d.%d.%d, libmicrohttpd %s, GnuTLS %s, SQLite %s", major, minor,
        patch, MHD_get_version(), gnutls_check_version(NULL),
        sqlite3_libversion());
    say(d, DOCTOR_OK, "", "", "jansson %s, zlib %s", jansson_version_str(),
        zlibVersion());
    say(d,
        MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES ? DOCTOR_OK
                                                             : DOCTOR_NOTE,
        "https", "apt-get install libmicrohttpd12", "%s",
        MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES ? "yes" : "no");
}

/* Exit status of a program whose output nobody wants; -1: it does not start, or
 * is killed. */
static int run_quietly(char *const argv[])
{
    char path[FILE_PATH_MAX];
    const struct subprocess_options o = {
        .path = path,
        .argv = argv,
        .file = {SUBPROCESS_NULL, SUBPROCESS_NULL, SUBPROCESS_NULL},
        .death_signal = SIGKILL};
    struct subprocess p;

    if (!subprocess_find(argv[0], path, sizeof(path)) ||
        subprocess_start(&p, &o, NULL) != ERR_OK)
        return -1;
    subprocess_wait(&p, -1, -1);
    return p.code < 0 ? -1 : p.code;
}

static void look_at_python(struct doctor *d)
{
    static const struct {
        const char *module, *use, *advice;
    } wanted[] = {
        {"numpy", "models (.npy) in Python", "apt-get install python3-numpy"},
        {"optuna", "its searchers (docs/write-a-searcher.md)",
         "pip install optuna"},
    };
    char program[] = "python3", option[] = "-c", line[64];
    char *argv[] = {program, option, line, NULL};

    snprintf(line, sizeof(line), "pass");
    if (run_quietly(argv) != 0) {
        say(d, DOCTOR_NOTE, "python3", "apt-get install python3",
            "not found: no searchers in Python");
        return;
    }
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        bool there;

        snprintf(line, sizeof(line), "import %s", wanted[i].module);
        there = run_quietly(argv) == 0;
        say(d, there ? DOCTOR_OK : DOCTOR_NOTE, wanted[i].module,
            wanted[i].advice, "%s: %s", there ? "there" : "absent",
            wanted[i].use);
    }
}

/* ---- devices ------------------------------------------------------------- */

static void look_at_device(struct doctor *d, const struct space_device *device)
{
    const struct space_options o = {0};
    struct memory_space *space;
    struct space_memory m = {0};
    struct fault f = {0};

    if (space_open(device->name, &o, &space, &f)) {
        say(d, DOCTOR_NOTE, device->name, "see nvidia-smi", "%s: %s",
            device->what, f.text);
        return;
    }
    if (space->ops->memory(space, &m, &f))
        say(d, DOCTOR_NOTE, device->name, "see nvidia-smi", "%s: %s",
            device->what, f.text);
    else
        say(d, DOCTOR_OK, device->name, "",
            "%s, CUDA %s, %.1f of %.1f GiB free", device->what, device->driver,
            (double)m.free / 0x1p30, (double)m.total / 0x1p30);
    space->ops->close(space);
}

/* None is needed: they are good to have (docs/gpu.md). */
static void look_at_devices(struct doctor *d)
{
    struct space_device device[SPACE_DEVICES_MAX];
    const struct space_ops *ops;
    struct fault f = {0};
    size_t n = 0;

    if (space_ops_find("cuda", NULL, &ops, &f))
        say(d, DOCTOR_NOTE, "gpu", "build it where CUDA is: docs/gpu.md", "%s",
            f.text);
    else if (ops->devices(device, SPACE_DEVICES_MAX, &n, &f))
        say(d, DOCTOR_NOTE, "gpu", "install NVIDIA's driver: docs/gpu.md", "%s",
            f.text);
    else if (n == 0)
        say(d, DOCTOR_NOTE, "gpu", "see nvidia-smi",
            "the driver has no device");
    for (size_t i = 0; i < n; i++)
        look_at_device(d, &device[i]);
}

/* ---- folders and ports --------------------------------------------------- */

/* The folder that is there: @state, or the nearest one above it. */
static void nearest_folder(const char *state, char out[FILE_PATH_MAX])
{
    struct stat st;
    char *slash;

    snprintf(out, FILE_PATH_MAX, "%s", state);
    while (stat(out, &st) != 0) {
        slash = strrchr(out, '/');
        if (!slash) {
            snprintf(out, FILE_PATH_MAX, ".");
            return;
        }
        slash[slash == out] = '\0';
        if (strcmp(out, "/") == 0)
            return;
    }
}

static void look_at_state(struct doctor *d)
{
    char folder[FILE_PATH_MAX];
    struct statvfs fs;
    uint64_t bytes;

    nearest_folder(d->state, folder);
    if (access(folder, W_OK | X_OK) != 0) {
        say(d, DOCTOR_BAD, "state folder", "choose another with --state DIR",
            "%.60s: %s", folder, strerror(errno));
        return;
    }
    if (statvfs(folder, &fs) != 0) {
        say(d, DOCTOR_BAD, "state folder", "choose another with --state DIR",
            "%.60s: %s", folder, strerror(errno));
        return;
    }
    bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    say(d, bytes >= disk_least ? DOCTOR_OK : DOCTOR_NOTE, "disk",
        "make room: snapshots and models are as large as the model",
        "%.1f GiB free for %.60s", (double)bytes / 0x1p30, d->state);
}

static void look_at_port(struct doctor *d)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(8080),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free;

    if (fd < 0) {
        say(d, DOCTOR_BAD, "port", "this machine has no loopback interface",
            "%s", strerror(errno));
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    is_free = bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
    close(fd);
    say(d, is_free ? DOCTOR_OK : DOCTOR_NOTE, "port",
        "mltune serve --listen 127.0.0.1:0 takes any free one", "8080 is %s",
        is_free ? "free" : "in use");
}

static void look_at_namespaces(struct doctor *d)
{
    char text[32] = "";
    bool some =
        access("/proc/self/ns/net", F_OK) == 0 &&
        (!read_line("/proc/sys/user/max_user_namespaces", text, sizeof(text)) ||
         strcmp(text, "0") != 0);

    say(d, some ? DOCTOR_OK : DOCTOR_NOTE, "namespaces",
        "only tests of networks that fail use them", "%s", some ? "yes" : "no");
}

/* ---- a server, seen from here ------------------------------------------- */

static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "";
}

/* Whether the server answers, and is one of ours. */
static bool look_at_version(struct doctor *d, const char *url)
{
    const struct client_request request = {
        .url = url, .method = "GET", .target = "/api/v1/version"};
    struct client_answer answer = {0};
    struct fault f = {0};
    time_ns began = clock_monotonic();
    enum err err = client_ask(&request, &answer, &f);

    if (err)
        say(d, DOCTOR_BAD, "server",
            "mltune serve begins one, mltune open names one that hangs; "
            "--server names another, --cacert what is to be trusted",
            "%.200s", f.text);
    else
        say(d, DOCTOR_OK, "server", "",
            "%.80s: %.40s %.40s, answers in %.1f ms", url,
            text_of(answer.json, "name"), text_of(answer.json, "version"),
            (double)(clock_monotonic() - began) * 1e-6);
    json_decref(answer.json);
    return !err;
}

static void look_at_readiness(struct doctor *d, const char *url)
{
    const struct client_request request = {
        .url = url, .method = "GET", .target = "/readyz"};
    struct client_answer answer = {0};
    struct fault f = {0};
    enum err err = client_ask(&request, &answer, &f);

    if (err)
        say(d, DOCTOR_BAD, "ready", "ask again", "%.200s", f.text);
    else if (answer.status == 200)
        say(d, DOCTOR_OK, "ready", "", "yes");
    else
        say(d, DOCTOR_NOTE, "ready",
            "see to what it says, or wait until it has begun", "%.200s",
            text_of(answer.json, "detail"));
    json_decref(answer.json);
}

/* A write that changes nothing: an empty configuration is checked. The server
 * of one run has none, and refuses that later than the token. */
static void look_at_token(struct doctor *d, const char *url, const char *socket)
{
    static const char advice[] =
        "MLTUNE_TOKEN, or --state: the text of the file token in the state "
        "folder of the server";
    char token[TOKEN_LEN_MAX + 1] = "";
    const struct client_request request = {.url = url,
                                           .socket = socket,
                                           .method = "POST",
                                           .target = "/api/v1/runs:validate",
                                           .token = token,
                                           .body = "{}"};
    struct client_answer answer = {0};
    struct fault f = {0};
    enum err err = socket[0] ? token_read(d->state, token, &f)
                             : source_named_token(d->state, url, token, &f);

    if (!err && !token[0])
        fault_set(&f, ERR_INVAL,
                  "not sent: no server of the folder has this address");
    err = err ? err : f.code;
    if (!err)
        err = client_ask(&request, &answer, &f);
    if (err)
        say(d, DOCTOR_NOTE, "token", advice, "%.200s", f.text);
    else if (answer.status == 401 || answer.status == 403)
        say(d, DOCTOR_NOTE, "token", advice,
            "the server refuses it: runs can be read, not steered");
    else
        say(d, DOCTOR_OK, "token", "", "taken");
    json_decref(answer.json);
    explicit_bzero(token, sizeof(token));
}

/* Looks at the server that is named, or that has the state folder: whether it
 * answers, is ready, and takes the token. Says nothing where there is none. */
static void look_at_server(struct doctor *d)
{
    const char *url = source_server(d->server);
    char found[CLIENT_URL_MAX], socket[FILE_PATH_MAX] = "";
    int fd;

    if (!url && source_service(d->state, found, socket)) {
        url = found;
        fd = socket[0] ? local_connect(socket) : -1;
        if (fd >= 0)
            say(d, DOCTOR_OK, "socket", "", "%.200s", socket);
        else if (socket[0])
            say(d, DOCTOR_NOTE, "socket",
                "--server names the address, for a service of another machine "
                "say",
                "none answers in the state folder");
        else
            say(d, DOCTOR_NOTE, "socket",
                "the command line uses the address and the token",
                "the server has none");
        if (fd >= 0)
            close(fd);
    }
    if (!url || !look_at_version(d, url))
        return;
    look_at_readiness(d, url);
    look_at_token(d, url, socket);
}

/* ---- the verb ------------------------------------------------------------ */

static int print(const struct doctor *d, bool json)
{
    int code = EXIT_DONE;

    if (json)
        code = console_json(d->failed ? NULL : d->list, 0);
    else if (table_print(&d->table, stdout, "")) {
        console_error("out of memory");
        code = EXIT_RUN_FAILED;
    }
    return d->bad ? EXIT_RUN_FAILED : code;
}

int verb_doctor(int argc, char **argv)
{
    struct doctor d = {.state = STATE_DEFAULT,
                       .table = {.columns = 4,
                                 .no_heading = true,
                                 .width = fold_width(STDOUT_FILENO)}};
    bool json = false;
    const struct option_spec options[] = {
        STATE_OPTION(d.state),
        {"server", 0, OPTION_TEXT, "URL",
         "a server to look at too (MLTUNE_SERVER, or the service of the state "
         "folder)",
         &d.server},
        CLIENT_CACERT_OPTION,
        {"json", 0, OPTION_FLAG, NULL, "one JSON array", &json},
    };
    const struct usage usage = {
        .verb = "doctor",
        .operands = "",
        .details = "Exit code 1 where something is missing that every run "
                   "needs; what is\nonly good to have is a note.",
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    d.list = json_array();
    look_at_machine(&d);
    look_at_limits(&d);
    look_at_state(&d);
    look_at_port(&d);
    look_at_libraries(&d);
    look_at_python(&d);
    look_at_devices(&d);
    look_at_namespaces(&d);
    look_at_server(&d);
    code = print(&d, json);
    json_decref(d.list);
    table_deinit(&d.table);
    return code;
}
