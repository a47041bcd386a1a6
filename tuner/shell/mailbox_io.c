#include "tuner/shell/mailbox_io.h"

#include "base/json/fields_digest.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct mailbox {
    struct box *box; /* owned */
};

void mailbox_request_deinit(struct mailbox_request *r)
{
    command_args_deinit(r->command, &r->args);
}

/* ---- what the box is told ------------------------------------------------ */

static bool same_request(const void *one, const void *other)
{
    const struct mailbox_request *a = one, *b = other;

    return a->command == b->command && a->digest == b->digest;
}

static void release_request(void *request)
{
    mailbox_request_deinit(request);
}

static void release_answer(void *answer)
{
    struct tuner_answer *a = answer;

    mem_free(a->value);
    a->value = NULL;
}

/* A command that was not done for want of something, or of a sound answer, may
 * be asked again with the same key. */
static bool keep_answer(const void *answer, void *out)
{
    const struct tuner_answer *a = answer;
    struct tuner_answer *kept = out;

    if (a->err == ERR_AGAIN || a->err == ERR_LIMIT || a->err == ERR_NOMEM ||
        a->err == ERR_PROTO)
        return false;
    *kept = *a;
    kept->value = NULL;
    kept->values = 0;
    return true;
}

static void answer_over(void *out)
{
    struct tuner_answer *a = out;

    *a = (struct tuner_answer){.err = ERR_CANCELED, .branch = BRANCH_NONE};
    snprintf(a->text, sizeof(a->text), "the run has ended");
}

static const struct box_options options = {
    .request_size = sizeof(struct mailbox_request),
    .answer_size = sizeof(struct tuner_answer),
    .slots = MAILBOX_SLOTS,
    .reads = MAILBOX_READS,
    .rows = MAILBOX_ROWS,
    .release_request = release_request,
    .release_answer = release_answer,
    .keys = MAILBOX_KEYS,
    .same = same_request,
    .keep = keep_answer,
    .over = answer_over,
};

/* ---- the mailbox --------------------------------------------------------- */

enum err mailbox_new(struct mailbox **out)
{
    struct mailbox *m = mem_calloc(1, sizeof(*m));
    enum err err = m ? box_new(&options, &m->box) : ERR_NOMEM;

    if (err)
        mem_free(m);
    else
        *out = m;
    return err;
}

void mailbox_free(struct mailbox *m)
{
    if (!m)
        return;
    box_free(m->box);
    mem_free(m);
}

enum err mailbox_post(struct mailbox *m, struct mailbox_request *r, int wake_fd,
                      mailbox_ticket *out)
{
    const struct json_field *args = command_of(r->command)->args;
    enum err err;

    assert(r->command != COMMAND_ADD || r->args.rows.add);
    r->digest = args && *r->key ? fields_digest(args, &r->args) : 0;
    err = box_post(m->box, r->command, r->key, r, wake_fd, out);
    if (!err && args)
        fields_disown(args, &r->args);
    return err;
}

enum err mailbox_collect(struct mailbox *m, mailbox_ticket ticket,
                         struct tuner_answer *out)
{
    return box_collect(m->box, ticket, out);
}

void mailbox_forget(struct mailbox *m, mailbox_ticket ticket)
{
    box_forget(m->box, ticket);
}

int mailbox_fd(const struct mailbox *m)
{
    return box_fd(m->box);
}

bool mailbox_take(struct mailbox *m, struct mailbox_request *out,
                  mailbox_ticket *ticket)
{
    return box_take(m->box, out, ticket);
}

void mailbox_answer(struct mailbox *m, mailbox_ticket ticket,
                    struct tuner_answer *answer)
{
    box_answer(m->box, ticket, answer);
    answer->value = NULL;
}

void mailbox_abandon(struct mailbox *m, const char *text)
{
    struct tuner_answer again = {.err = ERR_AGAIN, .branch = BRANCH_NONE};

    snprintf(again.text, sizeof(again.text), "%s", text);
    box_abandon(m->box, &again);
}

void mailbox_close(struct mailbox *m)
{
    box_close(m->box);
}
