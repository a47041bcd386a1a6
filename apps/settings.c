#include "apps/settings.h"

#include "base/json/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CLOCKS_MAX = 1000000000 };

void settings_deinit(struct settings *s)
{
    json_decref(s->json);
    memset(s, 0, sizeof(*s));
}

double settings_number(const struct settings *s, const char *name,
                       double fallback)
{
    const json_t *value = json_object_get(s->json, name);

    return json_is_number(value) ? json_number_value(value) : fallback;
}

/* "batch", "pass", "auto" (each application's schema says which of these it
 * takes), or a number of clocks a pass. */
static enum err read_clock(struct settings *s, struct fault *f)
{
    const json_t *clock = json_object_get(s->json, "clock");
    const char *word = json_string_value(clock);

    s->clocks = 0;
    if (!clock ||
        (word && (strcmp(word, "batch") == 0 || strcmp(word, "auto") == 0)))
        return ERR_OK;
    if (word && strcmp(word, "pass") == 0) {
        s->clocks = 1;
        return ERR_OK;
    }
    if (!json_is_integer(clock) || json_integer_value(clock) < 1 ||
        json_integer_value(clock) > CLOCKS_MAX)
        return fault_set(f, ERR_INVAL,
                         "/app/clock: expected \"batch\", \"pass\" or a number "
                         "of clocks a pass from 1 to %d",
                         CLOCKS_MAX);
    s->clocks = (uint64_t)json_integer_value(clock);
    return ERR_OK;
}

static enum err read_data(struct settings *s, struct fault *f)
{
    s->data = json_string_value(json_object_get(s->json, "data"));
    s->test = json_string_value(json_object_get(s->json, "test"));
    s->test_fraction = settings_number(s, "test_fraction", -1);
    if (!s->data || !*s->data)
        return fault_set(f, ERR_INVAL,
                         "/app/data: expected a file, a folder, a glob or "
                         "\"gen:...\", found nothing");
    if (!(s->test_fraction < 1))
        return fault_set(f, ERR_INVAL,
                         "/app/test_fraction: expected a number from 0 to "
                         "below 1, found %g",
                         s->test_fraction);
    return ERR_OK;
}

enum err settings_init(struct settings *s, const struct mlt_app_config *config,
                       struct fault *f)
{
    struct fault why = {.text = "found something else"};
    enum err err;

    memset(s, 0, sizeof(*s));
    /* jansson by itself may leave out what found no memory. */
    err = json_load(config->settings, strlen(config->settings), &s->json, NULL,
                    &why);
    if (err == ERR_NOMEM)
        return fault_set(f, err, "/app: out of memory");
    if (!json_is_object(s->json)) {
        settings_deinit(s);
        return fault_set(f, ERR_INVAL, "/app: expected an object: %s",
                         why.text);
    }
    s->folder = config->folder;
    s->seed = config->seed;
    s->evaluate = config->evaluate != 0;
    s->goes_on = config->goes_on != 0;
    s->model = config->evaluate ? config->model : NULL;
    s->predict = config->predict ? config->model : NULL;
    assert(!config->predict || (config->evaluate && config->model));
    err = read_clock(s, f);
    if (!err)
        err = read_data(s, f);
    if (err)
        settings_deinit(s);
    return err;
}

int settings_fault(const struct fault *f, struct mlt_error *err)
{
    assert(f->code != ERR_OK);
    if (err) {
        err->code = (int)f->code;
        memcpy(err->text, f->text, sizeof(err->text));
    }
    return (int)f->code;
}

_Static_assert(sizeof(((struct mlt_error *)0)->text) == FAULT_TEXT_MAX,
               "texts are copied whole");
