#include "base/bytes.h"
#include "base/rng.h"
#include "ps/nodes/float16.h"
#include "tests/unit/fixture/check.h"

#include <math.h>
#include <stdbool.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static bool is_nan(uint16_t h)
{
    return (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* Meaning of the bits by IEEE 754, in arithmetic. */
static double meaning(uint16_t h)
{
    int exponent = h >> 10 & 0x1f;
    double m = (h & 0x3ff) / 1024.0;
    double x = exponent ? ldexp(1 + m, exponent - 15) : ldexp(m, -14);

    return h & 0x8000 ? -x : x;
}

/* Every 16-bit float means what the standard says and comes back as it was. */
static void float16_every_value_round_trips(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float x = float16_to_float((uint16_t)h);

        assert_int_equal(float16_from_float(x) & 0x7dff, h & 0x7dff);
        if (is_nan((uint16_t)h)) {
            assert_true(isnan(x));
            assert_true(is_nan(float16_from_float(x)));
        } else if ((h & 0x7fff) == 0x7c00) {
            assert_true(isinf(x) && !signbit(x) == !(h & 0x8000));
        } else {
            assert_true((double)x == meaning((uint16_t)h));
            assert_int_equal(float16_from_float(x), h);
        }
    }
}

/* Between two neighbours the nearer is taken; in the middle the even one. */
static void float16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float low = float16_to_float((uint16_t)h);
        float high = float16_to_float((uint16_t)(h + 1));
        float middle = (low + high) / 2; /* exact in f32 */

        assert_int_equal(float16_from_float(middle), h & 1 ? h + 1 : h);
        assert_int_equal(float16_from_float(nextafterf(middle, low)), h);
        assert_int_equal(float16_from_float(nextafterf(middle, high)), h + 1);
        assert_int_equal(float16_from_float(-middle),
                         0x8000 | (h & 1 ? h + 1 : h));
    }
    assert_int_equal(float16_from_float(nextafterf(65520, 0)), 0x7bff);
    assert_int_equal(float16_from_float(65520), 0x7c00);
    assert_int_equal(float16_from_float(-1e30F), 0xfc00);
}

/* The error stays within the bound that the header states. */
static void float16_error_is_within_its_bound(void **state)
{
    struct rng rng;

    (void)state;
    rng_init(&rng, 16);
    for (int i = 0; i < 1000000; i++) {
        float x = float_of((uint32_t)rng_next(&rng));
        double a = fabs((double)x), error;

        if (!(a <= 65504))
            continue;
        error =
            fabs((double)float16_to_float(float16_from_float(x)) - (double)x);
        assert_true(error <= (a >= 0x1p-14 ? a * 0x1p-11 : 0x1p-25));
    }
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static uint16_t by_processor(float x)
{
    return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("f16c"))) static float back_by_processor(uint16_t h)
{
    return _cvtsh_ss(h);
}

static bool has_f16c(void)
{
    return __builtin_cpu_supports("f16c");
}
#else
static uint16_t by_processor(float x)
{
    (void)x;
    return 0;
}

static float back_by_processor(uint16_t h)
{
    (void)h;
    return 0;
}

static bool has_f16c(void)
{
    return false;
}
#endif

static void assert_as_processor(uint32_t bits)
{
    uint16_t ours = float16_from_float(float_of(bits));

    if (ours != by_processor(float_of(bits)))
        fail_msg("%08x: %04x, F16C gives %04x", bits, ours,
                 by_processor(float_of(bits)));
}

/* Bit for bit what the processor's own conversion gives, NaN included: around
 * every step of 12 bits of every exponent, and anywhere. */
static void float16_equals_the_processors(void **state)
{
    struct rng rng;

    (void)state;
    if (!has_f16c())
        skip();
    for (uint32_t h = 0; h < 0x10000; h++)
        if (!is_nan((uint16_t)h))
            assert_int_equal(bits_of(float16_to_float((uint16_t)h)),
                             bits_of(back_by_processor((uint16_t)h)));
    for (uint32_t step = 0; step < 1u << 20; step++)
        for (uint32_t off = 0; off < 3; off++)
            assert_as_processor((step << 12) + off - 1);
    rng_init(&rng, 17);
    for (int i = 0; i < 2000000; i++)
        assert_as_processor((uint32_t)rng_next(&rng));
}

/* Packed values are little-endian, at any address. */
static void float16_packs_at_any_address(void **state)
{
    static const float in[3] = {1, -2, 0.5F};
    unsigned char bytes[7];
    float out[3];

    (void)state;
    float16_pack(3, in, bytes + 1);
    assert_int_equal(bytes[1], 0x00);
    assert_int_equal(bytes[2], 0x3c);
    float16_unpack(3, bytes + 1, out);
    assert_memory_equal(in, out, sizeof(in));
}

/* Many values at once are the same bits as one by one, whatever their number.
 */
static void float16_packs_rows_as_single_values(void **state)
{
    enum { N = 100 };
    unsigned char bytes[2 * N + 1];
    float in[N], out[N];
    struct rng rng;

    (void)state;
    rng_init(&rng, 18);
    for (size_t n = 0; n <= N; n++) {
        for (size_t i = 0; i < n; i++)
            in[i] = float_of((uint32_t)rng_next(&rng));
        bytes[2 * n] = 0xa5;
        float16_pack(n, in, bytes);
        float16_unpack(n, bytes, out);
        assert_int_equal(bytes[2 * n], 0xa5);
        for (size_t i = 0; i < n; i++) {
            uint16_t h = bytes_get16(bytes + 2 * i);

            assert_int_equal(h, float16_from_float(in[i]));
            assert_int_equal(bits_of(out[i]), bits_of(float16_to_float(h)));
        }
    }
}

/* Numbers of every width come back, and lie lowest byte first. */
static void bytes_are_little_endian(void **state)
{
    unsigned char b[9];

    (void)state;
    bytes_put64(b + 1, 0x0102030405060708);
    assert_int_equal(b[1], 8);
    assert_int_equal(b[8], 1);
    assert_true(bytes_get64(b + 1) == 0x0102030405060708);
    assert_int_equal(bytes_get32(b + 1), 0x05060708);
    assert_int_equal(bytes_get16(b + 1), 0x0708);
    bytes_put32(b + 1, 0x11223344);
    assert_int_equal(b[1], 0x44);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float16_every_value_round_trips),
        cmocka_unit_test(float16_rounds_to_nearest_even),
        cmocka_unit_test(float16_error_is_within_its_bound),
        cmocka_unit_test(float16_equals_the_processors),
        cmocka_unit_test(float16_packs_at_any_address),
        cmocka_unit_test(float16_packs_rows_as_single_values),
        cmocka_unit_test(bytes_are_little_endian),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
