/* Data sets: from files or generators into memory, written.
 *
 * A data setting (`spec`) is "gen:KIND?..." (apps/data/gen.h), a file, a folder
 * or a glob; relative paths start at @folder. What a file is, its content says,
 * then its name. Nothing half-loaded is ever returned: on error the outputs are
 * untouched and @f names file and line or byte, what was expected, and what was
 * found. Memory: what does not fit into nine tenths of what is left is refused.
 */
#ifndef APPS_DATA_H
#define APPS_DATA_H

#include "apps/data/data_kind.h"
#include "apps/data/gen.h"
#include "apps/formats/data_bow.h"
#include "apps/formats/data_edges.h"
#include "apps/formats/data_idx.h"
#include "apps/formats/data_libsvm.h"
#include "apps/formats/data_ratings.h"
#include "apps/formats/data_words.h"
#include "base/fault.h"

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

/* Sparse samples. One file is @train. Of a folder or glob: all libsvm files in
 * the order of their names, those whose names say t10k or test, or end in ".t",
 * into @test, the others into @train; where all are of one half they are
 * @train. @test is empty where there is none. */
enum err data_load_sparse(const char *spec, const char *folder,
                          struct sparse *train, struct sparse *test,
                          struct fault *f);

/* The graph of one list of edges, or of all that a glob or a folder holds. */
enum err data_load_edges(const char *spec, const char *folder,
                         struct edges *out, struct fault *f);

/* The text of a file, or of all texts that a glob or a folder holds, one after
 * another, appended to @w, whose words may be fixed. A file that is named
 * itself may look like another kind that is written. On error @w is fit for
 * words_deinit only. */
enum err data_load_words(const char *spec, const char *folder,
                         const struct words_options *o, struct text_words *w,
                         struct fault *f);

/* Generates @spec and writes it: ratings as the text file @out (user, tab,
 * item, tab, rating), bags of words and sparse samples as the text file @out
 * (LDA-C, libsvm), edges as the text file @out (from, tab, to), texts as the
 * file @out (a sentence a line), digits as the
 * folder @out (created) with the four files train-images-idx3-ubyte ...
 * t10k-labels-idx1-ubyte (the last two only where there is a test set). A file
 * appears under its name only when it is whole; one that exists is replaced.
 * Errors: of the generator; ERR_IO. */
enum err data_generate(const char *spec, const char *out, struct fault *f);

#endif
