/* The file of a run's notes (api/view/notes.h): STATE/runs/ID/notes.json, whole
 * or absent. A run that nobody wrote anything to has none. */
#ifndef CLI_NOTES_FILE_H
#define CLI_NOTES_FILE_H

#include "base/fault.h"

#include <jansson.h>
#include <stdint.h>

/* New notes of run @id of the folder @state. Errors: ERR_NOENT there are none;
 * ERR_FORMAT, ERR_VERSION, ERR_IO, ERR_NOMEM. */
enum err notes_file_read(const char *state, const char *id, json_t **out,
                         struct fault *f);

/* Makes @change in the file; one that is damaged, or a later mltune's, is left
 * alone. *@out: what it has now, new. Errors: as both of the above, without
 * ERR_NOENT; ERR_INVAL notes_check takes no such change. */
enum err notes_file_change(const char *state, const char *id,
                           const json_t *change, json_t **out, struct fault *f);

/* Says that notes_file_read failed, in the log; not where there are none. */
void notes_file_tell(const char *id, const struct fault *f, enum err err);

/* A number of the file that is another once it was written anew; 0: there is
 * none. */
uint64_t notes_file_mark(const char *state, const char *id);

#endif
