/* A server's creation: what the machine says stands in for what the options
 * leave open, and the wire comes with it. */
#include "base/host/machine_io.h"
#include "base/mem.h"
#include "ps/server/errors.h"
#include "ps/server/peers.h"
#include "ps/server/runtime.h"
#include "ps/wire/comm_io.h"
#include "ps/wire/meet.h"

#include <assert.h>

/* Nodes that meet in a folder, without an address to listen at, are all on this
 * machine: each has its part of the memory. */
static uint64_t memory_share(const struct mlt_ps_options *opt)
{
    uint64_t bytes = machine_memory_left("") / 2;

    return opt->nodes > 1 && !opt->listen && opt->meet &&
                   !meet_is_address(opt->meet)
               ? bytes / opt->nodes
               : bytes;
}

int mlt_ps_new(const struct mlt_ps_options *opt, struct mlt_ps **out,
               struct mlt_error *err)
{
    struct mlt_ps_options whole;
    struct fault f = {0};

    assert(opt && out);
    if (opt->size != sizeof(*opt)) {
        fault_set(&f, ERR_VERSION,
                  "options of %zu bytes, expected %zu: built with another "
                  "version of mltune/ps.h",
                  opt->size, sizeof(*opt));
        return ps_give_error(err, &f);
    }
    whole = *opt;
    if (!whole.workers)
        whole.workers = machine_cores("");
    if (!whole.memory_limit)
        whole.memory_limit = memory_share(opt);
    return ps_new(&whole, &comm_peers, out, &f) ? ps_give_error(err, &f)
                                                : ERR_OK;
}
