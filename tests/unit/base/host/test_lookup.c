/* Names and addresses of numbers; a resolver that never answers is
 * tests/process/test_deadlines.py's. */
#include "base/host/lookup_io.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>

static const struct addrinfo tcp = {.ai_family = AF_INET,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_NUMERICSERV};

/* @host's address is this machine's own, port 7. */
static void is_own(const char *host)
{
    struct addrinfo *found;
    struct sockaddr_in a;
    struct fault f = {0};

    if (lookup_host(host, "7", &tcp, INFINITY, &found, &f))
        fail_msg("%s: %s", host, f.text);
    memcpy(&a, found->ai_addr, sizeof(a));
    freeaddrinfo(found);
    assert_int_equal(ntohl(a.sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(ntohs(a.sin_port), 7);
}

/* By numbers and by a name, and nothing is left of either. */
static void lookup_finds_this_machine(void **state)
{
    int64_t before = mem_outstanding();

    (void)state;
    is_own("127.0.0.1");
    is_own("localhost");
    assert_int_equal(mem_outstanding(), before);
}

/* What is no address of the wanted kind is refused with the resolver's words.
 */
static void lookup_refuses_other_kinds(void **state)
{
    struct addrinfo *found = NULL;
    struct fault f = {0};

    (void)state;
    assert_int_equal(lookup_host("::1", "7", &tcp, INFINITY, &found, &f),
                     ERR_NODE);
    assert_true(f.text[0]);
    assert_null(found);
}

/* Who has no time does not wait, and what the thread finds later is freed by
 * it: the leak checker sees to that. */
static void lookup_of_no_time_ends_at_once(void **state)
{
    struct addrinfo *found;
    struct fault f = {0};

    (void)state;
    for (int i = 0; i < 50; i++) {
        enum err err = lookup_host("localhost", "7", &tcp, 0, &found, &f);

        if (!err)
            freeaddrinfo(found);
        else
            assert_non_null(strstr(f.text, "has not answered in 0 s"));
    }
}

/* Without memory it is refused so, and leaks nothing. */
static void lookup_without_memory_is_refused(void **state)
{
    int64_t before = mem_outstanding();
    struct addrinfo *found;

    (void)state;
    mem_fail_at(1, 0);
    assert_int_equal(
        lookup_host("localhost", "7", &tcp, INFINITY, &found, NULL), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(mem_outstanding(), before);
}

/* Loopback is reached from itself, by number and by name; a name that is none
 * is no host. */
static void lookup_source_is_this_end_of_the_way(void **state)
{
    char address[INET_ADDRSTRLEN] = "";
    struct fault f = {0};

    (void)state;
    assert_int_equal(lookup_source_to("127.0.0.1", 60, address, &f), ERR_OK);
    assert_string_equal(address, "127.0.0.1");
    assert_int_equal(lookup_source_to("localhost", 60, address, &f), ERR_OK);
    assert_string_equal(address, "127.0.0.1");
    assert_int_equal(lookup_source_to("none.invalid", 60, address, &f),
                     ERR_NODE);
    assert_true(f.text[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_finds_this_machine),
        cmocka_unit_test(lookup_refuses_other_kinds),
        cmocka_unit_test(lookup_without_memory_is_refused),
        cmocka_unit_test(lookup_of_no_time_ends_at_once),
        cmocka_unit_test(lookup_source_is_this_end_of_the_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
