#include "cli/remote/refusal.h"

#include "tests/unit/fixture/check.h"

static void says(int status, json_t *problem, const char *expected)
{
    struct text t = {0};

    refusal_say(status, problem, &t);
    assert_string_equal(text_so_far(&t), expected);
    text_deinit(&t);
    json_decref(problem);
}

/* Headers, bodies and paths are nothing that somebody typed. */
static void test_no_words_of_the_interface(void **state)
{
    (void)state;
    says(401,
         json_pack("{s:s, s:s}", "code", "token_required", "detail",
                   "this needs the header Authorization: Bearer TOKEN"),
         "the server wants a token: set MLTUNE_TOKEN, or name its state folder "
         "with --state");
    says(404,
         json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "code", "run_not_found",
                   "detail", "there is no run \"x\"; /api/v1/runs lists all",
                   "errors", "pointer", "/path/run", "detail", "no such run"),
         "there is no run \"x\"; mltune ls lists them");
    says(404,
         json_pack("{s:s, s:s}", "code", "route_not_found", "detail",
                   "there is no such path; /api/v1 lists all"),
         "the server does not know what this asks for: it is of another "
         "version");
}

/* Errors by what was typed; those in a configuration keep their place. */
static void test_errors_by_name(void **state)
{
    (void)state;
    says(422,
         json_pack("{s:s, s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "code",
                   "invalid_body", "detail",
                   "2 parts of the body are not valid", "errors", "pointer",
                   "/setting/rate", "detail", "too large", "pointer", "",
                   "detail", "expected more"),
         "rate: too large\nexpected more");
    says(422,
         json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "code",
                   "invalid_configuration", "detail", "1 error", "errors",
                   "pointer", "/app/name", "detail", "expected a name"),
         "1 error\n  /app/name: expected a name");
}

/* Whatever comes, there is a sentence. */
static void test_other_answers(void **state)
{
    (void)state;
    says(500, NULL, "the server refuses, and does not say why (500)");
    says(409, json_pack("[i]", 1),
         "the server refuses, and does not say why (409)");
    says(409, json_pack("{s:i, s:s}", "code", 3, "detail", "it is over"),
         "it is over");
    assert_true(refusal_is_ours(404));
    assert_false(refusal_is_ours(429));
    assert_false(refusal_is_ours(503));
    assert_false(refusal_is_ours(302));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_words_of_the_interface),
        cmocka_unit_test(test_errors_by_name),
        cmocka_unit_test(test_other_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
