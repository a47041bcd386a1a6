/* Calls of an application about keys. */
#include "ps/server/core.h"
#include "ps/server/errors.h"
#include "ps/server/keys.h"
#include "ps/server/runtime.h"

static struct worker_view *keyed_view(struct mlt_worker *w, mlt_table table,
                                      const char *call)
{
    if (table >= ps_tables(view_server(w)) || !view_of_worker(w, table)->keys)
        ps_misuse("%s: table %u of %u has no keys (MLT_KEYED)", call, table,
                  ps_tables(view_server(w)));
    return view_of_worker(w, table);
}

/* A loop that calls nothing else learns here that the run ends. */
static int take(struct mlt_worker *w, struct worker_view *v, bool add, size_t n,
                const uint64_t keys[], uint64_t rows[])
{
    enum err err = keys_take(v->keys, add, n, keys, rows);

    if (!err && runtime_failed(view_server(w)))
        err = ERR_CANCELED;
    return (int)err;
}

int mlt_find_keys(struct mlt_worker *w, mlt_table table, size_t n,
                  const uint64_t keys[], uint64_t rows[])
{
    struct worker_view *v = keyed_view(w, table, "mlt_find_keys");

    return take(w, v, false, n, keys, rows);
}

int mlt_add_keys(struct mlt_worker *w, mlt_table table, size_t n,
                 const uint64_t keys[], uint64_t rows[])
{
    struct worker_view *v = keyed_view(w, table, "mlt_add_keys");

    return take(w, v, true, n, keys, rows);
}

uint64_t mlt_ps_keys(const struct mlt_ps *ps, mlt_table table)
{
    if (!ps->started || table >= ps_tables(ps) || !ps->keys[table])
        ps_misuse("mlt_ps_keys: %s", ps->started
                                         ? "no such table, or it has no keys"
                                         : "before mlt_ps_start");
    return keys_count(ps->keys[table]);
}
