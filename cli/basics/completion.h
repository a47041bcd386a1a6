/* Completion: the words that may stand next on a command line of mltune, by the
 * tables of verbs and options. The scripts of all shells ask for them.
 *
 * Pure: what only a state folder or the registry knows comes from the caller.
 */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "base/text.h"
#include "cli/basics/options.h"

/* A kind of word, of which not the tables know the words. */
enum completion_kind {
    COMPLETION_NOTHING, /* anything, which cannot be guessed */
    COMPLETION_FILE,
    COMPLETION_FOLDER,
    COMPLETION_CONFIG, /* a file of a configuration */
    /* Words that the caller knows: */
    COMPLETION_RUN,
    COMPLETION_MODEL, /* a run, or a folder */
    COMPLETION_APP,
    COMPLETION_SEARCHER,
    COMPLETION_STRATEGY,
    COMPLETION_SETTING, /* PATH=VALUE of a configuration */
    COMPLETION_TOKEN,
    COMPLETION_VERB
};

/* A line that is being typed: the words behind the verb, the last of which is
 * the one to complete. Borrowed. */
struct completion_line {
    const char *const *word;
    size_t n; /* at least 1 */
};

/* Adds to @out, one a line, "WORD\tmeaning": the options of @u that the last
 * word of @line may become, or the words of the option or operand that it is.
 * Returns the kind of the rest; the caller adds its words by completion_add. */
enum completion_kind completion_of(const struct usage *u,
                                   const struct completion_line *line,
                                   struct text *out);

/* Adds @word and the first line of @meaning (NULL: none) where @word begins as
 * @begun does. */
void completion_add(struct text *out, const char *begun, const char *word,
                    const char *meaning);

/* Value of the option --@name in @line; NULL: it is not given. */
const char *completion_value(const struct completion_line *line,
                             const char *name);

#endif
