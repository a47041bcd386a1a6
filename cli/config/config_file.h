/* The run configuration from a file, for the verbs that take one. */
#ifndef CLI_CONFIG_FILE_H
#define CLI_CONFIG_FILE_H

#include "cli/config/config.h"

/* Reads the file @path ("-": stdin) and parses it with this program's registry
 * and this machine's cores; says all that is wrong on stderr. @sets may be
 * NULL. Returns EXIT_DONE with *@out (owned by the caller), or the exit code.
 */
int run_config_load(const char *path, const struct option_list *sets,
                    struct run_config **out);

/* As above, with what is wrong left in @problems (zeroed before; the caller
 * releases them). Only what is not about the text is said. */
int run_config_check(const char *path, const struct option_list *sets,
                     struct run_config **out, struct problems *problems);

/* As the first, and *@text is what stands in the file: owned by the caller
 * (mem_free), NULL where there is no configuration. */
int run_config_load_text(const char *path, const struct option_list *sets,
                         struct run_config **out, char **text);

/* Says @problems of the file @path on stderr, one a line; warnings too, unless
 * quiet. */
void run_config_say(const char *path, const struct problems *problems);

#endif
