/* The inside of word2vec: what its files share.
 *
 *   w2v_data.c       settings, text, what is held out   before any thread runs
 *   word2vec.c       tables, clocks                     all workers
 *   w2v_answer.c     answers to questions               of a model
 *   w2v_model.c      the saved model
 *   w2v_pairs        pairs out of a text                pure
 *   w2v_kernel       steps                              pure
 *   w2v_questions    analogies and similarities         pure
 */
#ifndef APPS_W2V_APP_H
#define APPS_W2V_APP_H

#include "apps/formats/data_words.h"
#include "apps/word2vec/w2v_kernel.h"
#include "apps/word2vec/w2v_pairs.h"
#include "apps/word2vec/w2v_questions.h"
#include "base/fault.h"
#include "mltune/app.h"

#include <stdbool.h>
#include <stdint.h>

#define W2V_WORDS_FILE "vocabulary.txt"

enum {
    W2V_SIZE_MAX = 4096,
    /* Places of a text that are held out, or scored, as one. */
    W2V_STRETCH = 1024,
    /* Clocks a pass where the user leaves them to us ("auto"): so many that
     * each has W2V_CLOCK_WORDS words. At least as many as a trial has windows.
     */
    W2V_CLOCK_WORDS = 16384,
    W2V_CLOCKS_MIN = 10,
    W2V_CLOCKS_MAX = 10000
};

enum w2v_side { W2V_VECTORS, W2V_CONTEXTS, W2V_SIDES };

/* The rows of a table that a worker has a copy of. */
struct w2v_copy {
    uint32_t *place; /* [words] where a word's row is, or WORD_NONE: owned */
    uint64_t *word;  /* [held] whose: owned */
    uint32_t *steps; /* [held] that it took in this clock: owned */
    float *row;      /* [held][stride]: owned */
    uint32_t held;
    size_t word_room, steps_room, row_room;
};

/* Some of the text: its pairs, and the rows that are new with them. */
struct w2v_block {
    struct w2v_pairs pairs;
    uint32_t from[W2V_SIDES], end[W2V_SIDES]; /* places of copies */
    uint64_t batch[W2V_SIDES]; /* where there are any: their fetch */
};

struct w2v_work {
    struct w2v_block block[2]; /* one is worked on, the next is fetched */
    struct w2v_copy copy[W2V_SIDES];
    const void **at; /* rows of a batch: owned */
    size_t at_room;
    float *change; /* [stride]: owned */
    float *unit;   /* [words][stride] vectors of length 1, to answer: owned */
};

struct w2v {
    /* Settings. */
    unsigned size, stride; /* values of a vector; of a row in copies */
    unsigned window, negative;
    double sample;
    uint64_t min_count, seed;
    struct words_options options;
    unsigned workers;
    bool evaluate, predict, text_file, binary_file;
    /* Data. */
    struct text_words text; /* all of it; then the training text */
    uint32_t *held;         /* [held_count] places that are scored */
    uint64_t held_count, parts;
    struct w2v_questions question; /* of a model, in place of a text */
    struct w2v_source source;
    struct w2v_curve curve;
    char *summary; /* what the text holds, as JSON: owned */
    /* Tables. */
    const struct mlt_ps *ps;
    mlt_table table[W2V_SIDES];
    struct w2v_work *work; /* [workers] */
    struct mlt_column column;
    const char **label; /* [words] to predict: owned */
};

extern const char *const w2v_table_name[W2V_SIDES];

/* Operations of app_word2vec (mltune/app.h). */
int w2v_open(const struct mlt_app_config *config, struct mlt_app_info *info,
             void **app, struct mlt_error *error);
void w2v_close(void *app);
int w2v_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error);
int w2v_keep(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error);
int w2v_save_kept(const char *kept, const char *json, const char *dir,
                  struct mlt_error *error);
int w2v_load(void *app, const char *dir, struct mlt_error *error);
int w2v_columns(void *app, const struct mlt_column **column, uint32_t *count,
                struct mlt_error *error);
int w2v_predict(void *app, struct mlt_worker *w, uint64_t first, uint64_t count,
                double *out);

/* The vocabulary of the model in @dir, or of what was kept of one. */
enum err w2v_read_vocabulary(struct w2v *m, const char *dir, struct fault *f);

/* Scores questions @first .. @first + @count - 1 of the model: reports hits of
 * analogies; Spearman's correlation of similarities, of all where @first is 0.
 * Not @metric: what is missing to 1, as a loss. */
int w2v_report_answers(struct w2v *m, struct mlt_worker *w, uint64_t first,
                       uint64_t count, bool metric);

/* Words that are known, and stretches of what is scored. */
static inline uint32_t w2v_words(const struct w2v *m)
{
    return m->text.map.name.words;
}

static inline uint64_t w2v_stretches(uint64_t places)
{
    return (places + W2V_STRETCH - 1) / W2V_STRETCH;
}

#endif
