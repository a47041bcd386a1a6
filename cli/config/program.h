/* Programs that train: {"app": {"command": ["python3", "train.py"]}}.
 *
 * Such a program keeps its own state and speaks the control protocol
 * (docs/own-programs.md). In the registry one hidden entry stands for all of
 * them.
 */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "base/json/registry.h"

#include <limits.h>
#include <stdbool.h>

enum {
    PROGRAM_NAME_MAX = 64, /* bytes, with the end; as RECORD_NAME_MAX */
    PROGRAM_WORDS_MAX = 60
};

/* The entry's name; it has no ops. */
#define PROGRAM_ENTRY "program"

/* The entry, with the schema of "app". */
extern const struct registry_entry program_entry;

/* @name from @folder, absolute and without "/."; false where it is too long. */
bool program_path(const char *folder, const char *name, char out[PATH_MAX]);

/* The file that is executed as @name by one who works in @folder: from there
 * where it has a slash, else by PATH. Absolute; links stay, by which Python
 * knows its environment. False: there is none that may be executed. */
bool program_find(const char *folder, const char *name, char out[PATH_MAX]);

/* Folder of the Python package `mltune`: ../lib/mltune/python from the program
 * (`make install`), or apps/python of the source tree that it was built in.
 * False: neither is there. */
bool program_python(char out[PATH_MAX]);

#endif
