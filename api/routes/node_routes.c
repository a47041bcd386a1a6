#include "api/routes/node_routes.h"

#include "api/http/value.h"
#include "api/view/list.h"
#include "api/view/view.h"
#include "base/mem.h"
#include "base/proto/staleness_json.h"

#include <math.h>
#include <string.h>

const struct shape node_shapes[] = {
    {"nodes", "nodes:[node]" SHAPE_PAGE},
    {"node", "node:i alive:b beat_at:t? workers:i branches_live:i "
             "memory:@node_memory branches:[held_branch] seconds:@node_seconds "
             "traffic:@node_traffic rows:@node_rows staleness:@fresh_reads "
             "control:@node_control"},
    {"node_memory", "in_use_bytes:i reserved_bytes:i limit_bytes:i "
                    "saved_bytes:i chunks_shared:i chunks_private:i "
                    "copied_bytes:i"},
    {"held_branch", "branch:i shared_bytes:i private_bytes:i"},
    {"node_seconds", "work:n wait:n copy:n stalled:n client_wait:n "
                     "server_wait:n"},
    {"node_traffic", "bytes_sent:i bytes_received:i frames_sent:i "
                     "frames_received:i frames_ignored:i bytes_charged:i "
                     "overused:i early_suspended:i"},
    {"node_rows", "updated:i asked:i got:i sent_due:i sent_early:i answered:i "
                  "pushed:i pushed_early:i"},
    {"fresh_reads", "least:i counts:a sum:i reads:i mean:n?"},
    {"node_control", "bytes_sent:i bytes_received:i"},
    {"traffic", "elapsed_seconds:n nodes:[node_traffic_points]"},
    {"node_traffic_points", "node:i elapsed_seconds:a bytes_sent:a "
                            "bytes_received:a memory_bytes:a"},
    {NULL, NULL},
};

/* ---- nodes --------------------------------------------------------------- */

struct node_copy {
    uint32_t node;
    bool alive;
    double at_s;
    struct msg_beat total;
};

static void nodes_range(const struct history *h, uint64_t *low, uint64_t *len)
{
    *low = 0;
    *len = history_nodes(h)->count;
}

static bool node_copy(const struct history *h, const struct route_call *call,
                      size_t index, void *item)
{
    const struct node_past *n = &history_nodes(h)->node[index];
    struct node_copy *copy = item;

    (void)call;
    copy->node = (uint32_t)index;
    copy->alive = n->alive && !history_finished(h);
    copy->at_s = n->at_s;
    copy->total = nodes_total(n);
    return true;
}

static json_t *memory_to_json(const struct msg_beat *b)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "in_use_bytes",
                     (json_int_t)b->memory_bytes, "reserved_bytes",
                     (json_int_t)b->memory_reserved_bytes, "limit_bytes",
                     (json_int_t)b->memory_limit_bytes, "saved_bytes",
                     (json_int_t)b->memory_saved_bytes, "chunks_shared",
                     (json_int_t)b->chunks_shared, "chunks_private",
                     (json_int_t)b->chunks_private, "copied_bytes",
                     (json_int_t)b->bytes_copied);
}

static json_t *held_to_json(const struct msg_beat *b)
{
    json_t *all = json_array();

    for (uint32_t i = 0; all && i < b->held; i++)
        if (json_array_append_new(
                all,
                json_pack("{s:I, s:I, s:I}", "branch",
                          (json_int_t)b->hold[i].branch, "shared_bytes",
                          (json_int_t)b->hold[i].shared_bytes, "private_bytes",
                          (json_int_t)b->hold[i].private_bytes))) {
            json_decref(all);
            all = NULL;
        }
    return all;
}

static json_t *seconds_to_json(const struct msg_beat *b)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "work",
                     value_number(fmax(b->seconds - b->wait_s, 0)), "wait",
                     value_number(b->wait_s), "copy", value_number(b->copy_s),
                     "stalled", value_number(b->stalled_s), "client_wait",
                     value_number(b->client_wait_s), "server_wait",
                     value_number(b->server_wait_s));
}

static json_t *traffic_to_json(const struct msg_beat *b)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "bytes_sent",
                     (json_int_t)b->data_bytes_sent, "bytes_received",
                     (json_int_t)b->data_bytes_received, "frames_sent",
                     (json_int_t)b->data_frames_sent, "frames_received",
                     (json_int_t)b->data_frames_received, "frames_ignored",
                     (json_int_t)b->data_frames_ignored, "bytes_charged",
                     (json_int_t)b->bytes_charged, "overused",
                     (json_int_t)b->overused, "early_suspended",
                     (json_int_t)b->early_suspended);
}

static json_t *rows_to_json(const struct msg_beat *b)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "updated",
        (json_int_t)b->rows_updated, "asked", (json_int_t)b->rows_asked, "got",
        (json_int_t)b->rows_got, "sent_due", (json_int_t)b->rows_due,
        "sent_early", (json_int_t)b->rows_early, "answered",
        (json_int_t)b->rows_answered, "pushed", (json_int_t)b->rows_pushed,
        "pushed_early", (json_int_t)b->rows_pushed_early);
}

/* The histogram, with the two numbers that are read off it most. */
static json_t *fresh_to_json(const struct staleness *s)
{
    json_t *o = staleness_to_json(s);

    if (o &&
        !json_object_set_new(o, "reads", json_integer((json_int_t)s->reads)) &&
        !json_object_set_new(o, "mean",
                             value_number_or_null(staleness_mean(s))))
        return o;
    json_decref(o);
    return NULL;
}

static json_t *node_to_json(const struct list_scope *scope, const void *item)
{
    const struct node_copy *n = item;
    const struct msg_beat *b = &n->total;

    return json_pack(
        "{s:I, s:b, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:I, s:I}}",
        "node", (json_int_t)n->node, "alive", n->alive, "beat_at",
        list_time(scope, n->at_s), "workers", (json_int_t)b->workers,
        "branches_live", (json_int_t)b->branches, "memory", memory_to_json(b),
        "branches", held_to_json(b), "seconds", seconds_to_json(b), "traffic",
        traffic_to_json(b), "rows", rows_to_json(b), "staleness",
        fresh_to_json(&b->staleness), "control", "bytes_sent",
        (json_int_t)b->bytes_sent, "bytes_received",
        (json_int_t)b->bytes_received);
}

static const struct list_kind nodes = {
    .name = "nodes",
    .item_size = sizeof(struct node_copy),
    .range = nodes_range,
    .copy = node_copy,
    .to_json = node_to_json,
};

void handle_nodes(const struct route_call *call, struct response *out)
{
    list_respond(call, &nodes, out);
}

/* ---- their traffic over time --------------------------------------------- */

struct traffic_points {
    struct node_point *point; /* owned, [nodes][NODES_POINTS_MAX] */
    size_t points[NODES_MAX];
    size_t nodes;
    double at_s; /* of the run's latest record */
};

static void traffic_copy(struct traffic_points *t, const struct history *h)
{
    t->at_s = history_at_s(h);
    t->nodes = history_nodes(h)->count;
    for (size_t i = 0; i < t->nodes; i++) {
        const struct node_past *n = &history_nodes(h)->node[i];

        t->points[i] = n->points;
        if (n->points)
            memcpy(t->point + i * NODES_POINTS_MAX, n->point,
                   n->points * sizeof(*n->point));
    }
}

/* Every @step-th point, the last one among them, of one member. */
static json_t *column(const struct node_point p[], size_t n, size_t step,
                      size_t offset)
{
    json_t *a = json_array();

    for (size_t i = (n - 1) % step; a && n > 0 && i < n; i += step) {
        const char *at = (const char *)&p[i] + offset;
        json_t *v;

        if (offset == offsetof(struct node_point, at_s))
            v = value_number(*(const double *)(const void *)at);
        else
            v = json_integer((json_int_t) * (const uint64_t *)(const void *)at);
        if (json_array_append_new(a, v)) {
            json_decref(a);
            a = NULL;
        }
    }
    return a;
}

static json_t *node_traffic(const struct traffic_points *t, size_t node,
                            size_t points_max)
{
    const struct node_point *p = t->point + node * NODES_POINTS_MAX;
    size_t n = t->points[node], step = (n + points_max - 1) / points_max;

#define COLUMN(member)                                                         \
    column(p, n, step ? step : 1, offsetof(struct node_point, member))
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "node", (json_int_t)node,
                     "elapsed_seconds", COLUMN(at_s), "bytes_sent",
                     COLUMN(sent), "bytes_received", COLUMN(received),
                     "memory_bytes", COLUMN(memory));
#undef COLUMN
}

static json_t *traffic_answer(const struct traffic_points *t, size_t points_max)
{
    json_t *all = json_array();

    for (size_t i = 0; all && i < t->nodes; i++)
        if (json_array_append_new(all, node_traffic(t, i, points_max))) {
            json_decref(all);
            all = NULL;
        }
    return json_pack("{s:o, s:o}", "elapsed_seconds", value_number(t->at_s),
                     "nodes", all);
}

void handle_traffic(const struct route_call *call, struct response *out)
{
    struct traffic_points t = {0};
    const struct history *h;
    bool found;

    t.point = mem_calloc(NODES_MAX * NODES_POINTS_MAX, sizeof(*t.point));
    if (!t.point) {
        response_json(out, 200, NULL); /* 503 */
        return;
    }
    view_lock(call->view);
    h = list_run(call, out);
    found = h != NULL;
    if (found)
        traffic_copy(&t, h);
    view_unlock(call->view);
    if (found)
        response_json(
            out, 200,
            traffic_answer(&t, (size_t)route_arg(call, "max_points")->number));
    mem_free(t.point);
}
