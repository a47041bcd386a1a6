/* Requests of the dashboard, for a run as large as it is to work for.
 *
 *   dashboard [--serve | --journal DIR]
 *
 * dashboard route=... trials=100000 points=10000000   ms until the answer is
 *                     written, in a state that has just changed (nothing
 * cached) dashboard what=memory                               MB the process
 * holds
 *
 * The state: 1,000 searches of 100 trials of 99 points each; after each search
 * 100 points of training in its winner's branch. With --serve it is served on
 * 127.0.0.1:18081, beside six small runs, until the program is killed: for
 * looking at it in a browser (tests/browser). With --journal it is written to
 * the state folder DIR, 2 GB: for `mltune export`, `serve`, `watch` of it.
 */
#include "api/service/server_io.h"
#include "api/service/service.h"
#include "base/clock_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "tests/bench/bench.h"
#include "tuner/history/journal_io.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <unistd.h>

enum {
    SEARCHES = 1000,
    TRIALS = 100, /* of a search */
    POINTS = 99,  /* of a trial */
    WINDOWS = 11, /* of a record */
    SMALL_RUNS = 6
};

struct maker {
    struct history *h;
    struct journal *journal; /* NULL: none is written */
    uint64_t records;
    double at_s;
    clock_no clock;
    branch_id branches;
    branch_id tip;
    clock_no tip_clocks;
    uint32_t trials;
    uint64_t points;
    uint64_t noise;
};

static double noise(struct maker *m)
{
    m->noise = m->noise * 6364136223846793005u + 1442695040888963407u;
    return (double)(m->noise >> 11) / 9007199254740992.0;
}

static void write_record(struct maker *m, const struct record *r)
{
    json_t *json = record_to_json(r);
    char *text = json ? json_write(json, 0) : NULL;

    bench_must(text && journal_append(m->journal, record_kind_name(r->kind),
                                      text, strlen(text), 1800000000000000000,
                                      NULL) == ERR_OK,
               "append");
    if (++m->records % 10000 == 0)
        bench_must(journal_commit(m->journal, false, NULL) == ERR_OK, "commit");
    mem_free(text);
    json_decref(json);
}

static void feed(struct maker *m, struct record *r)
{
    r->at_s = m->at_s;
    r->clock = m->clock;
    if (m->journal)
        write_record(m, r);
    bench_must(history_apply(m->h, r) == ERR_OK, "record");
    record_deinit(r);
}

static json_t *make_setting(struct maker *m)
{
    return json_pack("{s:f, s:f, s:i}", "learning_rate", pow(10, -5 * noise(m)),
                     "momentum", noise(m), "batch_size",
                     16 << (int)(5 * noise(m)));
}

static double speed_of(struct maker *m, const json_t *setting)
{
    double rate = json_real_value(json_object_get(setting, "learning_rate"));

    return exp(-pow(log10(rate) + 2, 2)) * (0.8 + 0.4 * noise(m));
}

static branch_id make_branch(struct maker *m, branch_id parent, json_t *setting,
                             const char *role)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_CREATED);
    r.branch_created.branch = m->branches++;
    r.branch_created.parent = parent;
    r.branch_created.type =
        parent == BRANCH_NONE ? BRANCH_INIT : BRANCH_TRAINING;
    r.branch_created.setting = json_incref(setting);
    snprintf(r.branch_created.role, sizeof(r.branch_created.role), "%s", role);
    feed(m, &r);
    return m->branches - 1;
}

static void free_branch(struct maker *m, branch_id branch)
{
    struct record r;

    record_init(&r, RECORD_BRANCH_FREED);
    r.branch_freed.branch = branch;
    snprintf(r.branch_freed.reason, sizeof(r.branch_freed.reason),
             "slower than others");
    feed(m, &r);
}

static void run(struct maker *m, branch_id branch, clock_no ran, int points,
                double from, double to)
{
    for (int i = 0; i < points; i += WINDOWS) {
        struct record r;

        record_init(&r, RECORD_PROGRESS);
        r.progress.branch = branch;
        r.progress.first = m->clock;
        r.progress.branch_clock = ran + (clock_no)i;
        r.progress.windows = WINDOWS;
        for (int k = 0; k < WINDOWS; k++) {
            double part = (double)(i + k) / points;

            r.progress.window[k] = (struct progress_window){
                .sum =
                    64 * (from + (to - from) * part) * (0.97 + 0.06 * noise(m)),
                .samples = 64,
                .clocks = 1,
                .seconds = 0.01};
        }
        m->clock += WINDOWS;
        m->points += WINDOWS;
        m->at_s += 0.01 * WINDOWS;
        feed(m, &r);
    }
}

static void trial_record(struct maker *m, enum record_kind kind,
                         uint32_t search, branch_id branch, json_t *setting,
                         double speed, double loss)
{
    struct record r;

    record_init(&r, kind);
    r.trial = (struct record_trial){.trial = m->trials,
                                    .search = search,
                                    .branch = branch,
                                    .setting = json_incref(setting),
                                    .figures.speed = speed,
                                    .figures.range = -speed,
                                    .figures.noise = 0.01,
                                    .figures.seconds = 1,
                                    .figures.samples = 64 * POINTS,
                                    .figures.clocks = POINTS,
                                    .figures.points = RECORD_POINTS_MAX};
    r.trial.label = kind == RECORD_TRIAL_STARTED ? TRIAL_RUNNING
                    : speed > 0.1                ? TRIAL_CONVERGING
                                                 : TRIAL_UNSTABLE;
    for (int i = 0; i < RECORD_POINTS_MAX; i++) {
        r.trial.figures.time_s[i] = 0.1 * i;
        r.trial.figures.loss[i] = loss - speed * 0.1 * i;
    }
    feed(m, &r);
}

static void make_search(struct maker *m, uint32_t search, int trials)
{
    double loss = 0.2 + 2.1 * exp(-0.004 * search), best = -1;
    branch_id parent = m->tip, winner = parent;
    json_t *chosen = NULL;
    uint32_t won = 0;
    struct record r;

    record_init(&r, RECORD_SEARCH_STARTED);
    r.search_started = (struct record_search_started){
        .search = search, .parent = parent, .trials_max = TRIALS};
    feed(m, &r);
    for (int t = 0; t < trials; t++) {
        json_t *setting = make_setting(m);
        double speed = speed_of(m, setting);
        branch_id b = make_branch(m, parent, setting, "trial");

        m->trials++;
        trial_record(m, RECORD_TRIAL_STARTED, search, b, setting, 0, loss);
        run(m, b, m->tip_clocks, POINTS, loss, loss * (1 - 0.3 * speed));
        trial_record(m, RECORD_TRIAL_ENDED, search, b, setting, speed, loss);
        if (speed > best) {
            if (winner != parent)
                free_branch(m, winner);
            json_decref(chosen);
            best = speed;
            chosen = json_incref(setting);
            winner = b;
            won = m->trials;
        } else {
            free_branch(m, b);
        }
        json_decref(setting);
    }
    record_init(&r, RECORD_SEARCH_ENDED);
    r.search_ended = (struct record_search_ended){
        .search = search, .trials = (uint32_t)trials, .winner = won};
    feed(m, &r);
    record_init(&r, RECORD_SETTING_CHOSEN);
    r.setting_chosen.clock = m->clock;
    r.setting_chosen.branch = winner;
    r.setting_chosen.setting = chosen;
    snprintf(r.setting_chosen.reason, sizeof(r.setting_chosen.reason),
             "fastest of %d trials", trials);
    feed(m, &r);
    m->tip = winner;
    m->tip_clocks += POINTS;
    run(m, m->tip, m->tip_clocks, POINTS + 11, loss * 0.9, loss * 0.8);
    m->tip_clocks += POINTS + 11;
}

static void make_decision(struct maker *m, uint32_t search)
{
    struct record r;

    record_init(&r, RECORD_DECISION);
    snprintf(r.decision.decision, sizeof(r.decision.decision), "search");
    snprintf(r.decision.text, sizeof(r.decision.text),
             "search %u ends: a new setting", search);
    feed(m, &r);
}

static void make_epoch(struct maker *m, uint32_t epoch)
{
    struct record r;

    record_init(&r, RECORD_EPOCH_ENDED);
    r.epoch_ended = (struct record_epoch_ended){
        .epoch = epoch,
        .branch = m->tip,
        .surviving = true,
        .setting = make_setting(m),
        .clock = m->clock,
        .loss = 0.2 + 2.1 * exp(-0.004 * epoch),
        .metric = 0.95 - 0.5 * exp(-0.01 * epoch) + 0.005 * noise(m),
        .best = true,
        .seconds = 1};
    feed(m, &r);
}

static void make_run(struct history *h, struct journal *journal, const char *id,
                     int searches, int trials, uint64_t seed)
{
    struct maker m = {
        .h = h, .journal = journal, .noise = seed, .tip = BRANCH_NONE};
    json_t *none = json_object();
    struct record r;

    history_init(h);
    record_init(&r, RECORD_RUN_STARTED);
    r.run_started =
        (struct record_run_started){.app = "mlr",
                                    .strategy = "mltuner",
                                    .searcher = "tpe",
                                    .seed = seed,
                                    .started_unix_s = 1.8e9,
                                    .metric = "accuracy",
                                    .metric_higher_better = true,
                                    .workers = 2,
                                    .limits = {NAN, NAN, INFINITY, 5, 5000}};
    snprintf(r.run_started.run, sizeof(r.run_started.run), "%s", id);
    snprintf(r.run_started.name, sizeof(r.run_started.name), "%s", id);
    feed(&m, &r);
    record_init(&r, RECORD_RUN_STATUS);
    r.run_status.status = RUN_TRAINING;
    feed(&m, &r);
    m.tip = make_branch(&m, BRANCH_NONE, none, "");
    json_decref(none);
    for (uint32_t s = 1; s <= (uint32_t)searches; s++) {
        make_search(&m, s, trials);
        make_epoch(&m, s);
        make_decision(&m, s);
    }
}

/* ---- measuring ----------------------------------------------------------- */

static double resident_mb(void)
{
    unsigned long pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    bench_must(f && fscanf(f, "%lu %lu", &all, &pages) == 2, "statm");
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void measure(struct view *view, const char *what, const char *target)
{
    struct bench_series ms = {.n = 0};
    char params[160];
    size_t bytes = 0;

    for (size_t i = 0; i < bench_rounds(); i++) {
        struct response r = {0};
        time_ns begin = clock_thread_cpu();

        service_respond(view, "GET", target, &r);
        bench_add(&ms, (double)(clock_thread_cpu() - begin) / 1e6);
        bench_must(r.status == 200, target);
        bytes = r.len;
        response_deinit(&r);
    }
    snprintf(params, sizeof(params), "route=%s trials=%d points=%d bytes=%zu",
             what, SEARCHES * TRIALS,
             SEARCHES * (TRIALS + 1) * POINTS + SEARCHES * 11, bytes);
    bench_print("dashboard", params, &ms, "ms");
}

static void measure_all(struct view *view)
{
#define LARGE "/api/v1/runs/large"
    static const char *const routes[][2] = {
        {"runs", "/api/v1/runs?order=desc&page_size=50"},
        {"run", LARGE},
        {"curve", LARGE "/curve?spans=600"},
        {"curve_part", LARGE "/curve?spans=600&from=5000000&to=5001000"},
        {"survey", LARGE "/survey?max_trials=2000"},
        {"tree", LARGE "/tree?max_branches=200"},
        {"trials", LARGE "/trials?order=desc&page_size=50"},
        {"trials_1000", LARGE "/trials?order=desc&page_size=1000"},
        {"searches", LARGE "/searches?order=desc&page_size=1000"},
        {"trials_of_search",
         LARGE "/trials?search=1&page_size=1000&order=desc"},
        {"schedule", LARGE "/schedule?order=desc&page_size=1000"},
        {"epochs", LARGE "/epochs?surviving=true&order=desc&page_size=1000"},
        {"decisions", LARGE "/decisions?order=desc&page_size=40"},
        {"branches", LARGE "/branches?order=desc&page_size=1000"},
    };

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        measure(view, routes[i][0], routes[i][1]);
}

static void serve(struct view *view)
{
    struct api_server_options options = {.view = view,
                                         .listen = "127.0.0.1:18081"};
    struct api_server *server;
    struct fault f = {0};

    bench_must(api_server_start(&options, &server, &f) == ERR_OK, f.text);
    printf("# %s\n", api_server_url(server));
    fflush(stdout);
    for (;;)
        pause();
}

static int write_journal(const char *state)
{
    static const char config[] =
        "{\"tunables\": {\"learning_rate\": {\"type\": \"float\", \"min\": "
        "1e-5, \"max\": 1, \"scale\": \"log\"}, \"momentum\": {\"type\": "
        "\"float\", \"min\": 0, \"max\": 1}, \"batch_size\": {\"type\": "
        "\"int\", \"values\": [16, 32, 64, 128, 256]}}}";
    static struct history h;
    struct journal *j;
    struct fault f = {0};

    bench_must(journal_open(state, true, JOURNAL_BUSY_MS, &j, &f) == ERR_OK,
               f.text);
    bench_must(journal_begin_run(j, "large", "large", config,
                                 1800000000000000000, &f) == ERR_OK,
               f.text);
    make_run(&h, j, "large", SEARCHES, TRIALS, 1);
    bench_must(journal_end_run(j, "finished", "converged", NULL,
                               1800000001000000000, &f) == ERR_OK,
               f.text);
    journal_close(j);
    history_deinit(&h);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct view_options no_options;
    static struct history large, small[SMALL_RUNS];
    struct bench_series mb = {.n = 0};
    struct view *view;

    if (argc > 2 && strcmp(argv[1], "--journal") == 0)
        return write_journal(argv[2]);
    bench_must(view_new(&no_options, &view) == ERR_OK, "view");
    for (int i = 0; i < SMALL_RUNS; i++) {
        char id[16];

        snprintf(id, sizeof(id), "small-%d", i + 1);
        make_run(&small[i], NULL, id, 3, 12, 100 + (uint64_t)i);
        bench_must(view_add_run(view, id, id, &small[i]) == ERR_OK, "run");
    }
    make_run(&large, NULL, "large", SEARCHES, TRIALS, 1);
    bench_must(view_add_run(view, "large", "large", &large) == ERR_OK, "run");
    if (argc > 1 && strcmp(argv[1], "--serve") == 0)
        serve(view);
    measure_all(view);
    bench_add(&mb, resident_mb());
    bench_print("dashboard", "what=memory", &mb, "MB");
    view_free(view);
    history_deinit(&large);
    for (int i = 0; i < SMALL_RUNS; i++)
        history_deinit(&small[i]);
    return 0;
}
