/* Files that a data setting means: a file, the files of a folder, or those
 * that match a glob. */
#ifndef APPS_DATA_PATH_H
#define APPS_DATA_PATH_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    DATA_WILD_PARTS_MAX = 4,       /* parts of a glob that have wildcards */
    DATA_GLOB_NAMES_MAX = 1000000, /* names that a glob reads; about a second */
};

/* Zeroed: none. */
struct data_files {
    char **path; /* [count] sorted; owned with their texts */
    size_t count, capacity;
    bool single; /* the setting named one file itself */
};

void data_files_deinit(struct data_files *files);

/* Regular files meant by @spec; where it is relative it starts at @folder. Of a
 * folder: all but hidden ones. Errors: ERR_NOENT (nothing there, or a glob that
 * matches nothing), ERR_INVAL (more than DATA_WILD_PARTS_MAX or
 * DATA_GLOB_NAMES_MAX), ERR_IO, ERR_NOMEM. A wildcard matches neither "." nor
 * "..". */
enum err data_files_find(const char *spec, const char *folder,
                         struct data_files *out, struct fault *f);

/* @spec as a path: @folder/@spec where it is relative. Owned by the caller
 * (mem_free); NULL when out of memory. */
char *data_path_join(const char *folder, const char *spec);

/* The part behind the last slash. */
const char *data_path_base(const char *path);

/* Length of that without .gz or .xz. */
size_t data_path_stem_len(const char *path);

/* Whether two file names differ in compression alone. */
bool data_path_same_stem(const char *a, const char *b);

#endif
