#include "base/log.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/registry.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/unit/fixture/check.h"

static bool json;
static const char *state_folder;
static struct option_uint seed;
static struct option_list sets;
static struct operands operands;

static const struct option_spec specs[] = {
    {"json", 0, OPTION_FLAG, NULL, "as JSON", &json},
    {"state", 's', OPTION_TEXT, "DIR", "state folder", &state_folder},
    {"seed", 'n', OPTION_UINT, "N", "seed", &seed},
    {"set", 0, OPTION_LIST, "PATH=VALUE", "change a value", &sets},
};
static const struct usage usage = {.verb = "trials",
                                   .operands = "CONFIG",
                                   .details = "",
                                   .operands_min = 1,
                                   .operands_max = 2,
                                   .n = 4,
                                   .option = specs};

enum { WORDS_MAX = 20, SAID_MAX = 4096 };

/* Runs the parser on @words (NULL at the end) with stdout and stderr caught. */
static int parse(char *const words[], char said[SAID_MAX])
{
    int saved_out = dup(1), saved_err = dup(2), code, argc = 1;
    char *argv[WORDS_MAX] = {(char *)"trials"};
    FILE *caught = tmpfile();
    size_t n;

    assert_non_null(caught);
    for (; words[argc - 1]; argc++)
        argv[argc] = words[argc - 1];
    json = false;
    state_folder = ".mltune";
    seed = (struct option_uint){0};
    sets.len = 0;
    fflush(stdout);
    dup2(fileno(caught), 1);
    dup2(fileno(caught), 2);
    code = options_parse(&usage, argc, argv, &operands);
    fflush(stdout);
    dup2(saved_out, 1);
    dup2(saved_err, 2);
    close(saved_out);
    close(saved_err);
    rewind(caught);
    n = fread(said, 1, SAID_MAX - 1, caught);
    said[n] = '\0';
    fclose(caught);
    return code;
}

#define PARSE(said, ...) parse((char *[]){__VA_ARGS__, NULL}, said)

/* Long and short, joined and apart, before and after operands. */
static void options_all_spellings_are_read(void **state)
{
    char said[SAID_MAX];

    (void)state;
    assert_int_equal(PARSE(said, "c.json", "--json", "--state", "dir", "--seed",
                           "7", "--set", "a=1", "--set=b=2"),
                     OPTIONS_GO_ON);
    assert_string_equal(said, "");
    assert_true(json);
    assert_string_equal(state_folder, "dir");
    assert_true(seed.given && seed.value == 7);
    assert_int_equal(sets.len, 2);
    assert_string_equal(sets.item[1], "b=2");
    assert_int_equal(operands.len, 1);
    assert_int_equal(PARSE(said, "-vsdir", "-n", "9", "--", "--json"),
                     OPTIONS_GO_ON);
    assert_string_equal(state_folder, "dir");
    assert_int_equal(seed.value, 9);
    assert_true(options_verbose() && !options_quiet() && !json);
    assert_string_equal(operands.item[0], "--json");
    assert_int_equal(PARSE(said, "-"), OPTIONS_GO_ON);
    assert_string_equal(operands.item[0], "-");
}

static void count_line(void *ctx, enum log_level level, const char *line)
{
    (void)level;
    (void)line;
    ++*(int *)ctx;
}

/* The last level that is logged. */
static enum log_level level_logged(void)
{
    int lines = 0;

    log_set_sink(count_line, &lines);
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
        log_event((enum log_level)i, "event", "%s", "");
    log_set_sink(NULL, NULL);
    return (enum log_level)(lines - 1);
}

/* -q and -v set what is said and logged. */
static void options_quiet_and_verbose_set_levels(void **state)
{
    char said[SAID_MAX];

    (void)state;
    assert_int_equal(PARSE(said, "-q", "c"), OPTIONS_GO_ON);
    assert_true(options_quiet());
    assert_int_equal(level_logged(), LOG_ERROR);
    assert_int_equal(PARSE(said, "-v", "c"), OPTIONS_GO_ON);
    assert_int_equal(level_logged(), LOG_INFO);
    assert_int_equal(PARSE(said, "-vv", "c"), OPTIONS_GO_ON);
    assert_int_equal(level_logged(), LOG_DEBUG);
    log_set_level(LOG_WARN);
}

static void expect_usage(char *const words[], const char *want)
{
    char said[SAID_MAX];
    int code = parse(words, said);

    if (code != EXIT_USAGE || !strstr(said, want) ||
        !strstr(said, "mltune trials --help"))
        fail_msg("%d: %s", code, said);
}

#define USAGE(want, ...) expect_usage((char *[]){__VA_ARGS__, NULL}, want)

/* Every misuse ends with the usage code and says what was wrong. */
static void options_misuse_is_explained(void **state)
{
    (void)state;
    expect_usage((char *[]){NULL}, "missing argument: CONFIG");
    USAGE("unknown option --jsn; did you mean --json?", "c", "--jsn");
    USAGE("unknown option --sete=x; did you mean --set?", "c", "--sete=x");
    USAGE("unknown option -x", "c", "-x");
    USAGE("unknown option -qx", "c", "-qx");
    USAGE("option --state needs a value DIR", "c", "--state");
    USAGE("option --state needs a value DIR", "c", "-s");
    USAGE("option takes no value: --json=1", "c", "--json=1");
    USAGE("expected a whole number, found -1", "c", "--seed", "-1");
    USAGE("expected a whole number, found 1x", "c", "--seed=1x");
    USAGE("expected a whole number, found 99999999999999999999", "c", "-n",
          "99999999999999999999");
    USAGE("unexpected argument c", "a", "b", "c");
}

/* Help goes to stdout, wherever it is asked for, and lists every option. */
static void options_help_lists_everything(void **state)
{
    char said[SAID_MAX];

    (void)state;
    assert_int_equal(PARSE(said, "--seed", "1", "-h"), EXIT_DONE);
    assert_non_null(strstr(said, "Usage: mltune trials CONFIG [options]"));
    assert_non_null(strstr(said, "  -s, --state DIR"));
    assert_non_null(strstr(said, "      --set PATH=VALUE"));
    assert_non_null(strstr(said, "--quiet"));
}

/* More repetitions than there is room for are refused, not dropped. */
static void options_list_is_bounded(void **state)
{
    char *argv[OPTION_VALUES_MAX + 3] = {(char *)"trials", (char *)"c"};
    int n = OPTION_VALUES_MAX + 3;

    (void)state;
    for (int i = 2; i < n; i++)
        argv[i] = (char *)"--set=a=1";
    sets.len = 0;
    assert_int_equal(options_parse(&usage, n - 1, argv, &operands),
                     OPTIONS_GO_ON);
    sets.len = 0;
    assert_int_equal(options_parse(&usage, n, argv, &operands), EXIT_USAGE);
}

/* Verbs are found by their whole names; what was meant is guessed. */
static void verbs_are_found(void **state)
{
    const struct verb *v;

    (void)state;
    assert_non_null(verb_find("validate"));
    assert_null(verb_find("valid"));
    assert_string_equal(verb_nearest("vaildate"), "validate");
    for (size_t i = 0; (v = verb_at(i)); i++) {
        assert_ptr_equal(verb_find(v->name), v);
        assert_non_null(v->run);
    }
}

/* Everything built in registers: names, summaries and schemas are well formed,
 * and each kind has its default. */
static void registry_of_the_program_is_sound(void **state)
{
    static struct registry r;
    struct fault f = {0};

    (void)state;
    if (cli_registry_fill(&r, &f))
        fail_msg("%s", f.text);
    assert_non_null(registry_find(&r, REGISTRY_RULE, "sgd"));
    assert_non_null(registry_find(&r, REGISTRY_CONSISTENCY, "bsp"));
    assert_non_null(registry_find(&r, REGISTRY_SEARCHER, "random"));
    assert_non_null(registry_find(&r, REGISTRY_STRATEGY, "mltuner"));
    assert_true(
        registry_uses(registry_find(&r, REGISTRY_RULE, "sgd"), "momentum"));
    assert_false(
        registry_uses(registry_find(&r, REGISTRY_RULE, "adagrad"), "momentum"));
    assert_true(registry_uses(registry_find(&r, REGISTRY_CONSISTENCY, "ssp"),
                              "staleness"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_all_spellings_are_read),
        cmocka_unit_test(options_quiet_and_verbose_set_levels),
        cmocka_unit_test(options_misuse_is_explained),
        cmocka_unit_test(options_help_lists_everything),
        cmocka_unit_test(options_list_is_bounded),
        cmocka_unit_test(verbs_are_found),
        cmocka_unit_test(registry_of_the_program_is_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
