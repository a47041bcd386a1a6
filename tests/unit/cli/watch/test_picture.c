/* The picture of a run: what stands where, at any size, from answers that are
 * whole, partial, or nothing like answers. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/watch/picture.h"
#include "tests/unit/fixture/check.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

static const char run_text[] =
    "{'run':'digits-4f9c2a','name':'digits','status':'training',"
    "'status_reason':'x','reason':null,'message':null,"
    "'job':{'metric':{'name':'accuracy'}},'clock':13680,'epochs':20,"
    "'loss':0.2878,'last_epoch':{'metric':0.9249},"
    "'best':{'epoch':14,'loss':0.28,'metric':0.93},"
    "'setting':{'learning_rate':0.0708,'batch_size':64},"
    "'tuning':{'strategy':'mltuner','searcher':'tpe','searches':2,"
    "'trials':9,'seconds':20.0},"
    "'stop':{'max_epochs':100,'max_time':null},'paused_seconds':10.0,"
    "'first_clock_at':'2026-10-14T17:46:00.500Z',"
    "'updated_at':'2026-10-14T17:48:10.500Z'}";
static const char searches_text[] =
    "[{'search':2,'max_trials':18,'reason':'no progress','result':null}]";
static const char over_text[] =
    "[{'search':2,'max_trials':18,'reason':'no progress',"
    "'result':{'trials':2,'winner':7,'seconds':1.5,'reason':'a new one'}}]";
static const char trials_text[] =
    "[{'trial':9,'search':2,'label':'running','speed':0.0,"
    "'setting':{'learning_rate':0.5,'batch_size':16}},"
    "{'trial':8,'search':2,'label':'diverged','speed':0.0,"
    "'setting':{'learning_rate':0.9,'batch_size':64}},"
    "{'trial':7,'search':2,'label':'converging','speed':0.21,"
    "'setting':{'learning_rate':0.07,'batch_size':64}},"
    "{'trial':6,'search':1,'label':'converging','speed':9.0,"
    "'setting':{'learning_rate':0.06}}]";
static const char schedule_text[] =
    "[{'clock':1080,'reason':'fastest of 9 trials'}]";
static const char curve_text[] =
    "{'from':0,'to':13680,'lineage':{'points':2,'clock':[0,13680],"
    "'loss':[2.0,0.25],'branch':[10,10]},'others':{'points':0,'clock':[],"
    "'loss':[],'branch':[]}}";
static const char decisions_text[] =
    "[{'decision':'retune','text':'the loss stands still','at':"
    "'2026-10-14T17:48:00.000Z'},{'decision':'trial_time','text':"
    "'a trial takes 0.05 s','at':'2026-10-14T17:46:01.000Z'}]";
static const char nodes_text[] =
    "[{'node':0,'alive':true,'workers':2,'seconds':{'work':3.0,'wait':1.0},"
    "'memory':{'in_use_bytes':2097152},'traffic':{'bytes_sent':1500000}},"
    "{'node':1,'alive':false,'workers':2}]";

/* With ' for ". */
static json_t *load(const char *text)
{
    char *copy = mem_strdup(text);
    json_t *json = NULL;

    assert_non_null(copy);
    for (char *at = copy; (at = strchr(at, '\''));)
        *at = '"';
    assert_int_equal(json_load(copy, strlen(copy), &json, NULL, NULL), ERR_OK);
    mem_free(copy);
    return json;
}

static struct picture whole;
static json_t *owned[16];
static size_t owned_len;

static const json_t *keep(const char *text)
{
    assert_true(owned_len < 16);
    return owned[owned_len++] = load(text);
}

static int make_picture(void **state)
{
    (void)state;
    owned_len = 0;
    whole = (struct picture){
        .run = keep(run_text),
        .searches = keep(searches_text),
        .trials = keep(trials_text),
        .schedule = keep(schedule_text),
        .curve = keep(curve_text),
        .decisions = keep(decisions_text),
        .nodes = keep(nodes_text),
        .note = "http://127.0.0.1:1/",
    };
    return 0;
}

static int free_picture(void **state)
{
    (void)state;
    while (owned_len > 0)
        json_decref(owned[--owned_len]);
    return 0;
}

static int use_utf8(void **state)
{
    (void)state;
    setenv("TZ", "UTC", 1);
    tzset();
    return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

/* The rows of the picture, each ended by a newline. */
static struct text drawn;

static const char *draw(const struct picture *p, int width, int height,
                        bool ascii)
{
    struct canvas c;

    text_deinit(&drawn);
    assert_int_equal(canvas_init(&c, width, height, ascii), ERR_OK);
    picture_draw(p, &c);
    for (int y = 0; y < height; y++) {
        canvas_row(&c, y, false, false, &drawn);
        text_puts(&drawn, "\n");
    }
    canvas_deinit(&c);
    return drawn.s;
}

static int forget_drawn(void **state)
{
    (void)state;
    text_deinit(&drawn);
    return 0;
}

static void assert_shows(const char *screen, const char *text)
{
    if (!strstr(screen, text))
        fail_msg("\"%s\" is not in\n%s", text, screen);
}

/* Before what else stands in the row of @row. */
static void assert_order(const char *screen, const char *first,
                         const char *second)
{
    assert_shows(screen, first);
    assert_shows(screen, second);
    assert_true(strstr(screen, first) < strstr(screen, second));
}

/* On the smallest common terminal everything of interest is there. */
static void picture_of_80x24_shows_all_parts(void **state)
{
    const char *s = draw(&whole, 80, 24, false);

    (void)state;
    assert_shows(s, " digits  digits-4f9c2a");
    assert_shows(s, " training \n");
    assert_shows(s, "epoch 20 of at most 100  2m 00s, at most 6m 40s left");
    assert_shows(s, "loss 0.2878  accuracy 0.9249  best 0.93 in epoch 14  "
                    "clock 13680");
    assert_shows(s, "setting  learning_rate=0.0708 batch_size=64");
    assert_shows(s, "tuning   9 trials in 2 searches, 20.0 s");
    assert_shows(s, "loss over clocks");
    assert_shows(s, "clock 13680\n");
    assert_shows(s, "\u28c0");
    assert_shows(s, "search 2  under way: trial 3 of at most 18, no progress");
    assert_shows(s, "learning_rate batch_size");
    assert_shows(s, "nodes\n");
    assert_shows(s, "  0 alive  2 workers  2 MiB  working 75 %  sent 1.5 MB");
    assert_shows(s, "why  the newest first");
    assert_shows(s, "17:48:00  the loss stands still");
    assert_shows(s, "q leaves, the run goes on  http://127.0.0.1:1/\n");
    assert_null(strstr(s, " +1"));
    /* What has no room is counted. */
    assert_shows(draw(&whole, 48, 24, false), "learning_rate +1");
    assert_shows(draw(&whole, 40, 24, false), "speed     +2");
}

/* Running trials come first, then the fastest; trials of other searches are
 * left out. */
static void picture_orders_trials(void **state)
{
    const char *s = draw(&whole, 100, 40, true);

    (void)state;
    assert_order(s, ">   9 running    -         0.5", "    7 converging 0.21");
    assert_order(s, "    7 converging", "    8 diverged   0 ");
    assert_null(strstr(s, "    6 "));
}

/* A search that is over says what it found, and the winner is marked. */
static void picture_marks_the_winner(void **state)
{
    struct picture p = whole;
    const char *s;

    (void)state;
    p.searches = keep(over_text);
    s = draw(&p, 100, 40, false);
    assert_shows(s, "search 2  over: 2 trials, 1.5 s, a new one");
    assert_shows(s, "*   7 converging");
}

/* @n trials of search @search, the newest first, the last one @first. */
static json_t *many_trials(int search, int first, int n)
{
    json_t *trials = json_array();

    for (int i = n - 1; i >= 0; i--)
        json_array_append_new(
            trials, json_pack("{s:i, s:i, s:s, s:f, s:{s:f}}", "trial",
                              first + i, "search", search, "label", "unstable",
                              "speed", 0.1, "setting", "x", 1.0));
    return owned[owned_len++] = trials;
}

/* Where a search has more trials than are listed, their number is not that of
 * the list. */
static void picture_counts_more_trials_than_are_listed(void **state)
{
    struct picture p = whole;

    (void)state;
    p.searches = keep("[{'search':1,'max_trials':500,'reason':'first'}]");
    p.trials = many_trials(1, 131, 100);
    assert_shows(draw(&p, 200, 40, false),
                 "under way: trial 230 of at most 500, first");
    assert_shows(draw(&p, 200, 40, false), "; the newest 100 are listed");
    p.searches = keep("[{'search':2,'max_trials':500,'reason':'again'}]");
    p.trials = many_trials(2, 131, 100);
    assert_shows(draw(&p, 200, 40, false),
                 "under way: trial 100 or more of at most 500, again; the "
                 "newest 100 are listed");
    p.trials = many_trials(2, 131, 99);
    assert_shows(draw(&p, 200, 40, false),
                 "under way: trial 99 of at most 500, again");
}

/* Small losses have small labels, not 0. */
static void picture_of_small_losses_says_how_small(void **state)
{
    struct picture p = whole;
    const char *s;

    (void)state;
    p.curve =
        keep("{'from':0,'to':10,'lineage':{'clock':[0,10],'loss':[1e-9,1e-12],"
             "'branch':[1,1]},'others':{'clock':[],'loss':[],'branch':[]}}");
    s = draw(&p, 80, 24, false);
    assert_shows(s, "logarithmic");
    assert_shows(s, "   1e-09 ");
    assert_shows(s, "   1e-12 ");
}

/* A run that has ended says how and why, and no time is left. */
static void picture_of_an_ended_run_says_why(void **state)
{
    struct picture p = whole;
    json_t *run = load(run_text);
    const char *s;

    (void)state;
    assert_false(picture_is_over(run));
    json_object_set_new(run, "status", json_string("failed"));
    json_object_set_new(run, "reason", json_string("diverged"));
    json_object_set_new(run, "message", json_string("three \033[2Jreturns"));
    p.run = owned[owned_len++] = run;
    s = draw(&p, 80, 24, false);
    assert_true(picture_is_over(run));
    assert_shows(s, "failed, diverged: three ?[2Jreturns");
    assert_shows(s, "epoch 20  2m 00s\n");
    assert_shows(s, "q leaves  http");
    assert_true(isnan(picture_time_left(run)));
}

/* The time left is what the nearest limit leaves. */
static void picture_time_left_follows_the_limits(void **state)
{
    json_t *run = load(run_text);

    (void)state;
    /* 120 s without the pause, 100 of them training for 20 epochs. */
    assert_true(fabs(picture_time_left(run) - 400) < 1e-6);
    json_object_set_new(json_object_get(run, "stop"), "max_time",
                        json_real(150));
    assert_true(fabs(picture_time_left(run) - 30) < 1e-6);
    /* It took 25 s until the first clock. */
    json_object_set_new(run, "started_at",
                        json_string("2026-10-14T17:45:35.500Z"));
    assert_true(fabs(picture_time_left(run) - 5) < 1e-6);
    json_object_set_new(json_object_get(run, "stop"), "max_time",
                        json_real(20));
    assert_true(picture_time_left(run) == 0);
    json_object_del(run, "stop");
    assert_true(isnan(picture_time_left(run)));
    json_decref(run);
}

/* A wide terminal has two columns: the search is beside the curve. */
static void picture_of_140x45_has_two_columns(void **state)
{
    const char *s = draw(&whole, 140, 45, false), *row;

    (void)state;
    row = strstr(s, "loss over clocks");
    assert_non_null(row);
    assert_non_null(strstr(row, "search 2"));
    assert_true(strstr(row, "search 2") < strchr(row, '\n'));
    assert_true(picture_spans(140, false) < 140);
    assert_true(picture_spans(100, false) > 170);
    assert_true(picture_spans(100, true) < 100);
}

/* Any size is drawn on, whatever is missing; nothing is outside of ASCII where
 * that is asked for. */
static void picture_fits_every_size(void **state)
{
    struct picture parts = whole;

    (void)state;
    for (int width = 1; width < 160; width += 7) {
        for (int height = 1; height < 60; height += 3) {
            const char *s = draw(&whole, width, height, true);

            for (; *s; s++)
                assert_true((unsigned char)*s < 0x80);
            draw(&whole, width, height, false);
        }
    }
    parts.searches = parts.trials = parts.curve = NULL;
    assert_shows(draw(&parts, 80, 24, false), "search  none so far");
    parts.decisions = parts.nodes = parts.schedule = NULL;
    assert_shows(draw(&parts, 80, 24, false), "nothing was decided yet");
    parts.run = NULL;
    assert_shows(draw(&parts, 80, 24, false), "asking");
}

/* Answers of other types than they should have leave places empty. */
static void picture_of_strange_answers_is_drawn(void **state)
{
    static const char *const strange[] = {
        "[]",
        "{}",
        "[[],1,'x',null,{}]",
        "{'run':1,'name':[],'status':{},'setting':[1],'stop':7,'job':'x',"
        "'best':3,'epochs':'nan','lineage':{'clock':[1,2],'loss':[1]},"
        "'others':{'clock':5}}",
        "[{'search':'inf','result':{},'trial':{},'setting':'x','label':4,"
        "'text':[],'at':'yesterday','node':'a','seconds':[]}]",
        "[{'search':1,'result':null,'trial':null},{'search':1}]",
        "{'status':'training','best':{'epoch':null},'tuning':{'seconds':null}}",
        "{'from':'nan','to':-1,'lineage':{'clock':['x'],'loss':[null],"
        "'branch':['b']}}"};

    (void)state;
    for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
        json_t *json = load(strange[i]);
        const struct picture p = {json, json, json, json, json,
                                  json, json, NULL, true};

        assert_null(strstr(draw(&p, 80, 24, false), "nan"));
        assert_null(strstr(draw(&p, 140, 45, true), "nan"));
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(picture_of_80x24_shows_all_parts,
                                        make_picture, free_picture),
        cmocka_unit_test_setup_teardown(picture_orders_trials, make_picture,
                                        free_picture),
        cmocka_unit_test_setup_teardown(picture_marks_the_winner, make_picture,
                                        free_picture),
        cmocka_unit_test_setup_teardown(
            picture_counts_more_trials_than_are_listed, make_picture,
            free_picture),
        cmocka_unit_test_setup_teardown(picture_of_small_losses_says_how_small,
                                        make_picture, free_picture),
        cmocka_unit_test_setup_teardown(picture_of_an_ended_run_says_why,
                                        make_picture, free_picture),
        cmocka_unit_test(picture_time_left_follows_the_limits),
        cmocka_unit_test_setup_teardown(picture_of_140x45_has_two_columns,
                                        make_picture, free_picture),
        cmocka_unit_test_setup_teardown(picture_fits_every_size, make_picture,
                                        free_picture),
        cmocka_unit_test(picture_of_strange_answers_is_drawn),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, use_utf8, forget_drawn);
}
