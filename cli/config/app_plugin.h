/* Training applications from shared objects: {"app": {"plugin": "libmine.so"}}.
 *
 * What one is called and what it takes is read in a process of its own, `mltune
 * app-host FILE`, which writes it as one JSON object. So a crash in foreign
 * code is a message here.
 */
#ifndef CLI_APP_PLUGIN_H
#define CLI_APP_PLUGIN_H

#include "base/deadlines.h"
#include "base/json/registry.h"

/* The name of the hidden entry that stands for all of them, and that entry. */
#define APP_PLUGIN_ENTRY "plugin"
extern const struct registry_entry app_plugin_entry;

enum {
    APP_PLUGIN_BYTES_MAX = 1024 * 1024, /* of what one says of itself */
    APP_PLUGIN_MS =
        DEADLINE_APP_PLUGIN_MS /* longest that it may take to do so */
};

/* One of them; the entry's ops are NULL: only a node loads it. */
struct app_plugin {
    struct registry_entry entry; /* settings take "name" and "plugin", too */
    json_t *about;               /* owned: the texts */
    char *settings;              /* owned */
    const char *tunables[128];   /* NULL at the end */
};

/* Asks the shared object @path. Blocks until it has answered, at most
 * APP_PLUGIN_MS. @out: owned by the caller (app_plugin_free). Errors:
 * ERR_NOENT, ERR_INVAL, ERR_VERSION as ps/node/app_plugin_io.h has them;
 * ERR_APP it crashed or said nonsense, ERR_TIMEOUT, ERR_IO, ERR_NOMEM. */
enum err app_plugin_ask(const char *path, struct app_plugin **out,
                        struct fault *f);

/* The same of a consistency model (mltune/model.h): its entry's tunables are
 * the settings that it acts on. */
enum err app_plugin_ask_model(const char *path, struct app_plugin **out,
                              struct fault *f);

/* The same of an update rule (mltune/rule.h). */
enum err app_plugin_ask_rule(const char *path, struct app_plugin **out,
                             struct fault *f);

/* The application as @text[len] tells of it, which such a process wrote; @path
 * is what messages call it. Errors: ERR_APP, ERR_NOMEM, and what the text says.
 */
enum err app_plugin_read(const char *path, const char *text, size_t len,
                         struct app_plugin **out, struct fault *f);

/* Accepts NULL. */
void app_plugin_free(struct app_plugin *p);

#endif
