#include "tests/sim/sim.h"

#include "base/json/json.h"
#include "base/json/problems.h"
#include "base/mem.h"
#include "base/rng.h"
#include "searchers/built_in.h"
#include "searchers/space/space_json.h"
#include "tests/sim/durable.h"
#include "tests/sim/physics.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/board/strategy.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUEUE_MAX = 512,
    BRANCHES_MAX = 262144,
    QUANTUM = 32, /* samples that share one draw of the noise of sampling */
    STEPS_MAX = 1000000,
    TRIED_MAX = 16384,
    DISK_MAX = 512,
    TRIES_MAX = 10,   /* of what finds no memory: as the shell's */
    RESUMES_MAX = 300 /* by whoever runs it: then it does not end */
};

struct sim_branch {
    bool known, planned; /* planned: forked and not freed, as told */
    bool refused;        /* the fork failed */
    enum branch_type type;
    branch_id parent;
    struct knobs knobs;
    struct state s;
    bool fresh; /* nothing written since the fork */
};

struct sim {
    const struct sim_family *f;
    const struct sim_options *options;
    uint64_t seed;
    struct rng rng;   /* jitter of losses */
    struct rng costs; /* of times: losses do not depend on it */
    struct rng faults;
    struct rng users; /* to what branch they add */
    struct space space;
    struct tuner *tuner;
    struct tuner_actions actions;
    double now;
    unsigned saves; /* asked for so far */
    struct physics physics;
    struct msg queue[QUEUE_MAX]; /* operations in order */
    size_t head, queued;
    struct msg outbox[QUEUE_MAX];
    size_t out_head, outs;
    op_id last_op, cut, idle_op; /* idle_op: a slice that came when none was
                                  * out */
    bool running;                /* a slice */
    clock_no next_clock;
    unsigned forks_asked;
    unsigned live, clocks_made; /* clocks: of training and probe */
    struct sim_branch *branch;  /* [BRANCHES_MAX] */
    branch_id branches;
    bool finished;
    struct history history, replayed;
    /* The search under way. */
    struct state parent;
    struct tried {
        struct knobs knobs;
        uint32_t trial;
        bool doomed;
    } tried[TRIED_MAX];
    unsigned tried_len;
    unsigned gridded;    /* `moved` of the last re-tune judged by the grid */
    unsigned slices_run; /* of training branches */
    clock_no slice_announced;
    branch_id branch_announced, freed_announced;
    size_t trace_len;
    /* State that survives a crash. */
    json_t *journal;  /* owned: records; NULL: nothing will crash */
    size_t committed; /* of them */
    struct folder {
        char path[PROTO_PATH_MAX]; /* "": unused */
        struct state s;
        bool damaged;
    } disk[DISK_MAX];
    struct {
        double at_s; /* when it is over; INFINITY: none is under way */
        op_id op;
        struct folder folder;
    } writing;
    bool sweep_due; /* once a snapshot is written */
    uint64_t acted; /* actions since the tuner began */
    size_t crashes;
    unsigned failed; /* resumes though it had */
    bool crashing;
    struct sim_result *out;
    struct {
        double at_s;                   /* looks again */
        uint32_t search, made, tries;  /* of these trials; asked so often */
        union command_args last;       /* their latest suggestion */
        char key[COMMAND_KEY_MAX + 1]; /* of it */
        bool unsure;                   /* whether it was taken: killed since */
    } outside;
    double retune_at_s;  /* asked for again */
    double add_at_s;     /* the same, of a row */
    uint64_t increments; /* number of the last that the node has got */
    json_t *searcher_settings, *strategy_settings; /* owned */
    struct {
        struct durable *durable; /* owned; NULL: nothing is written */
        double kill_at, power_at, node_at, silence_at;
        double flushed_s;
        unsigned restarts;  /* of the node, since the tuner began */
        bool open;          /* the tuner's process lives */
        bool calm;          /* nothing happens any more */
        struct state model; /* as it was saved last */
        bool saved;
    } storage;
    struct rng weather; /* what befalls disk, processes and line */
    struct line line;   /* without a plan: there is none */
};

__attribute__((noreturn, format(printf, 2, 3))) static void
violated(const struct sim *s, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "sim: family %s seed %llu at %.6f s: ", s->f->name,
            (unsigned long long)s->seed, s->now);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

#define REQUIRE(s, condition, ...)                                             \
    do {                                                                       \
        if (!(condition))                                                      \
            violated(s, __VA_ARGS__);                                          \
    } while (0)

/* ---- how much is run ----------------------------------------------------- */

bool sim_fewer(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return true;
#else
    return getenv("SIM_FEWER") != NULL;
#endif
}

unsigned sim_seeds(unsigned few)
{
    const char *text = getenv("SIM_SEEDS");
    unsigned n =
        text ? (unsigned)strtoul(text, NULL, 10) : few / (sim_fewer() ? 3 : 1);

    return n > 0 ? n : 1;
}

/* ---- physics ------------------------------------------------------------- */

/* Effect of the choice of samples first .. first + n - 1 of an epoch: the same
 * for everybody who runs over them. */
static double sampling_noise(const struct sim *s, uint64_t first, uint64_t n)
{
    uint64_t epoch = first / s->f->samples, at = first % s->f->samples;
    double sum = 0;

    for (uint64_t q = at / QUANTUM; q * QUANTUM < at + n; q++) {
        uint64_t from = q * QUANTUM > at ? q * QUANTUM : at;
        uint64_t to = (q + 1) * QUANTUM < at + n ? (q + 1) * QUANTUM : at + n;
        uint64_t bits = rng_mix(rng_mix(s->seed, epoch), q);
        /* Three uniform numbers make a good enough normal one. */
        double z = (double)(bits & 0x1fffff) + (double)(bits >> 21 & 0x1fffff) +
                   (double)(bits >> 42 & 0x1fffff);

        z = (z / 0x1fffff - 1.5) * 2;
        sum += z * sqrt(QUANTUM) * (double)(to - from) / QUANTUM;
    }
    return sum * s->f->noise;
}

/* Speed without noise from the parent, over @seconds. */
static double true_speed(const struct sim *s, const struct knobs *k,
                         double seconds)
{
    struct state y = s->parent;
    double before = physics_loss(&s->physics, &y), took = 0;

    if (!physics_run(&s->physics, &y, k, seconds, &took) || took <= 0)
        return 0;
    return fmax((before - physics_loss(&s->physics, &y)) / took, 0);
}

/* ---- the node ------------------------------------------------------------ */

static void say(struct sim *s, const struct msg *m)
{
    assert(s->outs < QUEUE_MAX);
    s->outbox[(s->out_head + s->outs++) % QUEUE_MAX] = *m;
}

static void answer_done(struct sim *s, op_id op, branch_id branch,
                        uint64_t clocks, double switch_s)
{
    struct msg m = {.kind = MSG_DONE, .op = op};

    m.done.branch = branch;
    m.done.clocks = clocks;
    m.done.switch_s = switch_s;
    m.done.bytes = 1000;
    say(s, &m);
}

static struct sim_branch *known(struct sim *s, branch_id id)
{
    REQUIRE(s, id < s->branches && s->branch[id].known, "no branch %u", id);
    return &s->branch[id];
}

static bool refuses(struct sim *s, enum branch_type type, op_id op)
{
    const struct sim_family *f = s->f;

    if (f->branches_max && s->live >= f->branches_max)
        return true;
    if (s->line.refused == op && op > 0)
        return true;
    if (f->refused_from && ++s->forks_asked >= f->refused_from &&
        s->forks_asked <= f->refused_to)
        return true;
    return type == BRANCH_KEPT && f->keeps_refused > 0 &&
           rng_uniform(&s->faults) < f->keeps_refused;
}

static void receive_fork(struct sim *s, struct msg *m)
{
    struct sim_branch *parent = known(s, m->fork.parent), *b;
    struct msg answer = {.kind = MSG_FORKED, .op = m->op};

    REQUIRE(s, parent->planned, "fork of branch %u, which was freed",
            m->fork.parent);
    REQUIRE(s, m->fork.branch == s->branches, "branch numbers must grow");
    REQUIRE(s, s->branch_announced == m->fork.branch,
            "branch %u was not journaled before its fork", m->fork.branch);
    REQUIRE(s, s->branches < BRANCHES_MAX, "too many branches for the sim");
    b = &s->branch[s->branches++];
    memset(b, 0, sizeof(*b));
    b->known = true;
    b->type = m->fork.type;
    b->parent = m->fork.parent;
    if (refuses(s, b->type, m->op)) {
        struct msg failed = {.kind = MSG_FAILED, .op = m->op};

        failed.failed.branch = m->fork.branch;
        failed.failed.code = s->line.refused == m->op ? s->line.code
                             : s->f->refused_with     ? s->f->refused_with
                                                      : ERR_LIMIT;
        snprintf(failed.failed.reason, sizeof(failed.failed.reason),
                 "memory limit");
        b->refused = true;
        s->out->forks_refused++;
        say(s, &failed);
        msg_deinit(m);
        return;
    }
    s->live++;
    b->planned = true;
    answer.forked.branch = m->fork.branch;
    say(s, &answer);
    s->queue[(s->head + s->queued++) % QUEUE_MAX] = *m;
}

static void check_schedule(struct sim *s, const struct msg *m)
{
    struct sim_branch *b = known(s, m->schedule.branch);

    REQUIRE(s, b->planned, "slice of branch %u, which was freed",
            m->schedule.branch);
    REQUIRE(s, b->type != BRANCH_KEPT && b->type != BRANCH_INIT,
            "slice of a read-only branch %u", m->schedule.branch);
    REQUIRE(s, m->schedule.first == s->next_clock,
            "clock %llu scheduled, %llu is the next",
            (unsigned long long)m->schedule.first,
            (unsigned long long)s->next_clock);
    REQUIRE(s, m->schedule.count >= 1, "an empty slice");
    REQUIRE(s,
            (m->schedule.count + m->schedule.report_every - 1) /
                    m->schedule.report_every <=
                PROTO_WINDOWS_MAX,
            "too many windows in a slice");
    REQUIRE(s, s->slice_announced == m->schedule.first,
            "a slice was not journaled before it was scheduled");
    s->next_clock += m->schedule.count;
}

/* True if it is to be carried out. A fork may be refused while its free is
 * under way already: that fails as well. */
static bool receive_free(struct sim *s, const struct msg *m)
{
    struct sim_branch *b = known(s, m->free.branch);
    struct msg failed = {.kind = MSG_FAILED, .op = m->op};

    REQUIRE(s, b->planned || b->refused, "branch %u is freed twice",
            m->free.branch);
    REQUIRE(s, s->freed_announced == m->free.branch,
            "a free was not journaled");
    if (b->planned) {
        b->planned = false;
        s->live--;
        return true;
    }
    b->refused = false;
    failed.failed.branch = m->free.branch;
    failed.failed.code = ERR_NOENT;
    say(s, &failed);
    return false;
}

static void receive_restore(struct sim *s, const struct msg *m)
{
    REQUIRE(s, m->restore.branch == s->branches, "branch numbers must grow");
    REQUIRE(s, s->branch_announced == m->restore.branch,
            "branch %u was not journaled before it is restored",
            m->restore.branch);
    REQUIRE(s, s->branches < BRANCHES_MAX, "too many branches for the sim");
    s->branch[s->branches++] = (struct sim_branch){
        .known = true, .planned = true, .type = BRANCH_KEPT};
    s->live++;
}

static bool slice_queued(const struct sim *s)
{
    for (size_t i = 0; i < s->queued; i++)
        if (s->queue[(s->head + i) % QUEUE_MAX].kind == MSG_SCHEDULE)
            return true;
    return false;
}

/* A message from the tuner; its members are ours now. */
static void receive(struct sim *s, struct msg *m)
{
    REQUIRE(s, m->op > s->last_op, "operation numbers must grow");
    s->last_op = m->op;
    switch (m->kind) {
    case MSG_FORK:
        receive_fork(s, m);
        return;
    case MSG_FREE:
        if (!receive_free(s, m))
            return;
        break;
    case MSG_SCHEDULE:
        check_schedule(s, m);
        if (!s->running && !slice_queued(s))
            s->idle_op = m->op;
        break;
    case MSG_CUT:
        s->cut = m->cut.target;
        answer_done(s, m->op, BRANCH_NONE, 0, 0);
        return;
    case MSG_SNAPSHOT:
        REQUIRE(s,
                known(s, m->snapshot.branch)->planned &&
                    s->branch[m->snapshot.branch].type <= BRANCH_KEPT &&
                    (s->branch[m->snapshot.branch].type == BRANCH_KEPT ||
                     s->branch[m->snapshot.branch].type == BRANCH_INIT),
                "snapshot of a branch that is not kept");
        break;
    case MSG_RESTORE:
        receive_restore(s, m);
        break;
    case MSG_ROWS:
        REQUIRE(s, known(s, m->rows.branch)->planned && m->rows.increment,
                "rows of a freed branch, or no increment");
        break;
    case MSG_SAVE:
        REQUIRE(s, known(s, m->save.branch)->planned,
                "a freed branch is saved");
        break;
    case MSG_STOP:
        s->finished = true;
        return;
    default:
        violated(s, "unexpected message %s", msg_kind_name(m->kind));
    }
    REQUIRE(s, s->queued < QUEUE_MAX, "too many operations");
    s->queue[(s->head + s->queued++) % QUEUE_MAX] = *m;
}

/* ---- the line ------------------------------------------------------------ */

/* Whether what the tuner says fits what the node knows, where messages were
 * lost or changed: else it is the tuner's mistake that it does not. */
static bool fits(const struct sim *s, const struct msg *m)
{
    branch_id id = m->kind == MSG_FORK ? m->fork.parent : m->save.branch;
    const struct sim_branch *b;

    if (m->kind == MSG_CUT || m->kind == MSG_STOP)
        return true;
    if (m->kind == MSG_RESTORE)
        return m->restore.branch == s->branches;
    if (m->kind == MSG_SCHEDULE)
        id = m->schedule.branch;
    else if (m->kind == MSG_FREE)
        id = m->free.branch;
    if (id >= s->branches || !s->branch[id].known)
        return false;
    b = &s->branch[id];
    if (m->kind == MSG_FREE)
        return b->planned || b->refused;
    if (!b->planned || (m->kind == MSG_FORK && m->fork.branch != s->branches))
        return false;
    if (m->kind == MSG_SCHEDULE)
        return b->type != BRANCH_KEPT && b->type != BRANCH_INIT &&
               m->schedule.first == s->next_clock;
    return m->kind != MSG_SNAPSHOT || b->type == BRANCH_KEPT ||
           b->type == BRANCH_INIT;
}

/* A node that cannot make sense of what it is told. */
static void receive_confused(struct sim *s, struct msg *m)
{
    struct msg failed = {.kind = MSG_FAILED, .op = m->op};

    if (s->line.alive && s->line.temper == LINE_PROTESTS) {
        failed.failed.branch = BRANCH_NONE;
        failed.failed.code = ERR_PROTO;
        snprintf(failed.failed.reason, sizeof(failed.failed.reason),
                 "it fits nothing");
        say(s, &failed);
        s->line.protests++;
    }
    msg_deinit(m);
}

/* What befalls @m on its way to the node: it is not received, but by this. */
static void befall(struct sim *s, struct msg *m, enum line_fault fault)
{
    struct line *l = &s->line;

    if (fault == LINE_DEAD)
        line_die(l, false, s->now);
    else if (fault == LINE_HUNG)
        line_hang(l);
    else if (fault == LINE_TWICE)
        receive(s, m);
    /* Without these it goes on as before. */
    if (m->kind != MSG_CUT && m->kind != MSG_FREE && l->alive)
        line_confuse(l, s->now);
    if (fault != LINE_TWICE)
        msg_deinit(m);
}

/* As the crew sends (tuner/shell/crew_io.c). Owns @m. */
static void send_by_line(struct sim *s, struct msg *m)
{
    struct line *l = &s->line;
    enum line_fault fault;

    if (!l->keeper.lost && m->kind == MSG_STOP)
        keeper_stop(&l->keeper);
    else if (!l->keeper.lost)
        keeper_ask(&l->keeper, m->op, m->kind == MSG_SCHEDULE, s->now);
    if (m->kind == MSG_STOP)
        s->finished = true;
    if (l->keeper.lost || !l->alive || m->kind == MSG_STOP) {
        msg_deinit(m);
        return;
    }
    if (!l->confused && line_hits(l) > 0 && !fits(s, m))
        line_confuse(l, s->now);
    if (l->confused) {
        receive_confused(s, m);
        return;
    }
    fault = line_draw(l);
    if (fault == LINE_LATE)
        l->stalled_until_s = s->now + line_late_s(l);
    if (fault == LINE_REFUSED) {
        l->refused = m->op;
        l->code = line_code(l);
    }
    if (fault == LINE_WHOLE || fault == LINE_LATE || fault == LINE_REFUSED)
        receive(s, m);
    else
        befall(s, m, fault);
}

/* ---- actions ------------------------------------------------------------- */

static void trace_line(struct sim *s, const char *line)
{
    size_t n = strlen(line);
    char *t = mem_realloc(*s->options->trace, s->trace_len + n + 2);

    assert(t);
    memcpy(t + s->trace_len, line, n);
    t[s->trace_len + n] = '\n';
    t[s->trace_len + n + 1] = '\0';
    s->trace_len += n + 1;
    *s->options->trace = t;
}

static void trace_message(struct sim *s, const struct msg *m)
{
    char line[256] = "";

    switch (m->kind) {
    case MSG_FORK: {
        const json_t *lr = json_object_get(m->fork.setting, "learning_rate");

        snprintf(line, sizeof(line), "fork %u from %u %s%s%.3g", m->fork.branch,
                 m->fork.parent, branch_type_name(m->fork.type),
                 lr ? " rate=" : "", json_number_value(lr));
        if (!lr)
            snprintf(line, sizeof(line), "fork %u from %u %s", m->fork.branch,
                     m->fork.parent, branch_type_name(m->fork.type));
        break;
    }
    case MSG_FREE:
        snprintf(line, sizeof(line), "free %u", m->free.branch);
        break;
    case MSG_SCHEDULE:
        snprintf(line, sizeof(line), "run %u clocks %llu+%llu by %llu",
                 m->schedule.branch, (unsigned long long)m->schedule.first,
                 (unsigned long long)m->schedule.count,
                 (unsigned long long)m->schedule.report_every);
        break;
    case MSG_SNAPSHOT:
    case MSG_SAVE:
        snprintf(line, sizeof(line), "%s %u", msg_kind_name(m->kind),
                 m->save.branch);
        break;
    default:
        snprintf(line, sizeof(line), "%s", msg_kind_name(m->kind));
    }
    trace_line(s, line);
}

static void trace_record(struct sim *s, const struct record *r)
{
    char line[RECORD_TEXT_MAX + RECORD_NAME_MAX + 8];

    switch (r->kind) {
    case RECORD_TRIAL_UPDATED:
    case RECORD_TRIAL_ENDED:
        snprintf(line, sizeof(line), "  trial %u %s", r->trial.trial,
                 trial_label_name(r->trial.label));
        break;
    case RECORD_EPOCH_ENDED:
        snprintf(line, sizeof(line), "  epoch %u of branch %u%s%s",
                 r->epoch_ended.epoch, r->epoch_ended.branch,
                 r->epoch_ended.surviving ? "" : " (finalist)",
                 r->epoch_ended.best ? " best" : "");
        if (s->options->numbers)
            snprintf(line + strlen(line), sizeof(line) - strlen(line),
                     " at %.2f s: %.5g", s->now, r->epoch_ended.metric);
        break;
    case RECORD_DECISION:
        snprintf(line, sizeof(line), "  %s: %s", r->decision.decision,
                 r->decision.text);
        break;
    case RECORD_SEARCH_STARTED:
        snprintf(line, sizeof(line), "  search %u starts",
                 r->search_started.search);
        break;
    case RECORD_SEARCH_ENDED:
        snprintf(line, sizeof(line), "  search %u ends: winner %u",
                 r->search_ended.search, r->search_ended.winner);
        break;
    default:
        return;
    }
    trace_line(s, line);
}

static void search_began(struct sim *s, const struct record_search_started *r)
{
    struct sim_search *q = &s->out->search[s->out->searches];

    REQUIRE(s, s->out->searches < SIM_SEARCHES_MAX, "too many searches");
    *q = (struct sim_search){.retune = r->retune};
    s->parent = known(s, r->parent)->s;
    if (s->f->moved != 0 &&
        s->parent.samples + s->f->samples >= s->f->moved_after * s->f->samples)
        q->moved =
            s->parent.samples < s->f->moved_after * s->f->samples ? 1 : 2;
}

/* Fastest of a grid over @seconds. */
static double grid_speed(const struct sim *s, double seconds, double *lr)
{
    static const double momenta[] = {0, 0.25, 0.5, 0.75, 0.9, 0.95};
    static const double batches[] = {64, 16, 256};
    bool momentum = strstr(s->f->space, "\"momentum\"") != NULL;
    bool batch = strstr(s->f->space, "\"batch_size\"") != NULL;
    double best = 0, speed;

    for (int i = 0; i <= 60; i++)
        for (int m = 0; m < (momentum ? 6 : 1); m++)
            for (int b = 0; b < (batch ? 3 : 1); b++) {
                struct knobs k = physics_knobs_default;

                k.lr = pow(10, -5 + 5 * i / 60.0);
                if (momentum)
                    k.momentum = momenta[m];
                k.batch = batches[b];
                speed = true_speed(s, &k, seconds);
                if (speed > best) {
                    best = speed;
                    *lr = k.lr;
                }
            }
    return best;
}

static void search_over(struct sim *s, const struct record_search_ended *r)
{
    struct sim_search *q = &s->out->search[s->out->searches++];
    double best_trial = 0, best_three = 0, three = 1;

    q->trials = r->trials;
    q->waiting_s = r->waiting_s;
    q->winner = r->winner;
    q->seconds = r->seconds;
    s->out->tuning_s += r->seconds;
    for (unsigned i = 0; i < s->tried_len; i++)
        if (s->tried[i].trial == r->winner)
            three = 3 * physics_epoch(&s->physics, &s->tried[i].knobs);
    for (unsigned i = 0; i < s->tried_len; i++) {
        const struct tried *x = &s->tried[i];
        double seconds = r->trial_s;
        double a, b;

        if (s->f->trial_clocks) /* it is samples then */
            seconds *= s->f->sample_s + s->f->clock_s / 128;
        a = true_speed(s, &x->knobs, fmax(seconds, 1e-3));
        b = true_speed(s, &x->knobs, three);
        best_trial = fmax(best_trial, a);
        best_three = fmax(best_three, b);
        if (x->trial != r->winner)
            continue;
        q->won = true;
        q->doomed_won = x->doomed;
        q->winner_value = x->knobs.lr;
        q->at_trial = a;
        q->at_three = b;
    }
    if (s->f->oracle && q->retune && q->moved > s->gridded) {
        double grid = grid_speed(s, three, &q->grid_value);

        s->gridded = q->moved;
        q->at_oracle = grid > 0 ? q->at_three / grid : 1;
    }
    q->at_trial = best_trial > 0 ? q->at_trial / best_trial : 1;
    q->at_three = best_three > 0 ? q->at_three / best_three : 1;
}

static void doom(struct sim *s, uint32_t trial)
{
    for (unsigned i = 0; i < s->tried_len; i++)
        s->tried[i].doomed |= s->tried[i].trial == trial;
    s->out->search[s->out->searches].doomed++;
}

/* ---- the disk ------------------------------------------------------------ */

/* As the shell does where it cannot go on: the run is what it was, and can be
 * resumed. */
static void give_up(struct sim *s, const struct fault *f)
{
    if (s->finished)
        return;
    REQUIRE(s, f->code != ERR_OK && f->text[0], "given up without a reason");
    s->out->gave_up++;
    s->out->finish = (struct tuner_finish){.status = RUN_INTERRUPTED};
    snprintf(s->out->finish.reason, sizeof(s->out->finish.reason), "%s",
             err_name(f->code));
    s->finished = true;
}

static void store_record(struct sim *s, const struct record *r)
{
    struct fault f = {0};

    if (!s->finished && durable_append(s->storage.durable, r, &f) != ERR_OK)
        give_up(s, &f);
}

/* Whether what it does is still there after a loss of power: as the shell has
 * it (tuner/shell/loop_io.c). */
static bool survives_the_machine(const struct tuner_action *a)
{
    if (a->kind == TUNER_SEND)
        return a->message.kind == MSG_SNAPSHOT || a->message.kind == MSG_SAVE ||
               a->message.kind == MSG_STOP;
    if (a->kind == TUNER_ANSWER)
        return !a->answer.err && !a->answer.value;
    return a->kind == TUNER_REMOVE || a->kind == TUNER_FINISH;
}

static void commit(struct sim *s, bool durable)
{
    struct fault f = {0};

    durable |= s->now - s->storage.flushed_s >= 1;
    if (durable)
        s->storage.flushed_s = s->now;
    if (!s->finished &&
        durable_commit(s->storage.durable, durable, &f) != ERR_OK)
        give_up(s, &f);
}

/* Records come first: a crash in between is as one after them. */
static void store_all(struct sim *s)
{
    bool act = false, durable = false;

    for (size_t i = 0; i < s->actions.count && !s->finished; i++) {
        struct tuner_action *a = &s->actions.item[i];

        act |= a->kind != TUNER_RECORD;
        durable |= survives_the_machine(a);
        if (a->kind == TUNER_RECORD)
            store_record(s, &a->record);
    }
    if (act)
        commit(s, durable);
}

static void no_memory(struct sim *s)
{
    give_up(s, &(struct fault){.code = ERR_NOMEM, .text = "out of memory"});
}

/* As the session does (cli/run/session.c). */
static enum err take_in(struct sim *s, const struct record *r)
{
    enum err err = ERR_NOMEM;

    for (int i = 0; err == ERR_NOMEM && i < TRIES_MAX; i++)
        SCARCE(err = history_apply(&s->history, r));
    return err;
}

/* As the shell does: folders that the journal does not know are of no use. */
bool sim_names_trial(const struct record_snapshot_written *w, const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[HISTORY_TRIAL_FOLDER_MAX];

    for (size_t i = 0; slash && history_snapshot_trial(w, i, name); i++)
        if (strcmp(slash + 1, name) == 0)
            return true;
    return false;
}

static bool is_journaled(const struct sim *s, const char *path)
{
    for (size_t j = 0; j < s->history.snapshots; j++) {
        const struct record_snapshot_written *w = &s->history.snapshot[j].s;

        if (strcmp(w->path, path) == 0 || strcmp(w->best_path, path) == 0 ||
            sim_names_trial(w, path))
            return true;
    }
    return false;
}

static void sweep_disk(struct sim *s)
{
    for (size_t i = 0; i < DISK_MAX; i++)
        if (!is_journaled(s, s->disk[i].path))
            s->disk[i].path[0] = '\0';
    s->sweep_due = false;
}

static struct folder *folder_find(struct sim *s, const char *path);

/* What the record says of the folder at @path is in it. */
static void check_folder(struct sim *s, const char *path, const json_t *lineage)
{
    const struct folder *d = folder_find(s, path);
    json_int_t says =
        json_integer_value(json_object_get(lineage, "increments"));

    REQUIRE(s, d, "there is no folder %s", path);
    REQUIRE(s, d->s.increments == (uint64_t)says,
            "folder %s has increments up to %llu, its record says %llu", path,
            (unsigned long long)d->s.increments, (unsigned long long)says);
}

static void check_increments(struct sim *s,
                             const struct record_snapshot_written *r)
{
    const json_t *trials = json_object_get(r->state, "trials"), *t;
    const char *slash = strrchr(r->path, '/');
    char name[HISTORY_TRIAL_FOLDER_MAX], path[PROTO_PATH_MAX];
    size_t i;

    if (s->f->adds_s == 0 || s->storage.durable || !r->state)
        return;
    check_folder(s, r->path, json_object_get(r->state, "main"));
    if (r->best_path[0])
        check_folder(s, r->best_path, json_object_get(r->state, "best"));
    json_array_foreach(trials, i, t)
    {
        history_trial_folder(
            (uint32_t)json_integer_value(json_object_get(t, "number")),
            (uint32_t)json_integer_value(json_object_get(t, "trial")), name);
        snprintf(path, sizeof(path), "%.*s%s", (int)(slash - r->path + 1),
                 r->path, name);
        check_folder(s, path, json_object_get(t, "line"));
    }
}

static void take_record(struct sim *s, const struct record *r)
{
    enum err err = take_in(s, r);

    if (err == ERR_NOMEM && s->storage.durable) {
        no_memory(s);
        return;
    }
    REQUIRE(s, err == ERR_OK, "history refuses a %s record: %s",
            record_kind_name(r->kind), err_text(err));
    s->line.recorded_s = s->now;
    if (s->options->trace)
        trace_record(s, r);
    if (s->journal)
        REQUIRE(s, json_array_append_new(s->journal, record_to_json(r)) == 0,
                "a %s record has no JSON", record_kind_name(r->kind));
    if (s->options->replay) {
        json_t *o = record_to_json(r);
        struct record back;

        REQUIRE(s, o && record_from_json(o, &back, NULL) == ERR_OK,
                "a %s record does not come back from JSON",
                record_kind_name(r->kind));
        REQUIRE(s, history_apply(&s->replayed, &back) == ERR_OK,
                "a replayed %s record is refused", record_kind_name(r->kind));
        record_deinit(&back);
        json_decref(o);
    }
    switch (r->kind) {
    case RECORD_BRANCH_CREATED:
        s->branch_announced = r->branch_created.branch;
        break;
    case RECORD_BRANCH_FREED:
        s->freed_announced = r->branch_freed.branch;
        break;
    case RECORD_SLICE_SCHEDULED:
        s->slice_announced = r->slice_scheduled.first;
        break;
    case RECORD_SEARCH_STARTED:
        search_began(s, &r->search_started);
        break;
    case RECORD_SEARCH_ENDED:
        search_over(s, &r->search_ended);
        break;
    case RECORD_TRIAL_STARTED:
        REQUIRE(s, s->tried_len < TRIED_MAX, "too many trials");
        s->tried[s->tried_len++] = (struct tried){
            physics_knobs(r->trial.setting), r->trial.trial, false};
        break;
    case RECORD_DECISION:
        if (strcmp(r->decision.decision, "trial_stopped") == 0)
            doom(s, (uint32_t)r->decision.number[0].value);
        break;
    case RECORD_SNAPSHOT_WRITTEN:
        s->out->snapshots++;
        check_increments(s, &r->snapshot_written);
        if (s->sweep_due)
            sweep_disk(s);
        break;
    case RECORD_EPOCH_ENDED:
        s->storage.restarts = 0;
        keeper_progress(&s->line.keeper, r->epoch_ended.epoch);
        break;
    case RECORD_MODEL_SAVED:
        s->out->loss =
            physics_loss(&s->physics, &known(s, r->model_saved.branch)->s);
        break;
    default:
        break;
    }
}

static uint64_t digest_bytes(uint64_t d, const void *p, size_t n)
{
    const unsigned char *c = p;

    for (size_t i = 0; i < n; i++)
        d = (d ^ c[i]) * 0x100000001b3u;
    return d;
}

/* Trials and runs, in order; kept forks (snapshots come by the clock) and
 * with them the branches' numbers left out. */
static void digest(struct sim *s, const struct msg *m)
{
    uint64_t d = s->out->digest;

    if (m->kind == MSG_SCHEDULE) {
        d = digest_bytes(d, &m->schedule.first, sizeof(clock_no));
        d = digest_bytes(d, &m->schedule.count, sizeof(uint64_t));
        d = digest_bytes(d, &m->schedule.report_every, sizeof(uint64_t));
    } else if (m->kind == MSG_FORK && m->fork.type != BRANCH_KEPT) {
        struct knobs x = physics_knobs(m->fork.setting);

        d = digest_bytes(d, &m->fork.type, sizeof(m->fork.type));
        d = digest_bytes(d, &x.lr, sizeof(x.lr));
        d = digest_bytes(d, &x.momentum, sizeof(x.momentum));
        d = digest_bytes(d, &x.batch, sizeof(x.batch));
    }
    s->out->digest = d;
}

/* The live branches of the history are those the node knows. */
static void check_history(const struct sim *s)
{
    for (size_t i = 0; i < s->history.branches; i++) {
        const struct history_branch *b = &s->history.branch[i];

        REQUIRE(s, s->branch[b->branch].planned == isnan(b->freed_at_s),
                "history and node disagree about branch %u", b->branch);
    }
}

static void folder_forget(struct sim *s, const char *path)
{
    for (size_t i = 0; i < DISK_MAX; i++)
        if (strcmp(s->disk[i].path, path) == 0)
            s->disk[i].path[0] = '\0';
}

/* When what happens every @mean_s seconds happens next. */
static double next_blow(struct sim *s, double mean_s)
{
    if (!(mean_s > 0) || s->storage.calm)
        return INFINITY;
    return s->now - mean_s * log(1 - rng_uniform(&s->weather));
}

/* Whether a kill that is due comes before the very next action. */
static bool strikes_now(struct sim *s)
{
    if (fmin(s->storage.kill_at, s->storage.power_at) > s->now ||
        rng_below(&s->weather, 3) > 0)
        return false;
    s->crashing = true;
    return true;
}

/* True when everything is killed before the next action. What the shell has
 * not committed is lost: it commits before it sends, and at the end of a step.
 */
static bool killed(struct sim *s)
{
    if (s->storage.durable)
        return strikes_now(s);
    if (s->crashes >= s->options->crashes ||
        s->acted++ < s->options->crash[s->crashes])
        return false;
    s->crashing = true;
    return true;
}

/* Tickets of those outside, of who asks for re-tunes, and of who adds. */
enum { OUTSIDE_TICKET = 1000, RETUNE_TICKET, ADD_TICKET };

static void answer_outside(struct sim *s, const struct tuner_answer *a)
{
    REQUIRE(s, a->err == ERR_OK || a->err == ERR_NOMEM,
            "a suggestion is refused: %s", a->text);
    s->out->suggested += a->changed;
    s->out->suggested_again += !a->changed && a->suggestions > 0;
    if (a->suggestions > 0)
        s->out->last_suggestion = a->suggestion + a->suggestions - 1;
}

static void take_answer(struct sim *s, const struct tuner_answer *a)
{
    if (a->ticket == OUTSIDE_TICKET) {
        answer_outside(s, a);
        return;
    }
    s->out->added += a->ticket == ADD_TICKET && a->changed;
    if (a->ticket == RETUNE_TICKET || a->ticket == ADD_TICKET)
        return;
    REQUIRE(s,
            a->ticket >= 1 && a->ticket <= s->out->commanded &&
                s->out->answer[a->ticket - 1] == ERR_BUSY,
            "an answer to nobody, or a second one");
    s->out->answer[a->ticket - 1] = a->err;
    REQUIRE(s, a->text[0], "an answer without words");
    REQUIRE(s, a->err == ERR_OK || !a->changed, "a refusal changed something");
    s->out->answered += a->err == ERR_OK;
    s->out->refused += a->err != ERR_OK;
}

static void perform(struct sim *s)
{
    bool stores = s->storage.durable != NULL;
    unsigned gave_up = s->out->gave_up;

    if (stores)
        store_all(s);
    for (size_t i = 0;
         i < s->actions.count && !killed(s) && s->out->gave_up == gave_up;
         i++) {
        struct tuner_action *a = &s->actions.item[i];

        s->out->actions++;
        if (a->kind != TUNER_RECORD)
            s->committed = json_array_size(s->journal);
        if (a->kind == TUNER_RECORD) {
            take_record(s, &a->record);
        } else if (a->kind == TUNER_SEND) {
            struct msg m = a->message;

            digest(s, &m);
            if (s->options->trace)
                trace_message(s, &m);
            /* Ownership moves to the queue; what is left owns nothing. */
            a->message.kind = MSG_STOP;
            if (s->line.plan)
                send_by_line(s, &m);
            else
                receive(s, &m);
        } else if (a->kind == TUNER_REMOVE) {
            s->out->removed += !strstr(a->path, "-best");
            if (stores)
                sim_disk_remove(a->path); /* or it is left for the sweep */
            else
                folder_forget(s, a->path);
        } else if (a->kind == TUNER_ANSWER) {
            take_answer(s, &a->answer);
        } else if (a->kind == TUNER_FINISH) {
            s->out->finish = a->finish;
            s->finished = true;
            REQUIRE(s, i + 1 == s->actions.count, "finish is not the last");
            /* A system that says other things of itself than are true may
             * never be where the tuner waits for it to be. */
            REQUIRE(s,
                    strcmp(a->finish.reason, "stuck") != 0 ||
                        s->line.hit[LINE_STRANGE] > 0,
                    "it waited for nobody");
        }
    }
    tuner_actions_reset(&s->actions);
    if (!s->crashing)
        s->committed = json_array_size(s->journal);
}

/* Whatever event came, or did not: something with a deadline ends the wait for
 * the next one. A tuner that waits for nobody ends its run as "stuck". */
static void check_wait(const struct sim *s)
{
    struct tuner_wait w;

    if (s->finished || s->crashing)
        return;
    w = tuner_waits(s->tuner);
    REQUIRE(s,
            !s->line.plan || s->line.keeper.lost ||
                (w.kind != TUNER_WAITS_ANSWER && w.kind != TUNER_WAITS_READY) ||
                isfinite(keeper_due_at(&s->line.keeper)),
            "nobody looks whether what it waits for comes");
    REQUIRE(s, w.kind != TUNER_WAITS_NOT, "it is over, and did not finish");
    REQUIRE(s, w.kind != TUNER_WAITS_NOBODY, "it waits for nobody");
    REQUIRE(s, w.kind != TUNER_WAITS_TIME || w.at_s <= s->now + 86400,
            "it waits for %g s", w.at_s - s->now);
}

static void give(struct sim *s, struct tuner_event *event)
{
    enum err err;

    if (s->crashing)
        return;
    event->now_s = s->now;
    event->step_s = 1e-4;
    if (s->f->torture && rng_below(&s->faults, s->f->torture) == 0) {
        if (rng_below(&s->faults, 8) == 0)
            tuner_actions_deinit(&s->actions);
        mem_fail_at(1 + (int64_t)rng_below(&s->faults, 3), 0);
    }
    SCARCE(err = tuner_step(s->tuner, event, &s->actions));
    s->out->faults += (unsigned)mem_failed();
    mem_fail_at(0, 0);
    s->out->steps++;
    if (s->f->torture && err == ERR_NOMEM) {
        REQUIRE(s, s->actions.count == 0, "a step that fails has actions");
        s->out->failed_steps++;
        err = tuner_step(s->tuner, event, &s->actions);
    }
    for (int i = 1; err == ERR_NOMEM && i < TRIES_MAX; i++)
        SCARCE(err = tuner_step(s->tuner, event, &s->actions));
    if (err == ERR_NOMEM && s->storage.durable) {
        no_memory(s);
        return;
    }
    REQUIRE(s,
            err == ERR_OK ||
                (err == ERR_PROTO && (s->f->lies || line_hits(&s->line) > 0)),
            "a step fails: %s", err_text(err));
    perform(s);
    check_wait(s);
}

/* ---- running slices ------------------------------------------------------ */

static void fall_silent(struct sim *s);
static void due(struct sim *s);
static double next_due(const struct sim *s);

/* As the crew takes a message in, and the loop after it. */
static void hand(struct sim *s, const struct msg *m)
{
    struct tuner_event e = {.kind = TUNER_EVENT_MESSAGE, .message = m};
    struct keeper *k = &s->line.keeper;

    if (k->lost || keeper_holds(k) || s->line.blamed || s->finished)
        return;
    if (m->kind == MSG_FAILED && m->op && m->op != TUNER_CONFIG_OP &&
        err_may_pass(m->failed.code) && !keeper_owes(k, 0, m->op)) {
        s->line.deaf = true;
        keeper_lose(k, false, s->now, "it cannot do what it granted");
    }
    if (s->line.deaf)
        return;
    keeper_hear(k, 0, s->now);
    if (m->kind == MSG_READY && k->node[0].greeted)
        keeper_ready(k, 0, s->now);
    else if (m->kind == MSG_REPORT)
        keeper_move(k, 0, s->now);
    else if (m->op && m->op != TUNER_CONFIG_OP)
        keeper_answer(k, 0, m->op, s->now);
    if (s->line.plan->program && m->kind == MSG_FAILED && m->op == 0) {
        s->line.blamed |= keeper_fault(k, true, s->now, m->failed.reason);
    } else if (s->line.plan->program && m->kind == MSG_FAILED &&
               m->op == TUNER_CONFIG_OP) {
        s->line.held = *m;
        keeper_hold(k, 0, s->now);
    } else {
        give(s, &e);
    }
}

/* Nothing comes for a while, but the times of others. False: the process did
 * not live to say it, or the tuner not to hear it. */
static bool comes_late(struct sim *s)
{
    double until_s = s->now + line_late_s(&s->line);
    unsigned process = s->line.processes;

    s->line.stalled_until_s = until_s;
    while (!s->finished && !s->crashing && s->line.alive &&
           next_due(s) <= until_s) {
        s->now = fmax(s->now, next_due(s));
        due(s);
    }
    if (s->finished || s->crashing || !s->line.alive ||
        s->line.processes != process)
        return false;
    s->now = fmax(s->now, until_s);
    return true;
}

static void hand_failed(struct sim *s, const struct msg *m)
{
    struct msg failed = {.kind = MSG_FAILED,
                         .op = m->kind == MSG_READY ? TUNER_CONFIG_OP : m->op};

    failed.failed.branch = BRANCH_NONE;
    failed.failed.code = line_code(&s->line);
    snprintf(failed.failed.reason, sizeof(failed.failed.reason),
             "a fault on the line");
    hand(s, &failed);
}

static void hand_strange(struct sim *s, const struct msg *m)
{
    struct msg other = {0};

    /* One of other data would be believed, and refused ever after. */
    if (m->kind == MSG_READY && s->storage.durable) {
        keeper_lose(&s->line.keeper, false, s->now,
                    "the node's `ready` makes no sense");
        return;
    }
    if (!line_garble(&s->line, m, &other, s->now))
        return;
    if (other.kind > MSG_HELLO)
        hand(s, &other);
    msg_deinit(&other);
}

/* The node says @m. */
static void hear(struct sim *s, const struct msg *m)
{
    struct tuner_event e = {.kind = TUNER_EVENT_MESSAGE, .message = m};

    if (!s->line.plan) {
        give(s, &e);
        return;
    }
    if (!s->line.alive)
        return;
    switch (line_draw(&s->line)) {
    case LINE_TWICE:
        hand(s, m);
        hand(s, m);
        return;
    case LINE_LATE:
        if (comes_late(s))
            hand(s, m);
        return;
    case LINE_REFUSED:
        hand_failed(s, m);
        return;
    case LINE_STRANGE:
        hand_strange(s, m);
        return;
    case LINE_DEAD:
        line_die(&s->line, false, s->now);
        return;
    case LINE_HUNG:
        line_hang(&s->line);
        return;
    case LINE_LOST:
        return;
    case LINE_WHOLE:
    case LINE_FAULTS:
        break;
    }
    hand(s, m);
}

static void deliver(struct sim *s)
{
    struct msg m = s->outbox[s->out_head];

    fall_silent(s);
    s->out_head = (s->out_head + 1) % QUEUE_MAX;
    s->outs--;
    hear(s, &m);
}

/* What only @b sees, drawn from the normal distribution. */
static double own_noise(struct sim *s, const struct sim_branch *b)
{
    uint64_t rate;
    struct rng rng;

    if (!s->f->repeats)
        return rng_normal(&s->rng);
    memcpy(&rate, &b->knobs.lr, sizeof(rate));
    rng_init(&rng, rng_mix(rng_mix(s->seed, rate),
                           b->s.samples * 2 + (b->type == BRANCH_TESTING)));
    return rng_normal(&rng);
}

/* Bound of a binomial distribution, by the normal one of @z. */
static double hits(const struct sim *s, const struct sim_branch *b, double z)
{
    double n = (double)s->f->validation;
    double p = physics_hits(physics_excess(&s->physics, &b->s));

    return fmin(fmax(round(n * p + sqrt(n * p * (1 - p)) * z), 0), n);
}

static void run_test(struct sim *s, struct sim_branch *b,
                     struct progress_window *w)
{
    double z = own_noise(s, b);
    double noise = s->f->test_noise > 0 ? s->f->test_noise : 1e-4;

    w->samples = s->f->validation / (s->f->test_clocks ? s->f->test_clocks : 1);
    w->sum =
        physics_loss(&s->physics, &b->s) * (1 + noise * z) * (double)w->samples;
    if (s->f->hits)
        w->sum = hits(s, b, z);
    w->seconds = physics_cost(&s->physics, &b->knobs, (double)w->samples) / 3;
    w->clocks = 1;
}

/* Noise seen on the loss: the trajectory's own, and the
 * choice of samples, which siblings share as far as their models are alike. */
static double seen(struct sim *s, const struct sim_branch *b, uint64_t n)
{
    double z = own_noise(s, b);
    double common = sampling_noise(s, b->s.samples, n);

    if (s->f->condition == 0)
        return s->f->jitter * s->f->ball * z * (double)n + common;
    return s->f->jitter * b->s.ball * z * (double)n +
           common * fmin(0.3 + 0.7 * physics_excess(&s->physics, &b->s), 2);
}

static void run_clock(struct sim *s, struct sim_branch *b,
                      struct progress_window *w)
{
    const struct sim_family *f = s->f;
    uint64_t n = physics_clock(&s->physics, &b->knobs, b->s.samples);
    double cost = physics_cost(&s->physics, &b->knobs, (double)n);
    double noise = seen(s, b, n);

    cost *= fmax(1 + f->cost_noise * rng_normal(&s->costs), 0.2);
    if (f->hiccup > 0 && rng_uniform(&s->costs) < f->hiccup)
        cost *= 5;
    if (f->stall > 0 && rng_uniform(&s->costs) < f->stall)
        w->stalled_s += 100 * cost * (1 + rng_uniform(&s->costs));
    w->sum += physics_loss(&s->physics, &b->s) * (double)n + noise;
    if (b->type == BRANCH_TRAINING) {
        physics_advance(&s->physics, &b->s, &b->knobs, (double)n);
        if (b->fresh)
            w->copy_s += f->copy_s;
        b->fresh = false;
    } else {
        b->s.samples += n;
        b->s.clocks++;
    }
    s->clocks_made++;
    if (f->empty_after && s->clocks_made > f->empty_after)
        w->sum = 0;
    else
        w->samples += n;
    w->clocks++;
    w->seconds += cost;
}

static double window_time(const struct progress_window *w)
{
    return w->seconds + w->copy_s + w->stalled_s;
}

static void report(struct sim *s, branch_id branch, clock_no first,
                   struct progress_window *window, uint32_t n)
{
    struct msg m = {.kind = MSG_REPORT};

    m.report = (struct msg_report){branch, first, n, window, NULL};
    if (s->f->lies && s->out->steps > 100)
        m.report.first++;
    hear(s, &m);
}

/* The process that ran it is no more, or has stopped. */
static bool is_gone(const struct sim *s)
{
    return s->line.plan && !s->line.alive;
}

/* One slice: reports at least once a second, cut where asked or where the loss
 * is not finite. */
static void run_slice(struct sim *s, const struct msg *m)
{
    static struct progress_window window[PROTO_WINDOWS_MAX];
    struct sim_branch *b = known(s, m->schedule.branch);
    uint64_t ran = 0, reported = 0;
    uint32_t n = 0;
    double since = 0;
    bool over = false;

    s->running = true;
    s->now += s->f->switch_s;
    if (s->idle_op == m->op)
        s->now += s->f->answer_s;
    while (!over) {
        struct progress_window *w = &window[n++];

        memset(w, 0, sizeof(*w));
        for (uint64_t i = 0; i < m->schedule.report_every &&
                             ran < m->schedule.count && isfinite(w->sum);
             i++, ran++) {
            if (b->type == BRANCH_TESTING)
                run_test(s, b, w);
            else
                run_clock(s, b, w);
        }
        s->now += window_time(w);
        since += window_time(w);
        over = ran == m->schedule.count || !isfinite(w->sum) || s->cut == m->op;
        if (!over && since < 1 && n < PROTO_WINDOWS_MAX)
            continue;
        report(s, m->schedule.branch, m->schedule.first + reported, window, n);
        for (uint32_t i = 0; i < n; i++)
            reported += window[i].clocks;
        n = 0;
        since = 0;
        if (!s->finished && !over)
            due(s);
        over |= s->cut == m->op || s->finished || is_gone(s);
    }
    s->out->clocks += ran;
    s->running = false;
    if (is_gone(s))
        return;
    answer_done(s, m->op, m->schedule.branch, ran, s->f->switch_s);
}

static void carry_out_fork(struct sim *s, const struct msg *m)
{
    struct sim_branch *b = &s->branch[m->fork.branch];

    b->s = s->branch[m->fork.parent].s;
    b->knobs = physics_knobs(m->fork.setting);
    b->fresh = true;
}

static void answer_failed(struct sim *s, const struct msg *m, enum err code)
{
    struct msg answer = {.kind = MSG_FAILED, .op = m->op};

    answer.failed.branch = BRANCH_NONE;
    answer.failed.code = code;
    snprintf(answer.failed.reason, sizeof(answer.failed.reason), "a fault");
    say(s, &answer);
}

/* Whether this operation fails. */
static bool fails(struct sim *s, const struct msg *m)
{
    if (m->op == s->line.refused && m->op > 0 && m->kind != MSG_FORK)
        return true;
    if (m->kind == MSG_SNAPSHOT)
        return s->f->snapshot_fails || (s->f->snapshots_until_s > 0 &&
                                        s->now >= s->f->snapshots_until_s);
    if (m->kind == MSG_SAVE)
        return s->saves++ < s->f->save_fails;
    if (m->kind != MSG_SCHEDULE || !s->f->app_fails_at ||
        s->branch[m->schedule.branch].type != BRANCH_TRAINING)
        return false;
    return ++s->slices_run >= s->f->app_fails_at &&
           s->slices_run - s->f->app_fails_at <
               (s->f->app_fails_for ? s->f->app_fails_for : 1);
}

static struct folder *folder_find(struct sim *s, const char *path)
{
    for (size_t i = 0; i < DISK_MAX; i++)
        if (strcmp(s->disk[i].path, path) == 0)
            return &s->disk[i];
    return NULL;
}

static void answer_unwritten(struct sim *s, op_id op, const struct fault *f)
{
    struct msg m = {.op = op};

    REQUIRE(s, f->code && f->text[0], "a failure without a reason");
    s->out->unwritten++;
    answer_failed(s, &m, f->code);
}

/* A snapshot is on the disk, whole, or it is not. */
static void durable_written(struct sim *s)
{
    struct fault f = {0};
    enum err err =
        durable_snapshot_end(s->storage.durable, s->writing.folder.path, &f);

    s->writing.at_s = INFINITY;
    if (err)
        answer_unwritten(s, s->writing.op, &f);
    else
        answer_done(s, s->writing.op, BRANCH_NONE, 0, 0);
}

static void durable_write(struct sim *s)
{
    struct folder *d = &s->writing.folder;
    struct fault f = {0};

    s->writing.at_s = s->now + s->f->disk_s;
    if (durable_snapshot_begin(s->storage.durable, d->path, &d->s, sizeof(d->s),
                               &f) == ERR_OK)
        return;
    s->writing.at_s = INFINITY;
    answer_unwritten(s, s->writing.op, &f);
}

/* Whether the node may have told of what it never did. */
static bool told_lies(const struct sim *s)
{
    return s->line.hit[LINE_STRANGE] > 0;
}

/* Whether nothing makes reading fail now. */
static bool can_be_read(const struct sim *s)
{
    return s->storage.calm || s->options->storage->faults.error == 0;
}

static void durable_read(struct sim *s, const struct msg *m)
{
    struct state state;
    struct fault f = {0};
    enum err err = durable_snapshot_read(s->storage.durable, m->restore.path,
                                         &state, sizeof(state), &f);

    if (!err) {
        s->branch[m->restore.branch].s = state;
        answer_done(s, m->op, m->restore.branch, 0, 0);
        return;
    }
    REQUIRE(s, !can_be_read(s) || told_lies(s),
            "a snapshot that was journaled is gone: %s", f.text);
    s->out->damaged++;
    s->branch[m->restore.branch].planned = false;
    s->live--;
    answer_failed(s, m, f.code);
}

static void durable_save(struct sim *s, const struct msg *m)
{
    const struct state *state = &s->branch[m->save.branch].s;
    struct fault f = {0};

    if (durable_model(s->storage.durable, state, sizeof(*state), &f)) {
        answer_unwritten(s, m->op, &f);
        return;
    }
    s->storage.model = *state;
    s->storage.saved = true;
    answer_done(s, m->op, BRANCH_NONE, 0, 0);
}

/* A snapshot is on the disk, whole. */
static void folder_written(struct sim *s)
{
    struct folder *d = folder_find(s, "");

    if (s->storage.durable) {
        durable_written(s);
        return;
    }

    REQUIRE(s, !folder_find(s, s->writing.folder.path),
            "snapshot %s is there already", s->writing.folder.path);
    REQUIRE(s, d, "snapshots are not removed");
    *d = s->writing.folder;
    s->writing.at_s = INFINITY;
    answer_done(s, s->writing.op, BRANCH_NONE, 0, 0);
}

static void folder_write(struct sim *s, const struct msg *m)
{
    struct folder *d = &s->writing.folder;

    REQUIRE(s, isinf(s->writing.at_s), "two snapshots at a time");
    if (folder_find(s, m->snapshot.path) && !s->storage.durable) {
        REQUIRE(s, !is_journaled(s, m->snapshot.path),
                "snapshot %s is there already", m->snapshot.path);
        answer_failed(s, m, ERR_EXIST); /* of one that was killed */
        return;
    }
    memcpy(d->path, m->snapshot.path, sizeof(d->path));
    d->s = s->branch[m->snapshot.branch].s;
    d->damaged = (s->options->best_damage && strstr(d->path, "-best")) ||
                 (s->options->damage > 0 &&
                  rng_uniform(&s->faults) < s->options->damage);
    s->writing.op = m->op;
    if (s->storage.durable) {
        durable_write(s);
        return;
    }
    s->writing.at_s = s->now + s->f->disk_s;
    if (s->f->disk_s == 0)
        folder_written(s);
}

static void folder_read(struct sim *s, const struct msg *m)
{
    const struct folder *d = folder_find(s, m->restore.path);

    if (s->storage.durable) {
        durable_read(s, m);
        return;
    }
    if (!d || d->damaged) {
        s->out->damaged++;
        s->branch[m->restore.branch].planned = false;
        s->live--;
        answer_failed(s, m, d ? ERR_FORMAT : ERR_NOENT);
        return;
    }
    s->branch[m->restore.branch].s = d->s;
    answer_done(s, m->op, m->restore.branch, 0, 0);
}

/* The tuner numbers increments in the order in which it sends them. */
static void add_rows(struct sim *s, const struct msg *m)
{
    s->branch[m->rows.branch].s.increments = ++s->increments;
    answer_done(s, m->op, m->rows.branch, 0, 0);
}

static void carry_out(struct sim *s)
{
    struct msg m = s->queue[s->head];

    s->head = (s->head + 1) % QUEUE_MAX;
    s->queued--;
    if (fails(s, &m))
        answer_failed(s, &m,
                      m.op == s->line.refused  ? s->line.code
                      : m.kind != MSG_SCHEDULE ? ERR_IO
                      : s->f->app_fails_with   ? s->f->app_fails_with
                                               : ERR_APP);
    else if (m.kind == MSG_FORK)
        carry_out_fork(s, &m);
    else if (m.kind == MSG_SCHEDULE)
        run_slice(s, &m);
    else if (m.kind == MSG_SNAPSHOT)
        folder_write(s, &m);
    else if (m.kind == MSG_RESTORE)
        folder_read(s, &m);
    else if (m.kind == MSG_ROWS)
        add_rows(s, &m);
    else if (m.kind == MSG_SAVE && s->storage.durable)
        durable_save(s, &m);
    else
        answer_done(s, m.op, BRANCH_NONE, 0, 0);
    msg_deinit(&m);
}

/* ---- a run --------------------------------------------------------------- */

static branch_id target(const struct sim *s, unsigned i)
{
    branch_id tip = history_tip(&s->history);

    if (s->f->command[i].of == SIM_GIVEN)
        return s->f->command[i].fork.branch;
    if (s->f->command[i].of == SIM_TIP)
        return tip == BRANCH_NONE ? 0 : tip;
    for (size_t b = s->history.branches; b-- > 0;)
        if (isnan(s->history.branch[b].freed_at_s) &&
            (s->f->command[i].of == SIM_NEWEST ||
             strcmp(s->history.branch[b].role, "user") == 0))
            return s->history.branch[b].branch;
    return BRANCH_NONE - 1;
}

static void command(struct sim *s, unsigned i)
{
    const struct sim_family *f = s->f;
    enum command_id id = f->command[i].command;
    union command_args args = {0};
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = id,
                            .args = &args,
                            .ticket = i + 1};

    if (id == COMMAND_LIMITS) {
        args.limits = f->command[i].limits;
    } else if (id == COMMAND_SUGGEST) {
        args.suggest.exhausted = f->command[i].exhausted;
        if (f->command[i].suggest)
            snprintf(args.suggest.settings, sizeof(args.suggest.settings), "%s",
                     f->command[i].suggest);
    } else {
        args.fork = f->command[i].fork;
        args.fork.branch = target(s, i);
    }
    s->out->answer[i] = ERR_BUSY;
    give(s, &e);
    REQUIRE(s,
            s->crashing || s->out->answer[i] != ERR_BUSY ||
                e.command == COMMAND_FORK,
            "a command has no answer");
}

/* The search that is open to suggestions; NULL: none is. */
static const struct history_search *open_search(const struct history *h)
{
    for (size_t i = h->searches; i > 0; i--)
        if (!h->search[i - 1].ended)
            return h->search[i - 1].closed ? NULL : &h->search[i - 1];
    return NULL;
}

/* Whether those outside have seen all that they suggested so far, and how many
 * trials that were. */
static bool all_is_told(const struct history *h, uint32_t search,
                        uint32_t *made)
{
    bool told = true;

    *made = 0;
    for (size_t i = 0; i < h->trials; i++) {
        if (h->trial[i].t.search != search)
            continue;
        ++*made;
        told &= h->trial[i].t.label != TRIAL_RUNNING;
    }
    for (size_t i = 0; i < h->suggestions; i++)
        told &= h->suggestion[i].s.state != SUGGESTION_WAITING;
    return told;
}

static void send_outside(struct sim *s)
{
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = COMMAND_SUGGEST,
                            .args = &s->outside.last,
                            .key = s->outside.key,
                            .ticket = OUTSIDE_TICKET};

    s->outside.unsure = false;
    give(s, &e);
}

static void suggest_next_rate(struct sim *s, uint32_t search, uint32_t made)
{
    union command_args last = {.suggest = {.single = true}};
    struct command_suggest *suggest = &last.suggest;
    struct rng dice;

    if (s->outside.search != search || s->outside.made != made)
        s->outside.tries = 0;
    s->outside.search = search;
    s->outside.made = made;
    rng_init(&dice, rng_mix(s->seed,
                            search * 1000000 + made * 1000 + s->outside.tries));
    snprintf(s->outside.key, sizeof(s->outside.key), "%u-%u-%u", search, made,
             s->outside.tries++);
    if (made >= s->f->outside.trials)
        suggest->exhausted = true;
    else
        snprintf(suggest->settings, sizeof(suggest->settings),
                 "[{\"learning_rate\": %.17g}]",
                 s->f->outside.rate > 0 ? s->f->outside.rate
                                        : pow(10, -5 * rng_uniform(&dice)));
    s->outside.last = last;
    send_outside(s);
}

/* Searchers outside look, and suggest the next setting where it is wanted. */
static void look_from_outside(struct sim *s)
{
    const struct history *h = &s->history;
    const struct history_search *q = open_search(h);
    bool gone = s->f->outside.gone_s > 0 && s->now >= s->f->outside.gone_s;
    uint32_t made;

    s->outside.at_s = s->now + s->f->outside.every_s;
    if (s->outside.unsure && !gone && h->asking != ASKING_OVER) {
        send_outside(s);
        return;
    }
    if (gone || !q || h->status != RUN_TUNING || h->asking != ASKING_OPEN ||
        !all_is_told(h, q->started.search, &made))
        return;
    suggest_next_rate(s, q->started.search, made);
}

/* Whether it is taken is not of interest. */
static void ask_for_retune(struct sim *s)
{
    union command_args none = {0};
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = COMMAND_RETUNE,
                            .args = &none,
                            .ticket = RETUNE_TICKET};

    s->retune_at_s = s->now + s->f->retune_s;
    give(s, &e);
}

static void say_ready(struct sim *s);

/* What the keeper decides by now, as the loop does it. Another process is
 * started by whoever calls this. */
static void keep(struct sim *s)
{
    struct keeper *k = &s->line.keeper;
    struct tuner_event lost = {.kind = TUNER_EVENT_LOST, .reason = k->reason};
    char late[128];

    if (tuner_ends(s->tuner))
        keeper_hurry(k, s->now);
    if (keeper_holds(k) && s->now >= tuner_wake_at(s->tuner))
        keeper_release(k, s->now);
    while (!s->finished && !s->line.restarts) {
        switch (keeper_take(k, s->now)) {
        case KEEPER_NOTHING:
            return;
        case KEEPER_KILL:
            line_hang(&s->line);
            keeper_late_text(k, late, sizeof(late));
            keeper_lose(k, false, s->now, late);
            break;
        case KEEPER_CLEAR:
            line_hang(&s->line);
            break;
        case KEEPER_RESTART:
            s->line.restarts = true;
            break;
        case KEEPER_GIVE_UP:
            line_hang(&s->line);
            lost.program = k->o.program && k->final;
            give(s, &lost);
            break;
        case KEEPER_TELL: {
            struct tuner_event e = {.kind = TUNER_EVENT_MESSAGE,
                                    .message = &s->line.held};

            give(s, &e);
            break;
        }
        }
    }
}

/* The process comes up, as far as it is said; and the line's times. */
static void come_up(struct sim *s)
{
    struct line *l = &s->line;

    if (!l->plan)
        return;
    if (l->beats && l->keeper.node[0].greeted && s->now >= l->stalled_until_s)
        keeper_hear(&l->keeper, 0, s->now);
    if (l->alive && s->now >= l->hello_at_s && s->now >= l->stalled_until_s) {
        l->hello_at_s = INFINITY;
        switch (line_draw(l)) {
        case LINE_WHOLE:
        case LINE_TWICE:
            keeper_greet(&l->keeper, 0, s->now);
            if (line_draw(l) == LINE_WHOLE) /* the configuration */
                l->ready_at_s = s->now + l->plan->load_s;
            break;
        case LINE_DEAD:
            line_die(l, false, s->now);
            break;
        case LINE_LATE:
            l->hello_at_s = s->now + line_late_s(l);
            break;
        default:
            break;
        }
    }
    if (l->alive && s->now >= l->ready_at_s && s->now >= l->stalled_until_s) {
        l->ready_at_s = INFINITY;
        say_ready(s);
    }
    keep(s);
}

/* Somebody adds to a row of a branch in training. */
static void add_to_some(struct sim *s)
{
    double value[1] = {1};
    union command_args args = {
        .rows = {.table = "weights", .count = 1, .values = 1, .add = value}};
    struct tuner_event e = {.kind = TUNER_EVENT_COMMAND,
                            .command = COMMAND_ADD,
                            .args = &args,
                            .ticket = ADD_TICKET};
    branch_id live[BRANCHES_MAX];
    uint32_t n = 0;

    s->add_at_s = s->now + s->f->adds_s;
    for (branch_id i = 1; i < s->branches; i++)
        if (s->branch[i].known && s->branch[i].planned &&
            s->branch[i].type == BRANCH_TRAINING)
            live[n++] = i;
    if (n == 0)
        return;
    args.rows.branch = live[rng_below(&s->users, n)];
    give(s, &e);
}

/* Timers, commands, losses of the node that are due. */
static void due(struct sim *s)
{
    const struct sim_family *f = s->f;
    struct tuner_event timer = {.kind = TUNER_EVENT_TIMER};

    if (s->now >= s->writing.at_s && !is_gone(s))
        folder_written(s);
    come_up(s);
    if (s->finished || s->line.keeper.lost)
        return;
    if (s->now >= tuner_wake_at(s->tuner))
        give(s, &timer);
    while (!s->finished && s->out->commanded < SIM_COMMANDS_MAX &&
           f->command[s->out->commanded].at_s > 0 &&
           s->now >= f->command[s->out->commanded].at_s) {
        s->out->commanded++;
        command(s, s->out->commanded - 1);
    }
    if (!s->finished && !s->crashing && f->outside.trials > 0 &&
        s->now >= s->outside.at_s)
        look_from_outside(s);
    if (!s->finished && !s->crashing && f->retune_s > 0 &&
        s->now >= s->retune_at_s)
        ask_for_retune(s);
    if (!s->finished && !s->crashing && f->adds_s > 0 && s->now >= s->add_at_s)
        add_to_some(s);
    if (!s->finished && f->lost_s > 0 && s->now >= f->lost_s) {
        struct tuner_event e = {.kind = TUNER_EVENT_LOST,
                                .reason = "it was killed"};

        give(s, &e);
    }
}

static bool crash_is_due(const struct sim *s)
{
    return !s->finished && s->options->crash_s > 0 && s->out->crashed == 0 &&
           s->now >= s->options->crash_s;
}

/* The same with a line: the tuner is not asked while its node is lost. */
static double due_by_line(const struct sim *s)
{
    const struct line *l = &s->line;
    double at = keeper_due_at(&l->keeper);

    if (!l->keeper.lost)
        at = fmin(at, tuner_wake_at(s->tuner));
    if (l->stalled_until_s > s->now)
        at = fmin(at, l->stalled_until_s);
    if (l->alive)
        at =
            fmin(at, fmin(s->writing.at_s, fmin(l->hello_at_s, l->ready_at_s)));
    return at;
}

/* When something is due that no message brings; INFINITY: never. */
static double next_due(const struct sim *s)
{
    double at = fmin(tuner_wake_at(s->tuner), s->writing.at_s);
    unsigned i = s->out->commanded;

    if (s->line.plan)
        at = due_by_line(s);
    if (i < SIM_COMMANDS_MAX && s->f->command[i].at_s > 0)
        at = fmin(at, s->f->command[i].at_s);
    if (s->f->outside.trials > 0)
        at = fmin(at, s->outside.at_s);
    if (s->f->retune_s > 0)
        at = fmin(at, s->retune_at_s);
    if (s->f->adds_s > 0)
        at = fmin(at, s->add_at_s);
    if (s->options->crash_s > 0 && s->out->crashed == 0)
        at = fmin(at, s->options->crash_s);
    return s->f->lost_s > 0 ? fmin(at, s->f->lost_s) : at;
}

static void say_ready(struct sim *s)
{
    struct msg m = {.kind = MSG_READY, .op = TUNER_CONFIG_OP};

    m.ready = (struct msg_ready){
        .samples = s->f->samples,
        .validation_samples = s->f->validation,
        .parts = s->f->parts,
        .workers = s->f->workers,
        .metric_reduction = "mean",
        .loss_floor = 0,
        .model_bytes = 1000,
    };
    if (s->f->validation)
        snprintf(m.ready.metric, sizeof(m.ready.metric),
                 s->f->hits ? "accuracy" : "error");
    m.ready.metric_higher_better = s->f->hits;
    if (s->f->adds_s > 0)
        m.ready.tables =
            json_pack("[{s:s, s:i, s:i, s:s, s:s, s:s, s:b}]", "name",
                      "weights", "rows", 1, "width", 1, "type", "f32", "access",
                      "shared", "rule", "sgd", "saved", 1);
    m.ready.tunables = json_array();
    for (size_t i = 0; i < s->space.len; i++)
        json_array_append_new(m.ready.tunables,
                              json_string(s->space.tunable[i].name));
    hear(s, &m);
    json_decref(m.ready.tunables);
    json_decref(m.ready.tables);
}

static const struct strategy_ops *strategy_named(const char *name)
{
    if (!name)
        return &strategy_mltuner;
    for (size_t i = 0; strategies_built_in[i]; i++)
        if (strcmp(strategies_built_in[i]->name, name) == 0)
            return strategies_built_in[i];
    fprintf(stderr, "sim: no strategy %s\n", name);
    abort();
}

/* The setting of the family to start from, in @out; NULL: it has none. */
static const struct setting *initial_of(const struct sim *s,
                                        struct setting *out)
{
    json_t *o = s->f->initial ? json_loads(s->f->initial, 0, NULL) : NULL;
    struct problems problems = {0};
    enum err err = ERR_OK;

    if (!o)
        return NULL;
    err = setting_from_json(&s->space, o, "/tuner/initial", out, &problems);
    assert(!err);
    json_decref(o);
    problems_deinit(&problems);
    return out;
}

/* False: there is no tuner, for want of memory. */
static bool prepare(struct sim *s)
{
    const struct sim_family *f = s->f;
    enum err err = space_from_text(f->space, &s->space, NULL);
    struct tuner_options o = TUNER_OPTIONS;
    struct setting initial;

    assert(!err);
    o.strategy = strategy_named(f->strategy);
    if (f->strategy_settings && !s->strategy_settings)
        s->strategy_settings = json_loads(f->strategy_settings, 0, NULL);
    o.strategy_settings = s->strategy_settings;
    o.space = &s->space;
    o.searcher = f->searcher ? f->searcher : &searcher_random;
    if (f->searcher_settings && !s->searcher_settings)
        s->searcher_settings = json_loads(f->searcher_settings, 0, NULL);
    o.searcher_settings = s->searcher_settings;
    o.initial = initial_of(s, &initial);
    o.earlier = f->earlier;
    o.max_epochs = f->max_epochs ? f->max_epochs : 100;
    o.plateau_epochs = f->plateau_epochs ? f->plateau_epochs : 5;
    o.plateau_samples = f->plateau_samples;
    o.plateau_hits = f->plateau_hits;
    o.max_trials = f->max_trials;
    o.trial_clocks = f->trial_clocks;
    if (f->run_doomed)
        o.trial_stops = TRIAL_STOPS_WATCHED;
    o.seed = s->seed;
    o.snapshot_every_s = f->snapshot_s > 0 ? f->snapshot_s : 20;
    o.snapshot_trials = !f->trials_anew;
    o.snapshot_dir = s->storage.durable ? SIM_DISK_SNAPSHOTS : "/disk";
    if (s->storage.durable)
        o.model_dir = SIM_DISK_STATE "/model";
    if (s->out->crashed && history_records(&s->history) > 0)
        o.resume = &s->history;
    o.restarts = s->options->restarts ? s->out->crashed : 0;
    if (s->storage.durable)
        o.restarts = s->storage.restarts;
    if (s->line.plan) {
        o.program = s->line.plan->program;
        o.restarts = s->line.keeper.restarts;
        o.lost_s = s->out->crashed ? s->now - s->line.recorded_s : 0;
    }
    o.resume_reason = "it was killed";
    o.from_beginning = s->options->from_beginning;
    if (f->max_time_s > 0)
        o.max_time_s = f->max_time_s;
    if (f->target_metric > 0)
        o.target_metric = f->target_metric;
    SCARCE(err = tuner_new(&o, &s->tuner, NULL));
    if (err == ERR_NOMEM && s->storage.durable) {
        s->tuner = NULL;
        no_memory(s);
        return false;
    }
    assert(!err);
    return true;
}

static void init_branches(struct sim *s)
{
    s->branch = mem_alloc(BRANCHES_MAX * sizeof(*s->branch));
    assert(s->branch);
    s->branches = 1;
    s->live = 1;
    s->branch[0] = (struct sim_branch){
        .known = true, .planned = true, .type = BRANCH_INIT};
    physics_start(&s->physics, &s->branch[0].s);
}

static void drop_messages(struct sim *s)
{
    while (s->queued) {
        msg_deinit(&s->queue[s->head]);
        s->head = (s->head + 1) % QUEUE_MAX;
        s->queued--;
    }
    s->outs = 0;
    s->writing.at_s = INFINITY;
}

/* Gives a random member somewhere below @o another value, or none. */
static void mangle(struct sim *s, json_t *o)
{
    size_t n = json_object_size(o), at = n ? rng_below(&s->faults, n) : 0;
    const char *key;
    json_t *value;

    json_object_foreach(o, key, value)
    {
        if (at-- > 0)
            continue;
        if (json_is_object(value) && json_object_size(value) > 0)
            mangle(s, value);
        else if (rng_below(&s->faults, 3) == 0)
            json_object_del(o, key);
        else if (rng_below(&s->faults, 3) == 0)
            json_object_set_new(o, key, json_string("x"));
        else
            json_object_set_new(
                o, key, json_integer((json_int_t)rng_below(&s->faults, 100)));
        return;
    }
}

static void mangle_snapshots(struct sim *s)
{
    for (size_t i = 0; i < s->committed && s->options->mangle > 0; i++) {
        json_t *state = json_object_get(json_array_get(s->journal, i), "state");

        if (state && rng_uniform(&s->faults) < s->options->mangle)
            mangle(s, state);
    }
}

/* Folds the records that were committed. */
static void fold(struct sim *s)
{
    history_deinit(&s->history);
    history_init(&s->history);
    while (json_array_size(s->journal) > s->committed)
        json_array_remove(s->journal, json_array_size(s->journal) - 1);
    mangle_snapshots(s);
    for (size_t i = 0; i < s->committed; i++) {
        struct record r;

        REQUIRE(s,
                record_from_json(json_array_get(s->journal, i), &r, NULL) ==
                    ERR_OK,
                "record %zu does not come back from JSON", i);
        REQUIRE(s, history_apply(&s->history, &r) == ERR_OK,
                "record %zu (%s) is refused", i, record_kind_name(r.kind));
        record_deinit(&r);
    }
}

/* A new tuner with the history at hand, and a new node that knows nothing. */
static void begin_again(struct sim *s)
{
    const struct history *h = &s->history;

    s->out->finish.status = RUN_WAITING;
    s->last_op = s->cut = 0;
    s->increments = h->increments;
    s->outside.unsure = s->outside.key[0];
    s->next_clock = h->clock;
    if (h->slices) {
        const struct record_slice_scheduled *last = &h->slice[h->slices - 1].s;

        s->next_clock = (clock_no)fmax((double)s->next_clock,
                                       (double)(last->first + last->count));
    }
    s->branches = h->branches ? h->branch[h->branches - 1].branch + 1 : 1;
    REQUIRE(s, s->branches < BRANCHES_MAX, "too many branches for the sim");
    for (branch_id i = 1; i < s->branches; i++)
        s->branch[i].known = s->branch[i].planned = false;
    s->branch[0].planned = true;
    s->live = 1;
    s->branch_announced = s->freed_announced = BRANCH_NONE;
    s->now += s->line.plan ? 0 : 1;
    if (prepare(s) && !s->line.plan)
        say_ready(s);
}

/* Everything but journal and disk is gone; a new tuner, a new node. */
static void crash(struct sim *s)
{
    const struct history *h = &s->history;

    s->out->crashed++;
    s->crashes++;
    s->crashing = false;
    s->acted = 0;
    s->finished = false;
    tuner_free(s->tuner);
    drop_messages(s);
    fold(s);
    s->tuner = NULL;
    if (s->out->crashed % 2)
        sweep_disk(s);
    else /* what died may still be writing */
        s->sweep_due = true;
    if (h->finished && h->end.status == RUN_FAILED &&
        s->failed < s->options->failed) {
        s->failed++;
    } else if (h->finished && h->end.status != RUN_INTERRUPTED) {
        s->finished = true; /* killed after its end was journaled */
        s->out->finish.status = h->end.status;
        return;
    }
    begin_again(s);
}

static void compare_replay(struct sim *s)
{
    json_t *a = history_result(&s->history, "", "");
    json_t *b = history_result(&s->replayed, "", "");

    REQUIRE(s, a && b && json_equal(a, b),
            "the replayed records give another result");
    REQUIRE(s,
            s->history.records == s->replayed.records &&
                s->history.clocks == s->replayed.clocks &&
                s->history.clock == s->replayed.clock &&
                s->history.at_s == s->replayed.at_s,
            "the replayed records give another history");
    json_decref(a);
    json_decref(b);
}

static void finish(struct sim *s)
{
    if (s->options->replay)
        compare_replay(s);
    s->out->seconds = s->now;
    s->out->messages = s->line.messages;
    s->out->hits = s->line.plan ? line_hits(&s->line) : 0;
    memcpy(s->out->hit, s->line.hit, sizeof(s->out->hit));
    s->out->protests = s->line.protests;
    s->out->processes = s->line.processes;
    s->out->trials = (uint32_t)s->history.trials;
    for (size_t i = 0; i < s->history.trials; i++)
        s->out->trial_s += s->history.trial[i].t.figures.seconds;
    s->out->epochs = history_epochs(&s->history);
    s->out->best_rate = s->physics.best_rate;
    drop_messages(s);
    tuner_free(s->tuner);
    if (s->options->journal)
        *s->options->journal = s->journal;
    else
        json_decref(s->journal);
    json_decref(s->searcher_settings);
    json_decref(s->strategy_settings);
    tuner_actions_reset(&s->actions);
    history_deinit(&s->history);
    history_deinit(&s->replayed);
    mem_free(s->branch);
}

/* ---- a run on a disk ----------------------------------------------------- */

static void draw_blows(struct sim *s)
{
    const struct sim_storage *o = s->options->storage;

    s->storage.kill_at = next_blow(s, o->kill_s);
    s->storage.power_at = next_blow(s, o->power_s);
    s->storage.node_at = next_blow(s, o->node_s);
    s->storage.silence_at = next_blow(s, o->silence_s);
    if (o->killed_at_s > 0 && s->out->kills == 0)
        s->storage.kill_at = o->killed_at_s;
}

static void calm_down(struct sim *s)
{
    double calm_s = s->options->storage->calm_s;

    if (s->storage.calm || calm_s == 0 || s->now < calm_s)
        return;
    s->storage.calm = s->line.calm = true;
    sim_disk_set_faults(NULL);
    draw_blows(s);
}

/* Whoever runs the program starts it until it begins, or the run is over. */
static void open_storage(struct sim *s)
{
    struct fault f = {0};
    bool over = false;
    enum err err;

    do {
        REQUIRE(s, s->out->resumes++ < RESUMES_MAX, "it never begins: %s",
                f.text);
        history_deinit(&s->history);
        err = durable_open(s->storage.durable, &s->history, &over, &f);
        REQUIRE(s, !err || (f.code && f.text[0]), "refused without a reason");
        s->out->gave_up += err != ERR_OK;
        s->now += 5;
        calm_down(s);
    } while (err);
    s->storage.flushed_s = s->now;
    s->storage.open = !over;
    if (s->history.model.path[0]) /* journaled, and maybe not heard of */
        s->out->loss =
            physics_loss(&s->physics, &s->branch[s->history.model.branch].s);
    if (over) {
        s->finished = true;
        s->out->finish.status = s->history.end.status;
        snprintf(s->out->finish.reason, sizeof(s->out->finish.reason), "%s",
                 s->history.end.reason);
        return;
    }
    durable_sweep(s->storage.durable, &s->history);
}

static void drop_tuner(struct sim *s)
{
    s->out->crashed++;
    s->crashing = s->finished = false;
    tuner_free(s->tuner);
    s->tuner = NULL;
    drop_messages(s);
}

/* The tuner's process has ended, or was killed. */
static void resume_storage(struct sim *s)
{
    drop_tuner(s);
    s->storage.restarts = 0;
    open_storage(s);
    draw_blows(s);
    if (s->line.plan)
        line_resume(&s->line, s->now);
    if (!s->finished)
        begin_again(s);
}

static void die(struct sim *s, bool machine)
{
    s->out->kills += !machine;
    s->out->power_cuts += machine;
    durable_kill(s->storage.durable, machine);
    resume_storage(s);
}

/* Some losses in a row are mended by another node; then the run is given up,
 * as tuner/shell/keeper.h has it. */
static void lose_node(struct sim *s)
{
    struct tuner_event e = {.kind = TUNER_EVENT_LOST,
                            .reason = "it was killed"};

    s->out->nodes_lost++;
    s->storage.node_at = next_blow(s, s->options->storage->node_s);
    if (s->line.plan) {
        if (s->line.alive)
            line_die(&s->line, false, s->now);
        return;
    }
    if (s->storage.restarts >= 3) {
        give(s, &e);
        return;
    }
    s->storage.restarts++;
    drop_tuner(s);
    begin_again(s);
}

/* The keeper starts another node. */
static void restart_by_line(struct sim *s)
{
    drop_tuner(s);
    sweep_disk(s);
    keeper_restarted(&s->line.keeper, s->now);
    line_process(&s->line, s->now);
    begin_again(s);
}

static bool end_storage(struct sim *s);
static bool blow(struct sim *s);

/* What befalls disk and processes of a run whose line has faults. False:
 * nothing does now. */
static bool befall_storage(struct sim *s, bool *over)
{
    if (!s->storage.durable)
        return false;
    if (!s->crashing && s->finished) {
        *over = end_storage(s);
        if (!*over)
            resume_storage(s);
        return true;
    }
    return blow(s);
}

/* One step of a run whose line has faults. False: it is over, or hangs. */
static bool go_by_line(struct sim *s)
{
    const struct line *l = &s->line;
    bool listens, over = false;

    if (befall_storage(s, &over))
        return !over;
    due(s);
    if (s->crashing || (s->finished && s->storage.durable))
        return true;
    listens = l->alive && s->now >= l->stalled_until_s;
    if (s->finished)
        return false;
    if (l->restarts)
        restart_by_line(s);
    else if (listens && s->outs)
        deliver(s);
    else if (listens && s->queued)
        carry_out(s);
    else if (isfinite(next_due(s)))
        s->now = fmax(s->now, next_due(s));
    else
        s->out->hung = true;
    s->out->hung |= s->now > l->plan->deadline_s || s->out->steps > STEPS_MAX;
    return !s->out->hung && (!s->finished || s->storage.durable);
}

/* Something has happened to disk, processes or line. */
static bool blow(struct sim *s)
{
    calm_down(s);
    if (s->crashing || fmin(s->storage.kill_at, s->storage.power_at) <= s->now)
        die(s, s->storage.power_at <= s->now);
    else if (s->storage.node_at <= s->now)
        lose_node(s);
    else
        return false;
    return true;
}

/* Messages that were under way come all the same, but late. */
static void fall_silent(struct sim *s)
{
    double length_s;

    if (!s->storage.durable || s->now < s->storage.silence_at)
        return;
    length_s = 1 - 20 * log(1 - rng_uniform(&s->weather));
    s->out->silences++;
    s->out->silent_s += length_s;
    if (s->line.plan) /* who waits looks at the clock meanwhile */
        s->line.stalled_until_s =
            fmax(s->line.stalled_until_s, s->now + length_s);
    else
        s->now += length_s;
    s->storage.silence_at = next_blow(s, s->options->storage->silence_s);
}

/* The run has ended: for good, or for now. True: for good. */
static bool end_storage(struct sim *s)
{
    const struct tuner_finish *finish = &s->out->finish;

    REQUIRE(s, finish->status != RUN_FAILED || line_hits(&s->line) > 0,
            "it has failed: %s: %s", finish->reason, finish->message);
    if (s->storage.open)
        durable_end(s->storage.durable, run_status_name(finish->status),
                    finish->reason);
    s->storage.open = false;
    if (finish->status == RUN_FAILED) { /* a user resumes that, too */
        s->out->failed_ends++;
        return !history_has_work(&s->history);
    }
    return finish->status != RUN_INTERRUPTED;
}

/* What a run that has finished leaves is there whatever happens then. */
static void check_storage(struct sim *s)
{
    struct sim_disk_stats called;
    struct history h;
    struct fault f = {0};
    bool over = false;

    called = sim_disk_stats(); /* before they are counted anew */
    s->out->allocations = scarce_calls();
    s->out->ran_out = scarce_failed();
    sim_disk_set_faults(NULL);
    scarce_set(NULL);
    durable_kill(s->storage.durable, true);
    REQUIRE(s, durable_open(s->storage.durable, &h, &over, &f) == ERR_OK,
            "its journal cannot be read: %s", f.text);
    REQUIRE(s, over, "its end is lost");
    REQUIRE(s,
            !h.model.path[0] || told_lies(s) ||
                (s->storage.saved &&
                 durable_has_model(s->storage.durable, &s->storage.model,
                                   sizeof(s->storage.model))),
            "its model is lost");
    history_deinit(&h);
    s->out->disk = sim_disk_stats();
    memcpy(s->out->disk.called, called.called, sizeof(called.called));
}

static void start_storage(struct sim *s)
{
    if (!s->options->storage)
        return;
    s->storage.durable = durable_new(s->seed);
    rng_init(&s->weather, rng_mix(s->seed, 96));
    sim_disk_set_faults(&s->options->storage->faults);
    scarce_set(s->options->storage->scarce);
    open_storage(s);
    draw_blows(s);
}

/* Snapshots that were damaged stay so, and nobody begins anew. */
static bool is_given_up(const struct sim *s)
{
    return s->options->damage > 0 && !s->options->from_beginning &&
           strcmp(s->out->finish.reason, "restore_failed") == 0;
}

/* A user resumes what was interrupted. */
static bool resumable(const struct sim *s)
{
    return s->options->crashes > 0 && !is_given_up(s) &&
           (s->out->finish.status == RUN_INTERRUPTED ||
            (s->out->finish.status == RUN_FAILED &&
             s->failed < s->options->failed));
}

double sim_best_rate(uint64_t seed)
{
    struct rng rng;

    rng_init(&rng, rng_mix(seed, 99));
    return pow(10, -4 + 3.5 * rng_uniform(&rng));
}

void sim_run(const struct sim_family *family, uint64_t seed,
             const struct sim_options *options, struct sim_result *out)
{
    static const struct sim_options plain;
    static struct tuner_actions actions; /* kept: half a megabyte */
    static struct sim sim;
    struct sim *s = &sim;

    memset(out, 0, sizeof(*out));
    out->loss = NAN;
    out->digest = 0xcbf29ce484222325u;
    memset(s, 0, offsetof(struct sim, queue));
    memset(&s->head, 0,
           offsetof(struct sim, outbox) - offsetof(struct sim, head));
    memset(&s->out_head, 0,
           offsetof(struct sim, tried) - offsetof(struct sim, out_head));
    memset(&s->tried_len, 0, sizeof(*s) - offsetof(struct sim, tried_len));
    s->f = family;
    s->options = options ? options : &plain;
    s->seed = seed;
    s->out = out;
    s->actions = actions;
    s->branch_announced = s->freed_announced = BRANCH_NONE;
    s->writing.at_s = INFINITY;
    rng_init(&s->faults, rng_mix(seed, 97));
    rng_init(&s->costs, rng_mix(seed, 98));
    rng_init(&s->users, rng_mix(seed, 95));
    rng_init(&s->rng, rng_mix(seed, 99));
    physics_init(&s->physics, family, sim_best_rate(seed), (unsigned)seed % 8);
    rng_uniform(&s->rng);
    history_init(&s->history);
    history_init(&s->replayed);
    init_branches(s);
    if (s->options->crashes || s->options->crash_s > 0 || s->options->journal)
        s->journal = json_array();
    start_storage(s);
    if (s->options->line)
        line_init(&s->line, s->options->line, seed, s->now);
    if (prepare(s) && !s->line.plan)
        say_ready(s);
    while (s->line.plan && go_by_line(s))
        ;
    while (
        !s->line.plan &&
        (!s->finished || s->crashing || resumable(s) || s->storage.durable) &&
        !out->hung) {
        if (s->storage.durable && !s->crashing && s->finished) {
            if (end_storage(s))
                break;
            resume_storage(s);
            continue;
        }
        if (s->storage.durable && blow(s))
            continue;
        if (s->crashing || s->finished) {
            crash(s);
            continue;
        }
        due(s);
        s->crashing |= crash_is_due(s);
        if (s->finished || s->crashing)
            continue;
        if (s->outs)
            deliver(s);
        else if (s->queued)
            carry_out(s);
        else if (isfinite(next_due(s)))
            s->now = fmax(s->now, next_due(s));
        else
            out->hung = true;
        if (!s->finished && !s->crashing && s->outs == 0 &&
            out->steps % 64 == 0)
            check_history(s);
        out->hung |= out->steps > STEPS_MAX;
    }
    actions = s->actions;
    if (s->storage.durable && !out->hung)
        check_storage(s);
    durable_free(s->storage.durable);
    finish(s);
    if (s->options->storage)
        tuner_actions_deinit(&s->actions); /* a process of its own */
    actions = s->actions;
}
