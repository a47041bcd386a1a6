#include "apps/nn/nn_input.h"

#include "tests/unit/fixture/check.h"

/* Planes become channels beside one another, bytes scaled and moved. */
static void nn_input_puts_channels_last(void **state)
{
    static const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 255};
    static const float moved[] = {1,    8,  1.5f, 9,  2,    10,
                                  2.5f, 11, 3,    12, 3.5f, 253};
    static const float plain[] = {0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 255};
    static const float scale[] = {0.5f, 1}, offset[] = {1, -2};
    struct nn_shape shape = {.channels = 2, .height = 2, .width = 3};
    float values[12], got[12];
    int k;

    (void)state;
    nn_input_bytes(shape, bytes, scale, offset, got);
    assert_memory_equal(got, moved, sizeof(got));
    for (k = 0; k < 12; k++)
        values[k] = (float)bytes[k];
    nn_input_values(shape, values, got);
    assert_memory_equal(got, plain, sizeof(got));
}

/* A single plane stays in order. */
static void nn_input_of_one_channel_stays(void **state)
{
    static const uint8_t bytes[] = {7, 0, 255, 4};
    static const float wanted[] = {13, -1, 509, 7};
    static const float scale[] = {2}, offset[] = {-1};
    struct nn_shape shape = {.channels = 1, .height = 4, .width = 1};
    float got[4];

    (void)state;
    nn_input_bytes(shape, bytes, scale, offset, got);
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
