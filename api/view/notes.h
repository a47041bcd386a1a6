/* Notes: what people write to a run, so that they find it again: tags, and a
 * text. As JSON {"tags": ["baseline", "paper"], "note": "..."}, which is also
 * what a run's file of them has, beside a version (base/run_files.h).
 *
 * A tag has 1 to NOTES_TAG_MAX bytes of UTF-8 without spaces, commas and
 * control characters, so that it can be typed beside others. Pure.
 */
#ifndef API_NOTES_H
#define API_NOTES_H

#include "api/http/response.h"

#include <jansson.h>
#include <stdbool.h>

enum {
    NOTES_TAGS_MAX = 16,
    NOTES_TAG_MAX = 40,   /* bytes */
    NOTES_TEXT_MAX = 4000 /* bytes */
};

/* True: @json is an object of `tags`, `note` or both, each as above, the note
 * text or null. Else @faults gets what is wrong, with pointers from "" on. */
bool notes_check(const json_t *json, struct response_faults *faults);

/* What @had (NULL: nothing) is once @change, which notes_check takes, is made:
 * members that it leaves out stay, a tag that comes twice is there once, a note
 * of null or "" is null. New, with both members; NULL: no memory. */
json_t *notes_changed(const json_t *had, const json_t *change);

/* The tags and the note of @notes, borrowed; NULL: none. Never JSON null. */
const json_t *notes_tags(const json_t *notes);
const char *notes_text(const json_t *notes);

/* Whether @notes has the tag @tag. */
bool notes_has_tag(const json_t *notes, const char *tag);

#endif
