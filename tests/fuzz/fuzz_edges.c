/* Any bytes, compressed or not: the reader of edges refuses them with a reason
 * that names the file, or gives edges between its nodes that, written out
 * plainly, read back the same. */
#include "apps/formats/data_edges.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUZZ_LIMIT = 64 << 20, FUZZ_LINE = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err read_all(const void *bytes, size_t n, struct edges *g,
                         struct fault *f)
{
    struct data_stream *stream;
    enum err err = data_stream_memory("fuzz", bytes, n, &stream, f);

    if (err)
        return err;
    err = edges_read(g, stream, FUZZ_LIMIT, f);
    data_stream_close(stream);
    return err;
}

static void round_trip(const struct edges *g)
{
    char *text = malloc(g->count * FUZZ_LINE), *p = text;
    struct edges again = {0};

    if (!text)
        abort();
    for (uint64_t i = 0; i < g->count; i++) {
        if (g->from[i] >= g->nodes.count || g->to[i] >= g->nodes.count)
            abort();
        p += snprintf(p, FUZZ_LINE, "%" PRId64 "\t%" PRId64 "\n",
                      g->nodes.id[g->from[i]], g->nodes.id[g->to[i]]);
    }
    if (read_all(text, (size_t)(p - text), &again, NULL) ||
        again.count != g->count || again.nodes.count != g->nodes.count ||
        memcmp(again.from, g->from, g->count * sizeof(*g->from)) != 0 ||
        memcmp(again.to, g->to, g->count * sizeof(*g->to)) != 0)
        abort();
    edges_deinit(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t before = mem_outstanding();
    struct edges g = {0};
    struct fault fault = {0};

    if (read_all(data, size, &g, &fault) == ERR_OK)
        round_trip(&g);
    else if (!strstr(fault.text, "fuzz"))
        abort();
    edges_deinit(&g);
    if (mem_outstanding() != before)
        abort();
    return 0;
}
