#include "apps/nn/nn_net.h"

#include "apps/nn/nn_ops.h"
#include "apps/nn/nn_vec.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Gradients of activations go to and fro between two buffers. */
enum { SIDES = 2 };

struct nn_net {
    struct nn_layer layer[NN_LAYERS_MAX];
    unsigned count, first;
    enum nn_loss loss;
    struct nn_net_memory memory;
    size_t batch_max;
    float *input;                 /* [batch_max][in]: owned */
    float *output[NN_LAYERS_MAX]; /* of each layer; its input's where it works
                                     in place */
    float *owned[NN_LAYERS_MAX];
    void *work[NN_LAYERS_MAX];    /* owned */
    float *gradient[SIDES];       /* owned */
    unsigned side[NN_LAYERS_MAX]; /* where the gradient of its output is */
};

/* ---- sizes --------------------------------------------------------------- */

/* Bytes of an activation buffer; UINT64_MAX where that overflows. */
static uint64_t buffer_bytes(size_t batch_max, size_t size)
{
    uint64_t values;

    if (__builtin_mul_overflow((uint64_t)batch_max, (uint64_t)size, &values) ||
        values > UINT64_MAX / sizeof(float) - NN_SLACK)
        return UINT64_MAX;
    return (values + NN_SLACK) * sizeof(float);
}

static uint64_t work_bytes(const struct nn_layer *l, size_t batch_max)
{
    const struct nn_ops *ops = nn_ops_of(l->kind);

    return ops->work_bytes ? ops->work_bytes(l, batch_max) : 0;
}

/* Memory of this process, zeroed: what is never written may still be read
 * (NN_SLACK). */
static void *take_here(void *arg, uint64_t bytes)
{
    void *p = mem_aligned(NN_ALIGN, nn_round_up(bytes, NN_ALIGN));

    (void)arg;
    if (p)
        memset(p, 0, bytes);
    return p;
}

static void give_here(void *arg, void *at, uint64_t bytes)
{
    (void)arg;
    (void)bytes;
    mem_free(at);
}

static const struct nn_net_memory here = {
    .take = take_here, .give = give_here, .work_bytes = work_bytes};

/* Values of a sample in the larger of a layer's two ends, over all layers. */
static size_t largest_size(const struct nn_layer *layer, unsigned count)
{
    size_t size = 0, own;
    unsigned l;

    for (l = 0; l < count; l++) {
        own = nn_shape_size(layer[l].out);
        size = own > size ? own : size;
    }
    return size;
}

/* Does layer @l put its output where its input is? Not where the layer that
 * made the values needs them in its own backward pass. */
static bool works_in_place(const struct nn_layer *layer, unsigned l)
{
    unsigned k = l;

    if (!nn_ops_of(layer[l].kind)->in_place)
        return false;
    while (k-- > 0 && nn_ops_of(layer[k].kind)->in_place)
        if (nn_ops_of(layer[k].kind)->keeps_output)
            return false;
    return true;
}

static void add_bytes(uint64_t *sum, uint64_t bytes)
{
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = UINT64_MAX;
}

static uint64_t bytes_in(const struct nn_net_memory *memory,
                         const struct nn_layer *layer, unsigned count,
                         size_t batch_max)
{
    uint64_t sum = sizeof(struct nn_net);
    unsigned l;

    add_bytes(&sum, buffer_bytes(batch_max, nn_shape_size(layer[0].in)));
    for (l = 0; l < count; l++) {
        if (!works_in_place(layer, l))
            add_bytes(&sum,
                      buffer_bytes(batch_max, nn_shape_size(layer[l].out)));
        add_bytes(&sum, memory->work_bytes(&layer[l], batch_max));
    }
    for (l = 0; l < SIDES; l++)
        add_bytes(&sum, buffer_bytes(batch_max, largest_size(layer, count)));
    return sum;
}

uint64_t nn_net_bytes(const struct nn_layer *layer, unsigned count,
                      size_t batch_max)
{
    return bytes_in(&here, layer, count, batch_max);
}

/* ---- life ---------------------------------------------------------------- */

/* NULL also where nothing is asked for. */
static void *take(const struct nn_net *net, uint64_t bytes)
{
    return bytes ? net->memory.take(net->memory.arg, bytes) : NULL;
}

static void give(const struct nn_net *net, void *at, uint64_t bytes)
{
    if (at)
        net->memory.give(net->memory.arg, at, bytes);
}

static uint64_t values_bytes(const struct nn_net *net, struct nn_shape shape)
{
    return buffer_bytes(net->batch_max, nn_shape_size(shape));
}

static uint64_t own_work_bytes(const struct nn_net *net, unsigned l)
{
    return net->memory.work_bytes(&net->layer[l], net->batch_max);
}

static uint64_t side_bytes(const struct nn_net *net)
{
    return buffer_bytes(net->batch_max, largest_size(net->layer, net->count));
}

void nn_net_free(struct nn_net *net)
{
    unsigned l;

    if (!net)
        return;
    give(net, net->input, values_bytes(net, net->layer[0].in));
    for (l = 0; l < net->count; l++) {
        give(net, net->owned[l], values_bytes(net, net->layer[l].out));
        give(net, net->work[l], own_work_bytes(net, l));
    }
    for (l = 0; l < SIDES; l++)
        give(net, net->gradient[l], side_bytes(net));
    mem_free(net);
}

static enum err make_layer(struct nn_net *net, unsigned l)
{
    uint64_t bytes = own_work_bytes(net, l);

    if (works_in_place(net->layer, l)) {
        net->output[l] = l ? net->output[l - 1] : net->input;
    } else {
        net->owned[l] = take(net, values_bytes(net, net->layer[l].out));
        net->output[l] = net->owned[l];
    }
    net->work[l] = take(net, bytes);
    return net->output[l] && (net->work[l] || bytes == 0) ? ERR_OK : ERR_NOMEM;
}

static enum err make_buffers(struct nn_net *net)
{
    enum err err = ERR_OK;
    unsigned l;

    net->input = take(net, values_bytes(net, net->layer[0].in));
    if (!net->input)
        return ERR_NOMEM;
    for (l = 0; !err && l < net->count; l++)
        err = make_layer(net, l);
    for (l = 0; !err && l < SIDES; l++) {
        net->gradient[l] = take(net, side_bytes(net));
        err = net->gradient[l] ? ERR_OK : ERR_NOMEM;
    }
    return err;
}

static void choose_sides(struct nn_net *net)
{
    unsigned l, side = 0;

    for (l = net->count; l-- > 0;) {
        net->side[l] = side;
        if (!nn_ops_of(net->layer[l].kind)->in_place)
            side = !side;
    }
    while (net->first < net->count && net->layer[net->first].rows == 0)
        net->first++;
}

enum err nn_net_new_in(const struct nn_net_memory *memory,
                       const struct nn_layer *layer, unsigned count,
                       enum nn_loss loss, size_t batch_max, struct nn_net **out,
                       struct fault *f)
{
    struct nn_net *net;

    assert(count >= 1 && count <= NN_LAYERS_MAX && batch_max >= 1);
    if (bytes_in(memory, layer, count, batch_max) > SIZE_MAX / 2)
        return fault_set(f, ERR_LIMIT,
                         "a network for batches of %zu is too large",
                         batch_max);
    net = mem_calloc(1, sizeof(*net));
    if (!net)
        return fault_set(f, ERR_NOMEM, "network: out of memory");
    memcpy(net->layer, layer, count * sizeof(*layer));
    net->memory = *memory;
    net->count = count;
    net->loss = loss;
    net->batch_max = batch_max;
    choose_sides(net);
    if (make_buffers(net)) {
        nn_net_free(net);
        return fault_set(f, ERR_NOMEM,
                         "network for batches of %zu: out of memory",
                         batch_max);
    }
    *out = net;
    return ERR_OK;
}

enum err nn_net_new(const struct nn_layer *layer, unsigned count,
                    enum nn_loss loss, size_t batch_max, struct nn_net **out,
                    struct fault *f)
{
    return nn_net_new_in(&here, layer, count, loss, batch_max, out, f);
}

unsigned nn_net_first(const struct nn_net *net)
{
    return net->first;
}

float *nn_net_input(struct nn_net *net)
{
    return net->input;
}

const float *nn_net_output(const struct nn_net *net)
{
    return net->output[net->count - 1];
}

/* ---- passes -------------------------------------------------------------- */

/* The gradient of the input is wanted down to the first parameters; a layer
 * that works in place leaves it where the output's was. */
struct nn_state nn_net_state(struct nn_net *net, unsigned l)
{
    const struct nn_ops *ops = nn_ops_of(net->layer[l].kind);
    unsigned side = net->side[l];
    struct nn_state s = {.layer = &net->layer[l],
                         .number = l,
                         .x = l ? net->output[l - 1] : net->input,
                         .y = net->output[l],
                         .dy = net->gradient[side],
                         .work = net->work[l]};

    if (l > net->first)
        s.dx = net->gradient[ops->in_place ? side : !side];
    return s;
}

static void check_batch(const struct nn_net *net, const struct nn_batch *batch)
{
    assert(batch->n >= 1);
    assert(batch->n <= net->batch_max);
}

void nn_net_forward(struct nn_net *net, unsigned l,
                    const struct nn_batch *batch,
                    const struct nn_params *params)
{
    struct nn_state s;

    assert(l < net->count);
    check_batch(net, batch);
    s = nn_net_state(net, l);
    nn_ops_of(net->layer[l].kind)->forward(&s, batch, params);
}

void nn_net_loss(struct nn_net *net, const struct nn_batch *batch,
                 struct nn_result *out)
{
    unsigned last = net->count - 1;
    size_t outputs = nn_shape_size(net->layer[last].out);
    float *dz = batch->train ? net->gradient[net->side[last]] : NULL;

    check_batch(net, batch);
    if (net->loss == NN_CROSS_ENTROPY)
        nn_loss_cross_entropy(batch, outputs, net->output[last], dz, out);
    else
        nn_loss_squared(batch, outputs, net->output[last], dz, out);
}

void nn_net_backward(struct nn_net *net, unsigned l,
                     const struct nn_batch *batch,
                     const struct nn_params *params,
                     const struct nn_grads *grads)
{
    struct nn_state s;

    assert(l >= net->first && l < net->count);
    assert(batch->train);
    check_batch(net, batch);
    s = nn_net_state(net, l);
    nn_ops_of(net->layer[l].kind)->backward(&s, batch, params, grads);
}
