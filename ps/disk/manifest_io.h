/* Manifests as files (ps/disk/manifest.h). */
#ifndef PS_MANIFEST_IO_H
#define PS_MANIFEST_IO_H

#include "ps/disk/manifest.h"

/* Writes @m to @path: whole, flushed to the disk, or not at all. Errors:
 * ERR_IO, ERR_NOMEM. */
enum err manifest_store(const struct manifest *m, const char *path,
                        struct fault *f);

/* Reads @path. Errors: ERR_NOENT (there is none), ERR_IO, and those of
 * manifest_decode. */
enum err manifest_load(const char *path, struct manifest *out, struct fault *f);

#endif
