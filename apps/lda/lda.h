/* lda: latent Dirichlet allocation by collapsed Gibbs sampling; held-out
 * perplexity. docs/lda.md. */
#ifndef APPS_LDA_H
#define APPS_LDA_H

#include "mltune/app.h"

extern const struct mlt_app_ops app_lda;

#endif
