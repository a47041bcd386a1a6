/* Update rules from shared objects (mltune/rule.h).
 *
 * The object stays loaded until the process ends: its code is needed.
 */
#ifndef PS_RULE_PLUGIN_IO_H
#define PS_RULE_PLUGIN_IO_H

#include "base/fault.h"
#include "mltune/rule.h"

/* Loads the rule of the shared object @path. Runs its constructors, and does
 * not apply it. @out: borrowed from the object. Errors: ERR_NOENT it cannot be
 * loaded, ERR_INVAL no rule or one that lacks a part, ERR_VERSION of another
 * version of mltune/rule.h. */
enum err rule_plugin_open(const char *path, const struct mlt_rule_ops **out,
                          struct fault *f);

#endif
