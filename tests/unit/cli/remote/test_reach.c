/* Addresses that a webhook may be sent to. */
#include "cli/remote/reach.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

static bool is_public(const char *text)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return reach_is_public((const void *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return reach_is_public((const void *)&v6);
}

/* Nothing that is not public passes for it: the first and the last address of
 * each special network. */
static void reach_refuses_what_is_not_public(void **state)
{
    static const char *const inner[] = {"0.0.0.0",
                                        "0.255.255.255",
                                        "10.0.0.0",
                                        "10.255.255.255",
                                        "100.64.0.0",
                                        "100.127.255.255",
                                        "127.0.0.1",
                                        "127.255.255.255",
                                        "169.254.0.0",
                                        "169.254.169.254",
                                        "169.254.255.255",
                                        "172.16.0.0",
                                        "172.31.255.255",
                                        "192.0.0.0",
                                        "192.0.2.255",
                                        "192.88.99.1",
                                        "192.168.0.0",
                                        "192.168.255.255",
                                        "198.18.0.0",
                                        "198.19.255.255",
                                        "198.51.100.7",
                                        "203.0.113.9",
                                        "224.0.0.1",
                                        "239.255.255.255",
                                        "240.0.0.1",
                                        "255.255.255.255",
                                        "::",
                                        "::1",
                                        "::ffff:10.0.0.1",
                                        "::ffff:8.8.8.8",
                                        "::8.8.8.8",
                                        "64:ff9b::a00:1",
                                        "64:ff9b:1::1",
                                        "100::1",
                                        "2001::1",
                                        "2001:1ff::1",
                                        "2001:db8::1",
                                        "2002:a00:1::1",
                                        "3fff::1",
                                        "3fff:fff::1",
                                        "fc00::1",
                                        "fdff::1",
                                        "fe80::1",
                                        "febf::1",
                                        "fec0::1",
                                        "ff02::1",
                                        "4000::1",
                                        "1fff::1"};

    (void)state;
    for (size_t i = 0; i < sizeof(inner) / sizeof(*inner); i++)
        if (is_public(inner[i]))
            fail_msg("%s passes for public", inner[i]);
}

/* Their neighbours are public. */
static void reach_lets_public_ones_pass(void **state)
{
    static const char *const outer[] = {
        "1.0.0.0",      "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",  "126.255.255.255", "128.0.0.0",       "169.253.255.255",
        "169.255.0.0",  "172.15.255.255",  "172.32.0.0",      "192.0.1.0",
        "192.0.3.0",    "192.167.255.255", "192.169.0.0",     "198.17.255.255",
        "198.20.0.0",   "203.0.114.0",     "223.255.255.255", "8.8.8.8",
        "2000::1",      "2001:200::1",     "2001:db7::1",     "2001:db9::1",
        "2001:4860::1", "2003::1",         "2606:4700::1",    "3ffe::1",
        "3fff:1000::1"};

    (void)state;
    for (size_t i = 0; i < sizeof(outer) / sizeof(*outer); i++)
        if (!is_public(outer[i]))
            fail_msg("%s does not pass for public", outer[i]);
}

/* What is no address of the internet is none. */
static void reach_refuses_other_families(void **state)
{
    const struct sockaddr local = {.sa_family = AF_UNIX};

    (void)state;
    assert_false(reach_is_public(&local));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reach_refuses_what_is_not_public),
        cmocka_unit_test(reach_lets_public_ones_pass),
        cmocka_unit_test(reach_refuses_other_families),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
