/* The committed corpus of the fuzz target of the searchers' lines, replayed. */
#include "tests/fuzz/fuzz_searcher_protocol.c" /* the target itself */

#include "tests/unit/fixture/corpus.h"

/* Whether any reader takes it for what its name says. */
static bool is_taken(const char *text, size_t n)
{
    struct searcher_protocol_hello hello;
    struct searcher_protocol_request r;
    struct setting x;
    enum err err =
        searcher_protocol_read_ask(text, n, 1, fuzz_space(), &x, NULL);

    if (err == ERR_OK || err == ERR_AGAIN || err == ERR_EXHAUSTED ||
        err == ERR_APP)
        return true;
    if (searcher_protocol_read_hello(text, n, 1, &hello, NULL) == ERR_OK) {
        searcher_protocol_hello_deinit(&hello);
        return true;
    }
    if (searcher_protocol_read_request(text, n, fuzz_space(), &r, NULL) ==
        ERR_OK) {
        searcher_protocol_request_deinit(&r);
        return true;
    }
    return false;
}

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    bool bad = strncmp(name, "bad", 3) == 0;
    bool open = strcmp(name, "answer-open") == 0;

    LLVMFuzzerTestOneInput(bytes, n);
    if (is_taken((const char *)bytes, n) == (bad || open))
        fail_msg("%s", name);
}

/* No committed input crashes, leaks or loses something on a round trip; those
 * named bad are refused by every reader that gives a value. */
static void searcher_protocol_corpus_replays_clean(void **state)
{
    (void)state;
    corpus_replay("searcher_protocol", 26, replay_one);
}

/* Requests read back as they were written, with every kind of tunable. */
static void searcher_protocol_requests_read_back(void **state)
{
    const struct space *space = fuzz_space();
    struct setting running[2];
    struct searcher_query q = {
        .running_len = 2, .running = running, .incumbent = &running[1]};
    json_t *settings = json_pack("{s:i}", "n", 3);
    struct searcher_protocol_request r;
    char *line;

    (void)state;
    space_default(space, &running[0]);
    running[1] = running[0];
    running[1].value[0] = 0.1 + 0.2; /* not a short decimal */
    running[1].value[1] = 1;
    line = searcher_protocol_open(5, space, settings, UINT64_MAX);
    assert_int_equal(
        searcher_protocol_read_request(line, strlen(line), NULL, &r, NULL),
        ERR_OK);
    assert_int_equal(r.kind, SEARCHER_PROTOCOL_OPEN);
    assert_int_equal(r.id, 5);
    assert_int_equal(r.space.len, space->len);
    assert_true(json_equal(r.settings, settings));
    searcher_protocol_request_deinit(&r);
    mem_free(line);
    line = searcher_protocol_ask(6, space, &q);
    assert_int_equal(
        searcher_protocol_read_request(line, strlen(line), space, &r, NULL),
        ERR_OK);
    assert_int_equal(r.running_len, 2);
    assert_true(space_equal(space, &r.running[1], &running[1]));
    assert_true(r.has_incumbent &&
                space_equal(space, &r.incumbent, &running[1]));
    searcher_protocol_request_deinit(&r);
    mem_free(line);
    json_decref(settings);
}

/* Answers of a host are read as what they are. */
static void searcher_protocol_answers_read_back(void **state)
{
    const struct space *space = fuzz_space();
    struct fault words = {.text = "so\tit is"}, f;
    struct setting x, y;
    char *line;

    (void)state;
    space_default(space, &x);
    line = searcher_protocol_answer_ask(7, space, ERR_OK, &x, NULL);
    assert_int_equal(
        searcher_protocol_read_ask(line, strlen(line), 7, space, &y, &f),
        ERR_OK);
    assert_true(space_equal(space, &x, &y));
    assert_int_equal(
        searcher_protocol_read_ask(line, strlen(line), 8, space, &y, &f),
        ERR_PROTO);
    mem_free(line);
    line = searcher_protocol_answer_ask(7, space, ERR_AGAIN, NULL, NULL);
    assert_int_equal(
        searcher_protocol_read_ask(line, strlen(line), 7, space, &y, &f),
        ERR_AGAIN);
    mem_free(line);
    line = searcher_protocol_answer_ask(7, space, ERR_EXHAUSTED, NULL, NULL);
    assert_int_equal(
        searcher_protocol_read_ask(line, strlen(line), 7, space, &y, &f),
        ERR_EXHAUSTED);
    mem_free(line);
    line = searcher_protocol_answer_ask(7, space, ERR_APP, NULL, &words);
    assert_int_equal(
        searcher_protocol_read_ask(line, strlen(line), 7, space, &y, &f),
        ERR_APP);
    assert_string_equal(f.text, "so?it is");
    mem_free(line);
}

/* A searcher that refuses without a word is told of with one, whatever it was
 * asked. */
static void searcher_protocol_error_without_words_is_told(void **state)
{
    static const char *const silent[] = {"{\"id\": 1, \"error\": \"\"}",
                                         "{\"id\": 1, \"error\": \" \\n\"}"};
    struct searcher_protocol_hello hello;
    struct setting x;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(silent[i]);
        struct fault ask = {0}, welcome = {0}, open = {0};

        assert_int_equal(
            searcher_protocol_read_ask(silent[i], n, 1, fuzz_space(), &x, &ask),
            ERR_APP);
        assert_int_equal(
            searcher_protocol_read_hello(silent[i], n, 1, &hello, &welcome),
            ERR_INVAL);
        assert_int_equal(searcher_protocol_read_open(silent[i], n, 1, &open),
                         ERR_INVAL);
        assert_non_null(strstr(ask.text, "no reason"));
        assert_non_null(strstr(welcome.text, "no reason"));
        assert_non_null(strstr(open.text, "no reason"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searcher_protocol_corpus_replays_clean),
        cmocka_unit_test(searcher_protocol_requests_read_back),
        cmocka_unit_test(searcher_protocol_answers_read_back),
        cmocka_unit_test(searcher_protocol_error_without_words_is_told),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
