#include "base/host/gate.h"

#include <assert.h>
#include <string.h>

enum { ROOM = GATE_PEERS_MAX + GATE_STRANGERS_MAX + 1 };

#define TENURE_NS (GATE_TENURE_MS * INT64_C(1000000))

/* A peer is a stranger at first. */
static uint32_t missing(const struct gate *d)
{
    assert(d->expected > 0 && d->expected <= GATE_PEERS_MAX);
    return d->peers < d->expected ? d->expected - d->peers : 0;
}

static void count(struct gate *d)
{
    if (d->strangers >= missing(d) + GATE_STRANGERS_MAX)
        d->crowded = true;
    if (d->strangers <= missing(d) + GATE_STRANGERS_AGAIN)
        d->crowded = false;
}

static void take_out(struct gate *d, int fd)
{
    uint32_t at = 0;

    while (at < d->strangers && d->stranger[at].fd != fd)
        at++;
    assert(at < d->strangers);
    d->strangers--;
    memmove(&d->stranger[at], &d->stranger[at + 1],
            (d->strangers - at) * sizeof(d->stranger[0]));
}

static void change(struct gate *d, int fd, enum gate_role role)
{
    assert(fd >= 0 && fd < GATE_FILES_MAX);
    if (d->role[fd] == GATE_STRANGER)
        take_out(d, fd);
    d->peers -= d->role[fd] == GATE_PEER;
    d->peers += role == GATE_PEER;
    d->role[fd] = (unsigned char)role;
    count(d);
}

void gate_accepted(struct gate *d, int fd, int64_t now_ns)
{
    bool early;

    if (fd < 0 || fd >= GATE_FILES_MAX || d->strangers >= ROOM)
        return;
    early = d->role[fd] == GATE_EARLY;
    change(d, fd, GATE_NOBODY);
    if (!early)
        d->stranger[d->strangers++] =
            (struct gate_stranger){.fd = fd, .came_ns = now_ns};
    change(d, fd, early ? GATE_PEER : GATE_STRANGER);
}

void gate_shown(struct gate *d, int fd, bool lives)
{
    if (fd < 0 || fd >= GATE_FILES_MAX)
        return;
    if (d->role[fd] == GATE_STRANGER)
        change(d, fd, GATE_PEER);
    else if (d->role[fd] == GATE_NOBODY && lives)
        change(d, fd, GATE_EARLY);
}

void gate_gone(struct gate *d, int fd)
{
    if (fd >= 0 && fd < GATE_FILES_MAX)
        change(d, fd, GATE_NOBODY);
}

int gate_cut(const struct gate *d, int64_t now_ns)
{
    bool had_time = now_ns - d->stranger[0].came_ns >= TENURE_NS;

    if (d->strangers <= missing(d) + GATE_STRANGERS_MAX)
        return -1;
    return d->stranger[had_time ? 0 : d->strangers - 1].fd;
}

enum gate_state gate_wants(const struct gate *d)
{
    if (d->peers >= d->expected)
        return GATE_SHUT;
    return d->crowded ? GATE_KNOWN : GATE_OPEN;
}
