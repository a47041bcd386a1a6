#include "base/json/json_place.h"

#include "base/json/json.h"
#include "base/text.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    const char *text;
    size_t len, at;
};

struct json_place json_place_at(const char *text, size_t offset)
{
    struct json_place place = {1, 1};

    assert(text);
    for (size_t i = 0; i < offset; i++) {
        place.column++;
        if (text[i] == '\n') {
            place.line++;
            place.column = 1;
        }
    }
    return place;
}

static char peek(const struct scan *s)
{
    return s->at < s->len ? s->text[s->at] : '\0';
}

static void skip_space(struct scan *s)
{
    while (s->at < s->len && strchr(" \t\r\n", s->text[s->at]))
        s->at++;
}

static void skip_string(struct scan *s)
{
    s->at++;
    while (s->at < s->len && s->text[s->at] != '"')
        s->at += s->text[s->at] == '\\' ? 2 : 1;
    s->at++;
}

/* Steps behind the value that starts here; brackets need only be counted, since
 * the text is known to be well formed. */
static void skip_value(struct scan *s)
{
    size_t depth = 0;

    do {
        char c = peek(s);

        if (c == '"') {
            skip_string(s);
        } else if (c == '{' || c == '[') {
            depth++;
            s->at++;
        } else if (c == '}' || c == ']') {
            depth--;
            s->at++;
        } else if (strchr(",: \t\r\n", c)) {
            s->at++;
        } else {
            s->at += strcspn(s->text + s->at, ",:]} \t\r\n");
        }
    } while (depth > 0 && s->at < s->len);
}

static unsigned hex4(const char *s)
{
    char digits[5] = {s[0], s[1], s[2], s[3], 0};

    return (unsigned)strtoul(digits, NULL, 16);
}

/* One character of a string at *@at (which moves), as 1 to 4 bytes. */
static size_t decode(const char *text, size_t *at, char out[4])
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *simple;
    unsigned c;

    if (text[*at] != '\\') {
        out[0] = text[(*at)++];
        return 1;
    }
    if (text[*at + 1] != 'u') {
        simple = strchr(from, text[*at + 1]);
        out[0] = simple ? to[simple - from] : text[*at + 1];
        *at += 2;
        return 1;
    }
    c = hex4(text + *at + 2);
    *at += 6;
    if (c >= 0xd800 && c < 0xdc00) {
        c = 0x10000 + ((c - 0xd800) << 10) + (hex4(text + *at + 2) - 0xdc00);
        *at += 6;
    }
    return text_utf8_write(c, out);
}

/* Whether the string that starts here says @token; steps behind it. */
static bool string_is(struct scan *s, const char *token)
{
    size_t end, at = s->at + 1;
    bool same = true;

    skip_string(s);
    end = s->at - 1;
    while (same && at < end) {
        char bytes[4];
        size_t n = decode(s->text, &at, bytes);

        same = strncmp(token, bytes, n) == 0;
        token += same ? n : 0;
    }
    return same && !*token;
}

/* Steps to the value of member @token of the object here; *@key gets the key's
 * offset. */
static bool enter_object(struct scan *s, const char *token, size_t *key)
{
    s->at++;
    for (skip_space(s); peek(s) == '"'; skip_space(s)) {
        size_t start = s->at;
        bool found = string_is(s, token);

        skip_space(s);
        s->at++; /* the colon */
        skip_space(s);
        if (found) {
            *key = start;
            return true;
        }
        skip_value(s);
        skip_space(s);
        if (peek(s) == ',')
            s->at++;
    }
    return false;
}

static bool enter_array(struct scan *s, const char *token)
{
    char *end;
    uint64_t index = strtoull(token, &end, 10);

    if (end == token || *end)
        return false;
    s->at++;
    for (skip_space(s); s->at < s->len && peek(s) != ']'; skip_space(s)) {
        if (index-- == 0)
            return true;
        skip_value(s);
        skip_space(s);
        if (peek(s) == ',')
            s->at++;
    }
    return false;
}

static void locate(const char *text, size_t len, const char *pointer,
                   size_t *value, size_t *key)
{
    struct scan s = {text, len, 0};
    char token[JSON_POINTER_MAX];

    skip_space(&s);
    *value = *key = s.at;
    while (json_pointer_next(&pointer, token)) {
        size_t at_key = SIZE_MAX;
        bool found = peek(&s) == '{'   ? enter_object(&s, token, &at_key)
                     : peek(&s) == '[' ? enter_array(&s, token)
                                       : false;

        if (!found)
            return;
        *value = s.at;
        *key = at_key == SIZE_MAX ? s.at : at_key;
    }
}

struct json_place json_locate(const char *text, size_t len, const char *pointer)
{
    size_t value, key;

    locate(text, len, pointer, &value, &key);
    assert(value <= len);
    return json_place_at(text, value);
}

struct json_place json_locate_key(const char *text, size_t len,
                                  const char *pointer)
{
    size_t value, key;

    locate(text, len, pointer, &value, &key);
    assert(key <= len);
    return json_place_at(text, key);
}
