#include "apps/mlr/mlr_onnx.h"

#include "apps/mlr/mlr_kernel.h"
#include "base/file_io.h"
#include "base/mem.h"
#include "base/npy_io.h"

#include <inttypes.h>
#include <string.h>

static enum err image_input(const struct onnx_source *s, uint64_t width,
                            struct onnx_graph *g, char at[ONNX_NAME_MAX],
                            struct fault *f)
{
    const struct onnx_node flat = {.op = "Flatten", .in = {at}};
    float scale[16], offset[16] = {0};

    if (s->channels < 1 || s->channels > 16 || s->height < 1 || s->width < 1 ||
        (uint64_t)s->channels * s->height * s->width != width)
        return fault_set(f, ERR_FORMAT,
                         "%s: model.json gives images no shape of %" PRIu64
                         " values",
                         s->dir, width);
    for (uint32_t c = 0; c < s->channels; c++)
        scale[c] = 1.0f / 255;
    onnx_image_input(g, s->channels, s->height, s->width, scale, offset, at);
    onnx_add(g, &flat, NULL, at);
    return ERR_OK;
}

static enum err table_input(const struct onnx_source *s, uint64_t width,
                            struct onnx_graph *g, char at[ONNX_NAME_MAX],
                            struct fault *f)
{
    struct scaling scaling = {0};
    enum err err = scaling_read(s->dir, width, &scaling, f);

    if (!err)
        err = onnx_table_input(g, s->dir, &scaling, at, f);
    scaling_deinit(&scaling);
    return err;
}

/* Rows of weights and a bias become a matrix and a column. */
static enum err take_rows(struct npy_reader *r, const struct npy_info *info,
                          struct onnx_graph *g, char at[ONNX_NAME_MAX],
                          struct fault *f)
{
    const struct onnx_dims matrix = {
        2, {(int64_t)info->rows, (int64_t)info->cols - 1}};
    const struct onnx_dims column = {1, {(int64_t)info->rows}};
    size_t width = (size_t)info->cols - 1;
    char weights[ONNX_NAME_MAX], biases[ONNX_NAME_MAX];
    float *weight = onnx_array(g, ONNX_FLOAT, &matrix, weights);
    float *bias = onnx_array(g, ONNX_FLOAT, &column, biases);
    enum err err = ERR_OK;

    if (!weight || !bias)
        return fault_set(f, ERR_NOMEM, "onnx: out of memory");
    for (uint64_t c = 0; c < info->rows && !err; c++) {
        err = npy_read(r, weight + c * width, width * sizeof(*weight), f);
        if (!err)
            err = npy_read(r, bias + c, sizeof(*bias), f);
    }
    if (!err)
        onnx_dense(g, weights, biases, at);
    return err;
}

static enum err build(const struct onnx_source *s, struct npy_reader *r,
                      const struct npy_info *info, struct onnx_graph *g,
                      struct fault *f)
{
    char at[ONNX_NAME_MAX];
    uint64_t columns = 0;
    enum err err = scaling_columns(s->dir, &columns, f);

    if (!err)
        err = columns ? table_input(s, info->cols - 1, g, at, f)
                      : image_input(s, info->cols - 1, g, at, f);
    if (!err)
        err = take_rows(r, info, g, at, f);
    return err ? err
               : onnx_class_output(g, s->dir, (unsigned)info->rows, at, f);
}

enum err mlr_onnx(const struct onnx_source *source, struct onnx_graph *g,
                  struct fault *f)
{
    char path[FILE_PATH_MAX];
    struct npy_reader *r;
    struct npy_info info;
    enum err err = file_join(path, source->dir, "weights.npy", f);

    if (!err)
        err = npy_open(path, &info, &r, f);
    if (err)
        return err;
    if (info.type != NPY_F32 || info.rows < 2 || info.rows > MLR_CLASSES_MAX ||
        info.cols < 2 || info.cols > UINT32_MAX)
        err = fault_set(f, ERR_FORMAT,
                        "%s: expected float32 weights of 2 to %d classes, "
                        "found %" PRIu64 " rows of %" PRIu64 " %s",
                        path, MLR_CLASSES_MAX, info.rows, info.cols,
                        npy_type_name(info.type));
    else
        err = build(source, r, &info, g, f);
    npy_close(r);
    return err;
}
