#include "api/view/notes.h"

#include "base/text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define TAG_EXPECTED                                                           \
    "expected 1 to %d bytes without spaces, commas and control characters"

/* The text of @json, whole: a NUL may stand in one. */
static const char *text_in(const json_t *json, size_t *len)
{
    const char *text = json_string_value(json);

    *len = json_string_length(json);
    return text && strlen(text) == *len && text_is_utf8(text) ? text : NULL;
}

/* Ends of lines and tabs are fine in a note. */
static bool has_control(const char *text, const char *fine)
{
    for (; *text; text++)
        if (((unsigned char)*text < 0x20 && !strchr(fine, *text)) ||
            *text == 0x7f)
            return true;
    return false;
}

static bool is_tag(const json_t *json)
{
    size_t len;
    const char *text = text_in(json, &len);

    return text && len > 0 && len <= NOTES_TAG_MAX && !strpbrk(text, " ,") &&
           !has_control(text, "");
}

static void check_tags(const json_t *tags, struct response_faults *faults)
{
    char pointer[32];
    size_t i;
    const json_t *tag;

    if (!json_is_array(tags) || json_array_size(tags) > NOTES_TAGS_MAX) {
        response_fault_add(faults, "/tags",
                           "expected a list of at most %d tags",
                           NOTES_TAGS_MAX);
        return;
    }
    json_array_foreach((json_t *)tags, i, tag)
    {
        snprintf(pointer, sizeof(pointer), "/tags/%zu", i);
        if (!is_tag(tag))
            response_fault_add(faults, pointer, TAG_EXPECTED, NOTES_TAG_MAX);
    }
}

static void check_note(const json_t *note, struct response_faults *faults)
{
    size_t len;
    const char *text = text_in(note, &len);

    if (json_is_null(note))
        return;
    if (!text || len > NOTES_TEXT_MAX)
        response_fault_add(faults, "/note",
                           "expected text of at most %d bytes, or null",
                           NOTES_TEXT_MAX);
    else if (has_control(text, "\n\t"))
        response_fault_add(faults, "/note",
                           "expected no control characters but ends of lines "
                           "and tabs");
}

bool notes_check(const json_t *json, struct response_faults *faults)
{
    size_t before = faults->len;
    const char *name;
    json_t *value;

    if (!json_is_object(json) || json_object_size(json) == 0) {
        response_fault_add(faults, "",
                           "expected an object such as {\"tags\": "
                           "[\"baseline\"], \"note\": \"the first one\"}");
        return false;
    }
    json_object_foreach((json_t *)json, name, value)
    {
        char pointer[80];

        if (strcmp(name, "tags") == 0)
            check_tags(value, faults);
        else if (strcmp(name, "note") == 0)
            check_note(value, faults);
        else {
            snprintf(pointer, sizeof(pointer), "/%.70s", name);
            text_to_utf8(pointer);
            response_fault_add(faults, pointer,
                               "unknown; notes are `tags` and `note`");
        }
    }
    return faults->len == before;
}

/* Each of @tags once; new. */
static json_t *each_once(const json_t *tags)
{
    json_t *out = json_array(), *kept = json_pack("{s:o}", "tags", out);
    const json_t *tag;
    size_t i;

    json_array_foreach((json_t *)tags, i, tag)
    {
        if (kept && !notes_has_tag(kept, json_string_value(tag)) &&
            json_array_append(out, (json_t *)tag) != 0) {
            json_decref(kept);
            kept = NULL;
        }
    }
    if (kept)
        json_incref(out);
    json_decref(kept);
    return kept ? out : NULL;
}

json_t *notes_changed(const json_t *had, const json_t *change)
{
    const json_t *tags = json_object_get(change, "tags");
    const json_t *note = json_object_get(change, "note");

    if (!tags)
        tags = json_object_get(had, "tags");
    if (!note)
        note = json_object_get(had, "note");
    if (json_string_length(note) == 0)
        note = NULL;
    return json_pack("{s:o, s:o}", "tags", each_once(tags), "note",
                     note ? json_incref((json_t *)note) : json_null());
}

const json_t *notes_tags(const json_t *notes)
{
    return json_object_get(notes, "tags");
}

const char *notes_text(const json_t *notes)
{
    return json_string_value(json_object_get(notes, "note"));
}

bool notes_has_tag(const json_t *notes, const char *tag)
{
    const json_t *one;
    size_t i;

    assert(tag);
    json_array_foreach((json_t *)notes_tags(notes), i, one)
    {
        if (strcmp(json_string_value(one), tag) == 0)
            return true;
    }
    return false;
}
