#include "ps/wire/meet_io.h"

#include "base/clock_io.h"
#include "base/deadlines.h"
#include "base/file_io.h"
#include "base/log.h"
#include "base/mem.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_BYTES = MEET_PLACE_MAX + 32,
    LOOK_EVERY_NS = 10 * 1000 * 1000,
    UNIX_PATH_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) - 1
};

static void file_of(const struct meet *m, uint32_t node, const char *end,
                    char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/node-%u%s", m->place, node, end);
}

/* Whoever is silent is cut, so that it can come again: else this node would
 * keep the old connection, and its gate shut. */
static void cut_the_silent(void *pull)
{
    int every = MEET_BEAT_MS, silent = DEADLINE_NODES_BEAT_MS;

    zmq_setsockopt(pull, ZMQ_HEARTBEAT_IVL, &every, sizeof(every));
    zmq_setsockopt(pull, ZMQ_HEARTBEAT_TIMEOUT, &silent, sizeof(silent));
}

enum err meet_bind(const struct meet *m, void *pull, const char *endpoint,
                   struct fault *f)
{
    int64_t size_max = MEET_MESSAGE_MAX;
    enum err err = run_key_apply(&m->key, pull, endpoint, true, f);

    if (err)
        return err;
    if (strncmp(endpoint, "tcp://", 6) == 0) {
        cut_the_silent(pull);
        if (m->key.given)
            zmq_setsockopt(pull, ZMQ_MAXMSGSIZE, &size_max, sizeof(size_max));
        else
            log_event(LOG_WARN, "meets_without_key",
                      "node=%u reason=\"any account of this machine may join\"",
                      m->node);
    }
    if (zmq_bind(pull, endpoint) == 0)
        return ERR_OK;
    return fault_set(f, ERR_IO, "node %u cannot listen at %.200s: %s", m->node,
                     endpoint, zmq_strerror(errno));
}

bool meet_is_guarded(const struct meet *m)
{
    const char *own = m->peer[m->node].endpoint;

    return m->key.given && strncmp(own, "tcp://", 6) == 0;
}

static enum err bind_socket(const struct meet *m, void *pull,
                            const char *listen, struct fault *f)
{
    char path[PATH_BYTES], endpoint[PATH_BYTES + 8];

    file_of(m, m->node, ".socket", path);
    if (listen)
        snprintf(endpoint, sizeof(endpoint), "%s", listen);
    else if (strlen(path) <= UNIX_PATH_MAX)
        snprintf(endpoint, sizeof(endpoint), "ipc://%s", path);
    else
        snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:*");
    return meet_bind(m, pull, endpoint, f);
}

static enum err write_file(const struct meet *m, void *pull, struct fault *f)
{
    struct meet_node own = {.number = m->number};
    char path[PATH_BYTES], line[MEET_LINE_MAX];
    size_t size = sizeof(own.endpoint);

    if (zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, own.endpoint, &size) != 0)
        return fault_errno(f, ERR_IO, errno, "node %u", m->node);
    if (strncmp(own.endpoint, "tcp://0.0.0.0:", 14) == 0)
        return fault_set(f, ERR_INVAL,
                         "node %u listens at %s, which is no address that "
                         "others reach: name this machine's, as in "
                         "tcp://10.0.0.3:*",
                         m->node, own.endpoint);
    file_of(m, m->node, "", path);
    meet_line_write(&own, line);
    return file_write_shared(path, line, strlen(line), f);
}

static enum err folder_open(struct meet *m, void *pull, const char *listen,
                            struct fault *f)
{
    enum err err = bind_socket(m, pull, listen, f);

    return err ? err : write_file(m, pull, f);
}

enum err meet_open(struct meet *m, void *pull, const char *place,
                   const char *listen, uint32_t node, uint32_t nodes,
                   struct fault *f)
{
    enum err err;

    assert(pull && place);
    *m = (struct meet){.node = node, .nodes = nodes};
    if (node >= nodes)
        return fault_set(f, ERR_INVAL, "node %u: there are %u nodes, from 0",
                         node, nodes);
    if (strlen(place) >= sizeof(m->place))
        return fault_set(f, ERR_INVAL, "%.80s...: path is too long", place);
    snprintf(m->place, sizeof(m->place), "%s", place);
    err = run_key_find(&m->key, f);
    if (err)
        return err;
    if (getrandom(&m->number, sizeof(m->number), 0) !=
        (ssize_t)sizeof(m->number))
        return fault_errno(f, ERR_IO, errno, "a random number");
    m->peer = mem_calloc(nodes, sizeof(*m->peer));
    if (!m->peer)
        return fault_set(f, ERR_NOMEM, "no memory to meet %u nodes", nodes);
    err = meet_is_address(place) ? meet_address_open(m, pull, listen, f)
                                 : folder_open(m, pull, listen, f);
    if (err)
        meet_close(m);
    return err;
}

/* ERR_AGAIN: it is not there yet. */
static enum err read_file(struct meet *m, uint32_t node, struct fault *f)
{
    char path[PATH_BYTES], line[MEET_LINE_MAX];
    FILE *file;
    bool good;

    file_of(m, node, "", path);
    file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? ERR_AGAIN
                               : fault_errno(f, ERR_IO, errno, "read %s", path);
    good = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    if (!good || meet_line_read(line, &m->peer[node]))
        return fault_set(f, ERR_FORMAT,
                         "%s: expected where node %u listens and a number",
                         path, node);
    return ERR_OK;
}

static enum err name_missing(const struct meet *m, double timeout_s,
                             struct fault *f)
{
    char names[128], path[PATH_BYTES];
    unsigned missing;

    for (uint32_t i = 0; i < m->nodes; i++) {
        file_of(m, i, "", path);
        if (access(path, F_OK) != 0)
            m->peer[i].endpoint[0] = '\0';
        else if (!m->peer[i].endpoint[0])
            snprintf(m->peer[i].endpoint, MEET_ENDPOINT_MAX, "there");
    }
    missing = meet_missing(m->nodes, m->peer, names, sizeof(names));
    return fault_set(f, ERR_NODE,
                     "node %u waited %g s for the others: %u of %u %s missing "
                     "(%s); start every node, each with its own number and "
                     "with the same folder %.200s",
                     m->node, timeout_s, missing, m->nodes,
                     missing == 1 ? "is" : "are", names, m->place);
}

/* What other machines have put into a folder that they share is seen once it
 * was opened anew (close-to-open, as NFS has it). */
static void look_anew(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
}

static enum err folder_wait(struct meet *m, double timeout_s, struct fault *f)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
    time_ns end = clock_monotonic() + (time_ns)(timeout_s * 1e9);

    for (uint32_t i = 0; i < m->nodes; i++) {
        enum err err = read_file(m, i, f);

        while (err == ERR_AGAIN) {
            look_anew(m->place);
            if (clock_monotonic() >= end)
                return name_missing(m, timeout_s, f);
            nanosleep(&pause, NULL);
            err = read_file(m, i, f);
        }
        if (err)
            return err;
    }
    return ERR_OK;
}

enum err meet_wait(struct meet *m, double timeout_s, struct fault *f)
{
    enum err err;

    assert(timeout_s >= 0);
    if (meet_is_address(m->place))
        return meet_address_wait(m, timeout_s, f);
    err = folder_wait(m, timeout_s, f);
    if (!err)
        m->run = meet_run(m->nodes, m->peer);
    return err;
}

void meet_close(struct meet *m)
{
    char path[PATH_BYTES];

    if (m->peer && !meet_is_address(m->place)) {
        file_of(m, m->node, "", path);
        file_remove(path);
        file_of(m, m->node, ".socket", path);
        file_remove(path);
    }
    meet_address_close(m);
    mem_free(m->peer);
    memset(m, 0, sizeof(*m));
}
