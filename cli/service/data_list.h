/* What the service's data folder holds: names to choose `app.data` from.
 *
 * Files and folders, those in folders two deep, in the order of their names.
 * Nothing hidden, no link, nothing special, and not the service's own state
 * folder.
 */
#ifndef CLI_DATA_LIST_H
#define CLI_DATA_LIST_H

#include "api/http/response.h"
#include "cli/service/upload.h"

enum { DATA_LIST_MAX = 1000, DATA_LIST_DEPTH = 2 };

/* Answers with at most DATA_LIST_MAX of them; `more` says that there are
 * others. A folder that cannot be read holds nothing. */
void data_list(const struct upload_place *p, struct response *out);

#endif
