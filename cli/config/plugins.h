/* Searcher plug-ins as files: where they are looked for, and what is there.
 *
 * The folders, in order: those of MLTUNE_PLUGIN_PATH (separated by colons),
 * `plugins` beside the program, ../lib/mltune/plugins from it (`make install`).
 */
#ifndef CLI_PLUGINS_H
#define CLI_PLUGINS_H

#include <limits.h>
#include <stdbool.h>

/* Absolute path of the file that the configuration means by @name: from
 * @folder, or, where that is none and @name has no slash, from the plug-in
 * folders. False: there is none. */
bool plugin_find(const char *folder, const char *name, char out[PATH_MAX]);

/* Calls @visit with every *.so of the plug-in folders, by folder, sorted by
 * name, until it returns false. */
void plugins_each(bool (*visit)(void *ctx, const char *path), void *ctx);

/* Folder of the running program, links followed; false where the system does
 * not say. */
bool plugins_program_folder(char out[PATH_MAX]);

#endif
