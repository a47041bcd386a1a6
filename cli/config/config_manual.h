/* mltune-config(5): the manual page of the configuration, made from its schema,
 * and so from the same tables as that.
 */
#ifndef CLI_CONFIG_MANUAL_H
#define CLI_CONFIG_MANUAL_H

#include "base/json/registry.h"

/* The page in mdoc(7), with the settings of every app, searcher and strategy of
 * @r: each key by its path, "stop.max_epochs", with what it may be. Owned by
 * the caller (mem_free). Errors: as config_full_schema's. */
enum err config_manual(const struct registry *r, char **out, struct fault *f);

#endif
