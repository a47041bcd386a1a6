/* `tuner.warm_start`: what earlier runs found. */
#include "base/mem.h"
#include "cli/config/config_internal.h"
#include "tuner/board/earlier.h"

#include <string.h>

static const char pointer[] = "/tuner/warm_start";

/* It acts in the first search of mltuner, and there is none where training
 * starts from a given setting. */
static void warn(struct config_parse *p)
{
    const struct run_config *c = p->c;

    if (c->strategy && strcmp(c->strategy->name, "mltuner") != 0)
        problems_warn(p->problems, pointer, "acts with strategy mltuner only");
    else if (json_at(p->root, "/tuner/initial"))
        problems_warn(p->problems, pointer,
                      "acts in a first search, instead of which "
                      "tuner.initial is where training starts");
}

enum err config_warm(struct config_parse *p)
{
    const json_t *given = json_at(p->root, pointer);
    struct run_config *c = p->c;
    struct earlier *earlier;
    struct fault why = {0};
    enum err err;

    c->warm_auto =
        json_is_string(given) && strcmp(json_string_value(given), "auto") == 0;
    if (c->warm_auto)
        warn(p);
    if (!json_is_object(given) || problems_errors(p->problems) > 0)
        return ERR_OK;
    warn(p);
    earlier = mem_alloc(sizeof(*earlier));
    if (!earlier)
        return ERR_NOMEM;
    err = earlier_from_json(&c->space, given, earlier, &why);
    if (err) {
        mem_free(earlier);
        earlier = NULL;
    }
    if (err == ERR_INVAL) {
        problems_add(p->problems, pointer, given, "%s", why.text);
        err = ERR_OK;
    }
    c->earlier = earlier;
    return err;
}
