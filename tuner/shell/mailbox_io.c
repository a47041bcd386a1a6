#include "tuner/shell/mailbox_io.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct mailbox {
    struct box *box; /* owned */
};

void mailbox_request_deinit(struct mailbox_request *r)
{
    mem_free(r->add);
    r->add = NULL;
    r->rows.add = NULL;
}

/* ---- what the box is told ------------------------------------------------ */

static bool same_number(double a, double b)
{
    return a == b || (a != a && b != b);
}

static bool same_rows(const struct mailbox_request *a,
                      const struct mailbox_request *b)
{
    return a->rows.branch == b->rows.branch && a->rows.first == b->rows.first &&
           a->rows.count == b->rows.count && a->rows.from == b->rows.from &&
           a->rows.values == b->rows.values && a->add_hash == b->add_hash &&
           strcmp(a->rows.table, b->rows.table) == 0;
}

/* Enough to tell a repetition from a mistake. */
static uint64_t hash_of(const double x[], size_t n)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a, of words */

    for (size_t i = 0; i < n; i++) {
        uint64_t word;

        memcpy(&word, &x[i], sizeof(word));
        hash = (hash ^ word) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    return hash;
}

static bool same_request(const void *one, const void *other)
{
    const struct mailbox_request *a = one, *b = other;
    const struct record_limits *x = &a->limits.to, *y = &b->limits.to;

    return a->command == b->command && a->limits.set == b->limits.set &&
           a->fork.branch == b->fork.branch &&
           a->fork.epochs == b->fork.epochs &&
           a->fork.clocks == b->fork.clocks &&
           strcmp(a->fork.setting, b->fork.setting) == 0 &&
           a->suggest.exhausted == b->suggest.exhausted &&
           a->suggest.single == b->suggest.single &&
           strcmp(a->suggest.settings, b->suggest.settings) == 0 &&
           same_rows(a, b) && same_number(x->target_loss, y->target_loss) &&
           same_number(x->target_metric, y->target_metric) &&
           same_number(x->max_time_s, y->max_time_s) &&
           x->plateau_epochs == y->plateau_epochs &&
           x->max_epochs == y->max_epochs;
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
    enum err err;

    assert(!r->add == (r->command != COMMAND_ADD));
    r->rows.add = r->add;
    r->add_hash = r->add ? hash_of(r->add, r->rows.values) : 0;
    err = box_post(m->box, r->command, r->key, r, wake_fd, out);
    if (!err)
        r->add = NULL;
    r->rows.add = NULL;
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
