#include "api/http/reaper.h"

#include <assert.h>
#include <string.h>

void reaper_init(struct reaper *r, const struct reaper_limits *limits,
                 size_t places)
{
    assert(limits);
    assert(places > 0 && places <= REAPER_CONNECTIONS_MAX);
    memset(r, 0, sizeof(*r));
    r->limits = *limits;
    r->places = places;
}

struct reaper_entry *reaper_add(struct reaper *r, int fd, time_ns now)
{
    assert(fd >= 0);
    for (size_t i = 0; i < r->places; i++) {
        struct reaper_entry *e = &r->entry[i];

        if (e->phase != REAPER_FREE)
            continue;
        *e =
            (struct reaper_entry){.phase = REAPER_HEAD, .fd = fd, .since = now};
        r->used++;
        return e;
    }
    assert(r->used == r->places);
    return NULL;
}

static bool is_unknown(const struct reaper_entry *e)
{
    return e->phase != REAPER_FREE && e->phase != REAPER_CLOSING && !e->known;
}

/* Of those not known who are no @e, from its address alone or from any: who has
 * been longest in its phase, where they are more than @most with @e. */
static struct reaper_entry *
longest(struct reaper *r, const struct reaper_entry *e, bool same, size_t most)
{
    struct reaper_entry *found = NULL;
    size_t n = 1;

    for (size_t i = 0; i < r->places; i++) {
        struct reaper_entry *other = &r->entry[i];

        if (other == e || !is_unknown(other) ||
            (same && other->client != e->client))
            continue;
        n++;
        if (!found || other->since < found->since)
            found = other;
    }
    return n > most ? found : NULL;
}

struct reaper_entry *reaper_surplus(struct reaper *r,
                                    const struct reaper_entry *e)
{
    struct reaper_entry *found = longest(r, e, true, r->places / 2);

    assert(e->phase != REAPER_FREE);
    if (!found)
        found = longest(r, e, false, r->places - r->places / 8);
    if (found)
        found->phase = REAPER_CLOSING;
    return found;
}

void reaper_remove(struct reaper *r, struct reaper_entry *e)
{
    if (!e)
        return;
    assert(e->phase != REAPER_FREE && r->used > 0);
    e->phase = REAPER_FREE;
    r->used--;
}

void reaper_enter(struct reaper_entry *e, enum reaper_phase phase, time_ns now)
{
    if (!e || e->phase == REAPER_CLOSING)
        return;
    assert(e->phase != REAPER_FREE && phase != REAPER_FREE);
    e->phase = phase;
    e->since = now;
}

static time_ns deadline(const struct reaper *r, const struct reaper_entry *e)
{
    bool crowded = r->used > r->places / 4 * 3;
    time_ns limit = r->limits.phase[e->phase];

    if (e->phase == REAPER_FREE || e->phase == REAPER_CLOSING)
        return INT64_MAX;
    if (crowded &&
        (e->phase == REAPER_HEAD || e->phase == REAPER_IDLE ||
         (e->phase == REAPER_ANSWER && !e->known)) &&
        limit > r->limits.crowded)
        limit = r->limits.crowded;
    return e->since + limit;
}

struct reaper_entry *reaper_next(struct reaper *r, time_ns now)
{
    assert(r->used <= r->places);
    for (size_t i = 0; i < r->places; i++) {
        struct reaper_entry *e = &r->entry[i];

        if (deadline(r, e) <= now) {
            e->phase = REAPER_CLOSING;
            return e;
        }
    }
    return NULL;
}

void reaper_rested(struct reaper *r, time_ns ns)
{
    assert(ns >= 0);
    for (size_t i = 0; i < r->places; i++)
        r->entry[i].since += ns;
}

unsigned reaper_count(const struct reaper *r, uint32_t client, bool exports)
{
    unsigned n = 0;

    for (size_t i = 0; i < r->places; i++) {
        const struct reaper_entry *e = &r->entry[i];

        n += e->phase != REAPER_FREE && e->counted && e->client == client &&
             e->exports == exports;
    }
    return n;
}

static bool has_token(const struct reaper_entry *e)
{
    return e->phase != REAPER_FREE && e->phase != REAPER_CLOSING && e->token;
}

bool reaper_has_tokens(const struct reaper *r)
{
    for (size_t i = 0; i < r->places; i++)
        if (has_token(&r->entry[i]))
            return true;
    return false;
}

struct reaper_entry *
reaper_revoked(struct reaper *r, bool (*lives)(const void *ctx, uint64_t token),
               const void *ctx)
{
    for (size_t i = 0; i < r->places; i++) {
        struct reaper_entry *e = &r->entry[i];

        if (!has_token(e) || lives(ctx, e->token))
            continue;
        e->phase = REAPER_CLOSING;
        return e;
    }
    return NULL;
}

static bool awaits_words(const struct reaper_entry *e)
{
    return e->phase == REAPER_HEAD || e->phase == REAPER_IDLE ||
           e->phase == REAPER_BODY;
}

struct reaper_entry *reaper_left(struct reaper *r, time_ns now,
                                 bool (*left)(int fd))
{
    for (size_t i = 0; i < r->places; i++) {
        struct reaper_entry *e = &r->entry[i];

        if (!awaits_words(e) || now - e->since < REAPER_LEFT || !left(e->fd))
            continue;
        e->phase = REAPER_CLOSING;
        return e;
    }
    return NULL;
}

time_ns reaper_deadline(const struct reaper *r)
{
    time_ns least = INT64_MAX;

    for (size_t i = 0; i < r->places; i++) {
        time_ns d = deadline(r, &r->entry[i]);

        if (d < least)
            least = d;
    }
    return least;
}
