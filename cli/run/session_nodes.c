/* The processes that train, here or on other machines. */
#include "cli/run/session_internal.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/subprocess_io.h"
#include "tuner/shell/ranks_io.h"

#include <arpa/inet.h>
#include <assert.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCONTROL_MS = DEADLINE_SSH_MS };

static bool is_elsewhere(const struct session *s)
{
    return s->cluster.engine->program != NULL;
}

/* ---- hosts --------------------------------------------------------------- */

static enum err add_host(struct session *s, const char *name, struct fault *f)
{
    struct session_cluster *c = &s->cluster;

    if (strlen(name) >= ENGINE_HOST_MAX || c->hosts == KEEPER_NODES_MAX)
        return fault_set(f, ERR_LIMIT, "cluster.hosts: at most %d, of %d bytes",
                         KEEPER_NODES_MAX, ENGINE_HOST_MAX - 1);
    snprintf(c->host[c->hosts++], ENGINE_HOST_MAX, "%s", name);
    return ERR_OK;
}

static enum err read_hosts(struct session *s, struct fault *f)
{
    const json_t *list = json_at(s->o->config, "/cluster/hosts"), *name;
    enum err err = ERR_OK;
    size_t i;

    json_array_foreach((json_t *)list, i, name)
    {
        if (!err)
            err = add_host(s, json_string_value(name), f);
    }
    return err;
}

/* The lines of the file @path, a host each. */
static enum err read_names(struct session *s, const char *path, struct fault *f)
{
    char line[ENGINE_HOST_MAX + 2];
    FILE *file = fopen(path, "re");
    enum err err = ERR_OK;

    if (!file)
        return fault_set(f, ERR_IO, "scontrol: its answer cannot be read");
    while (!err && s->cluster.hosts < KEEPER_NODES_MAX &&
           fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line)
            err = add_host(s, line, f);
    }
    fclose(file);
    return err;
}

/* Slurm alone knows how it writes lists of hosts. */
static enum err ask_scontrol(struct session *s, const char *list, FILE *answer,
                             const char *path, struct fault *f)
{
    char program[FILE_PATH_MAX];
    char *argv[] = {"scontrol", "show", "hostnames", (char *)list, NULL};
    struct subprocess_options o = {
        .path = program,
        .argv = argv,
        .file = {SUBPROCESS_NULL, fileno(answer), SUBPROCESS_NULL},
        .signals = SUBPROCESS_SIGNALS_USUAL,
        .death_signal = SIGKILL};
    struct subprocess p;
    bool ended;
    enum err err;

    if (!subprocess_find("scontrol", program, sizeof(program)))
        return fault_set(f, ERR_NOENT,
                         "cluster.launcher slurm needs the program `scontrol`, "
                         "which is not on this machine");
    err = subprocess_start(&p, &o, f);
    if (err)
        return err;
    ended = subprocess_wait(&p, SCONTROL_MS, s->signal_fd);
    subprocess_stop(&p, 0, -1);
    if (!ended || p.code != 0)
        return fault_set(f, ERR_IO,
                         "scontrol show hostnames %.200s gave no list of hosts",
                         list);
    return read_names(s, path, f);
}

static enum err allocated_hosts(struct session *s, struct fault *f)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    char path[FILE_PATH_MAX];
    FILE *answer;
    enum err err;

    if (!list || !*list)
        return fault_set(f, ERR_INVAL,
                         "cluster.launcher slurm works inside an allocation, "
                         "and SLURM_JOB_NODELIST names none: run it under "
                         "salloc or sbatch");
    err = file_join(path, s->folder.path, "hosts.tmp", f);
    if (err)
        return err;
    answer = fopen(path, "we");
    if (!answer)
        return fault_set(f, ERR_IO, "cannot write %.300s", path);
    err = ask_scontrol(s, list, answer, path, f);
    fclose(answer);
    file_remove(path);
    return err;
}

static bool is_by(const struct session *s, const char *name)
{
    return strcmp(s->cluster.engine->name, name) == 0;
}

static enum err say_missing(const struct ranks *r, unsigned rank,
                            const char *place, struct fault *f)
{
    if (r->pods)
        return fault_set(f, ERR_NODE,
                         "index %u, of %u of the job, has not come within %d "
                         "s: kubectl describe says why its pod is not there, "
                         "and kubectl logs what it says",
                         rank, r->size, r->wait_ms / 1000);
    return fault_set(f, ERR_NODE,
                     "rank %u, of %u that mpirun has started, has not "
                     "come to %s: all need the state folder on a file "
                     "system that they share",
                     rank, r->size, place);
}

/* Those of the others: once they have come. */
static enum err hosts_of_ranks(struct session *s, struct fault *f)
{
    bool pods = is_by(s, "kubernetes");
    const char *place = getenv("MLTUNE_RANKS");
    struct pollfd p = {.fd = s->signal_fd, .events = POLLIN};
    char host[ENGINE_HOST_MAX] = "";
    struct ranks r;
    uint64_t number;
    time_ns end;
    enum err err;

    if (!place || !(pods ? ranks_find_pod(&r) : ranks_find(&r)) ||
        r.size != s->nodes)
        return fault_set(f, ERR_INVAL,
                         "cluster.nodes is %u, which is not the number of "
                         "%s: they are a node each",
                         s->nodes,
                         pods ? "the job's pods"
                              : "processes that mpirun has started");
    end = clock_monotonic() + r.wait_ms * 1000000LL;
    ranks_own_host(0, host);
    err = add_host(s, host, f);
    for (unsigned i = 1; i < r.size && !err;) {
        if (ranks_asked(place, i, &number, host)) {
            err = add_host(s, host, f);
            i++;
        } else if (clock_monotonic() > end || poll(&p, 1, RANKS_LOOK_MS) > 0) {
            err = say_missing(&r, i, place, f);
        }
    }
    return err;
}

static enum err find_hosts(struct session *s, struct fault *f)
{
    struct session_cluster *c = &s->cluster;
    enum err err;

    c->host = mem_calloc(KEEPER_NODES_MAX, sizeof(*c->host));
    if (!c->host)
        return fault_set(f, ERR_NOMEM, "out of memory");
    if (is_by(s, "slurm"))
        err = allocated_hosts(s, f);
    else if (is_by(s, "mpi") || is_by(s, "kubernetes"))
        err = hosts_of_ranks(s, f);
    else
        err = read_hosts(s, f);
    if (!err && c->hosts == 0)
        err = fault_set(f, ERR_INVAL, "cluster.hosts: there are none");
    return err;
}

/* ---- our own address ----------------------------------------------------- */

/* ZeroMQ binds addresses, and takes no names. */
static enum err address_of(const char *name, const char *port, char out[],
                           size_t size, struct fault *f)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    char address[INET_ADDRSTRLEN] = "";
    struct sockaddr_in a;
    struct addrinfo *found;
    struct fault why = {0};

    if (lookup_host(name, "0", &hints, INFINITY, &found, &why) != ERR_OK)
        return fault_set(f, ERR_INVAL, "cluster.address: %.300s", why.text);
    memcpy(&a, found->ai_addr, sizeof(a));
    freeaddrinfo(found);
    if (a.sin_addr.s_addr == htonl(INADDR_ANY))
        return fault_set(f, ERR_INVAL,
                         "cluster.address: expected an address by which the "
                         "hosts reach this machine, found 0.0.0.0");
    inet_ntop(AF_INET, &a.sin_addr, address, sizeof(address));
    snprintf(out, size, "%s:%s", address, port);
    return ERR_OK;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0;
}

static void prefer(char best[INET_ADDRSTRLEN], const char *address)
{
    if (!best[0] || is_loopback(best))
        snprintf(best, INET_ADDRSTRLEN, "%s", address);
}

/* As ssh names it, without its user. */
static const char *name_of(const char *host)
{
    const char *at = strrchr(host, '@');

    return at ? at + 1 : host;
}

static bool is_number(const char *host)
{
    struct in_addr a;

    return inet_pton(AF_INET, name_of(host), &a) == 1;
}

/* Seconds for the next of @rest hosts, of @left for all of them. Half of the
 * time, @each, is shared out evenly, so that all are asked, however many the
 * resolver keeps silent about; of the other half each takes up to a quarter of
 * what is still there. */
static double share_of(double left, double each, unsigned rest)
{
    return rest == 1 ? left : each + fmax(0, left - each * rest) / 4;
}

/* Asks for the way to those of the hosts that are numbers, or names. Returns
 * how many were asked; @why: what the last that is not known came to. */
static unsigned ask_ways(const struct session_cluster *c, bool numbers,
                         char best[INET_ADDRSTRLEN], struct fault *why)
{
    time_ns end = clock_monotonic() + DEADLINE_LOOKUP_MS * 1000000LL;
    char address[INET_ADDRSTRLEN];
    unsigned rest = 0, asked = 0;
    double each;

    for (unsigned i = 0; i < c->hosts; i++)
        rest += is_number(c->host[i]) == numbers;
    each = DEADLINE_LOOKUP_MS * 1e-3 / 2 / (rest ? rest : 1);
    for (unsigned i = 0; i < c->hosts && (!best[0] || is_loopback(best)); i++) {
        double left = fmax(0, (double)(end - clock_monotonic()) * 1e-9);

        if (is_number(c->host[i]) != numbers)
            continue;
        if (lookup_source_to(name_of(c->host[i]), share_of(left, each, rest),
                             address, why) == ERR_OK)
            prefer(best, address);
        asked++;
        rest--;
    }
    return asked;
}

/* The address from which the hosts are reached; of several, one that is not
 * only this machine's. All are asked until there is one, numbers first: they
 * need no resolver. */
static enum err guess_address(struct session *s, char out[], size_t size,
                              struct fault *f)
{
    const struct session_cluster *c = &s->cluster;
    char best[INET_ADDRSTRLEN] = "";
    struct fault why = {0};
    unsigned asked;

    assert(c->host);
    asked = ask_ways(c, true, best, &why);
    asked += ask_ways(c, false, best, &why);
    if (!best[0])
        return fault_set(f, ERR_INVAL,
                         "which address of this machine the hosts reach is not "
                         "known, since their names are not (%u of %u were "
                         "asked for; %.250s): say it with cluster.address",
                         asked, c->hosts, why.text);
    snprintf(out, size, "%s:*", best);
    return ERR_OK;
}

static enum err find_address(struct session *s, struct fault *f)
{
    const char *given =
        json_string_value(json_at(s->o->config, "/cluster/address"));
    const char *pod = getenv("MLTUNE_POD_IP");
    struct session_cluster *c = &s->cluster;
    char name[LOOKUP_HOST_MAX];
    const char *colon;

    /* The one that Kubernetes gave the pod; hosts are no names there. */
    if (is_by(s, "kubernetes"))
        given = pod;
    if (!given || !*given)
        return guess_address(s, c->address, sizeof(c->address), f);
    colon = strchr(given, ':');
    snprintf(name, sizeof(name), "%.*s",
             colon ? (int)(colon - given) : (int)strlen(given), given);
    return address_of(name, colon ? colon + 1 : "*", c->address,
                      sizeof(c->address), f);
}

/* ---- starting ------------------------------------------------------------ */

enum err session_node_log(const struct session *s, unsigned node,
                          char out[FILE_PATH_MAX], struct fault *f)
{
    char name[32];

    snprintf(name, sizeof(name), "node-%u.log", node);
    return file_join(out, s->folder.path, name, f);
}

static enum err launch_node(struct session *s, unsigned node, struct fault *f)
{
    const char *command =
        json_string_value(json_at(s->o->config, "/cluster/command"));
    bool elsewhere = is_elsewhere(s);
    char path[FILE_PATH_MAX];
    struct launch launch = {
        .log_path = path,
        .program = s->o->program,
        .run = s->folder.id,
        .node = node,
        .nodes = s->nodes,
        .port = s->port,
        .meet = s->nodes > 1 ? s->meet : NULL,
        .key = s->nodes > 1 || elsewhere ? s->key : NULL,
        .endpoint = s->socket.endpoint,
        .verbose = s->o->verbose,
        .engine = s->cluster.engine,
        .host = elsewhere ? s->cluster.host[node % s->cluster.hosts] : NULL,
        .command = command ? command : "mltune",
        .shared = s->meet};
    enum err err = session_node_log(s, node, path, f);

    return err ? err : launcher_start(&s->node[node], &launch, f);
}

enum err session_launch_again(void *ctx, uint32_t node, struct fault *f)
{
    struct session *s = ctx;

    assert(node < s->nodes);
    return launch_node(s, node, f);
}

/* A new folder for each start, beside the control socket: what nodes that were
 * killed left in it is not met again. Other machines may remember one that had
 * its name before, of a tuner that was killed. */
static enum err make_meet(struct session *s, struct fault *f)
{
    char name[64];
    enum err err = ERR_OK;

    if (s->meet[0])
        err = folder_remove(s->meet, f);
    if (is_elsewhere(s))
        snprintf(name, sizeof(name), "m%u-%lld", ++s->starts,
                 (long long)clock_wall());
    else
        snprintf(name, sizeof(name), "m%u", ++s->starts);
    if (!err)
        err = file_join(s->meet, s->socket.folder, name, f);
    return err ? err : folder_make(s->meet, f);
}

/* Whoever has the key of an earlier start is a stranger. */
static enum err open_outside(struct session *s, struct fault *f)
{
    socket_close(&s->socket);
    s->meet[0] = '\0';
    return socket_open_outside(
        &s->socket, s->folder.path, s->cluster.address,
        is_by(s, "kubernetes") ? "it must be the pod's own (MLTUNE_POD_IP)"
                               : "cluster.address must be an address of this "
                                 "machine, with a port that is free",
        s->key, s->nodes, f);
}

enum err session_launch_nodes(struct session *s, struct fault *f)
{
    bool several = s->nodes > 1 || is_elsewhere(s);
    enum err err = several ? run_key_make(s->key, f) : ERR_OK;

    session_memory_begin(s);
    if (!err && is_elsewhere(s))
        err = open_outside(s, f);
    if (!err && several)
        err = make_meet(s, f);
    if (!err && s->nodes > 1 && s->o->program)
        err = launcher_free_port(&s->port, f);
    for (unsigned i = 0; i < s->nodes && !err; i++)
        err = launch_node(s, i, f);
    if (err)
        launcher_stop(s->node, s->nodes, 0, -1);
    return err;
}

enum err session_start_nodes(struct session *s, struct fault *f)
{
    const json_t *nodes = json_at(s->o->config, "/cluster/nodes");
    const char *launcher =
        json_string_value(json_at(s->o->config, "/cluster/launcher"));
    enum err err;

    s->cluster.engine = engine_find(launcher ? launcher : "local");
    s->nodes = json_is_integer(nodes) ? (unsigned)json_integer_value(nodes) : 1;
    assert(s->nodes >= 1 && s->nodes <= KEEPER_NODES_MAX);
    if (!s->cluster.engine)
        return fault_set(f, ERR_INVAL, "cluster.launcher %.100s is not known",
                         launcher);
    err = is_elsewhere(s) ? find_hosts(s, f)
                          : socket_open(&s->socket, s->folder.path, f);
    if (!err && is_elsewhere(s))
        err = find_address(s, f);
    return err ? err : session_launch_nodes(s, f);
}
