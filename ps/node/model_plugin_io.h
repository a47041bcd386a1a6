/* Consistency models from shared objects (mltune/model.h).
 *
 * The object stays loaded until the process ends: its code is needed.
 */
#ifndef PS_MODEL_PLUGIN_IO_H
#define PS_MODEL_PLUGIN_IO_H

#include "base/fault.h"
#include "mltune/model.h"

/* Loads the model of the shared object @path. Runs its constructors, and no
 * predicate. @out: borrowed from the object. Errors: ERR_NOENT it cannot be
 * loaded, ERR_INVAL no model or one that lacks a part, ERR_VERSION of another
 * version of mltune/model.h. */
enum err model_plugin_open(const char *path, const struct mlt_model_ops **out,
                           struct fault *f);

#endif
