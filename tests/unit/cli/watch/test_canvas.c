/* The canvas and the curve on it: what is put where, cut, and made harmless. */
#include "base/mem.h"
#include "cli/watch/canvas.h"
#include "cli/watch/chart.h"
#include "tests/unit/fixture/check.h"

#include <locale.h>
#include <math.h>

/* Row @y of @c without styles. */
static const char *row(const struct canvas *c, int y)
{
    static struct text line;

    text_deinit(&line);
    canvas_row(c, y, false, false, &line);
    return line.s ? line.s : "";
}

static int forget_row(void **state)
{
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 1, 1, false), ERR_OK);
    row(&c, 0);
    canvas_deinit(&c);
    return 0;
}

static int use_utf8(void **state)
{
    (void)state;
    return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

/* Text that does not fit ends in an ellipsis; what lies outside is not put. */
static void canvas_text_is_cut(void **state)
{
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 10, 2, false), ERR_OK);
    assert_int_equal(canvas_put(&c, 1, 0, 8, STYLE_PLAIN, "abcdefghij"), 8);
    assert_string_equal(row(&c, 0), " abcdef\u2026");
    assert_int_equal(canvas_put(&c, 0, 1, 99, STYLE_PLAIN, "0123456789"), 10);
    assert_string_equal(row(&c, 1), "0123456789");
    canvas_put(&c, 0, 2, 10, STYLE_PLAIN, "below");
    canvas_put(&c, -1, 0, 10, STYLE_PLAIN, "left");
    canvas_put(&c, 10, 0, 20, STYLE_PLAIN, "right");
    assert_string_equal(row(&c, 0), " abcdef\u2026");
    canvas_deinit(&c);
    assert_int_equal(canvas_init(&c, 10, 1, true), ERR_OK);
    canvas_put(&c, 0, 0, 6, STYLE_PLAIN, "abcdefgh");
    assert_string_equal(row(&c, 0), "abc...");
    canvas_deinit(&c);
}

/* Nothing that a terminal acts on reaches it: control characters of both kinds,
 * escapes, broken UTF-8, marks that turn the direction of writing. */
static void canvas_text_is_harmless(void **state)
{
    static const char nasty[] = "a\033[2Jb\rc\x7f"
                                "d\xc2\x9b"
                                "e\xff\xc3"
                                "f\u202eg\u200bh";
    struct text out = {0};
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 40, 1, false), ERR_OK);
    canvas_put(&c, 0, 0, 40, STYLE_PLAIN, nasty);
    assert_string_equal(row(&c, 0), "a?[2Jb?c?d?e??fgh");
    canvas_deinit(&c);
    canvas_harmless(nasty, false, &out);
    assert_string_equal(out.s, "a?[2Jb?c?d?e??fgh");
    text_deinit(&out);
    canvas_harmless("x\u00e9\u4e2dy\033", true, &out);
    assert_string_equal(out.s, "x??y?");
    text_deinit(&out);
}

/* Wide characters take two columns and are never cut in half. */
static void canvas_wide_characters_take_two_columns(void **state)
{
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 6, 1, false), ERR_OK);
    assert_int_equal(canvas_width_of(&c, "\u4e2d\u6587x"), 5);
    canvas_put(&c, 0, 0, 6, STYLE_PLAIN, "\u4e2d\u6587\u4e2d\u6587");
    assert_string_equal(row(&c, 0), "\u4e2d\u6587\u2026");
    canvas_deinit(&c);
}

/* Lines are broken at spaces; a word that is too long is cut; the last row ends
 * in an ellipsis. */
static void canvas_wraps_at_spaces(void **state)
{
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 10, 4, false), ERR_OK);
    assert_int_equal(canvas_wrap(&c, 2, 0, 10, 4, STYLE_PLAIN,
                                 "one two  three fourteenletters x"),
                     4);
    assert_string_equal(row(&c, 0), "  one two");
    assert_string_equal(row(&c, 1), "  three");
    assert_string_equal(row(&c, 2), "  fourteen");
    assert_string_equal(row(&c, 3), "  letters\u2026");
    assert_int_equal(canvas_wrap(&c, 0, 3, 10, 3, STYLE_PLAIN, "no room"), 3);
    canvas_deinit(&c);
}

/* Styles are switched where they change and end with the row; without colours
 * none is used. */
static void canvas_rows_carry_styles(void **state)
{
    struct text out = {0};
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 8, 1, false), ERR_OK);
    canvas_put(&c, 0, 0, 8, STYLE_BAD, "ab");
    canvas_put(&c, 2, 0, 8, STYLE_PLAIN, "c");
    canvas_row(&c, 0, true, true, &out);
    assert_string_equal(out.s, "\033[0;31mab\033[0mc");
    text_deinit(&out);
    canvas_row(&c, 0, true, false, &out);
    assert_string_equal(out.s, "\033[0;1mab\033[0mc");
    text_deinit(&out);
    canvas_bar(&c, 0, 0, 8, STYLE_TITLE);
    canvas_row(&c, 0, true, true, &out);
    assert_string_equal(out.s, "\033[0;7m        \033[0m");
    text_deinit(&out);
    canvas_deinit(&c);
}

/* A size that no terminal has is cut to the limits. */
static void canvas_size_is_bounded(void **state)
{
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 0, -3, false), ERR_OK);
    assert_int_equal(c.width * 10 + c.height, 11);
    canvas_deinit(&c);
    assert_int_equal(canvas_init(&c, 65535, 65535, false), ERR_OK);
    assert_int_equal(c.width, CANVAS_WIDTH_MAX);
    assert_int_equal(c.height, CANVAS_HEIGHT_MAX);
    canvas_deinit(&c);
    mem_fail_at(1, 0);
    assert_int_equal(canvas_init(&c, 8, 8, false), ERR_NOMEM);
    mem_fail_at(0, 0);
}

/* ---- curves -------------------------------------------------------------- */

static const double xs[] = {0, 10}, down[] = {1, 0};
static const unsigned one[] = {1, 1};

/* A line from the upper left to the lower right corner, with its scale. */
static void chart_line_goes_through_its_corners(void **state)
{
    const struct chart chart = {
        .x_from = 0, .x_to = 10, .line = {2, xs, down, one}, .x_unit = "clock"};
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, CHART_LEFT + 4, 3, true), ERR_OK);
    assert_false(chart_draw(&c, 0, 0, c.width, 3, &chart));
    assert_string_equal(row(&c, 0), "       1 |'.");
    assert_string_equal(row(&c, 1), "       0 |  '.");
    canvas_deinit(&c);
    assert_int_equal(canvas_init(&c, CHART_LEFT + 2, 3, false), ERR_OK);
    chart_draw(&c, 0, 0, c.width, 3, &chart);
    assert_string_equal(row(&c, 0), "       1 \u2502\u28a3");
    canvas_deinit(&c);
}

/* A loss that spans more than a factor of 20 is drawn by its logarithm, what
 * has a zero is not; one value has a scale around it. */
static void chart_scale_follows_the_line(void **state)
{
    const double steep[] = {100, 1}, zero[] = {100, 0}, same[] = {5, 5};
    struct chart chart = {
        .x_from = 0, .x_to = 10, .line = {2, xs, steep, one}, .x_unit = "c"};
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 40, 6, false), ERR_OK);
    assert_true(chart_draw(&c, 0, 0, 40, 6, &chart));
    chart.line.y = zero;
    assert_false(chart_draw(&c, 0, 0, 40, 6, &chart));
    canvas_deinit(&c);
    assert_int_equal(canvas_init(&c, 40, 4, false), ERR_OK);
    chart.line.y = same;
    assert_false(chart_draw(&c, 0, 0, 40, 4, &chart));
    assert_memory_equal(row(&c, 0), "     5.5 ", 9);
    assert_memory_equal(row(&c, 2), "     4.5 ", 9);
    canvas_deinit(&c);
}

/* Infinities, NaN, values far off the scale and clocks outside of it are not
 * drawn, and cost no time. */
static void chart_survives_any_numbers(void **state)
{
    const double wild_x[] = {0, 1, 2, 3, 1e300, -INFINITY, NAN, 5};
    const double wild_y[] = {1, INFINITY, NAN, -1e308, 1e308, 3, 4, 2};
    const unsigned branch[] = {1, 1, 2, 2, 3, 3, 3, 3};
    struct chart chart = {.x_from = 0,
                          .x_to = 5,
                          .line = {2, xs, down, one},
                          .faint = {8, wild_x, wild_y, branch},
                          .x_unit = "c"};
    struct canvas c;

    (void)state;
    assert_int_equal(canvas_init(&c, 60, 10, false), ERR_OK);
    chart_draw(&c, 0, 0, 60, 10, &chart);
    chart.line = chart.faint;
    chart_draw(&c, 0, 0, 60, 10, &chart);
    chart.line.n = chart.faint.n = 0;
    chart_draw(&c, 0, 0, 60, 10, &chart);
    chart.x_to = NAN;
    chart_draw(&c, 0, 0, 60, 10, &chart);
    for (int64_t nth = 1; nth < 4; nth++) {
        mem_fail_at(nth, 0);
        chart_draw(&c, 0, 0, 60, 10, &chart);
        mem_fail_at(0, 0);
    }
    assert_false(chart_draw(&c, 0, 0, 8, 10, &chart));
    canvas_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canvas_text_is_cut),
        cmocka_unit_test(canvas_text_is_harmless),
        cmocka_unit_test(canvas_wide_characters_take_two_columns),
        cmocka_unit_test(canvas_wraps_at_spaces),
        cmocka_unit_test(canvas_rows_carry_styles),
        cmocka_unit_test(canvas_size_is_bounded),
        cmocka_unit_test(chart_line_goes_through_its_corners),
        cmocka_unit_test(chart_scale_follows_the_line),
        cmocka_unit_test(chart_survives_any_numbers),
    };

    return cmocka_run_group_tests(tests, use_utf8, forget_row);
}
