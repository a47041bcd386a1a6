/* The answers that a picture of a run is drawn from, asked for together.
 *
 * Of a server they come one after the other while the caller does other things;
 * what is shown is replaced when all of them are there. One owner thread.
 */
#ifndef CLI_PICTURE_SOURCE_H
#define CLI_PICTURE_SOURCE_H

#include "cli/state/source.h"
#include "cli/watch/picture.h"

#include <poll.h>

enum picture_source_kind {
    DOCS_RUN, /* the first one, also asked for alone */
    DOCS_SEARCHES,
    DOCS_TRIALS,
    DOCS_SCHEDULE,
    DOCS_DECISIONS,
    DOCS_NODES,
    DOCS_CURVE,
    DOCS_COUNT
};

struct picture_source {
    struct source *source; /* borrowed, with the run found */
    char id[RUN_ID_MAX + 1];
    json_t *shown[DOCS_COUNT]; /* owned; NULL: not there yet */
    json_t *fresh[DOCS_COUNT]; /* owned: those that have come */
    bool busy;                 /* some are asked for */
    int next, last;            /* the one that is asked for; the last one */
    int spans;
    bool open;
    struct client_exchange exchange;
};

/* Zeroed but for source and id is empty. */
void picture_source_deinit(struct picture_source *d);

/* Asks for all of them, or (@run_only) for the first one; a curve of @spans. */
void picture_source_ask(struct picture_source *d, bool run_only, int spans);

/* The descriptor to poll, if any (returns 0 or 1). */
nfds_t picture_source_poll(const struct picture_source *d, struct pollfd *out);

/* Goes on. ERR_OK: all that were asked for are there and shown. Errors:
 * ERR_AGAIN not yet, else as source_get's; then nothing is asked for any more.
 */
enum err picture_source_step(struct picture_source *d, struct fault *f);

/* Fills @p with what is shown, borrowed; its note is left. */
void picture_source_picture(const struct picture_source *d, struct picture *p);

#endif
