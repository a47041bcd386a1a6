/* Any bytes from the process that loads an application's shared object: it is
 * refused with words that name the object, or becomes an entry of a registry
 * whose schema can be read. */
#include "base/json/json.h"
#include "cli/config/app_plugin.h"
#include "cli/config/config_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct app_plugin *p)
{
    json_t *schema;

    if (p->entry.settings == NULL || !p->entry.hidden ||
        config_entry_schema(&p->entry, &schema, NULL) != ERR_OK)
        abort();
    if (!json_at(schema, "/properties/plugin"))
        abort();
    json_decref(schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct app_plugin *p = NULL;
    struct fault f = {0};
    enum err err =
        app_plugin_read("/lib/m.so", (const char *)data, size, &p, &f);

    if (!err != (p != NULL) || (err && !strstr(f.text, "/lib/m.so")))
        abort();
    if (p)
        use(p);
    app_plugin_free(p);
    return 0;
}
