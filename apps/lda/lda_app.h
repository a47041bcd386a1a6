/* The inside of lda: what its files share.
 *
 *   lda_data.c   settings, corpus, layout   before any thread runs
 *   lda.c        tables, clocks             all workers, each its own share
 *   lda_model.c  the saved model, its topics in words
 *   lda_move.c   tokens' topics for another number of workers
 *   lda_loop.c   training as a loop ("parallel": "loop")
 *
 * Tables: `word_topic` (shared, i32) counts how often a word has a topic,
 * `topic_total` (shared, i32, one row) is its sum over words, `topics` (local)
 * holds every token's topic. How often a document has a topic follows from the
 * last: it is counted anew when a clock begins, so that what a fork carries can
 * not contradict itself.
 */
#ifndef APPS_LDA_APP_H
#define APPS_LDA_APP_H

#include "apps/formats/data_bow.h"
#include "apps/lda/lda_held.h"
#include "apps/lda/lda_kernel.h"
#include "apps/lda/lda_layout.h"
#include "base/fault.h"
#include "mltune/app.h"
#include "mltune/loop.h"

#include <stdbool.h>
#include <stdint.h>

#define LDA_WORD_TABLE "word_topic"
#define LDA_TOTAL_TABLE "topic_total"
#define LDA_DOC_TABLE "doc_topic"
#define LDA_TOPICS_FILE "topics.json"
#define LDA_WORDS_FILE "words.txt"

enum { LDA_CLOCKS_DEFAULT = 10, LDA_TOP_WORDS = 20, LDA_TITLE_BYTES = 24 };

/* Scratch of a worker for its clocks. */
struct lda_scratch {
    struct lda_sampler sampler;
    uint16_t *z;    /* [most tokens of a part] */
    int32_t *delta; /* [topics] */
    float *phi;     /* [held.entries_max][stride] */
    float *mix;     /* [2][stride] */
    /* Of a loop: rows of a word's iterations, and of its tokens, [most tokens
     * of a word in a part]; where the worker is in its part. */
    void **row;
    float **count;
    struct lda_passing {
        bool learns;
        struct rng rng;
        uint64_t token; /* of the part, the next one's */
        double sum;     /* log p(w, z) of what was passed, before it was */
    } pass;
};

/* An iteration of the loop: a word of a document. */
struct lda_entry {
    uint32_t count; /* tokens */
    uint32_t tells; /* 1: of its document's entries the one that reports it */
};

/* Training as a loop; `plan` is NULL without. */
struct lda_loop {
    bool wanted;
    struct corpus docs;      /* those that are trained on */
    uint32_t (*key)[2];      /* [entries] document, word; by word: owned */
    struct lda_entry *entry; /* [entries] owned */
    uint64_t *first;         /* [words + 1] entries of each: owned */
    uint64_t *word_tokens;   /* [words] owned */
    uint32_t time_parts;     /* of each worker */
    struct mlt_loop *plan;   /* owned */
    struct lda_stretch {
        uint64_t first_row, tokens;
    } * part; /* [workers][steps] where a part's topics lie: owned */
};

struct lda {
    struct lda_prior prior;
    uint64_t seed;
    bool evaluate, predict;
    unsigned workers;
    struct vocabulary vocabulary;
    struct corpus
        data;      /* evaluate: until the model says which words it knows */
    char *summary; /* what the training documents hold, as JSON: owned */
    struct lda_layout layout;
    struct lda_held held;
    struct lda_scratch *scratch; /* [workers] */
    struct lda_loop loop;
    mlt_table word_topic, topic_total, topics, doc_topic;
    const struct mlt_ps *ps;
    struct mlt_column *column; /* [topics + 1] to predict: owned */
    char *title;               /* [topics][LDA_TITLE_BYTES]: owned */
};

/* Operations of app_lda (mltune/app.h). */
int lda_open(const struct mlt_app_config *config, struct mlt_app_info *info,
             void **app, struct mlt_error *error);
void lda_close(void *app);
int lda_save(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error);
int lda_keep(void *app, const char *dir, char *json, size_t size,
             struct mlt_error *error);
int lda_save_kept(const char *kept, const char *json, const char *dir,
                  struct mlt_error *error);
int lda_load(void *app, const char *dir, struct mlt_error *error);

/* Takes the table `topics` to another number of workers (mlt_mover); @lda. */
int lda_move_topics(const struct mlt_move *move, void *lda);

/* Takes over the documents that are trained on, of which each pass has about
 * @clocks clocks; lays out what follows from them. Errors: ERR_NOMEM. */
enum err lda_loop_take(struct lda *l, struct corpus *train, uint32_t clocks);
void lda_loop_free(struct lda *l);

/* Once its tables are declared: the plan, and where topics lie (layout.share).
 */
int lda_loop_plan(struct lda *l, struct mlt_ps *ps, struct mlt_error *error);
/* As plan of struct mlt_app_ops. */
const char *lda_loop_text(void *app);

/* Initial rows and topics of worker @w, and one of its clocks. */
void lda_loop_init(const struct lda *l, struct mlt_worker *w);
int lda_loop_clock(const struct lda *l, struct mlt_worker *w,
                   const struct mlt_clock_ctx *ctx);

/* The topics of @tokens tokens, which begin at a row of the worker's. */
void lda_load_topics(const struct lda *l, struct mlt_worker *w,
                     uint64_t first_row, uint64_t tokens, uint16_t z[]);
void lda_store_topics(const struct lda *l, struct mlt_worker *w,
                      uint64_t first_row, uint64_t tokens, const uint16_t z[]);

/* Topic of a token before training: a function of seed, document, word, and
 * which of the document's tokens of that word it is. */
uint16_t lda_first_topic(const struct lda *l, uint32_t doc, uint32_t word,
                         uint32_t nth);

#endif
