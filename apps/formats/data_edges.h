/* Graphs: directed edges between nodes, and the parser of their text form.
 *
 * An edge a line, two node ids separated by tabs, spaces or a comma, as SNAP
 * has them; lines that begin with '#' or '%' are comments. Ids are any integers
 * from 0 to 2^63 - 1; inside, nodes are numbered densely in order of first
 * appearance. Edges that occur twice, and those of a node to itself, are kept.
 */
#ifndef APPS_DATA_EDGES_H
#define APPS_DATA_EDGES_H

#include "apps/formats/data_stream.h"
#include "apps/formats/id_map.h"
#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

/* Zeroed: empty. */
struct edges {
    uint64_t count;
    uint32_t *from, *to; /* [count] dense numbers: owned */
    struct id_map nodes;
    size_t from_room, to_room;
};

void edges_deinit(struct edges *g);

/* Appends an edge between two outside ids >= 0. Errors: ERR_NOMEM, ERR_LIMIT
 * (2^32 - 1 nodes). */
enum err edges_add(struct edges *g, int64_t from, int64_t to);

/* Appends what @stream holds to @g. On error @g is fit for edges_deinit only;
 * @f names file, line, what was expected and found. Errors: those of the
 * stream, ERR_FORMAT, ERR_LIMIT (memory beyond @limit_bytes, 2^32 - 1 nodes),
 * ERR_NOMEM. Cost: one pass, about 50 ns an edge. */
enum err edges_read(struct edges *g, struct data_stream *stream,
                    uint64_t limit_bytes, struct fault *f);

#endif
