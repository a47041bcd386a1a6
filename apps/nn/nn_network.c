#include "apps/nn/nn_network.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { NETWORK_VERSION = 1 };

/* Images have a billion billion pixels before theirs is smaller. */
static const double DEVIATION_MIN = 1e-9;

void nn_network_deinit(struct nn_network *n)
{
    mem_free(n->mean);
    mem_free(n->deviation);
    memset(n, 0, sizeof(*n));
}

/* ---- parsing ------------------------------------------------------------- */

static enum err bad_member(const char *member, const char *expected,
                           struct fault *f)
{
    return fault_set(f, ERR_FORMAT, "%s: expected %s", member, expected);
}

static bool take_count(const json_t *o, const char *name, uint32_t most,
                       uint32_t *out)
{
    const json_t *value = json_object_get(o, name);
    json_int_t n = json_integer_value(value);

    *out = (uint32_t)n;
    return json_is_integer(value) && n >= 1 && n <= (json_int_t)most;
}

/* Noise on values from 0 to 1: none beyond, and 0 or no less than @least. */
static bool take_numbers(const json_t *list, uint32_t n, double least,
                         double *out)
{
    if (json_array_size(list) != n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);

        out[i] = json_number_value(value);
        if (!json_is_number(value) || !(out[i] >= 0 && out[i] <= 1) ||
            (out[i] > 0 && out[i] < least))
            return false;
    }
    return true;
}

static enum err take_moments(struct nn_network *n, const json_t *input,
                             struct fault *f)
{
    const json_t *mean = json_object_get(input, "mean");
    const json_t *deviation = json_object_get(input, "deviation");
    uint32_t channels = n->input.channels;

    if (!mean && !deviation)
        return ERR_OK;
    n->mean = mem_calloc(channels, sizeof(*n->mean));
    n->deviation = mem_calloc(channels, sizeof(*n->deviation));
    if (!n->mean || !n->deviation)
        return fault_set(f, ERR_NOMEM, "out of memory");
    if (take_numbers(mean, channels, 0, n->mean) &&
        take_numbers(deviation, channels, DEVIATION_MIN, n->deviation))
        return ERR_OK;
    return bad_member("/input",
                      "mean and deviation, a number from 0 to 1 for each "
                      "channel (a deviation 0 or at least 1e-9)",
                      f);
}

static enum err take_input(struct nn_network *n, const json_t *input,
                           struct fault *f)
{
    struct nn_shape *s = &n->input;

    if (take_count(input, "channels", NN_CHANNELS_MAX, &s->channels) &&
        take_count(input, "height", NN_SIDE_MAX, &s->height) &&
        take_count(input, "width", NN_SIDE_MAX, &s->width))
        return take_moments(n, input, f);
    return bad_member("/input", "channels, height and width", f);
}

static enum err take_layers(struct nn_network *n, const json_t *o,
                            struct fault *f)
{
    struct problems problems = {0};
    enum err err = ERR_OK;

    nn_desc_read(o, "", &n->desc, &problems);
    if (problems.no_memory)
        err = fault_set(f, ERR_NOMEM, "out of memory");
    else if (problems.errors)
        err =
            bad_member(problems.item[0].pointer, problems.item[0].expected, f);
    problems_deinit(&problems);
    return err;
}

static enum err take_network(struct nn_network *n, const json_t *o,
                             struct fault *f)
{
    enum err err;

    if (json_integer_value(json_object_get(o, "version")) != NETWORK_VERSION)
        return bad_member("/version", "1, what this mltune reads", f);
    if (!take_count(o, "outputs", NN_CHANNELS_MAX, &n->outputs))
        return bad_member("/outputs", "a whole number", f);
    err = take_input(n, json_object_get(o, "input"), f);
    return err ? err : take_layers(n, o, f);
}

enum err nn_network_parse(const char *text, size_t len, struct nn_network *out,
                          struct fault *f)
{
    struct nn_network n = {.mean = NULL};
    json_t *o = NULL;
    enum err err = json_load(text, len, &o, NULL, f);

    if (err)
        return err;
    err = take_network(&n, o, f);
    json_decref(o);
    if (err)
        nn_network_deinit(&n);
    else
        *out = n;
    return err;
}

/* ---- writing ------------------------------------------------------------- */

static json_t *number_list(const double *x, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, json_real(x[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *input_json(const struct nn_network *n)
{
    uint32_t channels = n->input.channels;
    json_t *o = json_pack("{s:I, s:I, s:I}", "channels", (json_int_t)channels,
                          "height", (json_int_t)n->input.height, "width",
                          (json_int_t)n->input.width);

    if (o && n->mean &&
        (json_object_set_new(o, "mean", number_list(n->mean, channels)) ||
         json_object_set_new(o, "deviation",
                             number_list(n->deviation, channels)))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *nn_network_json(const struct nn_network *n)
{
    json_t *input = input_json(n), *layers = nn_desc_layers(&n->desc);

    if (!input || !layers) {
        json_decref(input);
        json_decref(layers);
        return NULL;
    }
    return json_pack("{s:i, s:o, s:I, s:s, s:I, s:o}", "version",
                     NETWORK_VERSION, "input", input, "outputs",
                     (json_int_t)n->outputs, "loss", nn_loss_name(n->desc.loss),
                     "parameters", (json_int_t)nn_desc_parameters(&n->desc),
                     "layers", layers);
}
