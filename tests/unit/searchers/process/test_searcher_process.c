/* Searchers in other processes: those that behave pass the suite, those that do
 * not cost one warning, no more than their time-out, and leave nothing.
 *
 * The misbehaving program is this one, started again as `sick MODE`; the host
 * of the plug-ins is this one as `searcher-host FILE`.
 */
#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "searchers/process/child_io.h"
#include "searchers/process/plugin_host_io.h"
#include "searchers/process/process_io.h"

#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/searcher_suite.h"
#include "tests/unit/fixture/space_text.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the sick program ---------------------------------------------------- */

static void say(const char *line)
{
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        _exit(9);
}

static void answer(unsigned long id, const char *members)
{
    char line[512];

    snprintf(line, sizeof(line), "{\"id\": %lu%s}\n", id, members);
    say(line);
}

/* In one piece: whoever reads the first line has the second, too. */
static void answer_twice(unsigned long id, const char *members)
{
    char lines[512];

    snprintf(lines, sizeof(lines), "{\"id\": %lu%s}\n{\"id\": %lu%s}\n", id,
             members, id, members);
    say(lines);
}

static void say_much(void)
{
    char *line = malloc(200001);

    memset(line, 'x', 200000);
    line[200000] = '\0';
    say(line);
    free(line);
}

/* Behaviours of the program when it is asked for a proposal. */
static void misbehave(const char *mode, unsigned long id)
{
    if (strcmp(mode, "hang") == 0)
        pause();
    if (strcmp(mode, "spin") == 0)
        for (volatile unsigned i = 0;; i++)
            continue;
    if (strcmp(mode, "die") == 0) {
        fprintf(stderr, "no module named luck\n");
        _exit(3);
    }
    if (strcmp(mode, "blank") == 0) {
        fprintf(stderr, "\nno luck today\n\n\n");
        _exit(3);
    }
    if (strcmp(mode, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(mode, "chat") == 0)
        say("let me think\n");
    if (strcmp(mode, "number") == 0)
        say("42\n");
    if (strcmp(mode, "long") == 0)
        say_much();
    if (strcmp(mode, "stranger") == 0)
        answer(id + 7, ", \"unit\": [0.5, 0.5]");
    if (strcmp(mode, "twice") == 0)
        answer_twice(id, ", \"unit\": [0.5, 0.5]");
    if (strcmp(mode, "range") == 0)
        answer(id, ", \"setting\": {\"a\": 99, \"b\": \"x\"}");
    if (strcmp(mode, "type") == 0)
        answer(id, ", \"setting\": {\"a\": \"much\", \"b\": \"x\"}");
    if (strcmp(mode, "part") == 0)
        answer(id, ", \"setting\": {\"a\": 1}");
    if (strcmp(mode, "cube") == 0)
        answer(id, ", \"unit\": [0.5, 1.5]");
    if (strcmp(mode, "axes") == 0)
        answer(id, ", \"unit\": [0.5]");
    if (strcmp(mode, "wait") == 0)
        answer(id, ", \"wait\": true");
    if (strcmp(mode, "empty") == 0)
        answer(id, "");
    if (strcmp(mode, "error") == 0)
        answer(id, ", \"error\": \"I give up\"");
    if (strcmp(mode, "close") == 0) {
        close(STDOUT_FILENO);
        pause();
    }
}

static void be_sick(const char *mode)
{
    static char line[1 << 20];
    int asks = 0;

    if (strcmp(mode, "mute") == 0)
        pause();
    if (strcmp(mode, "orphan") == 0) {
        if (fork() == 0)
            pause(); /* holds the output open */
        _exit(0);
    }
    while (fgets(line, sizeof(line), stdin)) {
        const char *at = strstr(line, "\"id\":");
        unsigned long id = at ? strtoul(at + 5, NULL, 10) : 0;

        if (strstr(line, "\"hello\"") && strcmp(mode, "future") == 0)
            answer(id, ", \"protocol\": 9");
        else if (strstr(line, "\"hello\""))
            answer(id, ", \"protocol\": 1, \"settings\": {\"type\": "
                       "\"object\", \"properties\": {\"n\": {\"type\": "
                       "\"integer\", \"maximum\": 5}}}");
        else if (strstr(line, "\"open\"") && strcmp(mode, "refuse") == 0)
            answer(id, ", \"error\": \"too many tunables\"");
        else if (strstr(line, "\"open\""))
            answer(id, "");
        else if (strcmp(mode, "deaf") == 0)
            pause();
        else if (strstr(line, "\"ask\"") && asks++ < 2)
            answer(id, asks == 1 ? ", \"unit\": [0.1, 0.1]"
                                 : ", \"setting\": {\"a\": 4, \"b\": \"z\"}");
        else if (strstr(line, "\"ask\""))
            misbehave(mode, id);
    }
}

/* ---- what the tests share ------------------------------------------------ */

static const char small_text[] =
    "{\"a\": {\"type\": \"int\", \"min\": 1, \"max\": 4},"
    "\"b\": {\"type\": \"categorical\", \"values\": [\"x\", \"y\", \"z\"]}}";

static int warnings, words;
static char warning[2048];

static void hear(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    words += strstr(line, "searcher_says") != NULL;
    if (level > LOG_WARN)
        return;
    warnings++;
    snprintf(warning, sizeof(warning), "%s", line);
}

static void read_small(struct space *space)
{
    assert_int_equal(space_from_text(small_text, space, NULL), ERR_OK);
}

static json_t *sick_settings(const char *mode, const char *timeout)
{
    json_t *settings =
        json_pack("{s:[s,s,s], s:s, s:s}", "command", "/proc/self/exe", "sick",
                  mode, "timeout", timeout, "fallback", "random");

    assert_non_null(settings);
    return settings;
}

/* Children of this process, zombies counted. */
static int children(void)
{
    char path[64];
    int n = 0;
    long pid;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "r");
    if (!file)
        return 0; /* a kernel without it */
    while (fscanf(file, "%ld", &pid) == 1)
        n++;
    fclose(file);
    return n;
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Runs a search until it is exhausted; returns the number of proposals, which
 * all differ. */
static size_t run_out(struct searcher *s)
{
    struct observation o = {.speed = 1, .resource = 1};
    struct setting seen[32];
    size_t n = 0;
    enum err err;

    while ((err = searcher_suite_ask(s, NULL, 0, NULL, &o.setting, NULL)) ==
           ERR_OK) {
        for (size_t i = 0; i < n; i++)
            assert_false(space_equal(searcher_space(s), &o.setting, &seen[i]));
        assert_true(n < 32);
        seen[n] = o.setting;
        o.trial = n++;
        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    }
    assert_int_equal(err, ERR_EXHAUSTED);
    return n;
}

/* A search with a searcher that fails at its third proposal: it has all twelve
 * settings in the end, there is one warning, and it says @reason. */
static void fails_once(const char *mode, const char *timeout,
                       const char *reason)
{
    json_t *settings = sick_settings(mode, timeout);
    int64_t before = mem_outstanding();
    int files = open_files();
    struct searcher *s = NULL;
    struct space space;

    read_small(&space);
    warnings = 0;
    log_set_sink(hear, NULL);
    assert_int_equal(
        searcher_open(&searcher_process, &space, settings, 1, &s, NULL),
        ERR_OK);
    assert_int_equal(run_out(s), 12);
    log_set_sink(NULL, NULL);
    if (!searcher_fallen(s) || !strstr(searcher_fallen(s), reason))
        fail_msg("%s: expected \"%s\", got \"%s\"", mode, reason,
                 searcher_fallen(s) ? searcher_fallen(s) : "(no fault)");
    assert_non_null(strstr(searcher_fallen(s), "exe sick"));
    assert_non_null(strstr(searcher_fallen(s), "random goes on"));
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "searcher_failed"));
    assert_non_null(strstr(warning, reason));
    assert_int_equal(children(), 0);
    searcher_close(s);
    assert_int_equal(mem_outstanding(), before);
    assert_int_equal(open_files(), files);
    json_decref(settings);
}

/* ---- tests --------------------------------------------------------------- */

/* One that does not answer is given up after its time-out and killed. */
static void process_that_hangs_costs_its_timeout(void **state)
{
    time_ns start = clock_monotonic();

    (void)state;
    fails_once("hang", "0.3s", "did not answer within 0.3 s");
    assert_true(clock_monotonic() - start >= 300000000);
    fails_once("spin", "0.3s", "did not answer within 0.3 s");
    fails_once("mute", "0.3s", "did not answer within 0.3 s");
}

/* One that ends is noticed at once; the warning says how, and its last words.
 */
static void process_that_ends_is_named(void **state)
{
    (void)state;
    fails_once("die", "60s",
               "ended with exit code 3 (its last words: no "
               "module named luck)");
    fails_once("segv", "60s", "was killed by SIGSEGV");
    fails_once("close", "60s", "closed its output");
}

/* Blank lines among its words are no words, and repeat none. */
static void process_blank_words_are_none(void **state)
{
    (void)state;
    words = 0;
    log_set_level(LOG_INFO);
    fails_once("blank", "60s",
               "ended with exit code 3 (its last words: no luck today)");
    log_set_level(LOG_WARN);
    assert_int_equal(words, 1);
}

/* It has ended, but left another that holds its output open. */
static void process_that_leaves_others_has_ended(void **state)
{
    json_t *settings = sick_settings("orphan", "0.1s");
    struct searcher *s = NULL;
    siginfo_t info = {0};
    struct space space;

    (void)state;
    read_small(&space);
    log_set_sink(hear, NULL);
    assert_int_equal(
        searcher_open(&searcher_process, &space, settings, 1, &s, NULL),
        ERR_OK);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(run_out(s), 12);
    log_set_sink(NULL, NULL);
    assert_non_null(strstr(searcher_fallen(s), "ended with exit code 0"));
    searcher_close(s);
    json_decref(settings);
}

/* Every kind of nonsense is one warning that says what was expected. */
static void process_nonsense_is_named(void **state)
{
    (void)state;
    fails_once("chat", "60s",
               "expected a JSON object on one line, found: let "
               "me think");
    fails_once("number", "60s", "expected a JSON object");
    fails_once("long", "60s", "a line of over 65536 bytes");
    fails_once("stranger", "60s", "expected the answer with \"id\"");
    fails_once("twice", "60s", "answered what it was not asked");
    fails_once("range", "60s", "/setting/a");
    fails_once("type", "60s", "/setting/a");
    fails_once("part", "60s", "expected a value of b");
    fails_once("cube", "60s", "expected a number of 0 to 1 as \"unit\" of b");
    fails_once("axes", "60s", "expected 2 numbers, one an axis");
    fails_once("wait", "60s", "it waits though no trial runs");
    fails_once("empty", "60s", "expected \"setting\", \"unit\"");
}

/* A searcher's words about itself are passed on. */
static void process_own_errors_are_passed_on(void **state)
{
    (void)state;
    fails_once("error", "60s", "failed: I give up");
    fails_once("refuse", "60s", "refuses: too many tunables");
    fails_once("future", "60s", "it speaks version 9 of the protocol");
}

/* A program that is not there is a fault of the first ask, not of open. */
static void process_that_is_not_there_is_named(void **state)
{
    json_t *settings = json_pack("{s:[s]}", "command", "no-such-program-here");
    struct searcher *s = NULL;
    struct space space;

    (void)state;
    read_small(&space);
    log_set_sink(hear, NULL);
    for (int i = 0; i < 2; i++) {
        warnings = 0;
        assert_int_equal(
            searcher_open(&searcher_process, &space, settings, 1, &s, NULL),
            ERR_OK);
        assert_int_equal(run_out(s), 12);
        assert_non_null(strstr(searcher_fallen(s), "no-such-program-here"));
        assert_non_null(strstr(searcher_fallen(s), "tpe goes on"));
        assert_int_equal(warnings, 1);
        searcher_close(s);
        json_object_set_new(settings, "command",
                            json_pack("[s]", "/no-such-program-here"));
    }
    log_set_sink(NULL, NULL);
    json_decref(settings);
}

/* A long history reaches one that reads, whatever the pipe holds. */
static void process_hears_a_long_history(void **state)
{
    json_t *settings = sick_settings("hang", "100s");
    struct searcher *s = NULL;
    struct observation o = {.speed = 1, .resource = 1};
    struct space space;
    struct setting x;

    (void)state;
    read_small(&space);
    space_default(&space, &o.setting);
    assert_int_equal(
        searcher_open(&searcher_process, &space, settings, 1, &s, NULL),
        ERR_OK);
    for (o.trial = 0; o.trial < 20000; o.trial++)
        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    assert_int_equal(searcher_suite_ask(s, NULL, 0, NULL, &x, NULL), ERR_OK);
    assert_null(searcher_fallen(s));
    searcher_close(s);
    json_decref(settings);
}

/* One that does not read what it is told is given up after its time-out, though
 * it has not been asked anything yet. (On a very slow machine it has not said
 * hello by then.) */
static void process_that_does_not_read_is_given_up(void **state)
{
    json_t *settings = sick_settings("deaf", "1s");
    struct searcher *s = NULL;
    struct observation o = {.speed = 1, .resource = 1};
    struct space space;

    (void)state;
    read_small(&space);
    space_default(&space, &o.setting);
    log_set_sink(hear, NULL);
    assert_int_equal(
        searcher_open(&searcher_process, &space, settings, 1, &s, NULL),
        ERR_OK);
    for (o.trial = 0; o.trial < 65536; o.trial++)
        assert_int_equal(searcher_tell(s, &o, NULL), ERR_OK);
    assert_int_equal(searcher_suite_ask(s, NULL, 0, NULL, &o.setting, NULL),
                     ERR_OK);
    log_set_sink(NULL, NULL);
    assert_non_null(searcher_fallen(s));
    if (!strstr(searcher_fallen(s), "does not read what it is told") &&
        !strstr(searcher_fallen(s), "did not answer within 1 s"))
        fail_msg("%s", searcher_fallen(s));
    assert_int_equal(children(), 0);
    searcher_close(s);
    json_decref(settings);
}

/* A program does not get the token that steers runs, but what else there is in
 * the environment. */
static void process_does_not_see_the_token(void **state)
{
    char *const argv[] = {
        "sh", "-c", "echo \"${MLTUNE_TOKEN-none} $MLTUNE_TEST_OTHER\"", NULL};
    struct child c;
    const char *line;
    enum err err;
    size_t len;

    (void)state;
    setenv("MLTUNE_TOKEN", "0123456789abcdef0123", 1);
    setenv("MLTUNE_TEST_OTHER", "other", 1);
    assert_int_equal(child_start(&c, "/bin/sh", argv, "", 1024, NULL), ERR_OK);
    while ((err = child_line(&c, &line, &len)) == ERR_AGAIN)
        child_wait(&c, 1000000000);
    assert_int_equal(err, ERR_OK);
    assert_int_equal(len, strlen("none other"));
    assert_memory_equal(line, "none other", len);
    child_stop(&c, 1000000000);
    unsetenv("MLTUNE_TOKEN");
    unsetenv("MLTUNE_TEST_OTHER");
}

/* A searcher known to be broken is not started again. */
static void process_known_as_broken_is_not_started(void **state)
{
    json_t *settings = sick_settings("hang", "60s");
    struct searcher *s = NULL;
    struct space space;

    (void)state;
    json_object_set_new(settings, "broken", json_string("it was seen to fail"));
    read_small(&space);
    log_set_sink(hear, NULL);
    assert_int_equal(
        searcher_open(&searcher_process, &space, settings, 1, &s, NULL),
        ERR_OK);
    assert_int_equal(children(), 0);
    assert_int_equal(run_out(s), 12);
    log_set_sink(NULL, NULL);
    assert_non_null(strstr(searcher_fallen(s), "it was seen to fail"));
    searcher_close(s);
    json_decref(settings);
}

/* A trial start tells what can be mended from what has to be lived with. */
static void process_try_tells_refusals(void **state)
{
    static const struct {
        const char *mode;
        enum err err;
        bool refusal;
    } cases[] = {{"future", ERR_VERSION, true},
                 {"refuse", ERR_INVAL, true},
                 {"mute", ERR_TIMEOUT, false},
                 {"hang", ERR_OK, false}};
    struct space space;
    struct fault f;

    (void)state;
    read_small(&space);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        json_t *settings = sick_settings(
            cases[i].mode, cases[i].err == ERR_TIMEOUT ? "0.2s" : "60s");

        assert_int_equal(
            searcher_process_try(&searcher_process, &space, settings, NULL, &f),
            cases[i].err);
        assert_int_equal(searcher_process_is_refusal(cases[i].err),
                         cases[i].refusal);
        json_decref(settings);
    }
    assert_int_equal(children(), 0);
}

/* Its settings are checked by the schema that it states. */
static void process_settings_are_checked(void **state)
{
    json_t *settings = sick_settings("hang", "60s");
    struct space space;
    struct fault f;

    (void)state;
    read_small(&space);
    json_object_set_new(settings, "settings", json_pack("{s:i}", "n", 9));
    assert_int_equal(
        searcher_process_try(&searcher_process, &space, settings, NULL, &f),
        ERR_INVAL);
    assert_non_null(strstr(f.text, "searcher_settings: /n: expected"));
    json_decref(settings);
}

/* ---- plug-ins ------------------------------------------------------------ */

/* FILE.so of this build, in @out. */
static const char *plugin_path(const char *name, char out[PATH_MAX])
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

    assert_true(n > 0);
    exe[n] = '\0';
    assert_true(snprintf(out, PATH_MAX, "%s/../../../../%s", dirname(exe),
                         name) < PATH_MAX);
    return out;
}

static enum err try_plugin(const char *file,
                           struct searcher_protocol_hello *hello,
                           struct fault *f)
{
    json_t *settings =
        json_pack("{s:s, s:s}", "plugin", file, "timeout", "60s");
    enum err err =
        searcher_process_try(&searcher_plugin, NULL, settings, hello, f);

    json_decref(settings);
    return err;
}

/* A plug-in's words about itself come through. */
static void plugin_describes_itself(void **state)
{
    char path[PATH_MAX];
    struct searcher_protocol_hello hello;
    struct fault f = {0};

    (void)state;
    if (try_plugin(plugin_path("plugins/hill.so", path), &hello, &f))
        fail_msg("%s", f.text);
    assert_string_equal(hello.name, "hill");
    assert_non_null(json_at(hello.settings, "/properties/step"));
    searcher_protocol_hello_deinit(&hello);
}

/* A file that is none, or no plug-in, is refused with the reason. */
static void plugin_that_is_none_is_refused(void **state)
{
    char path[PATH_MAX];
    struct fault f;

    (void)state;
    assert_int_equal(try_plugin("/no/such/file.so", NULL, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "/no/such/file.so"));
    assert_int_equal(
        try_plugin(plugin_path("libmltune-internal.a", path), NULL, &f),
        ERR_INVAL);
    assert_int_equal(try_plugin("libm.so.6", NULL, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "mltune_searcher"));
}

/* A sanitized process is dear to start, and one starts for each allocation. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { FEW = 1 };
#else
enum { FEW = 2 };
#endif

/* `test_searcher_process suite '{"command": ["python3", "mine.py"]}'`: the
 * suite on a searcher of somebody else. Without failing allocations: they are
 * the tuner's, and an interpreter would be started for each. */
static int run_suite_on(const char *settings)
{
    const struct searcher_suite suite = {.ops = strstr(settings, "\"plugin\"")
                                                    ? &searcher_plugin
                                                    : &searcher_process,
                                         .name = settings,
                                         .settings = settings,
                                         .few = 0};

    json_count_memory();
    return searcher_suite_run(&suite);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_that_hangs_costs_its_timeout),
        cmocka_unit_test(process_that_ends_is_named),
        cmocka_unit_test(process_blank_words_are_none),
        cmocka_unit_test(process_that_leaves_others_has_ended),
        cmocka_unit_test(process_nonsense_is_named),
        cmocka_unit_test(process_own_errors_are_passed_on),
        cmocka_unit_test(process_that_is_not_there_is_named),
        cmocka_unit_test(process_hears_a_long_history),
        cmocka_unit_test(process_that_does_not_read_is_given_up),
        cmocka_unit_test(process_does_not_see_the_token),
        cmocka_unit_test(process_known_as_broken_is_not_started),
        cmocka_unit_test(process_try_tells_refusals),
        cmocka_unit_test(process_settings_are_checked),
        cmocka_unit_test(plugin_describes_itself),
        cmocka_unit_test(plugin_that_is_none_is_refused),
    };
    char path[PATH_MAX], settings[PATH_MAX + 64];
    struct searcher_suite hill = {.ops = &searcher_plugin,
                                  .name = "plugins/hill.so",
                                  .settings = settings,
                                  .few = FEW};

    if (argc == 3 && strcmp(argv[1], "suite") == 0)
        return run_suite_on(argv[2]);
    if (argc == 3 && strcmp(argv[1], "sick") == 0) {
        be_sick(argv[2]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "searcher-host") == 0)
        return plugin_host_run(argv[2]);
    json_count_memory();
    snprintf(settings, sizeof(settings),
             "{\"plugin\": \"%s\", \"timeout\": \"100s\"}",
             plugin_path("plugins/hill.so", path));
    return cmocka_run_group_tests(tests, NULL, NULL) +
           searcher_suite_run(&hill);
}
