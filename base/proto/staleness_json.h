/* Histograms of staleness as JSON: in beats, in a run's records.
 */
#ifndef BASE_STALENESS_JSON_H
#define BASE_STALENESS_JSON_H

#include "base/proto/staleness.h"

#include <jansson.h>
#include <stdbool.h>

/* {"least": -4, "counts": [3, 0, 17], "sum": -29}: reads from the stalest on
 * that was seen. NULL: out of memory. */
json_t *staleness_to_json(const struct staleness *s);

/* The reverse. False, @out as it was: @value is none, or its numbers cannot be
 * of one histogram. */
bool staleness_from_json(const json_t *value, struct staleness *out);

#endif
