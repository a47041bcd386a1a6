/* word2vec: vectors of words, by skip-gram with negative sampling.
 *
 * Each word w of the text predicts with the words c around it (Mikolov et al.
 * 2013): a pair's loss, of vectors v[c] and contexts u[w], is
 *
 *     -log s(v[c] . u[w]) - sum over `negative` drawn words n of
 *      log s(-v[c] . u[n]),   s(x) = 1 / (1 + exp(-x))
 *
 * A clock of a worker takes steps of single pairs on copies of the rows that it
 * touches, and adds by how much they changed. The metric is the mean loss of a
 * pair of the held-out text; of a model, on a file of analogies, the share that
 * it answers, on one of similarities, Spearman's correlation.
 */
#ifndef APPS_WORD2VEC_H
#define APPS_WORD2VEC_H

#include "mltune/app.h"

extern const struct mlt_app_ops app_word2vec;

#endif
