/* Checkpoints, checked: whether all that their manifests speak of is whole. */
#ifndef PS_CHECK_IO_H
#define PS_CHECK_IO_H

#include "base/fault.h"

/* Reads every byte of the checkpoint in @dir and compares it with its sums; no
 * application is needed. Errors: ERR_NOENT (no manifest: it was not written by
 * a parameter server; or a file that is not there), ERR_FORMAT, ERR_VERSION
 * (damage, by file and offset), ERR_IO, ERR_NOMEM. */
enum err checkpoint_check(const char *dir, struct fault *f);

#endif
