#include "searchers/process/searcher_lines.h"

#include <stdint.h>

/* ---- kinds of members ---------------------------------------------------- */

/* Members that are any value are borrowed from the line, or from whoever
 * writes it. NULL is not written: it could not be made. */
static json_t *value_put(const void *member)
{
    return json_incref(*(json_t *const *)member);
}

static bool value_get(const json_t *value, void *member)
{
    *(const json_t **)member = value;
    return true;
}

static const struct field_custom value_codec = {value_put, value_get};

/* A value, where NULL is null. */
static json_t *or_null_put(const void *member)
{
    json_t *v = *(json_t *const *)member;

    return v ? json_incref(v) : json_null();
}

static const struct field_custom or_null_codec = {or_null_put, value_get};

/* Words; what is none says nothing. */
static json_t *words_put(const void *member)
{
    return json_string(*(const char *const *)member);
}

static bool words_get(const json_t *value, void *member)
{
    *(const char **)member = json_string_value(value);
    return true;
}

static const struct field_custom words_codec = {words_put, words_get};

/* True or left out; anything else is not true. */
static json_t *truth_put(const void *member)
{
    return json_boolean(*(const bool *)member);
}

static bool truth_get(const json_t *value, void *member)
{
    *(bool *)member = json_is_true(value);
    return true;
}

static const struct field_custom truth_codec = {truth_put, truth_get};

#define VALUE_OF(s, m) FIELD_OF(s, CUSTOM, m), .custom = &value_codec
#define WORDS_OF(s, m) FIELD_OF(s, CUSTOM, m), .custom = &words_codec
#define TRUTH_OF(s, m) FIELD_OF(s, CUSTOM, m), .custom = &truth_codec

static const char *kind_name(unsigned kind)
{
    static const char *const names[] = {"hello", "open", "ask", "tell"};

    return names[kind];
}

static const char *outcome_text(unsigned outcome)
{
    return outcome_name((enum outcome)outcome);
}

#define TYPE_FIELD                                                             \
    {                                                                          \
        FIELD_WITHIN(request_line, ENUM, type, 0, SEARCHER_PROTOCOL_TELL),     \
            .name_of = kind_name                                               \
    }
#define ID_FIELD                                                               \
    {                                                                          \
        FIELD_OF(request_line, U64, id)                                        \
    }

/* Members that a reader can do without are optional. */
const struct json_field line_type[] = {TYPE_FIELD, {.name = NULL}};
static const struct json_field hello_fields[] = {
    TYPE_FIELD,
    ID_FIELD,
    {FIELD_OF(request_line, U64, protocol), .optional = true},
    {.name = NULL},
};
static const struct json_field open_fields[] = {
    TYPE_FIELD,
    ID_FIELD,
    {FIELD_OF(request_line, U64, seed)},
    {VALUE_OF(request_line, space)},
    {VALUE_OF(request_line, axes), .optional = true},
    {VALUE_OF(request_line, settings)},
    {.name = NULL},
};
static const struct json_field ask_fields[] = {
    TYPE_FIELD,
    ID_FIELD,
    {VALUE_OF(request_line, running), .optional = true},
    {FIELD_OF(request_line, CUSTOM, incumbent), .custom = &or_null_codec,
     .optional = true},
    {.name = NULL},
};
const struct json_field line_point[] = {
    {VALUE_OF(point_line, setting)},
    {VALUE_OF(point_line, unit), .optional = true},
    {.name = NULL},
};
static const struct json_field tell_fields[] = {
    TYPE_FIELD,
    {FIELD_OF(request_line, U64, trial)},
    {FIELD_OF(request_line, PART, point), .part = line_point},
    {FIELD_WITHIN(request_line, ENUM, outcome, 0, OUTCOME_COUNT - 1),
     .name_of = outcome_text},
    {FIELD_OF(request_line, REAL, speed)},
    {FIELD_OF(request_line, REAL, resource)},
    {.name = NULL},
};

/* By kind. */
const struct json_field *const line_request[] = {hello_fields, open_fields,
                                                 ask_fields, tell_fields};

const struct json_field line_id[] = {
    {FIELD_OF(answer_line, U64, id)},
    {.name = NULL},
};
const struct json_field line_error[] = {
    {VALUE_OF(answer_line, error), .optional = true},
    {.name = NULL},
};
const struct json_field line_welcome[] = {
    {FIELD_OF(answer_line, U64, protocol)},
    {WORDS_OF(answer_line, name), .optional = true},
    {WORDS_OF(answer_line, summary), .optional = true},
    {.name = NULL},
};
const struct json_field line_schema[] = {
    {VALUE_OF(answer_line, settings), .optional = true},
    {.name = NULL},
};
const struct json_field line_wait[] = {
    {TRUTH_OF(answer_line, wait), .optional = true},
    {.name = NULL},
};
const struct json_field line_exhausted[] = {
    {TRUTH_OF(answer_line, exhausted), .optional = true},
    {.name = NULL},
};
const struct json_field line_setting[] = {
    {VALUE_OF(answer_line, setting), .optional = true},
    {.name = NULL},
};
static const struct json_field unit_fields[] = {
    {VALUE_OF(answer_line, unit), .optional = true},
    {.name = NULL},
};

#define ALL_OF(table)                                                          \
    {                                                                          \
        .name = #table, .kind = FIELD_PART, .part = (table)                    \
    }
const struct json_field line_proposal[] = {
    ALL_OF(line_wait),   ALL_OF(line_exhausted), ALL_OF(line_setting),
    ALL_OF(unit_fields), {.name = NULL},
};
