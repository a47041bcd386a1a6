/* A program that `mltune check-trainer` checks: it answers the player well or
 * not, is silent, ends, or says what is no message. Each check ends with a
 * verdict in words, and all of them in time. */
#include "base/json/json.h"
#include "cli/check/player.h"
#include "tests/fuzz/node_says.h"

#include <math.h>

enum { PLAYER_STEPS = 600, PLAYER_ASKED = 64, PLAYER_TICKS = 5000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct program {
    struct player *player;
    struct node_asked asked[PLAYER_ASKED]; /* the oldest first */
    size_t len;
    uint64_t clocks; /* reported of the first slice in asked */
    uint32_t nodes;
    double now;
    bool over;
};

static void take_send(struct program *p, struct msg *m)
{
    char *text = NULL;
    size_t len;

    must(msg_encode(m, &text, &len) == ERR_OK);
    mem_free(text);
    if (p->len < PLAYER_ASKED)
        p->asked[p->len++] = node_asked_of(m);
    msg_deinit(m);
}

static void say_hello(struct program *p)
{
    for (uint32_t i = 0; i < p->nodes; i++) {
        struct msg m = {.kind = MSG_HELLO,
                        .hello = {.version = PROTO_VERSION, .node = i}};

        player_hear(p->player, i, p->now);
        player_take(p->player, &m, true, p->now);
    }
}

static void drain(struct program *p, struct bytes_in *in)
{
    struct player_act a;

    while (!p->over && player_next(p->player, &a)) {
        switch (a.kind) {
        case ACT_START:
            p->len = 0;
            if (in_byte(in) < 240)
                say_hello(p);
            break;
        case ACT_SEND:
            take_send(p, &a.message);
            break;
        case ACT_RAW:
            must(a.text != NULL);
            break;
        case ACT_LOOK:
            player_looked(p->player, in_below(in, 4), in_below(in, 4),
                          in_below(in, 8) == 7 ? "a" : NULL, p->now);
            break;
        case ACT_CLOSE:
        case ACT_SIGNAL:
            if (in_chance(in))
                player_ended(p->player,
                             in_chance(in) ? 0 : -(int)in_below(in, 20),
                             "it ended", p->now);
            break;
        case ACT_KILL:
            p->len = 0;
            break;
        case ACT_OVER:
            p->over = true;
            break;
        }
    }
}

static void forget_first(struct program *p)
{
    memmove(p->asked, p->asked + 1, --p->len * sizeof(*p->asked));
    p->clocks = 0;
}

static void answer(struct program *p, struct bytes_in *in)
{
    struct node_asked none = {.kind = MSG_BEAT};
    struct msg m;

    if (!node_says(in, p->len ? &p->asked[0] : &none, p->clocks, &m))
        return;
    if (m.kind == MSG_REPORT)
        p->clocks += m.report.windows;
    else if (p->len && m.op == p->asked[0].op)
        forget_first(p);
    player_hear(p->player, (uint32_t)in_below(in, p->nodes), p->now);
    player_take(p->player, &m, true, p->now);
    must(m.kind == MSG_BEAT); /* it was transferred */
}

static void one_step(struct program *p, struct bytes_in *in)
{
    uint8_t what = in_byte(in);

    if (what < 225) {
        answer(p, in);
    } else if (what < 245) {
        p->now += (double)in_below(in, 30);
        player_tick(p->player, p->now);
    } else if (what < 250) {
        player_wrong(p->player, RULE_W1, "no message", p->now);
    } else {
        player_ended(p->player, (int)in_below(in, 3), "it ended", p->now);
    }
    drain(p, in);
}

/* Nothing is said any more: the deadlines end what is left. */
static void wait_for_the_end(struct program *p)
{
    struct bytes_in none = {0};
    int ticks = 0;

    while (!p->over) {
        double wake = player_wake_at(p->player);

        must(isfinite(wake) && ticks++ < PLAYER_TICKS);
        p->now = fmax(p->now, wake) + 0.1;
        player_tick(p->player, p->now);
        drain(p, &none);
    }
}

static void check_verdicts(const struct player *player)
{
    size_t n;
    const struct check_result *r = player_results(player, &n);
    bool failed = false;

    must(n > 0 && n <= (size_t)checks_len);
    for (size_t i = 0; i < n; i++) {
        failed |= r[i].outcome == OUTCOME_FAILED;
        must(r[i].outcome != OUTCOME_FAILED ||
             (r[i].expected[0] && r[i].came[0]));
        must(r[i].outcome != OUTCOME_NOT_APPLICABLE || r[i].came[0]);
    }
    must(player_passed(player) != failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes_in in = {data, size};
    struct program p = {.now = 100};
    struct player_options o = {.folder = "/here", .work = "/work", .step_s = 5};
    int64_t before;

    json_count_memory();
    before = mem_outstanding();
    p.nodes = o.nodes = 1 + (uint32_t)in_below(&in, 2);
    o.checks = checks + in_below(&in, (uint64_t)checks_len);
    o.checks_len = (size_t)(checks + checks_len - o.checks);
    o.first = in_chance(&in);
    o.config = json_pack("{s:{s:i}}", "memory", "limit", 1000);
    must(o.config && player_new(&o, &p.player) == ERR_OK);
    player_start(p.player, p.now);
    drain(&p, &in);
    for (int i = 0; i < PLAYER_STEPS && in.left > 0 && !p.over; i++)
        one_step(&p, &in);
    wait_for_the_end(&p);
    check_verdicts(p.player);
    player_free(p.player);
    json_decref(o.config);
    must(mem_outstanding() == before);
    return 0;
}
