#include "apps/samples/csv_field.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool csv_is_missing(const char *text)
{
    static const char *const words[] = {"", "?", "NA", "N/A", "NaN", "null"};
    size_t i;

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

/* Up to 15 digits are exact in a double, and so is one division by a power of
 * ten up to 10^22. */
bool csv_number(const char *text, double *out)
{
    static const double power[] = {1,    1e1,  1e2,  1e3, 1e4,  1e5,
                                   1e6,  1e7,  1e8,  1e9, 1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15};
    const char *p = text + (*text == '-' || *text == '+');
    int64_t mantissa = 0;
    int digits = 0, fraction = 0;
    char *end;

    for (; isdigit((unsigned char)*p) && digits < 15; p++, digits++)
        mantissa = mantissa * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; isdigit((unsigned char)*p) && digits < 15; p++, digits++) {
            mantissa = mantissa * 10 + (*p - '0');
            fraction++;
        }
    }
    if (*p == '\0' && digits > 0) {
        *out = (double)mantissa / power[fraction];
        *out = *text == '-' ? -*out : *out;
        return true;
    }
    if (*text == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0')
        return false;
    *out = strtod(text, &end);
    return *end == '\0';
}

bool csv_is_almost_number(const char *text)
{
    const char *comma = strchr(text, ',');
    char point[CSV_NAME_ROOM], *end;
    double value;

    if (*text == '\0' || strlen(text) > CSV_NAME_BYTES_MAX)
        return false;
    (void)strtod(text, &end);
    if (*end == '\0' && !csv_number(text, &value))
        return true;
    if (!comma)
        return false;
    memcpy(point, text, strlen(text) + 1);
    point[comma - text] = '.';
    return csv_number(point, &value);
}

bool csv_is_name(const char *text)
{
    return strlen(text) <= CSV_NAME_BYTES_MAX && !strpbrk(text, "\r\n");
}

void csv_name(const char *text, char out[CSV_NAME_ROOM])
{
    double value;

    _Static_assert((int)CSV_NAME_ROOM >= (int)TEXT_NUMBER_MAX, "room");
    assert(csv_is_name(text));
    if (csv_number(text, &value) && isfinite(value))
        text_number(value == 0 ? 0.0 : value, out); /* one zero */
    else
        snprintf(out, CSV_NAME_ROOM, "%s", text);
}

const char *csv_excerpt(const char *text, char out[CSV_EXCERPT_ROOM])
{
    size_t n;

    for (n = 0; n < CSV_EXCERPT_MAX && text[n]; n++)
        out[n] = isprint((unsigned char)text[n]) ? text[n] : '?';
    out[n] = '\0';
    if (n == CSV_EXCERPT_MAX)
        memcpy(out + n, "...", 4);
    return out;
}

/* ---- order --------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_value(const void *a, const void *b)
{
    double x = 0, y = 0;

    csv_number(*(char *const *)a, &x);
    csv_number(*(char *const *)b, &y);
    return x == y ? by_text(a, b) : (x > y) - (x < y);
}

void csv_sort_names(char **name, unsigned n)
{
    bool numbers = true;
    double value;

    for (unsigned i = 0; i < n && numbers; i++)
        numbers = csv_number(name[i], &value);
    if (n > 1)
        qsort((void *)name, n, sizeof(char *), numbers ? by_value : by_text);
}
