/* Files that are whole or absent: written under a temporary name in the same
 * folder, synced, then renamed. */
#ifndef APPS_STAGED_H
#define APPS_STAGED_H

#include "base/fault.h"

#include <stddef.h>
#include <stdio.h>

struct staged {
    FILE *file;
    char *path, *temporary; /* owned */
};

/* Opens PATH.tmp. Errors: ERR_IO, ERR_NOMEM. */
enum err staged_begin(struct staged *w, const char *path, struct fault *f);

/* Errors: ERR_IO (the writer must then be abandoned). */
enum err staged_write(struct staged *w, const void *bytes, size_t n,
                      struct fault *f);

/* Gives the file its name. Ends the writer, also on error (then the file that
 * was there before still is). Errors: ERR_IO. */
enum err staged_commit(struct staged *w, struct fault *f);

/* A whole file of @text and an end of line. Errors: as of the three above; the
 * file that was there before then still is. */
enum err staged_text(const char *path, const char *text, struct fault *f);

/* Removes the temporary file. Accepts a zeroed or ended writer. */
void staged_abandon(struct staged *w);

#endif
