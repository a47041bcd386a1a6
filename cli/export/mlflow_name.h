/* Names of files that MLflow takes for those of metrics. */
#ifndef CLI_MLFLOW_NAME_H
#define CLI_MLFLOW_NAME_H

#include <stddef.h>
#include <stdint.h>

struct extras;

/* @prefix and further metric @index of @names in @out[@size], '/' as '.': those
 * that differ by that alone get a number. */
void mlflow_name(const struct extras *names, uint32_t index, const char *prefix,
                 char *out, size_t size);

#endif
