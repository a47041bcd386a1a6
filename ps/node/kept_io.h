/* What a run keeps of its data, so that a model can be made of a snapshot when
 * they are gone: the folder
 *
 *   DIR/app.json   what the application adds to model.json
 *   DIR/...        its files of the model folder, or what they are made of
 *
 * that appears whole, once in a run (`keep` and `save_kept` of
 * struct mlt_app_ops). Not all applications have it: those of a user's own
 * before version 6 do not, and go on to need their data.
 */
#ifndef PS_KEPT_IO_H
#define PS_KEPT_IO_H

#include "base/fault.h"
#include "base/proto/branch.h"
#include "mltune/app.h"

#include <jansson.h>
#include <stdbool.h>

/* Whether there is such a folder, whole. */
bool kept_there(const char *dir);

/* Makes it, of @app as it was opened. Errors: those of the application, with
 * its words; ERR_UNSUPPORTED: it keeps nothing; ERR_IO, ERR_NOMEM. */
enum err kept_write(const struct mlt_app_ops *ops, void *app, const char *dir,
                    struct fault *f);

/* A model of @branch of @ps in the folder @out, as host_save has it (tables,
 * files, *@data for model.json), with what is kept in @dir in place of an
 * application. Errors: as host_save's; ERR_FORMAT: app.json is damaged. */
enum err kept_save(const struct mlt_app_ops *ops, const char *dir,
                   struct mlt_ps *ps, branch_id branch, const char *out,
                   json_t **data, struct fault *f);

#endif
