/* Training and validation samples of an app, by its settings.
 *
 * Kinds: images (idx, cifar, gen:digits) and tables (csv). Beside data, test
 * and test_fraction the settings of a table are read: `label`, `header`,
 * `separator`, `categories`, `ignore` (data_csv.h); SAMPLES_SCHEMA documents
 * them.
 */
#ifndef APPS_SAMPLES_LOAD_H
#define APPS_SAMPLES_LOAD_H

#include "apps/samples/samples.h"
#include "apps/settings.h"
#include "base/fault.h"

#include <stdbool.h>

/* @train and @test (empty to evaluate: then all that is to be evaluated is
 * @train). Validation samples: the file that `test` names, else the share that
 * test_fraction asks for, else the test set that comes with the data (t10k or
 * test in a file's name), else a tenth, by seed. Both have the same shape and
 * number of classes. @targets: a table's label column holds numbers to predict
 * (float target[]); images are refused then.
 * Tables are encoded (encoding.h) as the training samples ask for, and @train
 * says how; with settings.model as that model was. Missing values and unknown
 * categories are counted in the log.
 * To predict (settings.predict), of a table what the model reads, without
 * labels; of images all, whose labels are not looked at.
 * Errors: those of the loaders; ERR_FORMAT (shapes that differ), ERR_INVAL
 * (nothing left to train on), ERR_NOMEM; the outputs are untouched then. */
enum err samples_load(const struct settings *s, bool targets,
                      struct samples *train, struct samples *test,
                      struct fault *f);

/* Members of an app's schema (JSON text, no comma at the end). */
/* clang-format off */
#define SAMPLES_SCHEMA \
    "\"test_fraction\": {\"type\": \"number\"," \
    " \"minimum\": 0, \"exclusiveMaximum\": 1, \"description\":" \
    " \"share of the data split off for validation, by seed; when it is not" \
    " given, the test set that comes with the data (t10k or test in a file's" \
    " name), else 0.1\"}," \
    "\"label\": {\"anyOf\": [{\"type\": \"string\", \"minLength\": 1}," \
    " {\"type\": \"integer\"}], \"default\": \"last\", \"description\":" \
    " \"csv: the column to predict: a name in the header, \\\"first\\\"," \
    " \\\"last\\\", or its number from 1, from the end below 0\"}," \
    "\"header\": {\"type\": \"boolean\", \"description\":" \
    " \"csv: whether the first line names the columns; when it is not given," \
    " it does if one of its fields, the label aside, is no number\"}," \
    "\"separator\": {\"type\": \"string\", \"minLength\": 1," \
    " \"maxLength\": 1, \"description\": \"csv: what is between two fields;" \
    " when it is not given, tab, semicolon, comma or spaces, the first of" \
    " them that the first line has\"}," \
    "\"categories\": {\"type\": \"array\", \"maxItems\": 1000, \"items\":" \
    " {\"anyOf\": [{\"type\": \"string\", \"minLength\": 1}," \
    " {\"type\": \"integer\"}]}, \"default\": [], \"description\":" \
    " \"csv: columns whose values are categories though they are numbers, or" \
    " numbers and texts: names in the header, or numbers as of label\"}," \
    "\"ignore\": {\"type\": \"array\", \"maxItems\": 1000, \"items\":" \
    " {\"anyOf\": [{\"type\": \"string\", \"minLength\": 1}," \
    " {\"type\": \"integer\"}]}, \"default\": [], \"description\":" \
    " \"csv: columns that are not looked at, whatever they hold: names in the" \
    " header, or numbers as of label\"}"
/* clang-format on */

#endif
