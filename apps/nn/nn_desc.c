#include "apps/nn/nn_desc.h"

#include "apps/nn/nn_preset.h"
#include "base/json/schema.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what a layer of each type may say ----------------------------------- */

#define TYPE "\"type\": {\"type\": \"string\"}"
#define INIT "\"init\": {\"type\": \"string\", \"enum\": [\"he\", \"glorot\"]}"
#define KERNEL                                                                 \
    "\"kernel\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 16}"
#define STRIDE                                                                 \
    "\"stride\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 16}"
#define PADDING                                                                \
    "\"padding\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 15}"
#define POOL                                                                   \
    "{\"type\": \"object\", \"required\": [\"kernel\"], \"properties\": "      \
    "{" TYPE ", " KERNEL ", " STRIDE ", " PADDING "}}"
#define PLAIN "{\"type\": \"object\", \"properties\": {" TYPE "}}"

_Static_assert(NN_KERNEL_MAX == 16 && NN_CHANNELS_MAX == 65536,
               "what the schemas say");

static const char *const layer_schema[NN_KINDS] = {
    [NN_DENSE] =
        "{\"type\": \"object\", \"required\": [\"units\"], \"properties\": "
        "{" TYPE
        ", \"units\": {\"anyOf\": [{\"type\": \"integer\", \"minimum\": 1,"
        " \"maximum\": 65536}, {\"type\": \"string\", \"enum\": [\"outputs\"]}"
        "]}, " INIT "}}",
    [NN_CONV] =
        "{\"type\": \"object\", \"required\": [\"channels\", \"kernel\"],"
        " \"properties\": {" TYPE ", \"channels\": {\"type\": \"integer\","
        " \"minimum\": 1, \"maximum\": 65536}, " KERNEL ", " STRIDE ", " PADDING
        ", " INIT "}}",
    [NN_MAX_POOL] = POOL,
    [NN_AVG_POOL] = POOL,
    [NN_RELU] = PLAIN,
    [NN_TANH] = PLAIN,
    [NN_NORM] =
        "{\"type\": \"object\", \"properties\": {" TYPE ", \"rate\": {\"type\":"
        " \"number\", \"exclusiveMinimum\": 0, \"maximum\": 1}, \"epsilon\":"
        " {\"type\": \"number\", \"minimum\": 1e-12, \"maximum\": 1}}}",
    [NN_DROPOUT] =
        "{\"type\": \"object\", \"properties\": {" TYPE ", \"rate\": {\"type\":"
        " \"number\", \"minimum\": 0, \"exclusiveMaximum\": 1}}}",
};

/* "type" is one of these. */
static const char types_schema[] =
    "{\"type\": \"object\", \"required\": [\"type\"], \"additionalProperties\":"
    " true, \"properties\": {\"type\": {\"type\": \"string\", \"enum\":"
    " [\"dense\", \"conv\", \"max_pool\", \"avg_pool\", \"relu\", \"tanh\","
    " \"norm\", \"dropout\"]}}}";

static const char list_schema[] = "{\"type\": \"array\", \"minItems\": 1,"
                                  " \"maxItems\": 64}";
_Static_assert(NN_LAYERS_MAX == 64, "what the schema says");

static const char loss_schema[] = "{\"type\": \"string\", \"enum\":"
                                  " [\"cross_entropy\", \"squared\"]}";

static const char preset_schema[] = "{\"type\": \"string\", \"enum\":"
                                    " [\"mlp\", \"lenet5\", \"cifar-quick\"]}";

static const struct {
    const char *name, *layers;
} presets[] = {
    {"mlp", NN_PRESET_MLP},
    {"lenet5", NN_PRESET_LENET5},
    {"cifar-quick", NN_PRESET_CIFAR_QUICK},
};

static const char *const loss_names[] = {
    [NN_CROSS_ENTROPY] = "cross_entropy", [NN_SQUARED] = "squared"};

const char *nn_loss_name(enum nn_loss loss)
{
    return loss_names[loss];
}

/* ---- reading ------------------------------------------------------------- */

struct desc_reading {
    struct nn_desc *out;
    struct problems *problems;
    char pointer[JSON_POINTER_MAX];
};

/* Whether @value is as the schema wants it. */
static bool fits(struct desc_reading *r, const char *schema_text,
                 const json_t *value)
{
    size_t before = r->problems->errors;
    json_t *schema;

    if (json_load(schema_text, strlen(schema_text), &schema, NULL, NULL)) {
        r->problems->no_memory = true; /* the texts are tested */
        return false;
    }
    schema_check(schema, value, r->pointer, r->problems);
    json_decref(schema);
    return r->problems->errors == before && !r->problems->no_memory;
}

static uint32_t count_of(const json_t *layer, const char *name,
                         uint32_t fallback)
{
    const json_t *value = json_object_get(layer, name);

    return json_is_number(value) ? (uint32_t)json_number_value(value)
                                 : fallback;
}

static float number_of(const json_t *layer, const char *name, double fallback)
{
    const json_t *value = json_object_get(layer, name);

    return (float)(json_is_number(value) ? json_number_value(value) : fallback);
}

static enum nn_kind kind_of(const char *type)
{
    enum nn_kind kind = 0;

    while (kind < NN_KINDS && strcmp(nn_kind_name(kind), type) != 0)
        kind++;
    assert(kind < NN_KINDS); /* the schema has them all */
    return kind;
}

static bool is_pool(const struct nn_layer *l)
{
    return l->kind == NN_MAX_POOL || l->kind == NN_AVG_POOL;
}

/* Conditions on two members together. */
static void check_window(struct desc_reading *r, const struct nn_layer *l,
                         const json_t *json)
{
    uint32_t most = is_pool(l) ? l->kernel / 2 : l->kernel - 1;
    size_t before;

    if (l->padding <= most)
        return;
    before = json_pointer_push(r->pointer, "padding");
    problems_add(r->problems, r->pointer, json_object_get(json, "padding"),
                 "at most %u, %s", most,
                 is_pool(l) ? "half the kernel" : "less than the kernel");
    json_pointer_cut(r->pointer, before);
}

static void read_members(struct desc_reading *r, struct nn_layer *l,
                         const json_t *json)
{
    const char *units = l->kind == NN_CONV ? "channels" : "units";
    const char *init = json_string_value(json_object_get(json, "init"));

    switch (l->kind) {
    case NN_DENSE:
    case NN_CONV:
        l->units = count_of(json, units, 0);
        l->init = init && strcmp(init, "he") == 0 ? NN_INIT_HE : NN_INIT_GLOROT;
        break;
    case NN_NORM:
        l->rate = number_of(json, "rate", 0.1);
        l->epsilon = number_of(json, "epsilon", 1e-5);
        break;
    case NN_DROPOUT:
        l->rate = number_of(json, "rate", 0.5);
        break;
    default:
        break;
    }
    if (l->kind == NN_CONV || is_pool(l)) {
        l->kernel = count_of(json, "kernel", 0);
        l->stride = count_of(json, "stride", is_pool(l) ? l->kernel : 1);
        l->padding = count_of(json, "padding", 0);
        check_window(r, l, json);
    }
}

static void read_layer(struct desc_reading *r, const json_t *json)
{
    struct nn_layer *l = &r->out->layer[r->out->count];

    if (!fits(r, types_schema, json))
        return;
    l->kind = kind_of(json_string_value(json_object_get(json, "type")));
    if (!fits(r, layer_schema[l->kind], json))
        return;
    read_members(r, l, json);
    r->out->outputs[r->out->count] =
        json_is_string(json_object_get(json, "units"));
}

/* Before rectified units He's variance, else Glorot's, where nothing was said;
 * what stands between a layer and its nonlinearity does not matter. */
static void choose_inits(struct nn_desc *d, const json_t *list)
{
    for (unsigned i = 0; i < d->count; i++) {
        struct nn_layer *l = &d->layer[i];
        unsigned next = i + 1;

        if ((l->kind != NN_DENSE && l->kind != NN_CONV) ||
            json_object_get(json_array_get(list, i), "init"))
            continue;
        while (next < d->count &&
               (is_pool(&d->layer[next]) || d->layer[next].kind == NN_NORM ||
                d->layer[next].kind == NN_DROPOUT))
            next++;
        if (next < d->count && d->layer[next].kind == NN_RELU)
            l->init = NN_INIT_HE;
    }
}

static void read_list(struct desc_reading *r, const json_t *list)
{
    json_t *json;
    size_t i;

    if (!fits(r, list_schema, list))
        return;
    json_array_foreach(list, i, json)
    {
        size_t before = json_pointer_push_index(r->pointer, i);

        read_layer(r, json);
        json_pointer_cut(r->pointer, before);
        r->out->count++;
    }
    choose_inits(r->out, list);
}

static void read_preset(struct desc_reading *r, const json_t *name)
{
    const char *text = NULL;
    json_t *list;

    if (!fits(r, preset_schema, name))
        return;
    for (size_t i = 0; i < sizeof(presets) / sizeof(*presets); i++) {
        if (strcmp(presets[i].name, json_string_value(name)) == 0) {
            r->out->preset = presets[i].name;
            text = presets[i].layers;
        }
    }
    assert(text);
    if (json_load(text, strlen(text), &list, NULL, NULL)) {
        r->problems->no_memory = true;
        return;
    }
    read_list(r, list);
    json_decref(list);
}

static void read_loss(struct desc_reading *r, const json_t *loss)
{
    size_t before = json_pointer_push(r->pointer, "loss");

    if (loss && fits(r, loss_schema, loss) &&
        strcmp(json_string_value(loss), "squared") == 0)
        r->out->loss = NN_SQUARED;
    json_pointer_cut(r->pointer, before);
}

void nn_desc_read(const json_t *settings, const char *pointer,
                  struct nn_desc *out, struct problems *problems)
{
    const json_t *preset = json_object_get(settings, "preset");
    const json_t *layers = json_object_get(settings, "layers");
    struct desc_reading r = {.out = out, .problems = problems};
    size_t before;

    memset(out, 0, sizeof(*out));
    snprintf(r.pointer, sizeof(r.pointer), "%s", pointer);
    read_loss(&r, json_object_get(settings, "loss"));
    if (!preset && !layers)
        problems_add(problems, pointer, NULL,
                     "\"preset\", a built-in network (mlp, lenet5, "
                     "cifar-quick), or \"layers\", a list of layers");
    before = json_pointer_push(r.pointer, preset ? "preset" : "layers");
    if (preset && layers)
        problems_add(problems, r.pointer, preset,
                     "no preset beside \"layers\"");
    else if (preset)
        read_preset(&r, preset);
    else if (layers)
        read_list(&r, layers);
    json_pointer_cut(r.pointer, before);
}

/* ---- shapes -------------------------------------------------------------- */

/* The text of @f without "layer 3 (conv): ". */
static const char *reason_of(const struct fault *f)
{
    const char *colon = strstr(f->text, "): ");

    return colon ? colon + 3 : f->text;
}

/* Where a user finds layer @l: a preset's are not in the configuration. */
static const char *place_of(const struct nn_desc *d, const char *pointer,
                            unsigned l, char text[JSON_POINTER_MAX])
{
    if (d->preset)
        snprintf(text, JSON_POINTER_MAX, "%s/preset (%s), layer %u", pointer,
                 d->preset, l);
    else
        snprintf(text, JSON_POINTER_MAX, "%s/layers/%u", pointer, l);
    return text;
}

/* The last layer has to give what the data ask for. */
static enum err check_outputs(const struct nn_desc *d, const char *pointer,
                              unsigned outputs, struct fault *f)
{
    size_t found = nn_shape_size(d->layer[d->count - 1].out);
    bool classes = d->loss == NN_CROSS_ENTROPY;
    char place[JSON_POINTER_MAX];

    if (found == outputs || (classes && found > outputs))
        return ERR_OK;
    return fault_set(
        f, ERR_INVAL,
        "%s: expected %s%u output%s, %s, found %zu; \"units\": "
        "\"outputs\" in a last dense layer takes what the data have",
        place_of(d, pointer, d->count - 1, place), classes ? "at least " : "",
        outputs, outputs == 1 ? "" : "s",
        classes ? "one for each class" : "the number", found);
}

enum err nn_desc_shape(struct nn_desc *d, const char *pointer,
                       struct nn_shape input, unsigned outputs, struct fault *f)
{
    char place[JSON_POINTER_MAX];
    struct fault own = {0};
    unsigned bad;
    enum err err;

    assert(d->count >= 1 && outputs >= 1);
    for (unsigned i = 0; i < d->count; i++)
        if (d->outputs[i])
            d->layer[i].units = outputs;
    err = nn_layers_shape(d->layer, d->count, input, &bad, &own);
    if (err && bad < d->count)
        return fault_set(f, err, "%s (%s): %s",
                         place_of(d, pointer, bad, place),
                         nn_kind_name(d->layer[bad].kind), reason_of(&own));
    if (err)
        return fault_set(f, err, "%s: %s", pointer, own.text);
    return check_outputs(d, pointer, outputs, f);
}

uint64_t nn_desc_parameters(const struct nn_desc *d)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < d->count; i++) {
        const struct nn_layer *l = &d->layer[i];

        if (l->kind == NN_DENSE || l->kind == NN_CONV)
            n += l->units * (l->fan_in + 1);
        else
            n += (uint64_t)l->rows * l->row_width + l->moments;
    }
    return n;
}

/* ---- writing ------------------------------------------------------------- */

static int put(json_t *o, const char *name, json_t *value)
{
    return json_object_set_new(o, name, value);
}

/* A float in the few digits that mean it. */
static json_t *short_number(float x)
{
    char text[32];
    double value;

    snprintf(text, sizeof(text), "%.6g", (double)x);
    return sscanf(text, "%lf", &value) == 1 && (float)value == x
               ? json_real(value)
               : json_real((double)x);
}

static json_t *layer_json(const struct nn_layer *l)
{
    json_t *o = json_pack("{s:s}", "type", nn_kind_name(l->kind));
    int failed = o ? 0 : -1;

    if (l->kind == NN_DENSE || l->kind == NN_CONV)
        failed |= put(o, l->kind == NN_CONV ? "channels" : "units",
                      json_integer(l->units));
    if (l->kind == NN_CONV || is_pool(l)) {
        failed |= put(o, "kernel", json_integer(l->kernel));
        failed |= put(o, "stride", json_integer(l->stride));
        failed |= put(o, "padding", json_integer(l->padding));
    }
    if (l->kind == NN_DENSE || l->kind == NN_CONV)
        failed |= put(o, "init",
                      json_string(l->init == NN_INIT_HE ? "he" : "glorot"));
    if (l->kind == NN_NORM || l->kind == NN_DROPOUT)
        failed |= put(o, "rate", short_number(l->rate));
    if (l->kind == NN_NORM)
        failed |= put(o, "epsilon", short_number(l->epsilon));
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *nn_desc_layers(const struct nn_desc *d)
{
    json_t *list = json_array();

    for (unsigned i = 0; list && i < d->count; i++)
        if (json_array_append_new(list, layer_json(&d->layer[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}
