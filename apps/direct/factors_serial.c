/* Matrix factorization by SGD as a plain serial loop: what factors.c splits
 * among workers.
 *
 *     factors_serial RATINGS [PASSES]    lines "user item rating"
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANK = 32, USER = 0, ITEM = 1 };
static const float rate = 0.02f, lambda = 0.05f;

static size_t ratings;
static uint32_t (*key)[2]; /* [ratings] user and item */
static float *value;       /* [ratings] */
static uint64_t extent[2]; /* users, items */

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

/* One pass over the ratings in their order; returns the squared errors' sum. */
static double train(float (*user)[RANK], float (*item)[RANK])
{
    double total = 0;

    for (size_t i = 0; i < ratings; i++) {
        float *w = user[key[i][USER]], *h = item[key[i][ITEM]];
        float error = value[i];

        for (int k = 0; k < RANK; k++)
            error -= w[k] * h[k];
        for (int k = 0; k < RANK; k++) {
            float old = w[k];
            w[k] += rate * (error * h[k] - lambda * old);
            h[k] += rate * (error * old - lambda * h[k]);
        }
        total += (double)error * error;
    }
    return total;
}

static void begin(float (*rows)[RANK], uint64_t n, int t)
{
    for (uint64_t r = 0; r < n; r++)
        for (int k = 0; k < RANK; k++)
            rows[r][k] = 0.3f + 0.1f * sinf((float)(r * RANK + k + t));
}

int main(int argc, char **argv)
{
    float(*row[2])[RANK];

    load(argc > 1 ? argv[1] : "ratings");
    for (int t = USER; t <= ITEM; t++) {
        row[t] = malloc(extent[t] * sizeof(*row[t]));
        begin(row[t], extent[t], t);
    }
    for (int pass = 1; pass <= (argc > 2 ? atoi(argv[2]) : 10); pass++)
        printf("pass %d rmse %.6f\n", pass,
               sqrt(train(row[USER], row[ITEM]) / (double)ratings));
}
