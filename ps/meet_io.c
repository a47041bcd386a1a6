#include "ps/meet_io.h"

#include "base/clock_io.h"
#include "base/mem.h"
#include "base/rng.h"

#include <zmq.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_BYTES = MEET_FOLDER_MAX + 32,
    LINE_BYTES = MEET_ENDPOINT_MAX + 64,
    LOOK_EVERY_NS = 10 * 1000 * 1000,
    UNIX_PATH_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) - 1
};

static void file_of(const struct meet *m, uint32_t node, const char *end,
                    char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/node-%u%s", m->folder, node, end);
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
    if (zmq_bind(pull, endpoint) == 0)
        return ERR_OK;
    return fault_set(f, ERR_IO, "node %u cannot listen at %s: %s", m->node,
                     endpoint, zmq_strerror(errno));
}

/* Under its name only when it is whole. */
static enum err write_file(const struct meet *m, void *pull, struct fault *f)
{
    char path[PATH_BYTES], tmp[PATH_BYTES], endpoint[MEET_ENDPOINT_MAX];
    size_t size = sizeof(endpoint);
    uint64_t number;
    FILE *file;
    bool written;

    if (zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0 ||
        getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return fault_errno(f, ERR_IO, errno, "node %u", m->node);
    file_of(m, m->node, "", path);
    file_of(m, m->node, ".tmp", tmp);
    file = fopen(tmp, "we");
    if (!file)
        return fault_errno(f, ERR_IO, errno, "write %s", tmp);
    written = fprintf(file, "%s %016" PRIx64 "\n", endpoint, number) > 0;
    written = fclose(file) == 0 && written;
    if (!written || rename(tmp, path) != 0)
        return fault_errno(f, ERR_IO, errno, "write %s", path);
    return ERR_OK;
}

enum err meet_open(struct meet *m, void *pull, const char *folder,
                   const char *listen, uint32_t node, uint32_t nodes,
                   struct fault *f)
{
    enum err err;

    *m = (struct meet){.node = node, .nodes = nodes};
    if (node >= nodes)
        return fault_set(f, ERR_INVAL, "node %u: there are %u nodes, from 0",
                         node, nodes);
    if (strlen(folder) >= sizeof(m->folder))
        return fault_set(f, ERR_INVAL, "%.80s...: path is too long", folder);
    snprintf(m->folder, sizeof(m->folder), "%s", folder);
    m->endpoint = mem_calloc(nodes, sizeof(*m->endpoint));
    if (!m->endpoint)
        return fault_set(f, ERR_NOMEM, "no memory to meet %u nodes", nodes);
    err = bind_socket(m, pull, listen, f);
    if (!err)
        err = write_file(m, pull, f);
    if (err)
        meet_close(m);
    return err;
}

/* Mixes the node's number in. ERR_AGAIN: it is not there yet. */
static enum err read_file(struct meet *m, uint32_t node, struct fault *f)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    uint64_t number;
    FILE *file;
    bool good;

    file_of(m, node, "", path);
    file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? ERR_AGAIN
                               : fault_errno(f, ERR_IO, errno, "read %s", path);
    good = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    _Static_assert(MEET_ENDPOINT_MAX == 256, "the length below");
    good = good &&
           sscanf(line, "%255s %16" SCNx64, m->endpoint[node], &number) == 2;
    if (!good)
        return fault_set(f, ERR_FORMAT,
                         "%s: expected where node %u listens and a number",
                         path, node);
    m->run = rng_mix(m->run, number);
    return ERR_OK;
}

static enum err name_missing(const struct meet *m, double timeout_s,
                             struct fault *f)
{
    char names[128], path[PATH_BYTES];
    unsigned missing = 0;
    size_t n = 0;

    names[0] = '\0';
    for (uint32_t i = 0; i < m->nodes; i++) {
        file_of(m, i, "", path);
        if (access(path, F_OK) == 0)
            continue;
        if (n + 16 < sizeof(names))
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%u",
                                  missing ? ", " : "", i);
        missing++;
    }
    return fault_set(f, ERR_NODE,
                     "node %u waited %g s for the others: %u of %u %s missing "
                     "(%s); start every node, each with its own number and "
                     "with the same folder %.200s",
                     m->node, timeout_s, missing, m->nodes,
                     missing == 1 ? "is" : "are", names, m->folder);
}

enum err meet_wait(struct meet *m, double timeout_s, struct fault *f)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
    time_ns end = clock_monotonic() + (time_ns)(timeout_s * 1e9);

    m->run = m->nodes;
    for (uint32_t i = 0; i < m->nodes; i++) {
        enum err err = read_file(m, i, f);

        while (err == ERR_AGAIN) {
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

void meet_close(struct meet *m)
{
    char path[PATH_BYTES];

    if (m->endpoint) {
        file_of(m, m->node, "", path);
        unlink(path);
        file_of(m, m->node, ".socket", path);
        unlink(path);
    }
    mem_free(m->endpoint);
    memset(m, 0, sizeof(*m));
}
