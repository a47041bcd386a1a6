/* Messages of the player, and what it knows of settings and epochs for them. */
#include "cli/check/player_internal.h"

#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- settings, epochs ---------------------------------------------------- */

bool player_has_tunable(const struct player *p, const char *name)
{
    const json_t *names = p->ready.ready.tunables;

    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

uint64_t player_batch(const struct player *p, enum check_setting setting)
{
    const struct msg_ready *r = &p->ready.ready;
    uint64_t batch = r->samples / (26 * (uint64_t)r->workers);

    if (!player_has_tunable(p, "batch_size"))
        return 0;
    batch = batch < 1 ? 1 : batch > 256 ? 256 : batch;
    if (setting == SETTING_DOUBLE)
        return 2 * batch;
    return setting == SETTING_SMALL ? (batch + 7) / 8 : batch;
}

static double rate_of(const struct player *p, enum check_setting setting)
{
    const json_t *def = json_object_get(
        json_object_get(json_object_get(p->o.config, "tunables"),
                        "learning_rate"),
        "default");
    double rate = json_is_number(def) ? json_number_value(def) : 0.01;

    return setting == SETTING_FASTER     ? 3 * rate
           : setting == SETTING_WILD     ? 1e30
           : setting == SETTING_NEGATIVE ? -1
                                         : rate;
}

static json_t *setting_of(const struct player *p, enum check_setting setting)
{
    uint64_t batch = player_batch(p, setting);
    json_t *o = json_object();
    int failed = 0;

    if (player_has_tunable(p, "learning_rate"))
        failed |= json_object_set_new(o, "learning_rate",
                                      json_real(rate_of(p, setting)));
    if (setting == SETTING_EMPTY)
        failed |= json_object_set_new(o, "batch_size", json_integer(0));
    else if (batch)
        failed |= json_object_set_new(o, "batch_size",
                                      json_integer((json_int_t)batch));
    if (setting == SETTING_DECAY)
        failed |= json_object_set_new(o, "weight_decay", json_real(0.1));
    return json_whole(o, failed);
}

uint64_t player_epoch(const struct player *p)
{
    const struct msg_ready *r = &p->ready.ready;

    return r->parts ? r->parts : r->samples;
}

/* Units of an epoch that a clock takes; 0: not known yet. */
static uint64_t unit_of(const struct player *p, const struct player_slot *s)
{
    uint64_t batch = player_batch(p, s->setting);

    if (p->ready.ready.parts)
        return 1;
    return batch ? batch * p->ready.ready.workers : p->seen;
}

/* Clocks to the end of the epoch; 1 where that is not known. */
static uint64_t clocks_left(const struct player *p, const struct player_slot *s)
{
    uint64_t unit = unit_of(p, s), left = player_epoch(p) - s->plan;

    return unit ? (left + unit - 1) / unit : 1;
}

/* ---- requests that wait -------------------------------------------------- */

static struct msg *request(struct player *p, enum msg_kind kind, int slot)
{
    struct player_act *a = player_add_act(p, ACT_SEND);
    struct player_ask *q;

    assert(p->asked_len < ASKED_MAX);
    a->message.kind = kind;
    a->message.op = p->next_op++;
    q = &p->asked[p->asked_len++];
    *q = (struct player_ask){.op = a->message.op,
                             .kind = kind,
                             .slot = slot,
                             .series = -1,
                             .asked_at_s = p->now_s,
                             .cut_at_s = INFINITY};
    if (slot >= 0)
        q->branch = p->slot[slot].id;
    return &a->message;
}

static struct player_ask *last_asked(struct player *p)
{
    assert(p->asked_len > 0);
    return &p->asked[p->asked_len - 1];
}

struct player_ask *player_asked(struct player *p, op_id op)
{
    for (size_t i = 0; i < p->asked_len; i++)
        if (p->asked[i].op == op)
            return &p->asked[i];
    return NULL;
}

void player_forget(struct player *p, struct player_ask *a)
{
    size_t i = (size_t)(a - p->asked);

    assert(i < p->asked_len);
    p->asked_len--;
    memmove(a, a + 1, (p->asked_len - i) * sizeof(*a));
}

struct player_ask *player_last_slice(struct player *p)
{
    for (size_t i = p->asked_len; i > 0; i--)
        if (p->asked[i - 1].kind == MSG_SCHEDULE)
            return &p->asked[i - 1];
    return NULL;
}

/* ---- requests ------------------------------------------------------------ */

void player_ask_config(struct player *p)
{
    struct player_act *a = player_add_act(p, ACT_SEND);

    a->message.kind = MSG_CONFIG;
    a->message.op = p->next_op++;
    a->message.config.config =
        json_incref(p->unloadable ? p->no_memory : p->o.config);
    a->message.config.folder = mem_strdup(p->o.folder);
    a->message.config.seed = 7;
}

void player_ask_fork(struct player *p, const struct check_step *step)
{
    struct player_slot *s = &p->slot[step->slot], *from = &p->slot[step->from];
    struct msg *m;

    assert(!s->live && from->live);
    *s = *from;
    s->id = p->next_branch++;
    s->type = step->type;
    s->setting = step->setting;
    s->whole = from->whole && from->at == from->plan;
    s->at = s->plan = from->plan;
    m = request(p, MSG_FORK, step->slot);
    m->fork = (struct msg_fork){s->id, from->id, step->type, NULL};
    m->fork.setting = step->type == BRANCH_KEPT ? json_object()
                                                : setting_of(p, step->setting);
}

void player_ask_free(struct player *p, int slot)
{
    request(p, MSG_FREE, slot)->free.branch = p->slot[slot].id;
    p->slot[slot].live = false;
}

void player_ask_slice(struct player *p, const struct check_step *step,
                      uint64_t count)
{
    struct player_slot *s = &p->slot[step->slot];
    uint64_t left = s->type == BRANCH_TESTING ? 1 : clocks_left(p, s);
    uint64_t unit = unit_of(p, s);
    struct msg *m = request(p, MSG_SCHEDULE, step->slot);
    struct player_ask *q = last_asked(p);

    if (step->text)
        p->act[p->acts - 1].text = ",\"no_such_member\":{\"a\":[1,\"b\"]}}";
    q->count = count && count < left ? count : left;
    q->every = (q->count + PROTO_WINDOWS_MAX - 1) / PROTO_WINDOWS_MAX;
    q->first = p->next_clock;
    q->series = step->series;
    q->may_fail = step->may_fail;
    p->next_clock += q->count;
    m->schedule = (struct msg_schedule){s->id, q->first, q->count, q->every};
    if (s->type == BRANCH_TESTING)
        return;
    s->plan += q->count * unit;
    if (s->plan >= player_epoch(p))
        s->plan = 0;
}

void player_go_on_running(struct player *p)
{
    const struct player_slot *s = &p->slot[p->step->slot];
    uint64_t count;

    if (p->run_to_end)
        count = p->run_left == 1 && s->at == 0 ? 0 : clocks_left(p, s);
    else
        count = p->run_left;
    if (!count || !p->run_left) {
        p->run_left = 0;
        return;
    }
    player_ask_slice(p, p->step, count);
    p->run_left = p->run_to_end ? 1 : p->run_left - last_asked(p)->count;
}

void player_path(const struct player *p, const struct check_step *step,
                 char *out)
{
    snprintf(out, PROTO_PATH_MAX, "%s/%s-%d", p->o.work,
             step->kind == STEP_SAVE ? "model" : "snapshot", step->count);
}

void player_ask_path(struct player *p, const struct check_step *step,
                     enum msg_kind kind)
{
    struct player_slot *s = &p->slot[step->slot];
    struct msg *m;

    assert(step->count < SLOTS_MAX);
    if (kind == MSG_RESTORE) {
        *s = p->written[step->count];
        s->id = p->next_branch++;
    } else if (kind == MSG_SNAPSHOT) {
        p->written[step->count] = *s;
    }
    m = request(p, kind, step->slot);
    m->save.branch = s->id;
    player_path(p, step, m->save.path);
}

void player_ask_cut(struct player *p, struct player_ask *slice)
{
    op_id target;

    if (!slice || !isinf(slice->cut_at_s))
        return; /* it was faster */
    target = slice->op;
    slice->cut_at_s = p->now_s;
    slice->cut = p->next_op;
    request(p, MSG_CUT, -1)->cut.target = target;
}

void player_ask_stop(struct player *p)
{
    struct msg *m = request(p, MSG_STOP, -1);

    snprintf(m->stop.reason, sizeof(m->stop.reason), "check-trainer");
}

static void ask_filler(struct player *p, int from)
{
    branch_id id = p->next_branch++;
    struct msg *m = request(p, MSG_FORK, -1);

    m->fork = (struct msg_fork){id, p->slot[from].id, BRANCH_TRAINING,
                                setting_of(p, SETTING_USUAL)};
    last_asked(p)->branch = id;
    last_asked(p)->slot = from;
    last_asked(p)->fills = true;
}

void player_ask_fill(struct player *p, int from)
{
    while (p->asked_len < BURST)
        ask_filler(p, from);
}

void player_ask_empty(struct player *p)
{
    while (p->asked_len < BURST && p->filled > p->to_keep) {
        p->filled--;
        request(p, MSG_FREE, -1)->free.branch =
            p->filled_first + (branch_id)p->filled;
    }
}

/* ---- what is refused ----------------------------------------------------- */

enum whose { OF, INIT, NEW, UNKNOWN }; /* OF: the step's slot */

/* Requests as REFUSAL_LIST has them. */
static const struct {
    enum msg_kind kind;
    enum whose branch, parent;
    enum check_setting setting;
    const char *folder;
    bool frees;   /* after a free of it, which waits */
    bool windows; /* more than there may be */
    bool earlier; /* a clock that was run */
    bool again;   /* the number of an old request */
} forms[REFUSAL_COUNT] = {
    [REFUSAL_FORK_OF_UNKNOWN] = {.kind = MSG_FORK, NEW, UNKNOWN},
    [REFUSAL_FORK_TWICE] = {.kind = MSG_FORK, OF, INIT},
    [REFUSAL_FORK_RATE] = {.kind = MSG_FORK, NEW, OF, SETTING_NEGATIVE},
    [REFUSAL_FORK_BATCH] = {.kind = MSG_FORK, NEW, OF, SETTING_EMPTY},
    [REFUSAL_RUN_UNKNOWN] = {.kind = MSG_SCHEDULE, UNKNOWN},
    [REFUSAL_RUN_INIT] = {.kind = MSG_SCHEDULE, INIT},
    [REFUSAL_RUN_KEPT] = {.kind = MSG_SCHEDULE, OF},
    [REFUSAL_RUN_WINDOWS] = {.kind = MSG_SCHEDULE, OF, .windows = true},
    [REFUSAL_RUN_EARLIER] = {.kind = MSG_SCHEDULE, OF, .earlier = true},
    [REFUSAL_RUN_FREED] = {.kind = MSG_SCHEDULE, OF, .frees = true},
    [REFUSAL_FREE_UNKNOWN] = {.kind = MSG_FREE, UNKNOWN},
    [REFUSAL_SNAPSHOT_UNKNOWN] = {.kind = MSG_SNAPSHOT,
                                  UNKNOWN,
                                  .folder = "refused"},
    [REFUSAL_SNAPSHOT_TRAINING] = {.kind = MSG_SNAPSHOT,
                                   OF,
                                   .folder = "refused"},
    [REFUSAL_SAVE_UNKNOWN] = {.kind = MSG_SAVE, UNKNOWN, .folder = "refused"},
    [REFUSAL_RESTORE_TWICE] = {.kind = MSG_RESTORE, OF, .folder = "snapshot-1"},
    [REFUSAL_OP_AGAIN] = {.kind = MSG_FORK, NEW, OF, .again = true},
    [REFUSAL_RUN_BROKEN] = {.kind = MSG_SCHEDULE, OF},
    [REFUSAL_SAVE_BROKEN] = {.kind = MSG_SAVE, OF, .folder = "refused"},
    [REFUSAL_SNAPSHOT_BROKEN] = {.kind = MSG_SNAPSHOT, OF, .folder = "refused"},
};

static branch_id number_of(const struct player *p, enum whose whose, int slot)
{
    return whose == OF     ? p->slot[slot].id
           : whose == INIT ? 0
           : whose == NEW  ? UNKNOWN_BRANCH + 1
                           : UNKNOWN_BRANCH;
}

void player_ask_refused(struct player *p, const struct check_step *step)
{
    enum check_refusal what = step->refusal;
    branch_id branch = number_of(p, forms[what].branch, step->from);
    struct player_ask *q;
    struct msg *m;

    if (forms[what].frees)
        player_ask_free(p, step->from);
    m = request(p, forms[what].kind, -1);
    q = last_asked(p);
    q->refused = refusal_info(what);
    if (forms[what].again)
        m->op = q->op = 1;
    if (m->kind == MSG_FORK) {
        m->fork = (struct msg_fork){
            branch, number_of(p, forms[what].parent, step->from),
            BRANCH_TRAINING, setting_of(p, forms[what].setting)};
    } else if (m->kind == MSG_SCHEDULE) {
        m->schedule = (struct msg_schedule){
            branch, forms[what].earlier ? 0 : p->next_clock,
            forms[what].windows ? PROTO_WINDOWS_MAX + 1 : 1, 1};
        p->next_clock++; /* some grant it, and fail it in its turn */
    } else if (m->kind == MSG_FREE) {
        m->free.branch = branch;
    } else {
        m->save.branch = branch;
        snprintf(m->save.path, sizeof(m->save.path), "%s/%s", p->o.work,
                 forms[what].folder);
    }
}
