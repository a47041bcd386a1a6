#include "ps/node/live_read_io.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { LINE_BYTES = 64 };

/* Number of the glance that a worker has taken part in last; its own. */
struct live_lane {
    _Alignas(LINE_BYTES) uint32_t seen;
};

/* The control thread writes what is asked for only while no worker reads it:
 * all have taken part, or none runs. */
struct live_read {
    unsigned workers;
    int fd;
    struct live_lane *lane;     /* [workers] */
    const struct ps_rows *rows; /* NULL: nothing is asked for */
    double *out;
    _Alignas(LINE_BYTES) _Atomic uint32_t number; /* of the one begun last */
    _Atomic uint32_t left; /* workers that have not taken part in it */
};

enum err live_read_open(unsigned workers, struct live_read **out,
                        struct fault *f)
{
    struct live_read *g = mem_aligned(LINE_BYTES, sizeof(*g));
    size_t bytes = workers * sizeof(*g->lane);

    assert(workers > 0);
    if (!g)
        return fault_set(f, ERR_NOMEM, "workers: %s", err_text(ERR_NOMEM));
    memset(g, 0, sizeof(*g));
    g->workers = workers;
    g->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (g->fd < 0) {
        fault_errno(f, ERR_IO, errno, "create an event descriptor");
        live_read_close(g);
        return ERR_IO;
    }
    g->lane = mem_aligned(LINE_BYTES, bytes);
    if (!g->lane) {
        live_read_close(g);
        return fault_set(f, ERR_NOMEM, "workers: %s", err_text(ERR_NOMEM));
    }
    memset(g->lane, 0, bytes);
    *out = g;
    return ERR_OK;
}

void live_read_close(struct live_read *g)
{
    if (!g)
        return;
    if (g->fd >= 0)
        close(g->fd);
    mem_free(g->lane);
    mem_free(g);
}

void live_read_begin(struct live_read *g, const struct ps_rows *r, double out[])
{
    assert(!g->rows);
    g->rows = r;
    g->out = out;
    atomic_store(&g->left, g->workers);
    atomic_fetch_add_explicit(&g->number, 1, memory_order_release);
}

int live_read_fd(const struct live_read *g)
{
    return g->fd;
}

bool live_read_end(struct live_read *g)
{
    bool all = atomic_load(&g->left) == 0;
    uint64_t count;

    assert(g->rows);
    if (all && read(g->fd, &count, sizeof(count)) != sizeof(count))
        assert(!"the last one writes");
    for (unsigned i = 0; !all && i < g->workers; i++)
        g->lane[i].seen = atomic_load(&g->number);
    g->rows = NULL;
    return all;
}

void live_read_take(struct live_read *g, struct mlt_worker *w)
{
    uint32_t number = atomic_load_explicit(&g->number, memory_order_acquire);
    struct live_lane *l = &g->lane[ps_worker_local(w)];
    uint64_t one = 1;
    ssize_t n;

    if (number == l->seen)
        return;
    l->seen = number;
    ps_read_own_part(w, g->rows, g->out);
    if (atomic_fetch_sub(&g->left, 1) != 1)
        return;
    n = write(g->fd, &one, sizeof(one));
    assert(n == sizeof(one));
    (void)n;
}
