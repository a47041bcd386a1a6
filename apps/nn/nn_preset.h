/* The built-in descriptions of networks, as JSON text. */
#ifndef APPS_NN_PRESET_H
#define APPS_NN_PRESET_H

/* 784-256-10 on MNIST, with rectified hidden units. */
#define NN_PRESET_MLP                                                          \
    "[{\"type\": \"dense\", \"units\": 256}, {\"type\": \"relu\"},"            \
    " {\"type\": \"dense\", \"units\": \"outputs\"}]"

/* LeCun et al. 1998 as Caffe's example has it: 20 and 50 windows of 5 x 5, 500
 * units. */
#define NN_PRESET_LENET5                                                       \
    "[{\"type\": \"conv\", \"channels\": 20, \"kernel\": 5},"                  \
    " {\"type\": \"max_pool\", \"kernel\": 2},"                                \
    " {\"type\": \"conv\", \"channels\": 50, \"kernel\": 5},"                  \
    " {\"type\": \"max_pool\", \"kernel\": 2},"                                \
    " {\"type\": \"dense\", \"units\": 500}, {\"type\": \"relu\"},"            \
    " {\"type\": \"dense\", \"units\": \"outputs\"}]"

/* Krizhevsky's cuda-convnet, "quick": for images of 3 x 32 x 32. */
#define NN_PRESET_CIFAR_QUICK                                                  \
    "[{\"type\": \"conv\", \"channels\": 32, \"kernel\": 5, \"padding\": 2},"  \
    " {\"type\": \"max_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": 1}," \
    " {\"type\": \"relu\"},"                                                   \
    " {\"type\": \"conv\", \"channels\": 32, \"kernel\": 5, \"padding\": 2},"  \
    " {\"type\": \"relu\"},"                                                   \
    " {\"type\": \"avg_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": 1}," \
    " {\"type\": \"conv\", \"channels\": 64, \"kernel\": 5, \"padding\": 2},"  \
    " {\"type\": \"relu\"},"                                                   \
    " {\"type\": \"avg_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": 1}," \
    " {\"type\": \"dense\", \"units\": 64},"                                   \
    " {\"type\": \"dense\", \"units\": \"outputs\"}]"

#endif
