/* Applications from shared objects (mltune/app.h), in the process that trains.
 *
 * The object stays loaded until the process ends: its code is needed.
 */
#ifndef PS_APP_PLUGIN_IO_H
#define PS_APP_PLUGIN_IO_H

#include "base/fault.h"
#include "mltune/app.h"

#include <stdbool.h>

/* Loads the application of the shared object @path. Runs its constructors, and
 * no function of its ops. @out: borrowed from the object.
 *
 * Errors: ERR_NOENT it cannot be loaded (missing, no shared object, a symbol
 * that nobody has), ERR_INVAL no application or one that lacks a part,
 * ERR_VERSION of a version of mltune/app.h that this program does not know. */
enum err app_plugin_open(const char *path, const struct mlt_app_ops **out,
                         struct fault *f);

/* Checks @ops as above; @file is what messages call it. */
enum err app_plugin_check(const struct mlt_app_ops *ops, const char *file,
                          struct fault *f);

/* Whether @ops can predict; what version 1 did not have is not looked at. */
bool app_predicts(const struct mlt_app_ops *ops);

/* Whether it says, too, what is true of the data that it is evaluated on. */
bool app_tells_truth(const struct mlt_app_ops *ops);

/* Whether it does both while it trains, of its validation data. */
bool app_validates(const struct mlt_app_ops *ops);

/* Whether a model can be made of a snapshot without its data: `save` takes
 * nothing of them, or `keep` has kept it. */
bool app_keeps(const struct mlt_app_ops *ops);

/* Whether it may say how its work is split. */
bool app_plans(const struct mlt_app_ops *ops);

#endif
