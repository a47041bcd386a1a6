#include "cli/config/config_examples.h"

#include "base/json/json.h"

#include <assert.h>
#include <string.h>

/* The assembler takes the files in as they are, as those of the page
 * (api/web/web.c); cli/cli.mk has this object rebuilt when one changes. */
#define EXAMPLE(name) ".incbin \"docs/examples/" name ".json\"\n.byte 0\n"

__asm__(".section .rodata\nconfig_examples:\n" EXAMPLE("demo") EXAMPLE("layers")
            EXAMPLE("topics") EXAMPLE("mnist") EXAMPLE("lenet5")
                EXAMPLE("movielens") ".byte 0\n.previous\n");
extern const char config_examples[];

enum err config_examples_set(json_t *schema)
{
    json_t *list = json_array();
    enum err err = list ? ERR_OK : ERR_NOMEM;

    assert(json_is_object(schema));
    for (const char *text = config_examples; *text && !err;
         text += strlen(text) + 1) {
        json_t *one = NULL;

        err = json_load(text, strlen(text), &one, NULL, NULL);
        assert(!err || err == ERR_NOMEM);
        if (!err && json_array_append_new(list, one) != 0)
            err = ERR_NOMEM;
    }
    if (err)
        json_decref(list);
    else if (json_object_set_new(schema, "examples", list) != 0)
        err = ERR_NOMEM;
    return err;
}
