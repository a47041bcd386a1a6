/* Decimal numbers out of a text, fast where they are short.
 *
 * Every text ends with a character that belongs to no number, which stops the
 * loops. Pure functions.
 */
#ifndef APPS_DATA_NUMBER_H
#define APPS_DATA_NUMBER_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_DIGITS_MAX = 18, /* more go through strtod */
    NUMBER_CHARS_MAX = 63   /* of a number: longer ones are none */
};

static inline bool number_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Any decimal number that strtod knows, copied so that it ends; for what the
 * fast path below leaves. */
static inline const char *number_pass_odd(const char *p, double *out)
{
    char copy[NUMBER_CHARS_MAX + 1];
    char *end;
    size_t n = 0;

    while (n < NUMBER_CHARS_MAX &&
           (number_digit(p[n]) || (p[n] && strchr("+-.eE", p[n])))) {
        copy[n] = p[n];
        n++;
    }
    copy[n] = '\0';
    *out = strtod(copy, &end);
    return n == 0 || end != copy + n ? NULL : p + n;
}

/* The number at @p (digits, point, exponent, a sign before), rounded once.
 * Returns what follows it, or NULL where there is none. It may be infinite. */
static inline const char *number_pass(const char *p, double *out)
{
    static const double power[] = {1,    1e1,  1e2,  1e3,  1e4,  1e5,  1e6,
                                   1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                                   1e14, 1e15, 1e16, 1e17, 1e18};
    const char *begin = p;
    bool negative = *p == '-';
    int64_t digits = 0, mantissa = 0;
    int64_t fraction = 0;

    p += negative;
    for (; number_digit(*p) && digits < NUMBER_DIGITS_MAX; p++, digits++)
        mantissa = mantissa * 10 + (*p - '0');
    if (*p == '.') {
        p++;
        for (; number_digit(*p) && digits < NUMBER_DIGITS_MAX; p++, digits++) {
            mantissa = mantissa * 10 + (*p - '0');
            fraction++;
        }
    }
    /* A mantissa beyond 2^53 would round twice. */
    if (digits == 0 || mantissa > (int64_t)1 << 53 || number_digit(*p) ||
        *p == 'e' || *p == 'E' || *p == '+')
        return number_pass_odd(begin, out);
    *out = (double)mantissa / power[fraction];
    if (negative)
        *out = -*out;
    return p;
}

#endif
