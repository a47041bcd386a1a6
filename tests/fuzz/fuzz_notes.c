/* Any bytes as notes of a run: refused with a place and words, or what is made
 * of them is fine itself, has each tag once, and changes no more. */
#include "api/view/notes.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/fuzz/must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tags(const json_t *notes)
{
    const json_t *tags = notes_tags(notes);

    must(json_array_size(tags) <= NOTES_TAGS_MAX);
    for (size_t i = 0; i < json_array_size(tags); i++) {
        const char *tag = json_string_value(json_array_get(tags, i));

        must(tag && *tag && strlen(tag) <= NOTES_TAG_MAX);
        must(!strpbrk(tag, " ,\n\t\x7f\x1b"));
        must(notes_has_tag(notes, tag));
        for (size_t k = 0; k < i; k++)
            must(strcmp(tag, json_string_value(json_array_get(tags, k))) != 0);
    }
}

static void use(const json_t *json)
{
    struct response_faults faults = {0};
    json_t *now = notes_changed(NULL, json), *again;

    must(now != NULL);
    must(notes_check(now, &faults));
    again = notes_changed(now, json);
    must(json_equal(now, again));
    check_tags(now);
    must(!notes_text(now) ||
         (*notes_text(now) && strlen(notes_text(now)) <= NOTES_TEXT_MAX));
    json_decref(now);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct response_faults faults = {0};
    json_t *json = NULL;

    if (json_load((const char *)data, size, &json, NULL, NULL) != ERR_OK)
        return 0;
    if (notes_check(json, &faults))
        use(json);
    else
        must(faults.len > 0 && faults.item[0].detail[0]);
    json_decref(json);
    return 0;
}
