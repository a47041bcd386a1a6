/* The members of the searcher protocol's lines, as tables that both ends write
 * and read by (base/json/fields.h).
 *
 * Members that are any value are borrowed: from the line that was read, or from
 * whoever writes it. What a reader can do without is optional. Internal to the
 * protocol's codec (searcher_protocol.c).
 */
#ifndef SEARCHERS_SEARCHER_LINES_H
#define SEARCHERS_SEARCHER_LINES_H

#include "base/json/fields.h"
#include "searchers/process/searcher_protocol.h"

/* ---- requests ------------------------------------------------------------ */

/* A setting by names and by axes. */
struct point_line {
    json_t *setting, *unit;
};

/* A request: of each kind the members of its table. */
struct request_line {
    enum lines_kind type;
    uint64_t id;
    uint64_t protocol;
    uint64_t seed;
    json_t *space, *axes, *settings;
    json_t *running, *incumbent;
    uint64_t trial;
    struct point_line point;
    enum outcome outcome;
    double speed, resource;
};

extern const struct json_field line_type[];  /* the kind alone */
extern const struct json_field line_point[]; /* of a point_line */

/* By kind. */
extern const struct json_field *const line_request[];

/* ---- answers ------------------------------------------------------------- */

/* An answer: the number of its request, and what that asked for. */
struct answer_line {
    uint64_t id;
    json_t *error;
    uint64_t protocol;
    const char *name, *summary;
    json_t *settings;
    bool wait, exhausted;
    json_t *setting, *unit;
};

/* The number; what else there is, by what was asked and is answered. */
extern const struct json_field line_id[];
extern const struct json_field line_error[];
extern const struct json_field line_welcome[]; /* to hello; and, if it has */
extern const struct json_field line_schema[];  /* settings */
extern const struct json_field line_wait[];    /* to ask: one of these */
extern const struct json_field line_exhausted[];
extern const struct json_field line_setting[];
extern const struct json_field line_proposal[]; /* all of them, to be read */

#endif
