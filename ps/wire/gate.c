#include "ps/wire/gate.h"

#include <assert.h>

/* A peer is a stranger at first. */
static void count(struct gate *d)
{
    uint32_t missing = d->peers < d->expected ? d->expected - d->peers : 0;

    if (d->strangers >= missing + GATE_STRANGERS_MAX)
        d->crowded = true;
    if (d->strangers <= missing + GATE_STRANGERS_AGAIN)
        d->crowded = false;
}

static void change(struct gate *d, int fd, enum gate_role role)
{
    assert(fd >= 0 && fd < GATE_FILES_MAX);
    d->strangers -= d->role[fd] == GATE_STRANGER;
    d->peers -= d->role[fd] == GATE_PEER;
    d->strangers += role == GATE_STRANGER;
    d->peers += role == GATE_PEER;
    d->role[fd] = (unsigned char)role;
    count(d);
}

void gate_accepted(struct gate *d, int fd)
{
    if (fd >= 0 && fd < GATE_FILES_MAX)
        change(d, fd, GATE_STRANGER);
}

void gate_shown(struct gate *d, int fd)
{
    if (fd >= 0 && fd < GATE_FILES_MAX && d->role[fd] == GATE_STRANGER)
        change(d, fd, GATE_PEER);
}

void gate_gone(struct gate *d, int fd)
{
    if (fd >= 0 && fd < GATE_FILES_MAX)
        change(d, fd, GATE_NOBODY);
}

enum gate_state gate_wants(const struct gate *d)
{
    assert(d->expected > 0);
    if (d->peers >= d->expected)
        return GATE_SHUT;
    return d->crowded ? GATE_KNOWN : GATE_OPEN;
}
