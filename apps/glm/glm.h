/* glm: linear and logistic regression of sparse and dense samples.
 *
 * One shared table `weights`, a row a column of the data: a weight for each
 * output, then the row of the biases. Outputs are one, of softmax one a class.
 * What is made least is the mean loss (glm_loss.h) and the penalty
 *
 *     lambda (l1_ratio |w|_1 + (1 - l1_ratio) / 2 |w|_2^2),  biases left out.
 *
 * Reported is the sum of both while it trains, as of the weights that each
 * clock found, and the loss alone where it is evaluated. A clock touches the
 * rows of the columns that its samples have, and no others; each carries its
 * share of the penalty (glm_penalty.h).
 *
 * Solvers: `sgd`, mini-batches under any update rule; `saga` (Defazio et al.
 * 2014; on sparse samples Leblond et al. 2017), which remembers the slope of
 * each sample; `svrg` (Johnson and Zhang 2013), which takes all slopes anew
 * every few passes; `local`, mini-batches on a worker's own copy of the
 * weights.
 */
#ifndef APPS_GLM_H
#define APPS_GLM_H

#include "mltune/app.h"

extern const struct mlt_app_ops app_glm;

#endif
