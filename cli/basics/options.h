/* Options of a verb: one table parses them and makes the verb's help.
 *
 * Long options as --name VALUE and --name=VALUE, short ones of one letter,
 * which may be joined; options and operands in any order, -- ends the options.
 * Every verb also knows -h/--help, -q/--quiet and -v/--verbose.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTION_VALUES_MAX = 256, OPERANDS_MAX = 64 };

enum option_kind {
    OPTION_FLAG, /* out: bool */
    OPTION_TEXT, /* out: const char *; the last one holds */
    OPTION_UINT, /* out: struct option_uint */
    OPTION_LIST  /* out: struct option_list; repeatable */
};

struct option_uint {
    bool given;
    uint64_t value;
};

struct option_list {
    size_t len;
    const char *item[OPTION_VALUES_MAX]; /* borrowed from argv */
};

struct option_spec {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    enum option_kind kind;
    const char *arg; /* "DIR"; NULL for a flag */
    const char *help;
    void *out; /* holds the default before, the value after */
};

struct usage {
    const char *verb;     /* a verb of cli/basics/verbs.h, which sums it up */
    const char *operands; /* "CONFIG", "[RUN]"; "" */
    const char *details;  /* more lines for its help; "" */
    size_t operands_min, operands_max;
    size_t n;
    const struct option_spec *option; /* [n] */
};

struct operands {
    size_t len;
    const char *item[OPERANDS_MAX]; /* borrowed from argv */
};

/* The operand @i < len. */
const char *operands_at(const struct operands *o, size_t i);

/* Parses argv[1 ..] by @u into the options' outs and @operands. -q silences
 * console_note and sets the log to errors, -v sets it to info (twice: debug).
 * Returns OPTIONS_GO_ON, or the code to exit with: 0 after --help (printed on
 * stdout), EXIT_USAGE after a fault (said on stderr). */
enum { OPTIONS_GO_ON = -1 };
int options_parse(const struct usage *u, int argc, char **argv,
                  struct operands *operands);

/* Form of what --help prints from here on; for programs. */
enum options_form { OPTIONS_HELP, OPTIONS_MANUAL, OPTIONS_COMPLETION };
void options_describe(enum options_form form);

/* The options of every verb, [*n]. */
const struct option_spec *options_common(size_t *n);

/* After options_parse: whether -q or -v was given. */
bool options_quiet(void);
bool options_verbose(void);

#endif
