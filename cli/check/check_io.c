#include "cli/check/check_io.h"

#include "base/file_io.h"
#include "base/mem.h"
#include "tuner/shell/node_group.h"
#include "tuner/shell/socket_io.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { WAIT_MS_MAX = 50 };

static const double LOGS_SEEN_S = 1; /* logs are looked at so often */

struct check_stage {
    const struct check_options *o;
    struct player *player;
    struct tuner_socket socket;
    bool open;  /* the socket is */
    bool alive; /* processes run, and their end is the player's to know */
    struct node_process process[CHECK_NODES_MAX];
    struct socket_peer peer[CHECK_NODES_MAX]; /* len 0: no hello yet */
    struct node_group *group;                 /* NULL: one process */
    char work[FILE_PATH_MAX];
    unsigned starts;
    size_t told;
    double logs_seen_s;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t nodes_of(const struct check_stage *s)
{
    return s->o->player.nodes;
}

/* ---- processes ----------------------------------------------------------- */

static void end_processes(struct check_stage *s)
{
    launcher_stop(s->process, nodes_of(s), 0, -1);
    s->alive = false;
}

static enum err start_one(struct check_stage *s, uint32_t node, uint16_t port,
                          const char *meet, struct fault *f)
{
    char log[FILE_PATH_MAX], name[32];
    struct launch launch = {.program = s->o->program,
                            .run = "check-trainer",
                            .endpoint = s->socket.endpoint,
                            .node = node,
                            .nodes = nodes_of(s),
                            .port = port,
                            .meet = nodes_of(s) > 1 ? meet : NULL,
                            .log_path = log};
    enum err err;

    snprintf(name, sizeof(name), "node-%u.log", node);
    err = file_join(log, s->work, name, f);
    return err ? err : launcher_start(&s->process[node], &launch, f);
}

static enum err start(struct check_stage *s, struct fault *f)
{
    char meet[FILE_PATH_MAX], name[32];
    uint16_t port = 0;
    enum err err;

    end_processes(s);
    socket_close(&s->socket);
    s->open = false;
    memset(s->peer, 0, sizeof(s->peer));
    if (s->group)
        node_group_reset(s->group);
    snprintf(name, sizeof(name), "meet-%u", s->starts++);
    err = file_join(meet, s->work, name, f);
    if (!err)
        err = folder_make(meet, f);
    if (!err)
        err = socket_open(&s->socket, s->work, f);
    s->open = !err;
    if (!err && nodes_of(s) > 1)
        err = launcher_free_port(&port, f);
    for (uint32_t i = 0; !err && i < nodes_of(s); i++)
        err = start_one(s, i, port, meet, f);
    s->alive = !err;
    return err;
}

/* The logs are bounded. Where the file system makes no holes they grow: they
 * are removed at the end. */
static void cut_logs(struct check_stage *s)
{
    if (now() < s->logs_seen_s + LOGS_SEEN_S)
        return;
    s->logs_seen_s = now();
    for (uint32_t i = 0; i < nodes_of(s); i++)
        (void)launcher_cut_log(&s->process[i], NULL);
}

/* Whether all have ended; the first that ended badly speaks for them. */
static void watch(struct check_stage *s)
{
    char verdict[512], words[256];
    const struct node_process *worst = &s->process[0];
    uint32_t ended = 0;
    size_t n;

    for (uint32_t i = 0; s->alive && i < nodes_of(s); i++) {
        if (!launcher_poll(&s->process[i]))
            continue;
        ended++;
        if (s->process[i].process.code != 0)
            worst = &s->process[i];
    }
    if (!s->alive || ended < nodes_of(s))
        return;
    s->alive = false;
    launcher_verdict(worst, verdict, sizeof(verdict));
    launcher_last_words(worst, words, sizeof(words));
    n = strlen(verdict);
    if (words[0])
        snprintf(verdict + n, sizeof(verdict) - n, "; its last words: %s",
                 words);
    player_ended(s->player, worst->process.code, verdict, now());
}

/* ---- messages ------------------------------------------------------------ */

static void send_all(struct check_stage *s, const char *text, size_t len)
{
    for (uint32_t i = 0; s->open && i < nodes_of(s); i++)
        if (s->peer[i].len)
            socket_send(&s->socket, &s->peer[i], text, len);
}

static enum err send_message(struct check_stage *s, const struct msg *m,
                             const char *more)
{
    char *text = NULL, *longer;
    size_t len;
    enum err err = msg_encode(m, &text, &len);

    if (!err && more) { /* in place of the brace at its end */
        longer = mem_alloc(len + strlen(more) + 1);
        if (longer)
            snprintf(longer, len + strlen(more) + 1, "%.*s%s", (int)len - 1,
                     text, more);
        mem_free(text);
        text = longer;
        len = text ? strlen(text) : 0;
        err = text ? ERR_OK : ERR_NOMEM;
    }
    if (!err)
        send_all(s, text, len);
    mem_free(text);
    return err;
}

static enum err send_posts(struct check_stage *s)
{
    struct msg m;
    enum err err = ERR_OK;

    while (!err && s->group && node_group_post(s->group, &m))
        err = send_message(s, &m, NULL);
    return err;
}

static enum err ask(struct check_stage *s, const struct player_act *a)
{
    bool leaves = true;
    enum err err = ERR_OK;

    if (s->group)
        err = node_group_ask(s->group, &a->message, &leaves);
    if (!err && leaves)
        err = send_message(s, &a->message, a->text);
    return err ? err : send_posts(s);
}

static int who(const struct check_stage *s, const struct socket_peer *from)
{
    for (uint32_t i = 0; i < nodes_of(s); i++)
        if (s->peer[i].len && socket_peer_same(from, &s->peer[i]))
            return (int)i;
    return -1;
}

static void greet(struct check_stage *s, const struct socket_peer *from,
                  struct msg *m)
{
    struct msg_hello *hello = msg_hello(m);

    assert(hello);
    for (uint32_t i = 0; i < nodes_of(s); i++) {
        if (!launcher_has(&s->process[i], hello->pid))
            continue;
        if (s->peer[i].len == 0)
            s->peer[i] = *from;
        hello->node = i == hello->node ? i : UINT32_MAX;
        player_hear(s->player, i, now());
        player_take(s->player, m, true, now());
        return;
    }
    player_take(s->player, m, false, now());
}

static void take_joined(struct check_stage *s, uint32_t node, struct msg *m)
{
    struct fault f = {0};

    if (node_group_take(s->group, node, m, &f) != ERR_OK) {
        player_wrong(s->player, RULE_M1, f.text, now());
        return;
    }
    send_posts(s);
    while (node_group_next(s->group, m))
        player_take(s->player, m, true, now());
}

static void take(struct check_stage *s, const struct socket_peer *from,
                 const char *text, size_t len)
{
    struct fault f = {0};
    struct msg m = {0};
    char what[sizeof(f.text) + 320];
    int node = who(s, from);

    if (msg_decode(text, len, &m, &f) != ERR_OK) {
        snprintf(what, sizeof(what), "%s, in: %.300s", f.text, text);
        player_wrong(s->player, RULE_W1, what, now());
        return;
    }
    if (msg_hello(&m)) {
        greet(s, from, &m);
    } else if (node < 0) {
        player_wrong(s->player, RULE_C1, "a message before hello", now());
    } else {
        player_hear(s->player, (uint32_t)node, now());
        if (s->group)
            take_joined(s, (uint32_t)node, &m);
        else
            player_take(s->player, &m, true, now());
    }
    msg_deinit(&m);
}

/* ---- files --------------------------------------------------------------- */

static void count_files(const char *path, uint64_t *files, uint64_t *bytes)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char name[FILE_PATH_MAX];
    struct stat st;

    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.' ||
            file_join(name, path, entry->d_name, NULL) != ERR_OK ||
            lstat(name, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            count_files(name, files, bytes);
        } else {
            ++*files;
            *bytes += (uint64_t)st.st_size;
        }
    }
    if (dir)
        closedir(dir);
}

/* The first file that the answer lists and that is not in @path; NULL. */
static const char *find_missing(const json_t *data, const char *path)
{
    const json_t *files = json_object_get(data, "files");
    char name[FILE_PATH_MAX];

    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *file = json_string_value(json_array_get(files, i));

        if (!file)
            return "(no name)";
        if (file_join(name, path, file, NULL) != ERR_OK ||
            access(name, F_OK) != 0)
            return file;
    }
    return NULL;
}

static void look(struct check_stage *s, const char *path)
{
    const char *missing = find_missing(player_looks_for(s->player), path);
    uint64_t files = 0, bytes = 0;

    count_files(path, &files, &bytes);
    player_looked(s->player, files, bytes, missing, now());
}

/* ---- the loop ------------------------------------------------------------ */

static enum err perform(struct check_stage *s, struct player_act *a,
                        struct fault *f)
{
    enum err err = ERR_OK;

    switch (a->kind) {
    case ACT_START:
        return start(s, f);
    case ACT_SEND:
        err = ask(s, a);
        msg_deinit(&a->message);
        return err ? fault_set(f, err, "%s", err_text(err)) : ERR_OK;
    case ACT_RAW:
        send_all(s, a->text, strlen(a->text));
        break;
    case ACT_CLOSE:
        socket_close(&s->socket);
        s->open = false;
        break;
    case ACT_LOOK:
        look(s, a->path);
        break;
    case ACT_SIGNAL:
        for (uint32_t i = 0; i < nodes_of(s); i++)
            subprocess_signal(&s->process[i].process, a->number);
        break;
    case ACT_KILL:
        end_processes(s);
        break;
    case ACT_OVER:
        break;
    }
    return ERR_OK;
}

static void tell(struct check_stage *s)
{
    size_t n;
    const struct check_result *r = player_results(s->player, &n);

    for (; s->told < n; s->told++)
        if (s->o->tell)
            s->o->tell(s->o->ctx, &r[s->told]);
}

/* Waits for a message, a signal, or a little while: ends of processes and
 * deadlines are looked for then. */
static bool wait_a_little(struct check_stage *s)
{
    double left_ms = (player_wake_at(s->player) - now()) * 1e3;
    zmq_pollitem_t items[2] = {
        {.fd = s->o->signal_fd, .events = ZMQ_POLLIN},
        {.socket = s->socket.router, .events = ZMQ_POLLIN},
    };
    bool signals = s->o->signal_fd >= 0;
    long ms = left_ms < 0             ? 0
              : left_ms < WAIT_MS_MAX ? (long)left_ms + 1
                                      : WAIT_MS_MAX;

    if (!signals && !s->open)
        usleep((useconds_t)ms * 1000);
    else
        zmq_poll(signals ? items : items + 1, signals + s->open, ms);
    return !(signals && (items[0].revents & ZMQ_POLLIN));
}

/* Does all that the player wants; @over: that was all. */
static enum err perform_all(struct check_stage *s, bool *over, struct fault *f)
{
    struct player_act a;
    enum err err = ERR_OK;

    while (!err && !*over && player_next(s->player, &a)) {
        err = perform(s, &a, f);
        *over = a.kind == ACT_OVER;
    }
    tell(s);
    return err;
}

/* One message after the other: what comes of it may close the socket. */
static enum err receive(struct check_stage *s, bool *over, struct fault *f)
{
    struct socket_peer from;
    char *text;
    size_t len;
    enum err err = ERR_OK;

    while (!err && !*over && s->open &&
           socket_receive(&s->socket, &from, &text, &len) == ERR_OK) {
        take(s, &from, text, len);
        mem_free(text);
        err = perform_all(s, over, f);
    }
    return err;
}

static enum err play(struct check_stage *s, struct fault *f)
{
    bool over = false;
    enum err err;

    player_start(s->player, now());
    err = perform_all(s, &over, f);
    while (!err && !over) {
        if (!wait_a_little(s))
            return fault_set(f, ERR_CANCELED, "interrupted");
        err = receive(s, &over, f);
        if (!err && !over)
            watch(s);
        cut_logs(s);
        if (!over)
            player_tick(s->player, now());
        if (!err && !over)
            err = perform_all(s, &over, f);
    }
    return err;
}

static enum err make_work(struct check_stage *s, struct fault *f)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(s->work, sizeof(s->work), "%s/mltune-check-XXXXXX",
                     tmp && *tmp == '/' ? tmp : "/tmp");

    if (n < 0 || (size_t)n >= sizeof(s->work) || !mkdtemp(s->work)) {
        s->work[0] = '\0';
        return fault_errno(f, ERR_IO, errno, "make a folder in %s",
                           tmp ? tmp : "/tmp");
    }
    return ERR_OK;
}

enum err check_run(const struct check_options *o, struct player **out,
                   struct fault *f)
{
    struct player_options options = o->player;
    struct check_stage *s = mem_calloc(1, sizeof(*s));
    const char *unknown;
    size_t unknown_len;
    enum err err;

    assert(o->player.nodes > 0 && o->player.nodes <= CHECK_NODES_MAX);
    if (!s)
        return fault_set(f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    s->o = o;
    for (uint32_t i = 0; i < CHECK_NODES_MAX; i++)
        s->process[i].process.end_fd = -1;
    err = make_work(s, f);
    if (err)
        goto done;
    options.work = s->work;
    err = player_new(&options, &s->player);
    if (!err && nodes_of(s) > 1)
        err = node_group_new(nodes_of(s), &s->group);
    if (err == ERR_NOENT) {
        unknown = player_unknown(&o->player, &unknown_len);
        fault_set(f, err, "there is no check %.*s", (int)unknown_len, unknown);
    } else if (err) {
        fault_set(f, err, "%s", err_text(err));
    }
    if (!err)
        err = play(s, f);
    end_processes(s);
    socket_close(&s->socket);
    folder_remove(s->work, NULL);
done:
    node_group_free(s->group);
    if (err)
        player_free(s->player);
    else
        *out = s->player;
    mem_free(s);
    return err;
}
