#include "api/view/desk.h"

#include "base/mem.h"

#include <assert.h>

struct desk {
    struct box *box; /* owned */
};

void desk_request_deinit(struct desk_request *r)
{
    mem_free(r->target);
    mem_free(r->body);
    r->target = r->body = NULL;
}

static void release_request(void *request)
{
    desk_request_deinit(request);
}

static void release_answer(void *answer)
{
    response_deinit(answer);
}

/* The keys of submissions are the service's to remember: it may be started
 * again. Those of commands go on to the run. */
static const struct box_options options = {
    .request_size = sizeof(struct desk_request),
    .answer_size = sizeof(struct response),
    .slots = DESK_SLOTS,
    .reads = DESK_READS,
    .rows = DESK_SLOTS,
    .release_request = release_request,
    .release_answer = release_answer,
};

enum err desk_new(struct desk **out)
{
    struct desk *d = mem_calloc(1, sizeof(*d));
    enum err err = d ? box_new(&options, &d->box) : ERR_NOMEM;

    assert(out);
    if (err)
        mem_free(d);
    else
        *out = d;
    return err;
}

void desk_free(struct desk *d)
{
    if (!d)
        return;
    box_free(d->box);
    mem_free(d);
}

enum err desk_post(struct desk *d, struct desk_request *r, int wake_fd,
                   desk_ticket *out)
{
    enum err err = box_post(d->box, r->command, r->key, r, wake_fd, out);

    assert(wake_fd >= 0);
    if (!err)
        r->target = r->body = NULL;
    return err;
}

enum err desk_collect(struct desk *d, desk_ticket ticket, struct response *out)
{
    return box_collect(d->box, ticket, out);
}

void desk_forget(struct desk *d, desk_ticket ticket)
{
    box_forget(d->box, ticket);
}

int desk_fd(const struct desk *d)
{
    return box_fd(d->box);
}

bool desk_take(struct desk *d, struct desk_request *out, desk_ticket *ticket)
{
    return box_take(d->box, out, ticket);
}

void desk_answer(struct desk *d, desk_ticket ticket, struct response *answer)
{
    assert(answer->status);
    box_answer(d->box, ticket, answer);
    *answer = (struct response){0};
}
