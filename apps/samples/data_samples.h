/* Samples out of a data setting: images or a table (apps/data/data.h). */
#ifndef APPS_DATA_SAMPLES_H
#define APPS_DATA_SAMPLES_H

#include "apps/samples/data_csv.h"
#include "apps/samples/samples.h"
#include "base/fault.h"

/* Samples of images (as data_load_images takes them) or of tables. One file is
 * taken for a table where it is text that nothing else explains; of a folder or
 * glob without images: all tables, those whose names say t10k or test into
 * @test, the others, in the order of their names, into @train; where all are of
 * one half they are @train.
 * @csv says how to read tables. Labels of both mean the same. Errors: those of
 * data_load_images and csv_table_read; ERR_UNSUPPORTED (targets of images);
 * outputs untouched. */
enum err data_load_samples(const char *spec, const char *folder,
                           const struct csv_options *csv, struct samples *train,
                           struct samples *test, struct fault *f);

/* Both have the same shape and columns (apps/samples/columns.h), or @test is
 * empty;
 * @name is what a message calls @test. Errors: ERR_FORMAT. */
enum err samples_same_shape(const struct samples *train, const char *name,
                            const struct samples *test, struct fault *f);

#endif
