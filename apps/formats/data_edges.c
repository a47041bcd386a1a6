#include "apps/formats/data_edges.h"

#include "apps/formats/data_number.h"
#include "apps/formats/data_text.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { EDGE_BYTES = 8 };

static const char an_id[] = "the id of a node (an integer from 0 to 2^63 - 1)";

struct edges_reader {
    struct edges *g;
    struct data_text *t;
    uint64_t limit_bytes;
};

void edges_deinit(struct edges *g)
{
    mem_free(g->from);
    mem_free(g->to);
    id_map_deinit(&g->nodes);
    memset(g, 0, sizeof(*g));
}

enum err edges_add(struct edges *g, int64_t from, int64_t to)
{
    enum err err;

    if (mem_grow((void **)&g->from, &g->from_room, sizeof(*g->from),
                 g->count + 1) ||
        mem_grow((void **)&g->to, &g->to_room, sizeof(*g->to), g->count + 1))
        return ERR_NOMEM;
    err = id_map_add(&g->nodes, from, &g->from[g->count]);
    if (!err)
        err = id_map_add(&g->nodes, to, &g->to[g->count]);
    g->count += !err;
    return err;
}

/* Digits up to 2^63 - 1; NULL where there are none, or more. */
static const char *pass_id(const char *p, int64_t *out)
{
    const char *begin = p;
    uint64_t v = 0;

    for (; number_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (v > ((uint64_t)INT64_MAX - digit) / 10)
            return NULL;
        v = v * 10 + digit;
    }
    *out = (int64_t)v;
    return p == begin ? NULL : p;
}

static enum err read_id(struct edges_reader *rd, int64_t *out)
{
    const char *p = data_text_skip_blanks(rd->t);
    const char *end = pass_id(p, out);

    if (!end)
        return data_text_expected(rd->t, an_id);
    data_text_go(rd->t, end);
    return ERR_OK;
}

/* Blanks, with a comma among them or not. */
static enum err pass_separator(struct edges_reader *rd)
{
    char behind = *data_text_at(rd->t);
    const char *p = data_text_skip_blanks(rd->t);

    if (*p == ',') {
        data_text_go(rd->t, p + 1);
        return ERR_OK;
    }
    return behind == ' ' || behind == '\t'
               ? ERR_OK
               : data_text_expected(rd->t, "a blank or a comma behind the id");
}

/* Arrays grow by doubling: what they will need is asked for before. */
static enum err check_room(const struct edges_reader *rd)
{
    const struct edges *g = rd->g;
    uint64_t map = id_map_bytes(&g->nodes);

    if (g->count < g->from_room && map <= rd->limit_bytes / 2)
        return ERR_OK;
    return data_memory_check(data_stream_name(rd->t->s),
                             2 * g->count * EDGE_BYTES + 2 * map,
                             rd->limit_bytes, rd->t->f);
}

static enum err read_edge(struct edges_reader *rd)
{
    int64_t from = 0, to = 0;
    enum err err = read_id(rd, &from);

    if (!err)
        err = pass_separator(rd);
    if (!err)
        err = read_id(rd, &to);
    if (!err && !data_text_pass_line_end(rd->t))
        err = data_text_expected(rd->t,
                                 "the end of the line (an edge is two ids)");
    if (!err)
        err = check_room(rd);
    if (err)
        return err;
    err = edges_add(rd->g, from, to);
    return err ? fault_set(rd->t->f, err, "%s: line %" PRIu64 ": %s",
                           data_stream_name(rd->t->s), rd->t->line,
                           err == ERR_LIMIT ? "more than 2^32 - 1 nodes"
                                            : err_text(err))
               : ERR_OK;
}

static enum err read_lines(struct edges_reader *rd)
{
    enum err err = ERR_OK;

    while (!err && !data_text_ended(rd->t)) {
        char c = *data_text_skip_blanks(rd->t);

        if (c == '#' || c == '%')
            data_text_skip_line(rd->t);
        if (!data_text_pass_line_end(rd->t))
            err = read_edge(rd);
    }
    return err ? err : rd->t->err;
}

enum err edges_read(struct edges *g, struct data_stream *stream,
                    uint64_t limit_bytes, struct fault *f)
{
    struct edges_reader rd = {g, data_text_new(stream, f), limit_bytes};
    uint64_t before = g->count;
    enum err err;

    if (!rd.t)
        return ERR_NOMEM;
    err = read_lines(&rd);
    data_text_free(rd.t);
    if (!err && g->count == before)
        err = fault_set(f, ERR_FORMAT, "%s: no edge in it",
                        data_stream_name(stream));
    return err;
}
