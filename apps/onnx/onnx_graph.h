/* A model in ONNX (Open Neural Network Exchange) while it is built, and the
 * file: operators that pass values on by name, arrays of numbers among them.
 *
 *   graph_init ─► input, array, node, output, note ─► write ─► deinit
 *
 * Building never fails at once: what ran out of memory is told by
 * onnx_graph_write. Arrays stay in memory once, and are written from there. One
 * owner thread; names are copied.
 *
 * Source: onnx.proto (ONNX 1.8, IR version 7) and the operators of opset 13,
 * whose numbers stand in onnx_graph.c.
 */
#ifndef APPS_ONNX_GRAPH_H
#define APPS_ONNX_GRAPH_H

#include "base/fault.h"
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    ONNX_OPSET = 13,
    ONNX_IR = 7,
    ONNX_DIMS_MAX = 4,
    ONNX_ARRAYS_MAX = 512,
    ONNX_NAME_MAX = 48, /* bytes of a value's name, with the end */
};

/* What protocol buffers hold at most. */
#define ONNX_BYTES_MAX ((uint64_t)INT32_MAX)

/* Numbers of TensorProto.DataType. */
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT64 = 7,
    ONNX_DOUBLE = 11
};

struct onnx_dims {
    size_t n;
    int64_t at[ONNX_DIMS_MAX]; /* -1: any number, "N" */
};

struct onnx_array {
    char name[ONNX_NAME_MAX];
    enum onnx_type type;
    struct onnx_dims dims;
    void *data; /* owned, aligned for its type */
    uint64_t bytes;
};

struct onnx_graph {
    struct text nodes, inputs, outputs, notes; /* encoded fields */
    struct onnx_array array[ONNX_ARRAYS_MAX];
    size_t arrays;
    unsigned values; /* named so far */
    bool no_memory;
};

void onnx_graph_init(struct onnx_graph *g);
void onnx_graph_deinit(struct onnx_graph *g);

void onnx_input(struct onnx_graph *g, const char *name, enum onnx_type type,
                const struct onnx_dims *dims);
void onnx_output(struct onnx_graph *g, const char *name, enum onnx_type type,
                 const struct onnx_dims *dims);

/* A constant array, of zeros, which the caller fills; its dims are all known.
 * @name[ONNX_NAME_MAX] is what nodes call it. Borrowed until deinit; NULL when
 * out of memory. At most ONNX_ARRAYS_MAX. */
void *onnx_array(struct onnx_graph *g, enum onnx_type type,
                 const struct onnx_dims *dims, char name[ONNX_NAME_MAX]);

/* An attribute of an operator: one of the three. */
struct onnx_attribute {
    const char *name;
    enum { ONNX_INT = 2, ONNX_REAL = 1, ONNX_INTS = 7 } kind;
    int64_t i[ONNX_DIMS_MAX]; /* i[0] of ONNX_INT */
    size_t n;                 /* of ONNX_INTS */
    float f;
};

/* What the operator @op makes of its inputs. */
struct onnx_node {
    const char *op;
    const char *in[5]; /* the first NULL ends them */
    struct onnx_attribute attribute[4];
    size_t attributes;
};

/* Adds a node; its result is called @out, or where @out is NULL by a name of
 * its own, which is put into @name[ONNX_NAME_MAX] (it may be one of the node's
 * inputs; NULL: nobody asks). */
void onnx_add(struct onnx_graph *g, const struct onnx_node *node,
              const char *out, char name[ONNX_NAME_MAX]);

/* A word about the model (metadata_props). */
void onnx_note(struct onnx_graph *g, const char *key, const char *value);

/* Writes the model @name, made by @version of mltune. Errors: ERR_NOMEM,
 * ERR_LIMIT (more than ONNX_BYTES_MAX), ERR_IO. */
enum err onnx_graph_write(const struct onnx_graph *g, const char *name,
                          const char *version, FILE *out, struct fault *f);

#endif
