/* A session's memory: nodes that the kernel killed for want of it are started
 * again with less. */
#include "base/host/machine_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "cli/run/session_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Less than this trains nothing. */
static const uint64_t limit_least = 1 << 20;

void session_memory_begin(struct session *s)
{
    s->oom_kills = machine_oom_kills("");
}

/* Whether a node of this machine was killed, and the kernel has killed since
 * they began. */
static bool killed_for_memory(const struct session *s)
{
    bool killed = false;

    for (unsigned i = 0; i < s->nodes; i++)
        killed |= !s->node[i].engine && s->node[i].process.ended &&
                  s->node[i].process.code == -SIGKILL;
    return killed && machine_oom_kills("") > s->oom_kills;
}

/* The limit that nodes are to get after one that was too high; the nodes have
 * ended, so that all they had is left. Without a limit they took half of that,
 * and their data beside. */
static uint64_t lower_limit(const json_t *config)
{
    uint64_t left = machine_memory_left(""), had = 0;

    if (!json_to_bytes(json_at(config, "/memory/limit"), &had) || had == 0)
        return left / 2;
    return (had < left ? had : left) / 4 * 3;
}

enum err session_memory_lower(struct session *s)
{
    const json_t *had = session_config(s);
    size_t n = strlen(s->reason);
    uint64_t limit;
    json_t *config;

    if (!killed_for_memory(s))
        return ERR_OK;
    limit = lower_limit(had);
    if (limit < limit_least)
        return ERR_OK; /* as it was: the tries are counted */
    config = json_copied(had);
    if (!config || json_put(config, "/memory/limit",
                            json_integer((json_int_t)limit)) != ERR_OK) {
        json_decref(config);
        return ERR_NOMEM;
    }
    json_decref(s->lowered);
    s->lowered = config;
    session_set_config(s, config);
    snprintf(s->reason + n, sizeof(s->reason) - n,
             "; the kernel killed it for want of memory: memory.limit is %.1f "
             "MiB from here on",
             (double)limit / 1048576);
    log_event(LOG_WARN, "memory_lowered", "limit_bytes=%" PRIu64, limit);
    return ERR_OK;
}
