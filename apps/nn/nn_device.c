#include "apps/nn/nn_device.h"

#include "apps/nn/nn_input.h"
#include "base/deadlines.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { STAGES = 2 };

/* A sub-batch on its way: host memory that copies read, and its result. */
struct nn_stage {
    unsigned char *samples;
    void *marks; /* labels or targets */
    struct nn_result *result;
    struct space_event *done;
};

struct nn_device {
    struct space_stream *stream;
    const struct space_ops *ops;
    const struct space_nn_ops *nn;
    struct nn_net *net;
    struct nn_layer last;
    unsigned last_number;
    enum nn_loss loss;
    struct nn_shape input;
    unsigned outputs;
    bool bytes; /* samples are bytes that the device takes */
    size_t block, sample_bytes, mark_bytes, rows;
    const float *scale, *offset; /* [channels] NULL, or into factor_host */
    float *factor_host;
    /* Of the space. */
    uint8_t *pixels;
    float *factor;
    void *marks;
    struct nn_result *result; /* [STAGES] */
    void *scratch;
    uint64_t scratch_bytes;
    struct nn_stage stage[STAGES];
    unsigned put, given; /* results, since the beginning */
    const float **row;
    float **gradient;
};

/* ---- memory -------------------------------------------------------------- */

static void *take_there(void *arg, uint64_t bytes)
{
    struct nn_device *d = arg;
    struct fault f = {0};
    void *at;

    if (d->ops->alloc(d->stream->space, bytes, &at, &f))
        return NULL;
    d->ops->fill(d->stream, at, bytes / 4 * 4, 0, 4);
    return at;
}

/* What was put before may still write there. */
static void give_there(void *arg, void *at, uint64_t bytes)
{
    struct nn_device *d = arg;
    struct fault f = {0};

    (void)d->ops->stream_sync(d->stream, DEADLINE_DEVICE_MS, &f);
    d->ops->free(d->stream->space, at, bytes);
}

static size_t results_bytes(void)
{
    return STAGES * sizeof(struct nn_result);
}

static size_t factor_bytes(const struct nn_device *d)
{
    return 2 * d->input.channels * sizeof(float);
}

static void close_stage(struct nn_device *d, struct nn_stage *s)
{
    struct memory_space *space = d->stream->space;

    if (s->done)
        d->ops->event_close(s->done);
    d->ops->pinned_free(space, s->samples, d->block * d->sample_bytes);
    d->ops->pinned_free(space, s->marks, d->block * d->mark_bytes);
    d->ops->pinned_free(space, s->result, sizeof(*s->result));
}

void nn_device_free(struct nn_device *d)
{
    struct memory_space *space;
    struct fault f = {0};

    if (!d)
        return;
    space = d->stream->space;
    (void)d->ops->stream_sync(d->stream, DEADLINE_DEVICE_MS, &f);
    for (unsigned i = 0; i < STAGES; i++)
        close_stage(d, &d->stage[i]);
    nn_net_free(d->net);
    d->ops->free(space, d->pixels, d->block * d->sample_bytes);
    d->ops->free(space, d->factor, factor_bytes(d));
    d->ops->free(space, d->marks, d->block * d->mark_bytes);
    d->ops->free(space, d->result, results_bytes());
    d->ops->free(space, d->scratch, d->scratch_bytes);
    mem_free(d->factor_host);
    mem_free(d->row);
    mem_free(d->gradient);
    mem_free(d);
}

static enum err open_stage(struct nn_device *d, struct nn_stage *s,
                           struct fault *f)
{
    struct memory_space *space = d->stream->space;
    enum err err = d->ops->pinned_alloc(space, d->block * d->sample_bytes,
                                        (void **)&s->samples, f);

    if (!err)
        err =
            d->ops->pinned_alloc(space, d->block * d->mark_bytes, &s->marks, f);
    if (!err)
        err = d->ops->pinned_alloc(space, sizeof(*s->result),
                                   (void **)&s->result, f);
    if (!err)
        err = d->ops->event_open(space, &s->done, f);
    return err;
}

static enum err open_buffers(struct nn_device *d, struct fault *f)
{
    struct memory_space *space = d->stream->space;
    enum err err = d->ops->alloc(space, d->block * d->mark_bytes, &d->marks, f);

    if (!err)
        err = d->ops->alloc(space, results_bytes(), (void **)&d->result, f);
    if (!err && d->bytes)
        err = d->ops->alloc(space, d->block * d->sample_bytes,
                            (void **)&d->pixels, f);
    if (!err && d->bytes)
        err = d->ops->alloc(space, factor_bytes(d), (void **)&d->factor, f);
    if (!err && d->scratch_bytes)
        err = d->ops->alloc(space, d->scratch_bytes, &d->scratch, f);
    for (unsigned i = 0; !err && i < STAGES; i++)
        err = open_stage(d, &d->stage[i], f);
    if (!err && d->bytes) {
        d->ops->copy(d->stream, d->factor, d->factor_host, factor_bytes(d),
                     SPACE_FROM_HOST);
        err = d->ops->stream_sync(d->stream, DEADLINE_DEVICE_MS, f);
    }
    return err;
}

/* ---- opening ------------------------------------------------------------- */

static size_t block_of(const struct space_nn_ops *nn,
                       const struct nn_device_shape *s)
{
    return s->block ? s->block : nn->block;
}

static enum err take_factor(struct nn_device *d,
                            const struct nn_device_shape *s)
{
    uint32_t channels = s->input.channels;

    if (!s->scale)
        return ERR_OK;
    d->factor_host = mem_calloc(channels, 2 * sizeof(float));
    if (!d->factor_host)
        return ERR_NOMEM;
    memcpy(d->factor_host, s->scale, channels * sizeof(float));
    memcpy(d->factor_host + channels, s->offset, channels * sizeof(float));
    d->scale = d->factor_host;
    d->offset = d->factor_host + channels;
    return ERR_OK;
}

static enum err take_shape(struct nn_device *d, const struct nn_device_shape *s)
{
    d->block = block_of(d->nn, s);
    d->loss = s->loss;
    d->input = s->input;
    d->outputs = s->outputs;
    d->last = s->layer[s->count - 1];
    d->last_number = s->count - 1;
    d->bytes = s->scale && d->nn->input;
    d->sample_bytes = nn_shape_size(s->input) * (d->bytes ? 1 : sizeof(float));
    d->mark_bytes = s->loss == NN_CROSS_ENTROPY ? sizeof(uint32_t)
                                                : s->outputs * sizeof(float);
    for (unsigned l = 0; l < s->count; l++) {
        uint64_t want = d->nn->scratch_bytes(&s->layer[l], d->block);

        d->scratch_bytes = want > d->scratch_bytes ? want : d->scratch_bytes;
        d->rows = s->layer[l].rows > d->rows ? s->layer[l].rows : d->rows;
    }
    d->row = mem_calloc(d->rows + 1, sizeof(*d->row));
    d->gradient = mem_calloc(d->rows + 1, sizeof(*d->gradient));
    return d->row && d->gradient ? take_factor(d, s) : ERR_NOMEM;
}

static enum err open_net(struct nn_device *d, const struct nn_device_shape *s,
                         struct fault *f)
{
    const struct nn_net_memory memory = {.take = take_there,
                                         .give = give_there,
                                         .work_bytes = d->nn->work_bytes,
                                         .arg = d};
    enum err err = nn_net_new_in(&memory, s->layer, s->count, s->loss, d->block,
                                 &d->net, f);

    return err == ERR_NOMEM
               ? fault_set(f, ERR_LIMIT,
                           "network for batches of %zu: no room for its values "
                           "on the device",
                           d->block)
               : err;
}

enum err nn_device_new(struct space_stream *st, const struct nn_device_shape *s,
                       struct nn_device **out, struct fault *f)
{
    const struct space_ops *ops = st->space->ops;
    struct nn_device *d;
    enum err err;

    if (!ops->nn && ops->stream_native(st))
        return fault_set(f, ERR_UNSUPPORTED,
                         "device %s: this build has no layers for it",
                         ops->name);
    d = mem_calloc(1, sizeof(*d));
    if (!d)
        return fault_set(f, ERR_NOMEM, "nn: out of memory");
    d->stream = st;
    d->ops = ops;
    d->nn = ops->nn ? ops->nn : &nn_space_host;
    err = take_shape(d, s);
    if (err)
        fault_set(f, err, "nn: out of memory");
    if (!err)
        err = open_net(d, s, f);
    if (!err)
        err = open_buffers(d, f);
    if (err)
        nn_device_free(d);
    else
        *out = d;
    return err;
}

size_t nn_device_block(const struct nn_device *d)
{
    return d->block;
}

const struct space_nn_ops *nn_device_ops(const struct nn_device *d)
{
    return d->nn;
}

/* ---- a sub-batch --------------------------------------------------------- */

/* One sample as the copy takes it. */
static void put_sample(const struct nn_device *d, const struct samples *set,
                       uint64_t s, unsigned char *to)
{
    size_t values = nn_shape_size(d->input);

    if (d->bytes)
        memcpy(to, set->pixel + s * values, values);
    else if (set->pixel)
        nn_input_bytes(d->input, set->pixel + s * values, d->scale, d->offset,
                       (float *)(void *)to);
    else
        nn_input_values(d->input, set->value + s * values, (float *)(void *)to);
}

static void put_mark(const struct nn_device *d, const struct samples *set,
                     uint64_t s, size_t i, void *marks)
{
    if (d->loss == NN_CROSS_ENTROPY && set->label)
        ((uint32_t *)marks)[i] = set->label[s];
    else if (d->loss == NN_SQUARED && set->target)
        ((float *)marks)[i] = set->target[s];
}

enum err nn_device_take(struct nn_device *d, const struct samples *set,
                        size_t n, const uint64_t *id, uint64_t first)
{
    struct nn_stage *g = &d->stage[d->put % STAGES];
    struct nn_state s = nn_net_state(d->net, 0);
    struct fault f = {0};
    enum err err = d->ops->event_sync(g->done, DEADLINE_DEVICE_MS, &f);

    assert(n <= d->block);
    if (err)
        return err;
    for (size_t i = 0; i < n; i++) {
        uint64_t number = id ? id[i] : first + i;

        assert(number < set->count);
        put_sample(d, set, number, g->samples + i * d->sample_bytes);
        put_mark(d, set, number, i, g->marks);
    }
    d->ops->copy(d->stream,
                 d->bytes ? (void *)d->pixels : (void *)(uintptr_t)s.x,
                 g->samples, n * d->sample_bytes, SPACE_FROM_HOST);
    d->ops->copy(d->stream, d->marks, g->marks, n * d->mark_bytes,
                 SPACE_FROM_HOST);
    if (d->bytes)
        d->nn->input(d->stream, d->input, n, d->pixels, d->factor,
                     (float *)(uintptr_t)s.x);
    return ERR_OK;
}

struct nn_space_pass nn_device_pass(struct nn_device *d, unsigned l,
                                    const struct nn_batch *batch)
{
    struct nn_space_pass p = {.stream = d->stream,
                              .state = nn_net_state(d->net, l),
                              .batch = *batch,
                              .scratch = d->scratch,
                              .scratch_bytes = d->scratch_bytes,
                              .row = d->row,
                              .gradient = d->gradient};

    p.batch.label = d->loss == NN_CROSS_ENTROPY ? d->marks : NULL;
    p.batch.target = d->loss == NN_SQUARED ? d->marks : NULL;
    return p;
}

void nn_device_loss(struct nn_device *d, const struct nn_batch *batch)
{
    struct nn_space_pass p = nn_device_pass(d, d->last_number, batch);
    struct nn_stage *g = &d->stage[d->put % STAGES];
    struct nn_result *at = d->result + d->put % STAGES;

    assert(d->put - d->given < STAGES);
    if (!batch->train)
        p.state.dy = NULL;
    d->nn->loss(&p, d->loss, d->outputs, at);
    d->ops->copy(d->stream, g->result, at, sizeof(*at), SPACE_TO_HOST);
    d->ops->event_record(d->stream, g->done);
    d->put++;
}

bool nn_device_result(struct nn_device *d, unsigned waiting,
                      struct nn_result *out, enum err *err)
{
    const struct nn_stage *g = &d->stage[d->given % STAGES];
    struct fault f = {0};

    if (d->put - d->given <= waiting)
        return false;
    *err = d->ops->event_sync(g->done, DEADLINE_DEVICE_MS, &f);
    d->given++;
    *out = *err ? (struct nn_result){0} : *g->result;
    return true;
}

enum err nn_device_outputs(struct nn_device *d, size_t n, float *out)
{
    struct nn_state s = nn_net_state(d->net, d->last_number);
    struct fault f = {0};

    d->ops->copy(d->stream, out, s.y, n * d->outputs * sizeof(float),
                 SPACE_TO_HOST);
    return d->ops->stream_sync(d->stream, DEADLINE_DEVICE_MS, &f);
}
