#include "cli/state/queue.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/* Turns that a group has had so far. */
struct share {
    size_t running;
    uint64_t turn; /* the latest */
};

static struct share share_of(const char *group,
                             const struct queue_entry *const entry[], size_t n)
{
    struct share s = {0, 0};

    for (size_t i = 0; i < n; i++) {
        if (strcmp(entry[i]->group, group) != 0)
            continue;
        s.running += entry[i]->state == QUEUE_RUNS;
        if (entry[i]->turn > s.turn)
            s.turn = entry[i]->turn;
    }
    return s;
}

static bool comes_before(const struct share *a, uint64_t a_number,
                         const struct share *b, uint64_t b_number)
{
    if (a->running != b->running)
        return a->running < b->running;
    if (a->turn != b->turn)
        return a->turn < b->turn;
    return a_number < b_number;
}

/* The oldest of its group. */
static bool is_first(const struct queue_entry *const entry[], size_t n,
                     size_t at)
{
    for (size_t i = 0; i < n; i++)
        if (entry[i]->state == QUEUE_WAITS &&
            entry[i]->number < entry[at]->number &&
            strcmp(entry[i]->group, entry[at]->group) == 0)
            return false;
    return true;
}

static bool fits(const struct queue_limits *limits,
                 const struct queue_entry *const entry[], size_t n,
                 const struct queue_entry *e)
{
    uint64_t memory = e->memory;
    size_t running = 0, workers = e->workers;

    for (size_t i = 0; i < n; i++) {
        if (entry[i]->state != QUEUE_RUNS)
            continue;
        running++;
        workers += entry[i]->workers;
        memory += entry[i]->memory;
    }
    return running == 0 ||
           (running < limits->slots && workers <= limits->workers &&
            (limits->memory == 0 || memory <= limits->memory));
}

/* Most of the time: then nobody's turn need be found. */
static bool is_full(const struct queue_limits *limits,
                    const struct queue_entry *const entry[], size_t n)
{
    size_t running = 0;

    for (size_t i = 0; i < n; i++)
        running += entry[i]->state == QUEUE_RUNS;
    return running > 0 && running >= limits->slots;
}

size_t queue_next(const struct queue_limits *limits,
                  const struct queue_entry *const entry[], size_t n)
{
    struct share best_share = {0, 0};
    size_t best = SIZE_MAX;

    assert(limits->slots >= 1);
    if (is_full(limits, entry, n))
        return SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        struct share share;

        if (entry[i]->state != QUEUE_WAITS || !is_first(entry, n, i))
            continue;
        share = share_of(entry[i]->group, entry, n);
        if (best == SIZE_MAX ||
            comes_before(&share, entry[i]->number, &best_share,
                         entry[best]->number)) {
            best = i;
            best_share = share;
        }
    }
    return best < n && fits(limits, entry, n, entry[best]) ? best : SIZE_MAX;
}
