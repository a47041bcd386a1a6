/* What the ONNX forms of models share: the way raw rows come in, and classes or
 * numbers go out.
 *
 *   table   input float[N][columns] as they stand in the file
 *   images  input uint8[N][channels][height][width], bytes
 *   ─► what the application computes, from float ─►
 *   class int64[N], probabilities float[N][classes]    or    value float[N][1]
 */
#ifndef APPS_ONNX_MODEL_H
#define APPS_ONNX_MODEL_H

#include "apps/onnx/onnx_graph.h"
#include "apps/samples/scaling.h"

#include <stdint.h>

/* A model folder, and what model.json says of the application's own. */
struct onnx_source {
    const char *dir;
    uint32_t channels, height, width; /* 0: it does not say */
};

/* An application's form. @g: initialised, filled on success. Errors: ERR_IO,
 * ERR_FORMAT (a file of the folder), ERR_UNSUPPORTED (a layer), ERR_NOMEM. */
typedef enum err onnx_form(const struct onnx_source *source,
                           struct onnx_graph *g, struct fault *f);

/* The input of a table, scaled by @s; the name of the scaled float[N][columns]
 * into @at. The columns' names, where DIR has some, are the note "columns".
 * Errors: ERR_IO, ERR_FORMAT, ERR_NOMEM. */
enum err onnx_table_input(struct onnx_graph *g, const char *dir,
                          const struct scaling *s, char at[ONNX_NAME_MAX],
                          struct fault *f);

/* The input of images: scale[c] byte + offset[c], by channel. */
void onnx_image_input(struct onnx_graph *g, uint32_t channels, uint32_t height,
                      uint32_t width, const float scale[], const float offset[],
                      char at[ONNX_NAME_MAX]);

/* Class and probabilities of the scores @at, float[N][@classes]; the names in
 * DIR/classes.txt, or the numbers, are the note "classes". Errors: as above. */
enum err onnx_class_output(struct onnx_graph *g, const char *dir,
                           unsigned classes, const char *at, struct fault *f);

/* The number at / factor + mean of @at, float[N][1], factor > 0. */
void onnx_value_output(struct onnx_graph *g, double mean, double factor,
                       const char *at);

/* @at as the rows float[N][size] of @weight[outputs][size], transposed, and
 * @bias[outputs] added: both constant arrays. */
void onnx_dense(struct onnx_graph *g, const char *weight, const char *bias,
                char at[ONNX_NAME_MAX]);

#endif
