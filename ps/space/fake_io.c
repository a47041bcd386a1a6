#include "ps/space/fake_io.h"

#include "base/deadlines.h"
#include "base/mem.h"
#include "ps/space/fake_internal_io.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static struct fake *fake_of(const struct memory_space *s)
{
    return (struct fake *)s;
}

static struct fake_stream *stream_of(struct space_stream *st)
{
    return (struct fake_stream *)st;
}

static uint64_t total_of(const struct fake *k)
{
    return k->options.total ? k->options.total : (uint64_t)1 << 30;
}

/* ---- the space ----------------------------------------------------------- */

static enum err fake_devices(struct space_device *out, size_t max, size_t *n,
                             struct fault *f)
{
    (void)f;
    *n = max > 0;
    if (*n)
        *out = (struct space_device){.name = "fake",
                                     .what = "a device made of host memory"};
    return ERR_OK;
}

static void init_locks(struct fake *k)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->asked, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&k->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void deinit_locks(struct fake *k)
{
    pthread_cond_destroy(&k->moved);
    pthread_cond_destroy(&k->asked);
    pthread_mutex_destroy(&k->lock);
}

static enum err fake_open(const struct space_options *o,
                          struct memory_space **out, struct fault *f)
{
    struct fake *k = mem_calloc(1, sizeof(*k));

    if (!k)
        return fault_set(f, ERR_NOMEM, "no memory for a memory space");
    k->base.ops = &space_fake;
    k->options = *o;
    budget_init(&k->budget, o->limit);
    rng_init(&k->rng, o->seed);
    init_locks(k);
    if (pthread_create(&k->thread, NULL, fake_thread, k) != 0) {
        deinit_locks(k);
        mem_free(k);
        return fault_set(f, ERR_NOMEM, "no thread for a memory space");
    }
    *out = &k->base;
    return ERR_OK;
}

static void fake_close(struct memory_space *s)
{
    struct fake *k = fake_of(s);

    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_signal(&k->asked);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    deinit_locks(k);
    mem_free(k);
}

static void tell_memory(const struct fake *k, struct space_memory *out)
{
    budget_tell(&k->budget, out);
    out->total = total_of(k);
    out->free = out->total - out->used;
}

static enum err fake_memory(struct memory_space *s, struct space_memory *out,
                            struct fault *f)
{
    (void)f;
    tell_memory(fake_of(s), out);
    return ERR_OK;
}

/* ---- memory -------------------------------------------------------------- */

static enum err new_block(struct fake *k, size_t bytes, bool pinned, void **out,
                          struct fault *f)
{
    struct fake_block *b = mem_alloc(sizeof(*b));
    char *at = b ? mem_aligned(SPACE_ALIGN, bytes) : NULL;

    if (!at) {
        mem_free(b);
        return fault_set(f, ERR_NOMEM, "no memory for a piece of %zu bytes",
                         bytes);
    }
    memset(at, FAKE_POISON, bytes);
    pthread_mutex_lock(&k->lock);
    *b = (struct fake_block){at, bytes, pinned, k->block};
    k->block = b;
    pthread_mutex_unlock(&k->lock);
    *out = at;
    return ERR_OK;
}

static void free_block(struct fake *k, void *at)
{
    struct fake_block **b, *gone;

    pthread_mutex_lock(&k->lock);
    for (b = &k->block; (*b)->at != at;)
        b = &(*b)->next;
    gone = *b;
    *b = gone->next;
    pthread_mutex_unlock(&k->lock);
    mem_free(gone->at);
    mem_free(gone);
}

static enum err fake_alloc(struct memory_space *s, size_t bytes, void **out,
                           struct fault *f)
{
    struct fake *k = fake_of(s);
    struct space_memory m;
    enum err err = budget_take(&k->budget, bytes, f);

    if (err)
        return err;
    tell_memory(k, &m);
    if (m.used > m.total) {
        budget_give(&k->budget, bytes);
        tell_memory(k, &m);
        return budget_full(&m, bytes, f);
    }
    err = new_block(k, bytes, false, out, f);
    if (err)
        budget_give(&k->budget, bytes);
    return err;
}

static void fake_free(struct memory_space *s, void *at, size_t bytes)
{
    if (!at)
        return;
    free_block(fake_of(s), at);
    budget_give(&fake_of(s)->budget, bytes);
}

static enum err fake_pinned_alloc(struct memory_space *s, size_t bytes,
                                  void **out, struct fault *f)
{
    enum err err = new_block(fake_of(s), bytes, true, out, f);

    if (!err)
        budget_pin(&fake_of(s)->budget, bytes);
    return err;
}

static void fake_pinned_free(struct memory_space *s, void *at, size_t bytes)
{
    if (!at)
        return;
    free_block(fake_of(s), at);
    budget_unpin(&fake_of(s)->budget, bytes);
}

/* ---- waiting ------------------------------------------------------------- */

static struct timespec in_ms(int ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Whether what is waited for has come: an event, or the end of a stream. */
static bool has_come(const struct fake_stream *st, const struct fake_event *e)
{
    return st ? !st->first : e->come >= e->recorded;
}

/* Until it has come; the lock is held. Errors: ERR_TIMEOUT. */
static enum err await(struct fake *k, const struct fake_stream *st,
                      const struct fake_event *e, int timeout_ms,
                      struct fault *f)
{
    struct timespec until = in_ms(timeout_ms);
    bool late = timeout_ms <= 0;

    k->hurried++;
    if (!late)
        pthread_cond_signal(&k->asked);
    while (!has_come(st, e) && !late)
        late = pthread_cond_timedwait(&k->moved, &k->lock, &until) == ETIMEDOUT;
    k->hurried--;
    return has_come(st, e)
               ? ERR_OK
               : fault_set(f, ERR_TIMEOUT,
                           "the device has not done its work in %d ms",
                           timeout_ms);
}

/* One step of the thread; the lock is held. */
static void nudge(struct fake *k)
{
    k->permits++;
    pthread_cond_signal(&k->asked);
    while (k->permits)
        pthread_cond_wait(&k->moved, &k->lock);
}

/* ---- putting ------------------------------------------------------------- */

/* At the end of the stream; what comes to an idle stream begins. */
static void enqueue(struct fake *k, struct fake_stream *st,
                    struct fake_item *item)
{
    bool idle = !st->first;

    *st->end = item;
    st->end = &item->next;
    k->waiting++;
    if (idle && item->kind == FAKE_WORK)
        fake_begin(k, st);
    if (k->hurried || k->waiting > FAKE_LATE)
        pthread_cond_signal(&k->asked);
}

static enum err must_own(void *arg, void *at, size_t bytes, struct fault *f)
{
    return bytes == 0 || fake_owns(arg, at, bytes)
               ? ERR_OK
               : fault_set(f, ERR_INVAL,
                           "work reads %zu bytes that are no memory of the "
                           "space",
                           bytes);
}

/* Copies say themselves where they come from. */
static enum err check_reads(struct fake *k, const struct space_work *w,
                            struct fault *f)
{
    enum space_direction d = w->copy.direction;

    if (w->kind != WORK_COPY || d != SPACE_FROM_HOST)
        return work_reads(w, must_own, k, f);
    return fake_owns(k, w->copy.from, w->copy.bytes)
               ? fault_set(f, ERR_INVAL,
                           "a copy from the host reads memory "
                           "of the space")
               : ERR_OK;
}

static struct fake_item *new_item(const struct space_work *w)
{
    struct fake_item *item = mem_calloc(1, sizeof(*item));

    if (!item)
        return NULL;
    item->work = *w;
    if (w->kind != WORK_CALL || w->call.arg_bytes == 0)
        return item;
    item->arg = mem_alloc(w->call.arg_bytes);
    if (!item->arg) {
        mem_free(item);
        return NULL;
    }
    memcpy(item->arg, w->call.arg, w->call.arg_bytes);
    item->work.call.arg = item->arg;
    return item;
}

/* Memory of the host that is not pinned is staged: the call waits. */
static bool waits(const struct fake *k, const struct space_work *w)
{
    const char *at =
        w->copy.direction == SPACE_TO_HOST ? w->copy.to : w->copy.from;

    if (w->kind != WORK_COPY || w->copy.direction == SPACE_WITHIN)
        return false;
    for (const struct fake_block *b = k->block; b; b = b->next)
        if (b->pinned && at >= b->at && at < b->at + b->bytes)
            return false;
    return true;
}

static void fake_put(struct work_stream *base, const struct space_work *w)
{
    struct fake_stream *st = (struct fake_stream *)base;
    struct fake *k = fake_of(base->base.space);
    struct fake_item *item = new_item(w);
    struct fault f = {0};

    pthread_mutex_lock(&k->lock);
    if (!item)
        fault_set(&f, ERR_NOMEM, "no memory for work of a device");
    else
        check_reads(k, w, &f);
    if (f.code)
        stream_spoil(base, &f);
    if (item)
        enqueue(k, st, item);
    if (item && waits(k, w) && await(k, st, NULL, DEADLINE_DEVICE_MS, &f))
        stream_spoil(base, &f);
    pthread_mutex_unlock(&k->lock);
}

/* ---- streams ------------------------------------------------------------- */

static enum err fake_stream_open(struct memory_space *s,
                                 struct space_stream **out, struct fault *f)
{
    struct fake *k = fake_of(s);
    struct fake_stream *st = mem_calloc(1, sizeof(*st));

    if (!st)
        return fault_set(f, ERR_NOMEM, "no memory for a stream");
    stream_init(&st->base, s, fake_put);
    st->end = &st->first;
    pthread_mutex_lock(&k->lock);
    st->next = k->stream;
    k->stream = st;
    pthread_mutex_unlock(&k->lock);
    *out = &st->base.base;
    return ERR_OK;
}

static void fake_stream_close(struct space_stream *base)
{
    struct fake_stream *st = stream_of(base), **at;
    struct fake *k;

    if (!st)
        return;
    k = fake_of(base->space);
    pthread_mutex_lock(&k->lock);
    await(k, st, NULL, DEADLINE_DEVICE_MS, NULL);
    while (st->first)
        fake_pop(k, st);
    for (at = &k->stream; *at != st;)
        at = &(*at)->next;
    *at = st->next;
    pthread_mutex_unlock(&k->lock);
    stream_deinit(&st->base);
    mem_free(st);
}

static enum err fake_stream_sync(struct space_stream *base, int timeout_ms,
                                 struct fault *f)
{
    struct fake_stream *st = stream_of(base);
    struct fake *k = fake_of(base->space);
    enum err err;

    pthread_mutex_lock(&k->lock);
    err = await(k, st, NULL, timeout_ms, f);
    if (!err)
        err = stream_error(&st->base, f);
    pthread_mutex_unlock(&k->lock);
    return err;
}

static enum err fake_stream_query(struct space_stream *base, struct fault *f)
{
    struct fake_stream *st = stream_of(base);
    struct fake *k = fake_of(base->space);
    enum err err;

    pthread_mutex_lock(&k->lock);
    nudge(k);
    err = st->first ? ERR_AGAIN : stream_error(&st->base, f);
    pthread_mutex_unlock(&k->lock);
    return err;
}

static void fake_stream_fail(struct space_stream *base, enum err err,
                             const char *text)
{
    struct fake *k = fake_of(base->space);
    struct fault f;

    fault_set(&f, err, "%s", text);
    pthread_mutex_lock(&k->lock);
    stream_spoil(&stream_of(base)->base, &f);
    pthread_mutex_unlock(&k->lock);
}

/* ---- events -------------------------------------------------------------- */

static struct fake_event *event_of(struct space_event *e)
{
    return (struct fake_event *)e;
}

static enum err fake_event_open(struct memory_space *s,
                                struct space_event **out, struct fault *f)
{
    struct fake_event *e = mem_calloc(1, sizeof(*e));

    if (!e)
        return fault_set(f, ERR_NOMEM, "no memory for an event");
    e->base.space = s;
    e->refs = 1;
    *out = &e->base;
    return ERR_OK;
}

static void fake_event_close(struct space_event *base)
{
    struct fake *k;

    if (!base)
        return;
    k = fake_of(base->space);
    pthread_mutex_lock(&k->lock);
    fake_event_release(event_of(base));
    pthread_mutex_unlock(&k->lock);
}

static void put_event(struct fake_stream *st, struct fake_event *e,
                      enum fake_item_kind kind)
{
    struct fake *k = fake_of(st->base.base.space);
    struct fake_item *item = mem_calloc(1, sizeof(*item));
    struct fault f;

    pthread_mutex_lock(&k->lock);
    if (kind == FAKE_RECORD && item)
        e->recorded++;
    if (item) {
        item->kind = kind;
        item->event = e;
        item->time = e->recorded;
        e->refs++;
        enqueue(k, st, item);
    } else {
        fault_set(&f, ERR_NOMEM, "no memory for work of a device");
        stream_spoil(&st->base, &f);
    }
    pthread_mutex_unlock(&k->lock);
}

static void fake_event_record(struct space_stream *st, struct space_event *e)
{
    put_event(stream_of(st), event_of(e), FAKE_RECORD);
}

static void fake_event_wait(struct space_stream *st, struct space_event *e)
{
    put_event(stream_of(st), event_of(e), FAKE_WAIT);
}

static enum err event_error(const struct fake_event *e, struct fault *f)
{
    return e->error.code ? fault_set(f, e->error.code, "%s", e->error.text)
                         : ERR_OK;
}

static enum err fake_event_sync(struct space_event *base, int timeout_ms,
                                struct fault *f)
{
    struct fake *k = fake_of(base->space);
    struct fake_event *e = event_of(base);
    enum err err;

    pthread_mutex_lock(&k->lock);
    err = await(k, NULL, e, timeout_ms, f);
    if (!err)
        err = event_error(e, f);
    pthread_mutex_unlock(&k->lock);
    return err;
}

static enum err fake_event_query(struct space_event *base, struct fault *f)
{
    struct fake *k = fake_of(base->space);
    struct fake_event *e = event_of(base);
    enum err err;

    pthread_mutex_lock(&k->lock);
    nudge(k);
    err = e->come < e->recorded ? ERR_AGAIN : event_error(e, f);
    pthread_mutex_unlock(&k->lock);
    return err;
}

static uint64_t fake_event_between(struct space_event *from,
                                   struct space_event *to)
{
    (void)from, (void)to;
    return 0;
}

const struct space_ops space_fake = {
    .version = SPACE_VERSION,
    .name = "fake",
    .devices = fake_devices,
    .open = fake_open,
    .close = fake_close,
    .memory = fake_memory,
    .alloc = fake_alloc,
    .free = fake_free,
    .pinned_alloc = fake_pinned_alloc,
    .pinned_free = fake_pinned_free,
    .stream_open = fake_stream_open,
    .stream_close = fake_stream_close,
    .stream_sync = fake_stream_sync,
    .stream_query = fake_stream_query,
    .event_open = fake_event_open,
    .event_close = fake_event_close,
    .event_record = fake_event_record,
    .event_wait = fake_event_wait,
    .event_sync = fake_event_sync,
    .event_query = fake_event_query,
    .event_between = fake_event_between,
    .copy = stream_copy,
    .fill = stream_fill,
    .gather = stream_gather,
    .scatter = stream_scatter,
    .add = stream_add,
    .update = stream_update,
    .call = stream_call,
    .stream_native = stream_native,
    .stream_handle = stream_handle,
    .stream_fail = fake_stream_fail,
};
