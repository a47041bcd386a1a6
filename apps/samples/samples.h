/* Samples with a class or a number each: what images and tables have in common,
 * for apps that do not mind which they get.
 *
 * A sample has a shape: channels x height x width values, planar (all of the
 * first channel, row by row, then the next). MNIST is 1 x 28 x 28, CIFAR
 * 3 x 32 x 32, a table of 54 columns 54 x 1 x 1. Images are bytes (a value is
 * byte / 255), tables are floats as the file has them; see
 * apps/samples/scaling.h.
 */
#ifndef APPS_SAMPLES_H
#define APPS_SAMPLES_H

#include "apps/formats/data_idx.h"
#include "apps/samples/encoding.h"
#include "base/fault.h"

#include <stdint.h>

enum {
    SAMPLES_CLASSES_MAX = 256, /* labels are bytes */
    SAMPLES_COLUMN_BYTES_MAX = 255,
    SAMPLES_NAME_BYTES_MAX = 259, /* of a class, with the end */
};

/* Zeroed: none. Exactly one of pixel and value is there, and exactly one of
 * label and target (to predict: neither), unless count is 0. */
struct samples {
    uint64_t count;
    uint32_t channels, height, width;
    uint8_t *pixel;    /* [count][channels][height][width]: owned, or NULL */
    float *value;      /* the same as finite numbers: owned, or NULL */
    uint8_t *label;    /* [count] below classes: owned, or NULL */
    float *target;     /* [count] finite: owned, or NULL */
    unsigned classes;  /* 0 where there are targets */
    char **class_name; /* [classes] of a table: owned; NULL: the numbers */
    /* [values] of a table with a header, the label's left out; one line of at
     * most SAMPLES_COLUMN_BYTES_MAX bytes: owned, or NULL */
    char **column_name;
    /* Of a table as it was read its columns (`inputs` 0), of training samples
     * how they were encoded: owned; NULL: images, and other encoded tables. */
    struct encoding *columns;
    char
        *summary; /* of training samples what they hold, as JSON: owned; NULL */
};

void samples_deinit(struct samples *s);

/* Makes @shape @s without its samples: what one of them is, what its classes,
 * columns and training samples are, all of it taken over from @s. */
void samples_take_shape(struct samples *shape, struct samples *s);

/* Values a sample: channels * height * width. */
uint64_t samples_values(const struct samples *s);

static inline uint64_t samples_count(const struct samples *s)
{
    return s->count;
}

/* Value @i of all samples', one after the other; a pixel is 0 to 1. */
static inline float samples_value(const struct samples *s, uint64_t i)
{
    return s->pixel ? (float)s->pixel[i] / 255 : s->value[i];
}

/* What sample @i is to be: its target, its class's number, or 0 of samples
 * that have neither. */
static inline float samples_mark(const struct samples *s, uint64_t i)
{
    return s->target ? s->target[i] : s->label ? (float)s->label[i] : 0;
}

/* The values of @s, a table as it was read, are @value [count][inputs] now, and
 * the names of the inputs @name [inputs] (or NULL), both transferred; it has no
 * columns any more. @value may be its own. */
void samples_encoded(struct samples *s, float *value, uint64_t inputs,
                     char **name);

/* @im as samples; what it owns is transferred and @im zeroed. */
void samples_of_images(struct images *im, struct samples *out);

/* Splits by a hash of seed and index: sample i goes to @test when the hash
 * falls below @fraction (0 <= fraction < 1), else it stays, in order. Both
 * keep shape, classes and names. Errors: ERR_NOMEM (nothing changed). */
enum err samples_split(struct samples *s, double fraction, uint64_t seed,
                       struct samples *test);

/* Renumbers the labels of @s by name, so that they mean what they mean in a
 * table whose classes are @name[classes] (copied). Images, which have no
 * names, only get the larger number of classes. Errors: ERR_FORMAT (a class
 * that @name does not have; @file is what the message calls @s), ERR_NOMEM;
 * nothing changed then. */
enum err samples_rename(struct samples *s, const char *file, char *const *name,
                        unsigned classes, struct fault *f);

/* Names of the classes, a line each, as the file DIR/classes.txt, whole or not
 * there; nothing where @s has no names. Errors: ERR_IO, ERR_NOMEM. */
enum err samples_save_classes(const struct samples *s, const char *dir,
                              struct fault *f);

/* samples_rename with the names in DIR/classes.txt; where that is not there and
 * @s has no names, nothing happens. Errors: as samples_rename, ERR_NOENT (no
 * such file, but names), ERR_IO, ERR_FORMAT. */
enum err samples_load_classes(struct samples *s, const char *file,
                              const char *dir, struct fault *f);

/* The names in DIR/classes.txt, each owned by the caller, and their number, 0
 * where that file is not there. Errors: ERR_IO, ERR_FORMAT, ERR_INVAL (path),
 * ERR_NOMEM; no names then. */
enum err samples_class_names(const char *dir, char *name[SAMPLES_CLASSES_MAX],
                             unsigned *n, struct fault *f);

#endif
