#include "base/mem.h"
#include "ps/space/fake_internal_io.h"

#include <string.h>

bool fake_owns(const struct fake *k, const void *at, size_t bytes)
{
    for (const struct fake_block *b = k->block; b; b = b->next)
        if ((const char *)at >= b->at && bytes <= b->bytes &&
            (size_t)((const char *)at - b->at) <= b->bytes - bytes)
            return !b->pinned;
    return false;
}

void fake_event_release(struct fake_event *e)
{
    if (--e->refs == 0)
        mem_free(e);
}

static void fake_item_free(struct fake_item *item)
{
    if (item->event)
        fake_event_release(item->event);
    mem_free(item->piece);
    mem_free(item->saved);
    mem_free(item->arg);
    mem_free(item);
}

void fake_pop(struct fake *k, struct fake_stream *st)
{
    struct fake_item *item = st->first;

    st->first = item->next;
    if (!st->first)
        st->end = &st->first;
    k->waiting--;
    fake_item_free(item);
}

/* ---- poison -------------------------------------------------------------- */

struct noting {
    struct fake *fake;
    struct fake_item *item;
};

static enum err note_piece(void *arg, void *at, size_t bytes, struct fault *f)
{
    struct noting *n = arg;
    struct fake_item *item = n->item;
    const struct space_work *w = &item->work;
    bool to_host = w->kind == WORK_COPY && w->copy.direction == SPACE_TO_HOST;

    if (bytes == 0)
        return ERR_OK;
    if (!to_host && !fake_owns(n->fake, at, bytes))
        return fault_set(f, ERR_INVAL,
                         "work writes %zu bytes that are no memory of the "
                         "space",
                         bytes);
    if (mem_grow((void **)&item->piece, &item->pieces_capacity,
                 sizeof(*item->piece), item->pieces + 1) != 0)
        return fault_set(f, ERR_NOMEM, "no memory to keep what is written");
    item->piece[item->pieces++] = (struct fake_piece){at, bytes};
    item->saved_bytes += bytes;
    return ERR_OK;
}

/* Keeps the pieces' bytes, all of them before one is poison: a row may be there
 * twice. */
static enum err keep_pieces(struct fake_item *item, struct fault *f)
{
    char *to;

    if (item->pieces == 0)
        return ERR_OK;
    to = item->saved = mem_alloc(item->saved_bytes);
    if (!to)
        return fault_set(f, ERR_NOMEM, "no memory to keep what is written");
    for (size_t i = 0; i < item->pieces; to += item->piece[i++].bytes)
        memcpy(to, item->piece[i].at, item->piece[i].bytes);
    for (size_t i = 0; i < item->pieces; i++)
        memset(item->piece[i].at, FAKE_POISON, item->piece[i].bytes);
    return ERR_OK;
}

static void put_back(struct fake_item *item)
{
    const char *from = item->saved;

    for (size_t i = 0; i < item->pieces; from += item->piece[i++].bytes)
        memcpy(item->piece[i].at, from, item->piece[i].bytes);
}

void fake_begin(struct fake *k, struct fake_stream *st)
{
    struct fake_item *item = st->first;
    struct noting n = {k, item};
    struct fault f = {0};

    item->begun = true;
    if (st->base.error.code)
        return;
    if (work_writes(&item->work, note_piece, &n, &f) || keep_pieces(item, &f))
        stream_spoil(&st->base, &f);
}

/* ---- steps --------------------------------------------------------------- */

static void finish_work(struct fake *k, struct fake_stream *st)
{
    struct fault f = {0};

    k->done++;
    if (k->options.fails_after && k->done == k->options.fails_after) {
        fault_set(&f, ERR_IO, "the device failed at work number %llu",
                  (unsigned long long)k->done);
        stream_spoil(&st->base, &f);
    }
    if (!st->base.error.code) {
        put_back(st->first);
        if (work_run(&st->first->work, &f))
            stream_spoil(&st->base, &f);
    }
    fake_pop(k, st);
}

static void step_of(struct fake *k, struct fake_stream *st)
{
    struct fake_item *item = st->first;
    struct fake_event *e = item->event;

    if (item->kind == FAKE_WORK && !item->begun) {
        fake_begin(k, st);
    } else if (item->kind == FAKE_WORK) {
        finish_work(k, st);
    } else {
        if (item->kind == FAKE_RECORD && item->time > e->come) {
            e->come = item->time;
            e->error = st->base.error;
        } else if (item->kind == FAKE_WAIT && e->error.code) {
            stream_spoil(&st->base, &e->error);
        }
        fake_pop(k, st);
    }
}

static bool can_step(const struct fake_stream *st)
{
    const struct fake_item *item = st->first;

    return item && (item->kind != FAKE_WAIT || item->event->come >= item->time);
}

/* One step of a stream that the seed draws; false: none can. */
static bool step(struct fake *k)
{
    uint64_t n = 0;

    for (struct fake_stream *st = k->stream; st; st = st->next)
        n += can_step(st);
    if (n == 0)
        return false;
    n = rng_below(&k->rng, n);
    for (struct fake_stream *st = k->stream; st; st = st->next)
        if (can_step(st) && n-- == 0) {
            step_of(k, st);
            return true;
        }
    return false;
}

void *fake_thread(void *arg)
{
    struct fake *k = arg;

    pthread_mutex_lock(&k->lock);
    while (!k->stop) {
        bool due = k->hurried || k->permits || k->waiting > FAKE_LATE;
        bool moved = due && step(k);

        if (k->permits)
            k->permits--;
        if (due)
            pthread_cond_broadcast(&k->moved);
        if (!moved && !k->permits)
            pthread_cond_wait(&k->asked, &k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}
