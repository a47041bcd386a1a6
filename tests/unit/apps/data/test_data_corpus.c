/* The committed corpora of the loaders' fuzz targets, replayed. */
#define LLVMFuzzerTestOneInput fuzz_ratings
#define FUZZ_LIMIT RATINGS_LIMIT
#define read_all ratings_read_all
#define round_trip ratings_round_trip
#include "tests/fuzz/fuzz_ratings.c"
#undef LLVMFuzzerTestOneInput
#undef FUZZ_LIMIT
#undef read_all
#undef round_trip
#define LLVMFuzzerTestOneInput fuzz_idx
#define FUZZ_LIMIT IDX_LIMIT
#define read_all idx_read_all
#define round_trip idx_round_trip
#include "tests/fuzz/fuzz_idx.c"
#undef LLVMFuzzerTestOneInput
#undef FUZZ_LIMIT
#undef read_all
#undef round_trip
#define LLVMFuzzerTestOneInput fuzz_csv
#define FUZZ_LIMIT CSV_LIMIT
#define read_all csv_read_all
#define round_trip csv_round_trip
#include "tests/fuzz/fuzz_csv.c"
#undef LLVMFuzzerTestOneInput
#undef FUZZ_LIMIT
#undef read_all
#undef round_trip
#define LLVMFuzzerTestOneInput fuzz_cifar
#define FUZZ_LIMIT CIFAR_LIMIT
#define read_all cifar_read_all
#include "tests/fuzz/fuzz_cifar.c"
#undef LLVMFuzzerTestOneInput
#undef FUZZ_LIMIT
#undef read_all
#undef round_trip
#define LLVMFuzzerTestOneInput fuzz_bow
#define FUZZ_LIMIT BOW_LIMIT
#define read_all bow_read_all
#define round_trip bow_round_trip
#include "tests/fuzz/fuzz_bow.c"

#include <stdbool.h>

#include "tests/unit/fixture/corpus.h"

static bool ratings_accept(const uint8_t *input, size_t n)
{
    struct ratings r = {0};
    bool ok = ratings_read_all(input, n, &r, NULL) == ERR_OK;

    ratings_deinit(&r);
    return ok;
}

static bool idx_accept(const uint8_t *input, size_t n)
{
    struct idx_array a = {0};
    bool ok = idx_read_all(input, n, &a, NULL) == ERR_OK;

    idx_array_deinit(&a);
    return ok;
}

static bool csv_accept(const uint8_t *input, size_t n)
{
    static const char *const labels[] = {NULL, "first", "2", "y"};
    static const char *const categories[] = {"1"};
    struct csv_options o = {.label = labels[input[0] & 3],
                            .header = (input[0] >> 2) % 3 - 1,
                            .targets = input[0] & 32,
                            .category = categories,
                            .categories = input[0] & 64 ? 1 : 0};
    struct samples s = {0};
    bool ok = csv_read_all(input + 1, n - 1, &o, &s, NULL) == ERR_OK;

    samples_deinit(&s);
    return ok;
}

static bool cifar_accept(const uint8_t *input, size_t n)
{
    struct images im = {0};
    size_t len;
    const uint8_t *bytes = expand(input, n, &len);
    bool ok = cifar_read_all(bytes, len, &im, NULL) == ERR_OK;

    images_deinit(&im);
    return ok;
}

static bool bow_accept(const uint8_t *input, size_t n)
{
    struct corpus c = {0};
    bool ok = bow_read_all(input, n, &c, NULL) == ERR_OK;

    corpus_deinit(&c);
    return ok;
}

/* The target that is replayed, and whether its loader takes an input. */
static int (*fuzz)(const uint8_t *, size_t);
static bool (*accepts)(const uint8_t *, size_t);

static void replay_one(const char *name, const uint8_t *bytes, size_t n)
{
    fuzz(bytes, n);
    if (strncmp(name, "good", 4) == 0 && !accepts(bytes, n))
        fail_msg("%s is refused", name);
    if (strncmp(name, "bad", 3) == 0 && accepts(bytes, n))
        fail_msg("%s is taken", name);
}

static void replay(const char *corpus, int (*target)(const uint8_t *, size_t),
                   bool (*accept)(const uint8_t *, size_t), int least)
{
    fuzz = target;
    accepts = accept;
    corpus_replay(corpus, least, replay_one);
}

/* No committed input makes the ratings loader crash, leak or misread; good ones
 * are taken and bad ones refused. */
static void ratings_corpus_replays_clean(void **state)
{
    (void)state;
    replay("ratings", fuzz_ratings, ratings_accept, 20);
}

/* Corpus of the IDX loader. */
static void idx_corpus_replays_clean(void **state)
{
    (void)state;
    replay("idx", fuzz_idx, idx_accept, 12);
}

/* Corpus of tables. */
static void csv_corpus_replays_clean(void **state)
{
    (void)state;
    replay("csv", fuzz_csv, csv_accept, 36);
}

/* Corpus of CIFAR batches. */
static void cifar_corpus_replays_clean(void **state)
{
    (void)state;
    replay("cifar", fuzz_cifar, cifar_accept, 11);
}

/* Corpus of bags of words. */
static void bow_corpus_replays_clean(void **state)
{
    (void)state;
    replay("bow", fuzz_bow, bow_accept, 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratings_corpus_replays_clean),
        cmocka_unit_test(idx_corpus_replays_clean),
        cmocka_unit_test(csv_corpus_replays_clean),
        cmocka_unit_test(cifar_corpus_replays_clean),
        cmocka_unit_test(bow_corpus_replays_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
