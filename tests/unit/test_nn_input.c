#include "apps/nn_input.h"

#include "tests/unit/check.h"

/* Planes become channels beside one another; bytes and values are scaled. */
static void nn_input_puts_channels_last(void **state)
{
    static const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 255};
    static const float wanted[] = {0,    5,    0.5f, 5.5f, 1,    6,
                                   1.5f, 6.5f, 2,    7,    2.5f, 127.5f};
    struct nn_shape shape = {.channels = 2, .height = 2, .width = 3};
    float values[12], got[12];
    int k;

    (void)state;
    nn_input_bytes(shape, bytes, 0.5f, got);
    assert_memory_equal(got, wanted, sizeof(got));
    for (k = 0; k < 12; k++)
        values[k] = (float)bytes[k];
    nn_input_values(shape, values, 0.5f, got);
    assert_memory_equal(got, wanted, sizeof(got));
}

/* A single plane stays in order. */
static void nn_input_of_one_channel_stays(void **state)
{
    static const uint8_t bytes[] = {7, 0, 255, 4};
    static const float wanted[] = {14, 0, 510, 8};
    struct nn_shape shape = {.channels = 1, .height = 4, .width = 1};
    float got[4];

    (void)state;
    nn_input_bytes(shape, bytes, 2, got);
    assert_memory_equal(got, wanted, sizeof(got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nn_input_puts_channels_last),
        cmocka_unit_test(nn_input_of_one_channel_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
