/* A conversation with the tuner: a training system that answers what it is
 * asked, well or not, or sends what nobody asked for; users' commands; time.
 * Whatever comes, each message to it can be sent and each record folds into the
 * history. A run that is lost goes on from that history, of which a byte may
 * have been damaged, so that resume reads what it did not write. */
#include "base/json/json.h"
#include "base/mem.h"
#include "base/proto/proto_table.h"
#include "searchers/built_in.h"
#include "tests/fuzz/bytes_in.h"
#include "tests/fuzz/must.h"
#include "tests/unit/fixture/space_text.h"
#include "tuner/board/strategy.h"
#include "tuner/core/tuner.h"
#include "tuner/history/history.h"

#include <math.h>
#include <stdio.h>

enum { ASKED_MAX = 64, LIVES_MAX = 4, EVENTS_MAX = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the tuner has sent and waits for. */
struct asked {
    enum msg_kind kind;
    op_id op;
    branch_id branch;
    uint64_t first, count;
};

static struct {
    struct bytes_in *in;
    struct space space;
    struct history history;
    struct tuner *tuner;
    struct tuner_actions actions;
    struct asked asked[ASKED_MAX];
    size_t asks;
    double now;
    unsigned lives;
    /* The training system's data. */
    uint64_t samples, validation, parts;
    uint32_t workers;
    bool over, damage; /* the next record is damaged */
    bool spoiled;      /* one was: those after it may not fit to it */
} play;

/* ---- what the tuner wants ------------------------------------------------ */

/* The record as it comes out of a journal, where a byte of it may be wrong. */
static void journal(const struct record *r)
{
    json_t *json = record_to_json(r), *read;
    struct record back;
    char *text;

    must(json != NULL);
    text = json_write(json, 0);
    must(text != NULL);
    json_decref(json);
    if (play.damage)
        text[in_byte(play.in) * strlen(text) / 256] ^= (char)in_byte(play.in);
    if (json_load(text, strlen(text), &read, NULL, NULL) == ERR_OK) {
        enum err err = record_from_json(read, &back, NULL);

        must(!err || play.damage);
        if (!err) {
            err = history_apply(&play.history, &back);
            must(err == ERR_OK || play.damage || play.spoiled ||
                 play.lives > 1);
            record_deinit(&back);
        }
        json_decref(read);
    } else {
        must(play.damage);
    }
    play.spoiled |= play.damage;
    play.damage = false;
    mem_free(text);
}

static void send(const struct msg *m)
{
    struct asked a = {.kind = m->kind, .op = m->op, .branch = BRANCH_NONE};
    struct msg same;
    char *text;
    size_t n;

    must(msg_encode(m, &text, &n) == ERR_OK);
    must(msg_decode(text, n, &same, NULL) == ERR_OK);
    msg_deinit(&same);
    mem_free(text);
    if (m->kind == MSG_FORK) {
        a.branch = m->fork.branch;
    } else if (m->kind == MSG_SCHEDULE) {
        a.branch = m->schedule.branch;
        a.first = m->schedule.first;
        a.count = m->schedule.count;
    }
    if (play.asks < ASKED_MAX)
        play.asked[play.asks++] = a;
}

static void step(struct tuner_event *e)
{
    enum err err;

    play.now += in_byte(play.in) / 32.0;
    e->now_s = play.now;
    tuner_actions_reset(&play.actions);
    err = tuner_step(play.tuner, e, &play.actions);
    must(err == ERR_OK || err == ERR_PROTO);
    for (size_t i = 0; i < play.actions.count; i++) {
        const struct tuner_action *a = &play.actions.item[i];

        must(!play.over);
        if (a->kind == TUNER_RECORD)
            journal(&a->record);
        else if (a->kind == TUNER_SEND)
            send(&a->message);
        else if (a->kind == TUNER_FINISH)
            play.over = true;
    }
    must(!err || play.over);
}

/* ---- what the training system says --------------------------------------- */

/* As it comes over the wire; what cannot is not said. @m is released. */
static void say(struct msg *m)
{
    struct tuner_event e = {.kind = TUNER_EVENT_MESSAGE};
    struct msg came;
    char *text;
    size_t n;
    enum err err = msg_encode(m, &text, &n);

    msg_deinit(m);
    if (err)
        return;
    err = msg_decode(text, n, &came, NULL);
    mem_free(text);
    if (err)
        return;
    e.message = &came;
    step(&e);
    msg_deinit(&came);
}

/* The same data as before, mostly: a run that is lost does not go on with
 * others. */
static void say_ready(void)
{
    struct msg m = {.kind = MSG_READY};

    if (play.lives == 1 || in_byte(play.in) > 250) {
        play.samples = 1 + in_byte(play.in);
        play.validation = in_below(play.in, 2);
        play.workers = 1 + (uint32_t)in_below(play.in, 4);
        play.parts = in_below(play.in, 3);
    }
    m.ready = (struct msg_ready){.samples = play.samples,
                                 .validation_samples = play.validation,
                                 .workers = play.workers,
                                 .parts = play.parts,
                                 .metric_reduction = "mean",
                                 .loss_floor = NAN};
    m.ready.tunables = json_pack("[s, s]", "learning_rate", "batch_size");
    m.ready.tables = json_array();
    must(proto_check(&m) == NULL);
    say(&m);
}

static struct asked take_asked(size_t i)
{
    struct asked a = play.asked[i];

    memmove(play.asked + i, play.asked + i + 1,
            (--play.asks - i) * sizeof(*play.asked));
    return a;
}

static void report(const struct asked *a, uint64_t clocks)
{
    struct msg m = {.kind = MSG_REPORT, .op = a->op};

    m.report.branch = a->branch;
    m.report.first = a->first;
    m.report.windows = 1;
    m.report.window = mem_calloc(1, sizeof(*m.report.window));
    must(m.report.window != NULL);
    *m.report.window =
        (struct progress_window){.sum = in_real(play.in) * (double)clocks,
                                 .samples = clocks,
                                 .clocks = clocks,
                                 .seconds = in_byte(play.in) / 64.0};
    say(&m);
}

static void say_failed(const struct asked *a)
{
    struct msg m = {.kind = MSG_FAILED, .op = a->op};

    m.failed.branch = a->branch;
    m.failed.code = (enum err)(1 + in_below(play.in, ERR_COUNT - 1));
    snprintf(m.failed.reason, sizeof(m.failed.reason), "it would not");
    say(&m);
}

/* What fits the question, mostly. */
static void say_done(const struct asked *a)
{
    struct msg m = {.kind = a->kind == MSG_FORK ? MSG_FORKED : MSG_DONE,
                    .op = a->op};
    uint64_t clocks = a->count;

    if (a->kind == MSG_SCHEDULE && in_chance(play.in))
        clocks = in_number(play.in);
    if (a->kind == MSG_SCHEDULE && clocks && in_chance(play.in) && !play.over)
        report(a, clocks);
    if (m.kind == MSG_FORKED) {
        m.forked.branch = a->branch;
    } else {
        m.done = (struct msg_done){.branch = a->branch, .clocks = clocks};
        m.done.switch_s = in_byte(play.in) / 256.0;
    }
    say(&m);
}

static void answer(void)
{
    struct asked a = {.kind = MSG_DONE, .op = in_number(play.in)};

    if (play.asks)
        a = take_asked(in_below(play.in, play.asks));
    if (a.kind == MSG_STOP)
        return;
    if (in_byte(play.in) > 240)
        say_failed(&a);
    else
        say_done(&a);
}

/* A slice says how it goes on, and may be of another branch. */
static void progress(void)
{
    for (size_t i = 0; i < play.asks; i++) {
        struct asked a = play.asked[i];

        if (a.kind != MSG_SCHEDULE)
            continue;
        if (in_byte(play.in) > 250)
            a.branch = (branch_id)in_number(play.in);
        report(&a, 1 + in_below(play.in, 8));
        return;
    }
}

/* ---- everything else ----------------------------------------------------- */

static void command(void)
{
    static const enum command_id plain[] = {COMMAND_STOP,   COMMAND_INTERRUPT,
                                            COMMAND_PAUSE,  COMMAND_CONTINUE,
                                            COMMAND_RETUNE, COMMAND_SNAPSHOT};
    union command_args none = {0};
    struct tuner_event e = {
        .kind = TUNER_EVENT_COMMAND, .ticket = 7, .args = &none};
    size_t answers = 0;

    e.command = plain[in_below(play.in, sizeof(plain) / sizeof(*plain))];
    step(&e);
    for (size_t i = 0; i < play.actions.count; i++)
        answers += play.actions.item[i].kind == TUNER_ANSWER &&
                   play.actions.item[i].answer.ticket == 7;
    must(answers == 1);
}

static void lose(void)
{
    struct tuner_event e = {.kind = TUNER_EVENT_LOST,
                            .reason = "it is gone",
                            .program = in_chance(play.in)};

    step(&e);
}

static void begin(void)
{
    static const struct strategy_ops *const strategies[] = {
        &strategy_mltuner, &strategy_fixed, &strategy_hyperband, &strategy_asha,
        &strategy_complete};
    struct tuner_options o = TUNER_OPTIONS;
    struct tuner_event e = {.kind = TUNER_EVENT_TIMER};
    enum err err;

    o.space = &play.space;
    o.strategy = strategies[in_below(play.in, 5)];
    o.searcher = &searcher_random;
    o.trial_clocks = in_below(play.in, 4);
    o.max_trials = (uint32_t)in_below(play.in, 4);
    o.max_epochs = 4;
    o.snapshot_every_s = 1 + in_byte(play.in) % 8;
    o.snapshot_dir = "/disk";
    o.model_dir = "/model";
    o.resume = history_records(&play.history) ? &play.history : NULL;
    o.resume_reason = "it was lost";
    o.restarts = o.resume ? 1 : 0;
    play.asks = 0;
    play.over = false;
    play.lives++;
    err = tuner_new(&o, &play.tuner, NULL);
    must(err == ERR_OK || err == ERR_INVAL);
    if (err) {
        play.tuner = NULL;
        return;
    }
    step(&e);
    if (!play.over)
        say_ready();
}

static void end(void)
{
    tuner_free(play.tuner);
    play.tuner = NULL;
}

static void next_event(void)
{
    struct tuner_event timer = {.kind = TUNER_EVENT_TIMER};
    uint8_t what = in_byte(play.in);

    if (what < 150)
        answer();
    else if (what < 190)
        progress();
    else if (what < 220)
        step(&timer);
    else if (what < 240)
        command();
    else if (what < 246)
        lose();
    else if (what < 250)
        play.damage = true;
    else
        play.over = true; /* killed */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char space[] =
        "{\"learning_rate\": {\"type\": \"float\", \"min\": 1e-4, \"max\": 1, "
        "\"scale\": \"log\"}, \"batch_size\": {\"type\": \"int\", \"values\": "
        "[2, 8]}}";
    struct bytes_in in = {data, size};
    int64_t before;

    json_count_memory();
    before = mem_outstanding();
    memset(&play, 0, sizeof(play));
    play.in = &in;
    must(space_from_text(space, &play.space, NULL) == ERR_OK);
    history_init(&play.history);
    for (unsigned events = 0; in.left && events < EVENTS_MAX; events++) {
        if (!play.tuner || play.over) {
            if (play.lives == LIVES_MAX)
                break;
            end();
            begin();
        } else {
            next_event();
        }
    }
    end();
    tuner_actions_deinit(&play.actions);
    history_deinit(&play.history);
    must(mem_outstanding() == before);
    return 0;
}
