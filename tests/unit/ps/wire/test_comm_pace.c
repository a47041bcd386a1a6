/* A bandwidth budget between real nodes: never above it, nothing lost, rows
 * that leave early where the model allows. What part of it is used depends on
 * the machine: the benchmark says so (make bench B=budget). */
#include "ps/nodes/frame.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/pace_run.h"

#include <stdio.h>

static uint64_t sum_of(const uint64_t n[PRIORITY_COUNT])
{
    uint64_t sum = 0;

    for (int p = 0; p < PRIORITY_COUNT; p++)
        sum += n[p];
    return sum;
}

static struct pace_run_result run(const struct pace_run_options *opt)
{
    static struct pace_run_result r;
    unsigned long long pushed;

    pace_run(opt, &r);
    if (r.code)
        fail_msg("%s at %g Mbit/s: %d %s", opt->consistency, opt->mbps, r.code,
                 r.text);
    pushed = r.traffic.rows_pushed + sum_of(r.traffic.rows_pushed_early);
    printf("%-8s %4.0f Mbit/s: %5.2f s, %3d samples, %.2f of the budget used, "
           "%7.0f bytes above it (queue %7.0f); rows: %llu due, %llu early, "
           "%llu pushed, %llu of them early\n",
           opt->consistency, opt->mbps, r.seconds, (int)r.samples, r.used,
           r.most_above, r.queue, (unsigned long long)r.traffic.rows_due,
           (unsigned long long)sum_of(r.traffic.rows_early), pushed,
           (unsigned long long)sum_of(r.traffic.rows_pushed_early));
    assert_true(r.exact);
    assert_true(r.most_above <= r.queue);
    assert_true(r.traffic.bytes_charged > r.traffic.bytes_sent);
    /* Who computes so slowly that most of the budget is left need not wait. */
    assert_true(r.used < 0.5 ||
                r.traffic.client_wait_ns + r.traffic.server_wait_ns > 0);
    return r;
}

/* Over any second at most the budget and one queue; sums are exact; under
 * barriers nothing leaves early, under the other models some does, by the
 * priority that was asked for. */
static void pace_budget_is_kept(void **state)
{
    static const char *const models[] = {"bsp", "ssp", "essp", "async"};

    (void)state;
    for (int m = 0; m < 4; m++) {
        struct pace_run_options opt = {.consistency = models[m],
                                       .priority = priority_name(m),
                                       .mbps = m % 2 ? 100 : 10,
                                       .rows = m % 2 ? 2000 : 300,
                                       .width = 64,
                                       .clocks = 3,
                                       .wait_early_s = m ? 60 : 0};
        struct pace_run_result r = run(&opt);
        uint64_t early = sum_of(r.traffic.rows_early);

        assert_true(early == r.traffic.rows_early[m]);
        assert_true(m == 0 ? early == 0 : early > 0);
        assert_true((m == 2) == (sum_of(r.traffic.rows_pushed_early) > 0));
        assert_true(m != 2 || r.traffic.rows_pushed_early[m] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pace_budget_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
