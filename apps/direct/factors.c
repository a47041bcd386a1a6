/* Matrix factorization by SGD as a loop of the parameter server. One worker
 * gives what factors_serial.c gives, more give what another order would.
 *
 *     factors RATINGS [WORKERS [PASSES]]    lines "user item rating"
 */
#include "mltune/loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANK = 32, USER = 0, ITEM = 1 };
static const float rate = 0.02f, lambda = 0.05f;
static struct mlt_error err;

static size_t ratings;
static uint32_t (*key)[2]; /* [ratings] user and item */
static float *value;       /* [ratings] */
static uint64_t extent[2]; /* users, items */

static void check(int code)
{
    const char *why = code == err.code ? err.text : mlt_error_text(code);

    if (code)
        fprintf(stderr, "factors: %s\n", why), exit(1);
}

static void load(const char *path)
{
    FILE *f = fopen(path, "r");

    for (; f; ratings++) {
        if (!(ratings & (ratings - 1))) {
            key = realloc(key, (2 * ratings + 1) * sizeof(*key));
            value = realloc(value, (2 * ratings + 1) * sizeof(*value));
        }
        if (fscanf(f, "%u %u %f", &key[ratings][USER], &key[ratings][ITEM],
                   &value[ratings]) != 3)
            break;
        for (int d = USER; d <= ITEM; d++)
            if (extent[d] <= key[ratings][d])
                extent[d] = key[ratings][d] + 1;
    }
    if (!f || !ratings || !feof(f))
        fprintf(stderr, "factors: %s: line %zu\n", path, ratings + 1), exit(1);
    fclose(f);
}

/* Iterations of one part, in their order; rows in place. */
static int train(const struct mlt_block *b, void *arg)
{
    for (size_t i = 0; i < b->n; i++) {
        float *w = mlt_loop_row(b, USER, i), *h = mlt_loop_row(b, ITEM, i);
        float error = ((const float *)b->value)[i];

        for (int k = 0; k < RANK; k++)
            error -= w[k] * h[k];
        for (int k = 0; k < RANK; k++) {
            float old = w[k];
            w[k] += rate * (error * h[k] - lambda * old);
            h[k] += rate * (error * old - lambda * h[k]);
        }
        b->total[0] += (double)error * error;
    }
    return (void)arg, 0;
}

/* The same start for every number of workers: a row's values by its number. */
static int begin(struct mlt_worker *w, void *ps)
{
    for (mlt_table t = USER; t <= ITEM; t++) {
        uint64_t first, count;
        float row[RANK];

        mlt_owned_rows(ps, t, mlt_worker_index(w), &first, &count);
        for (uint64_t r = first; r < first + count; r++) {
            for (int k = 0; k < RANK; k++)
                row[k] = 0.3f + 0.1f * sinf((float)(r * RANK + k + t));
            mlt_init_row(w, t, r, row);
        }
    }
    return mlt_clock(w);
}

int main(int argc, char **argv)
{
    struct mlt_touch touch[2] = {
        [USER] = {USER, MLT_READS | MLT_UPDATES, {MLT_INDEX(USER, 0)}},
        [ITEM] = {ITEM, MLT_READS | MLT_UPDATES, {MLT_INDEX(ITEM, 0)}}};
    struct mlt_table_options table = {
        .size = sizeof(table), .width = RANK, .access = MLT_EXCLUSIVE};
    struct mlt_ps_options opt = MLT_PS_OPTIONS;
    struct mlt_loop_options o = MLT_LOOP_OPTIONS;
    struct mlt_loop *loop;
    struct mlt_ps *ps;

    load(argc > 1 ? argv[1] : "ratings");
    opt.workers = argc > 2 ? (unsigned)atoi(argv[2]) : 2;
    check(mlt_ps_new(&opt, &ps, &err));
    for (int i = USER; i <= ITEM; i++) {
        table.name = i == USER ? "users" : "items";
        table.rows = o.extent[i] = extent[i];
        check(mlt_ps_table(ps, &table, &touch[i].table, &err));
    }
    check(mlt_ps_start(ps, &err));
    o.name = "factors", o.dims = 2, o.iterations = ratings, o.key = key[0];
    o.shuffle = 1, o.value = value, o.value_bytes = sizeof(*value);
    o.touch = touch, o.touches = 2, o.totals = 1;
    check(mlt_loop_new(ps, &o, &loop, &err));
    fputs(mlt_loop_text(loop), stderr);
    check(mlt_ps_run(ps, begin, ps));
    for (int pass = 1; pass <= (argc > 3 ? atoi(argv[3]) : 10); pass++) {
        check(mlt_loop_run(loop, train, NULL));
        printf("pass %d rmse %.6f\n", pass,
               sqrt(mlt_loop_total(loop, 0) / (double)ratings));
    }
    mlt_loop_free(loop);
    mlt_ps_free(ps);
}
