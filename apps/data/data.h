/* Data sets: from files or generators into memory, described, written.
 *
 * A data setting (`spec`) is "gen:KIND?..." (apps/data/gen.h), a file, a folder
 * or a glob; relative paths start at @folder. What a file is, its content says,
 * then its name. Nothing half-loaded is ever returned: on error the outputs are
 * untouched and @f names file and line or byte, what was expected, and what was
 * found. Memory: what does not fit into nine tenths of what is left is refused.
 */
#ifndef APPS_DATA_H
#define APPS_DATA_H

#include "apps/data/data_bow.h"
#include "apps/data/data_idx.h"
#include "apps/data/data_kind.h"
#include "apps/data/data_ratings.h"
#include "apps/data/gen.h"
#include "base/fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Ratings of one file, or of all that a glob or a folder of parts holds, one
 * after another. Of a folder that holds other things too: the file called
 * ratings.* or u.data. */
enum err data_load_ratings(const char *spec, const char *folder,
                           struct ratings *out, struct fault *f);

/* Users and items to predict the ratings of: as data_load_ratings, but of one
 * file the ratings may be missing; where they are, they are 0. */
enum err data_load_pairs(const char *spec, const char *folder,
                         struct ratings *out, struct fault *f);

/* Images with their labels. One IDX file finds its partner by name
 * (images/labels, idx3/idx1). Of a folder or glob: the pair whose names say
 * neither t10k nor test becomes @train, the other one @test; a lone pair is
 * @train, whatever its name. CIFAR batches, where there is no IDX image file,
 * are joined in the order of their names in the same two halves. @test is empty
 * (count 0) where there is none. */
enum err data_load_images(const char *spec, const char *folder,
                          struct images *train, struct images *test,
                          struct fault *f);

/* As data_load_images, but where there is no file of labels all are 0. */
enum err data_load_pixels(const char *spec, const char *folder,
                          struct images *train, struct images *test,
                          struct fault *f);

/* Whether the file's name says that it holds test data: t10k or test. */
bool data_is_test_name(const char *path);

/* The only bag of words (LDA-C or UCI) of a file, folder or glob. */
enum err data_load_bow(const char *spec, const char *folder, struct corpus *out,
                       struct fault *f);

/* The vocabulary in the file @spec. */
enum err data_load_vocabulary(const char *spec, const char *folder,
                              struct vocabulary *out, struct fault *f);

enum { DATA_WORDS_MAX = 512 };

/* Contents of a data setting. */
struct data_info {
    enum data_kind kind;
    bool readable;         /* false: nothing loads it; see why and advice */
    uint64_t files;        /* 0: generated */
    uint64_t samples;      /* ratings, rows for training, documents */
    uint64_t test_samples; /* images and tables */
    uint64_t users, items;
    uint64_t words, entries, tokens;  /* of documents */
    double min, max, mean;            /* of the ratings; of a table's targets */
    uint32_t channels, height, width; /* of an image; columns x 1 x 1 */
    unsigned classes;            /* 0: a table whose last column is no class */
    uint64_t class_samples[256]; /* training samples of each label */
    char why[DATA_WORDS_MAX];    /* not readable: why not */
    const char *advice;          /* not readable: what to do; static */
};

/* What @spec holds, in @folder. What is found but is not readable, a table with
 * a wrong place in it included, is described so, and is no error. Errors: those
 * of looking for files, and of reading the other kinds. */
enum err data_describe(const char *spec, const char *folder,
                       struct data_info *out, struct fault *f);

/* What the heads of a data setting's files say, and their sizes. */
struct data_glimpse {
    enum data_kind kind;
    uint64_t files; /* 0: generated */
    uint64_t bytes; /* of the files; generated: that they take in memory */
    bool hopeless;  /* nothing here loads that kind */
};

/* A look that loads nothing. Errors: as data_describe, but for what stands
 * behind the heads. */
enum err data_glance(const char *spec, const char *folder,
                     struct data_glimpse *out, struct fault *f);

/* The members of @info that its kind has, as one object: owned by the caller;
 * NULL when out of memory. */
json_t *data_info_json(const struct data_info *info);

/* Generates @spec and writes it: ratings as the text file @out (user, tab,
 * item, tab, rating), bags of words as the text file @out (LDA-C), digits as
 * the folder @out (created) with the four files train-images-idx3-ubyte ...
 * t10k-labels-idx1-ubyte (the last two only where there is a test set). A file
 * appears under its name only when it is whole; one that exists is replaced.
 * Errors: of the generator; ERR_IO. */
enum err data_generate(const char *spec, const char *out, struct fault *f);

#endif
