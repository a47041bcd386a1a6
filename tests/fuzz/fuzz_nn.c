/* Any bytes as the settings of a network, and as network.json of a saved one:
 * refused with places and words, or layers whose own text says the same. */
#include "apps/nn/nn_network.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void nn_must(bool holds)
{
    if (!holds)
        abort();
}

/* Shaped for some digits; what fits is written and reads back the same. */
static void check_layers(struct nn_desc *d)
{
    const struct nn_shape digits = {1, 28, 28};
    struct problems problems = {0};
    struct fault f = {0};
    struct nn_desc again;
    json_t *list, *o;

    nn_must(d->count >= 1 && d->count <= NN_LAYERS_MAX);
    if (nn_desc_shape(d, "/app", digits, 10, &f)) {
        nn_must(strncmp(f.text, "/app/layers", 11) == 0);
        return;
    }
    list = nn_desc_layers(d);
    o = json_pack("{s:o, s:s}", "layers", list, "loss", nn_loss_name(d->loss));
    nn_must(o != NULL);
    nn_desc_read(o, "", &again, &problems);
    nn_must(problems.len == 0 && again.count == d->count);
    nn_must(nn_desc_shape(&again, "", digits, 10, NULL) == ERR_OK);
    nn_must(memcmp(again.layer, d->layer, d->count * sizeof(*d->layer)) == 0);
    json_decref(o);
}

static void read_as_settings(const char *text, size_t size)
{
    struct problems problems = {0};
    struct nn_desc d;
    json_t *json;

    if (json_load(text, size, &json, NULL, NULL))
        return;
    nn_desc_read(json, "/app", &d, &problems);
    for (size_t i = 0; i < problems.len; i++)
        nn_must(strncmp(problems.item[i].pointer, "/app", 4) == 0 &&
                problems.item[i].expected[0]);
    if (problems.len == 0)
        check_layers(&d);
    problems_deinit(&problems);
    json_decref(json);
}

static void read_as_network(const char *text, size_t size)
{
    struct nn_network n, again;
    struct fault f = {0};
    json_t *o;
    char *own;

    if (nn_network_parse(text, size, &n, &f)) {
        nn_must(f.text[0]);
        return;
    }
    nn_must(n.outputs >= 1 && n.input.channels >= 1);
    if (nn_desc_shape(&n.desc, "", n.input, n.outputs, NULL) == ERR_OK) {
        o = nn_network_json(&n);
        own = json_write(o, 0);
        nn_must(nn_network_parse(own, strlen(own), &again, NULL) == ERR_OK);
        nn_must(again.outputs == n.outputs && !again.mean == !n.mean);
        nn_must(again.desc.count == n.desc.count);
        nn_network_deinit(&again);
        mem_free(own);
        json_decref(o);
    }
    nn_network_deinit(&n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_as_settings((const char *)data, size);
    read_as_network((const char *)data, size);
    return 0;
}
