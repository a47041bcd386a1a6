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
    const char *arg; /* "DIR", "a|b|c"; NULL for a flag */
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

/* From here on --help prints nothing, but tells @hear what the verb is, and
 * ends with what that returns; for programs. NULL: it is for people again. */
typedef int options_hearer(void *ctx, const struct usage *u);
void options_tell(options_hearer *hear, void *ctx);

/* The options of every verb, [*n]. */
const struct option_spec *options_common(size_t *n);

/* Whether @text is a size such as "8GiB" (json_to_bytes), of @least bytes. */
bool options_size(const char *text, uint64_t least, uint64_t *out);

/* Whether @text is a time such as "90s" or "30m" (json_to_seconds), of 1 to
 * @most seconds. */
bool options_time(const char *text, double most, double *out);

/* After options_parse: whether -q or -v was given. */
bool options_quiet(void);
bool options_verbose(void);

#endif
