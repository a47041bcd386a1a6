#include "api/http/value.h"

#include "base/json/json.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

json_t *value_text(const char *s)
{
    size_t len = strlen(s);

    assert(s);
    /* A text that was cut to fit its field may end in part of a character, at
     * most three bytes of it. */
    for (size_t cut = 0; cut < 4 && cut <= len; cut++) {
        if (text_bytes_are_utf8(s, len - cut))
            return json_stringn(s, len - cut);
    }
    return json_string("");
}

json_t *value_text_or_null(const char *s)
{
    assert(s);
    return s[0] ? value_text(s) : json_null();
}

json_t *value_number(double number)
{
    return json_of_number(number);
}

json_t *value_number_or_null(double number)
{
    return isnan(number) ? json_null() : json_of_number(number);
}

json_t *value_time(double unix_s)
{
    char text[64];
    struct tm tm;
    double whole;
    time_t t;
    int ms;

    if (!(unix_s >= 0 && unix_s < 253402300799.0))
        return json_null();
    ms = (int)(modf(unix_s, &whole) * 1000);
    t = (time_t)whole;
    gmtime_r(&t, &tm);
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
             tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
             tm.tm_min, tm.tm_sec, ms);
    return json_string(text);
}

json_t *value_own(const json_t *value)
{
    return value ? json_copied(value) : json_null();
}
