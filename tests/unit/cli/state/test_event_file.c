/* Event files of TensorBoard. The process tests read whole files with a parser
 * of their own (test_export, test_tensorboard). */
#include "base/crc32c.h"
#include "cli/state/event_file.h"
#include "tests/unit/fixture/check.h"

#include <string.h>

static uint64_t little(const char *s, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = bytes; i-- > 0;)
        value = value << 8 | (unsigned char)s[i];
    return value;
}

/* The first record of every file that TensorFlow writes: 24 bytes long, and the
 * masked checksum of that length is a3 7f 4b 22. */
static void event_version_begins_as_tensorflow_does(void **state)
{
    static const char head[] = "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09";
    struct text t = {0};

    (void)state;
    event_version(&t, 1.5);
    assert_int_equal(t.len, 8 + 4 + 24 + 4);
    assert_memory_equal(t.s, head, sizeof(head) - 1);
    assert_memory_equal(t.s + 12 + 11, "brain.Event:2", 13);
    text_deinit(&t);
}

/* Each record's checksum is that of its bytes; the next one follows at once. */
static void event_scalar_is_framed(void **state)
{
    struct text t = {0};
    size_t at = 0;
    unsigned records = 0;

    (void)state;
    event_version(&t, 1.7e9);
    event_restart(&t, 1.7e9);
    for (uint64_t step = 1; step; step <<= 7)
        event_scalar(&t, 1.7e9, step, "epoch/loss", 0.25);
    while (at < t.len) {
        uint64_t len = little(t.s + at, 8);
        uint32_t crc = crc32c_portable(0, t.s + at + 12, len);

        assert_true(at + 16 + len <= t.len);
        assert_int_equal((uint32_t)little(t.s + at + 12 + len, 4),
                         (crc >> 15 | crc << 17) + 0xa282ead8u);
        at += 16 + len;
        records++;
    }
    assert_int_equal(records, 2 + 10);
    text_deinit(&t);
}

/* A tag of any length takes EVENT_TAG_MAX bytes at most. */
static void event_scalar_cuts_a_long_tag(void **state)
{
    char tag[1000];
    struct text cut = {0}, whole = {0};

    (void)state;
    memset(tag, 'x', sizeof(tag) - 1);
    tag[sizeof(tag) - 1] = 0;
    event_scalar(&cut, 1, UINT64_MAX, tag, 1);
    tag[EVENT_TAG_MAX] = 0;
    event_scalar(&whole, 1, UINT64_MAX, tag, 1);
    assert_int_equal(cut.len, whole.len);
    assert_memory_equal(cut.s, whole.s, whole.len);
    text_deinit(&cut);
    text_deinit(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_version_begins_as_tensorflow_does),
        cmocka_unit_test(event_scalar_is_framed),
        cmocka_unit_test(event_scalar_cuts_a_long_tag),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
