/* The simulator's measured claims: time to a target against the best fixed
 * setting known in advance and against other strategies, the cost of eight
 * tunables against four, and re-tuning after the optimum has moved.
 *
 *     make bench B=sim_gates        20 seeds of the development families
 *     SIM_SEEDS=1000                so many seeds
 *     SIM_HELD_OUT=1                held-out seeds, all families
 *     SIM_FAMILY=name               one family
 *     SIM_STRATEGIES=hyperband,complete,hyperband_finite
 *                                   others, given up at ten times mltuner's
 *                                   time
 *     SIM_SEARCHER=gp               another searcher than tpe
 *     SIM_SEARCHER_SETTINGS={...}   its settings, JSON
 *     SIM_EARLIER=1                 so many earlier runs of the job, up to 3,
 *                                   are known (tuner.warm_start)
 *     SIM_EARLIER_OTHER=1           theirs was another best learning rate
 *     SIM_PART=70                   the target is the loss of the best fixed
 *                                   setting after so much of the horizon, in %
 */
#include "base/mem.h"
#include "searchers/built_in.h"
#include "tests/sim/gates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS_MAX = 1000, STRATEGIES_MAX = 8 };
#define MOST 40.0        /* times the oracle's time: then a run is given up */
#define OTHERS_MOST 10.0 /* times mltuner's time */

struct measured {
    unsigned n;
    double ratio[SEEDS_MAX], first[SEEDS_MAX], share[SEEDS_MAX];
    double slower[STRATEGIES_MAX][SEEDS_MAX];
    unsigned others_missed[STRATEGIES_MAX];
    unsigned missed, retunes, near_tried, near_oracle, drifted;
};

static unsigned number(const char *name, unsigned fallback)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 10) : fallback;
}

/* Part of the name list @text, number @i; false past its end. */
static bool part(const char *text, unsigned i, char *out, size_t size)
{
    while (text && i > 0) {
        text = strchr(text, ',');
        text += text != NULL;
        i--;
    }
    if (!text || !*text)
        return false;
    snprintf(out, size, "%.*s", (int)strcspn(text, ","), text);
    return true;
}

static void line(const struct gates_family *g, const char *what, double value,
                 const char *unit)
{
    printf("sim_gates family=%s measure=%s %.4g %s\n", g->f.name, what, value,
           unit);
}

static double tuned_first(const struct sim_result *r)
{
    return r->searches ? r->search[0].seconds : 0;
}

static void count_drift(struct measured *m, const struct gates_family *g,
                        const struct sim_result *r)
{
    const struct sim_search *last = NULL;

    if (getenv("SIM_VERBOSE"))
        printf("drift family=%s epochs=%u searches=%u reason=%s\n", g->f.name,
               r->epochs, r->searches, r->finish.reason);
    if (r->epochs <= g->f.moved_after)
        return;
    m->drifted++;
    for (unsigned i = 0; i < r->searches; i++)
        if (r->search[i].retune &&
            r->search[i].moved > (last ? last->moved : 0))
            last = &r->search[i];
    if (!last)
        return;
    m->retunes++;
    if (getenv("SIM_VERBOSE"))
        printf("drift at_three=%.2f at_oracle=%.2f won=%d rate=%.3g of=%.3g "
               "before=%.3g\n",
               last->at_three, last->at_oracle, last->won,
               last->winner_value / r->best_rate,
               last->grid_value / r->best_rate,
               r->search[0].winner_value / r->best_rate);
    m->near_tried += last->at_three >= 0.8;
    m->near_oracle += last->at_oracle >= 0.8;
}

/* Prints every action of a run. */
static void trace(const struct sim_family *f, uint64_t seed)
{
    char *text = NULL;
    struct sim_options options = {.trace = &text, .numbers = true};
    static struct sim_result r;

    if (!getenv("SIM_TRACE"))
        return;
    sim_run(f, seed, &options, &r);
    printf("%s", text);
    mem_free(text);
}

static void measure_others(const struct gates_family *g,
                           const struct gates_oracle *o, uint64_t seed,
                           double tuned, struct measured *m)
{
    static struct sim_result other;
    char name[64];

    for (unsigned i = 0; i < STRATEGIES_MAX &&
                         part(getenv("SIM_STRATEGIES"), i, name, sizeof(name));
         i++) {
        double most = OTHERS_MOST * fmin(tuned / o->seconds, MOST);
        double t = gates_time(g, o, name, seed, most, &other);

        m->slower[i][m->n] = isinf(t) ? OTHERS_MOST : t / tuned;
        m->others_missed[i] += isinf(t);
    }
}

static void measure_target(const struct gates_family *family,
                           const struct gates_oracle *o, uint64_t seed,
                           struct measured *m)
{
    static struct sim_result r;
    static struct earlier earlier;
    struct gates_family copy = *family;
    const struct gates_family *g = &copy;
    unsigned before = number("SIM_EARLIER", 0);
    double fixed, tuned;
    struct sim_family f;

    if (before) {
        gates_earlier(family, o, seed, before,
                      number("SIM_EARLIER_OTHER", 0) > 0, &earlier);
        copy.f.earlier = &earlier;
    }
    fixed = gates_time_fixed(g, o, seed);
    tuned = gates_time(g, o, NULL, seed, MOST, &r);
    f = g->f;
    f.target_metric = o->target;
    trace(&f, seed);

    m->ratio[m->n] = tuned / fixed;
    m->first[m->n] = tuned_first(&r) / fixed;
    m->share[m->n] = r.tuning_s / r.seconds;
    m->missed += isinf(tuned);
    if (getenv("SIM_VERBOSE"))
        printf("run family=%s seed=%llu fixed=%.2f tuned=%.2f first=%.2f "
               "tuning=%.2f searches=%u trials=%u epochs=%u lr=%.2f of=%.2f\n",
               g->f.name, (unsigned long long)seed, fixed, tuned,
               tuned_first(&r), r.tuning_s, r.searches, r.trials, r.epochs,
               r.search[0].winner_value / r.best_rate, o->knobs.lr);
    measure_others(g, o, seed, tuned, m);
}

/* Re-tuning after the optimum has moved: a run of the horizon's epochs. */
static void measure_drift(const struct gates_family *g, uint64_t seed,
                          struct measured *m)
{
    static struct sim_result r;
    struct sim_family f = g->f;

    f.max_epochs = (uint32_t)g->horizon_epochs;
    f.oracle = true;
    if (getenv("SIM_VERBOSE"))
        printf("seed %llu\n", (unsigned long long)seed);
    trace(&f, seed);
    sim_run(&f, seed, NULL, &r);
    count_drift(m, g, &r);
}

static void print_measured(const struct gates_family *g, struct measured *m)
{
    char name[64], what[80];
    double ninth;

    if (g->drifts) {
        line(g, "retuned_after_drift", (double)m->retunes / fmax(m->drifted, 1),
             "share");
        line(g, "retune_within_20_of_tried",
             (double)m->near_tried / fmax(m->retunes, 1), "share");
        line(g, "retune_within_20_of_best",
             (double)m->near_oracle / fmax(m->retunes, 1), "share");
        return;
    }
    line(g, "time_to_target_vs_best_fixed", gates_median(m->ratio, m->n),
         "median");
    ninth = m->ratio[m->n * 9 / 10];
    line(g, "time_to_target_vs_best_fixed", ninth, "p90");
    line(g, "first_search_vs_best_fixed", gates_median(m->first, m->n),
         "median");
    line(g, "tuning_share", gates_median(m->share, m->n), "median");
    line(g, "target_missed", (double)m->missed / m->n, "share");
    for (unsigned i = 0; part(getenv("SIM_STRATEGIES"), i, name, sizeof(name));
         i++) {
        snprintf(what, sizeof(what), "%s_vs_mltuner", name);
        line(g, what, gates_median(m->slower[i], m->n), "median");
        snprintf(what, sizeof(what), "%s_given_up", name);
        line(g, what, (double)m->others_missed[i] / m->n, "share");
    }
}

static void measure_family(const struct gates_family *g, unsigned seeds,
                           uint64_t from)
{
    static struct measured m;
    struct gates_oracle oracle[GATES_VARIANTS];

    memset(&m, 0, sizeof(m));
    for (unsigned v = 0; v < GATES_VARIANTS && !g->drifts; v++) {
        gates_oracle(g, v, (double)number("SIM_PART", 70) / 100, &oracle[v]);
        if (getenv("SIM_VERBOSE"))
            printf("oracle family=%s variant=%u target=%.4f seconds=%.2f "
                   "lr=%.3f momentum=%.2f batch=%.0f staleness=%.0f\n",
                   g->f.name, v, oracle[v].target, oracle[v].seconds,
                   oracle[v].knobs.lr, oracle[v].knobs.momentum,
                   oracle[v].knobs.batch, oracle[v].knobs.staleness);
    }
    for (uint64_t seed = from + 1; seed <= from + seeds; seed++) {
        if (g->drifts)
            measure_drift(g, seed, &m);
        else
            measure_target(g, &oracle[seed % GATES_VARIANTS], seed, &m);
        m.n++;
    }
    print_measured(g, &m);
}

/* The searcher that the caller wants, and its settings. */
static void take_searcher(struct sim_family *f)
{
    const char *name = getenv("SIM_SEARCHER");

    if (name)
        f->searcher = searcher_built_in(name);
    if (!f->searcher) {
        fprintf(stderr, "sim_gates: there is no searcher %s\n", name);
        exit(2);
    }
    f->searcher_settings = getenv("SIM_SEARCHER_SETTINGS");
}

int main(void)
{
    unsigned seeds = number("SIM_SEEDS", 20);
    bool held_out = number("SIM_HELD_OUT", 0) > 0;
    const char *only = getenv("SIM_FAMILY");

    if (seeds > SEEDS_MAX)
        seeds = SEEDS_MAX;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < gates_families(); i++) {
        struct gates_family g;

        gates_family(i, &g);
        take_searcher(&g.f);
        if (only ? strcmp(only, g.f.name) == 0 : held_out || !g.held_out)
            measure_family(&g, seeds, held_out ? GATES_HELD_OUT_SEED : 0);
    }
    return 0;
}
