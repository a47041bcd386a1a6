/* Tables on a device: branches' states there, and how they get there.
 *
 * A branch's tables of the device lie in one image: rows as the store has them,
 * table after table. A fork refers to its parent's image; the first slice that
 * trains copies it, on the device. The store in host memory holds what has no
 * image. An image that was trained on and not written back is dirty: then the
 * store's rows of its branches are old, and device_flush writes them before
 * anybody reads them. Kept branches never have a dirty image.
 *
 * Calls come from the control thread between runs, but for those of a worker in
 * its run. There is one worker (mltune/device.h). Errors: the space's;
 * ERR_LIMIT where there is no room on the device.
 */
#ifndef PS_DEVICE_H
#define PS_DEVICE_H

#include "base/err.h"
#include "base/fault.h"
#include "base/proto/branch.h"
#include "mltune/device.h"
#include "ps/space/space.h"

#include <stdbool.h>

struct device;
struct device_image;

/* @space is the device's from now on, also after an error. */
enum err device_new(struct memory_space *space, struct device **out,
                    struct fault *f);
/* Accepts NULL. */
void device_free(struct device *d);

/* Whether @table lies on the device; false where @d is NULL. */
bool device_has(const struct device *d, mlt_table table);

/* ---- branches ------------------------------------------------------------ */

/* The image of a branch forked from one that has @image (NULL: none). */
void device_share(struct device_image *image);
void device_release(struct device_image *image);

/* The store has @branch's rows as they are. No-op without a device. */
enum err device_flush(const struct mlt_ps *ps, branch_id branch);

/* As device_flush; and @branch's rows are about to be written in the store. */
enum err device_forget(struct mlt_ps *ps, branch_id branch);

/* ---- runs ---------------------------------------------------------------- */

/* A run of the active branch begins. */
void device_begin_run(struct mlt_ps *ps);

/* Ends the clock of one table, or of all (WORKER_ALL_TABLES): rules act. */
enum err device_end_clock(struct mlt_worker *w, mlt_table table);

#endif
