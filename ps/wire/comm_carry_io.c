/* Passes of loops over several nodes: what their workers say and wait for. */
#include "ps/wire/comm_internal_io.h"

#include <assert.h>

/* Sending may have broken the run off: nobody will say so again. */
static void wait_on(struct comm *c, struct mlt_worker *w)
{
    if (!comm_run_error(c))
        comm_wait_change(c, w);
}

/* A node that is through with the run, or under barriers ends the clock in
 * which the pass begins, and has not begun it, never will. Without barriers it
 * may have more clocks to end before. */
static int find_absent(const struct comm *c, const struct mlt_worker *w,
                       const struct courier_pass *pass, struct fault *f)
{
    int64_t clock = comm_has_barriers(c)
                        ? cache_all_clock(c->cache, ps_worker_local(w))
                        : INT64_MAX;

    for (uint32_t i = 0; i < ps_nodes(c->ps); i++)
        if (!courier_has_said(c->courier, i) &&
            shard_is_past(c->shard, i, clock))
            return (int)fault_set(f, ERR_APP,
                                  "node %u ends its clock, or the run, without "
                                  "the pass of loop %s, in which node %u waits "
                                  "for it: each worker calls it as often as "
                                  "the others",
                                  i, pass->name, ps_node(c->ps));
    return ERR_OK;
}

int comm_carry_begin(struct peers *p, struct mlt_worker *w,
                     const struct courier_pass *pass, struct fault *f)
{
    struct comm *c = comm_of(p);
    struct fault fault = {0};
    int err;

    comm_lock(c);
    err = comm_run_error(c);
    if (!err) {
        if (courier_begin(c->courier, pass, &fault) != ERR_OK) {
            comm_pump(c); /* so that the other sees what differs, too */
            comm_break(c, ERR_NODE, "%s", fault.text);
        }
        comm_say(c);
    }
    while (!err && !(err = comm_run_error(c)) &&
           !courier_is_going(c->courier) && !(err = find_absent(c, w, pass, f)))
        wait_on(c, w);
    comm_unlock(c);
    return err;
}

int comm_carry_passed(struct peers *p, struct mlt_worker *w)
{
    struct comm *c = comm_of(p);
    int err;

    assert(ps_worker_local(w) < shape_own_workers(c->shape));
    comm_lock(c);
    err = comm_run_error(c);
    if (!err) {
        courier_passed(c->courier, ps_worker_local(w));
        comm_say(c);
    }
    comm_unlock(c);
    return err;
}

int comm_carry_await(struct peers *p, struct mlt_worker *w, uint64_t place)
{
    struct comm *c = comm_of(p);
    int err;

    comm_lock(c);
    while (!(err = comm_run_error(c)) && !courier_has_come(c->courier, place))
        wait_on(c, w);
    comm_unlock(c);
    return err;
}

int comm_carry_end(struct peers *p, struct mlt_worker *w, uint64_t place,
                   const double *own, double *all)
{
    struct comm *c = comm_of(p);
    int err = comm_carry_await(p, w, place);

    if (err)
        return err;
    comm_lock(c);
    courier_tell_totals(c->courier, own);
    comm_say(c);
    while (!(err = comm_run_error(c)) && !courier_is_over(c->courier))
        wait_on(c, w);
    if (!err)
        courier_end(c->courier, all);
    comm_unlock(c);
    return err;
}
