/* `mltune predict MODEL DATA`: what a saved model says of each sample. */
#include "base/disk_io.h"
#include "base/mem.h"
#include "base/npy_io.h"
#include "base/text.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/replay.h"
#include "cli/verbs/model_use.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Values that are predicted at a time, about: enough for whole blocks. */
enum { CHUNK_VALUES = 1 << 16, CHUNK_SAMPLES_MAX = 4096 };

static const char details[] = MODEL_OPERAND
    "DATA is what the\napplication reads, without what is to be predicted: a "
    "table's label, an image's,\na rating. Where it is there, it is passed "
    "over. A table's columns are taken by their\nnames, where model and DATA "
    "have some. One line a sample, in the order of DATA:\n"
    "  classes  class,probability_NAME,...\n"
    "  numbers  value\n"
    "  ratings  rating (the mean where user or item is unknown)\n"
    "  topics   topic,share_0,...\n"
    "As CSV with a header; to a file whose name ends in .npy, as an array of "
    "float64,\na row a sample, classes by their number.";

/* The way out: CSV on a stream, or an array. */
struct prediction_out {
    const struct mlt_column *column;
    uint32_t columns;
    struct disk_out file; /* of `stream`, where it is no standard output */
    FILE *stream;         /* CSV; NULL: an array */
    struct npy_writer *npy;
    const char *path; /* NULL: standard output */
};

/* Digits that tell any two 32-bit floats apart: the models have no more. */
static void put_value(FILE *out, const struct mlt_column *c, double value)
{
    if (c->label && value >= 0 && value < c->labels)
        text_put_csv(out, c->label[(uint32_t)value]);
    else if (isfinite(value))
        fprintf(out, "%.9g", value);
    else
        fputs(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf", out);
}

static enum err out_open(struct prediction_out *s, uint64_t samples,
                         struct fault *f)
{
    size_t n = s->path ? strlen(s->path) : 0;
    const struct npy_info info = {NPY_F64, samples, s->columns};
    enum err err;

    if (n > 4 && strcmp(s->path + n - 4, ".npy") == 0)
        return npy_create(s->path, &info, &s->npy, f);
    if (!s->path) {
        s->stream = stdout;
    } else {
        err = disk_out_open(&s->file, NULL, s->path, DISK_SHARED, f);
        if (err)
            return err;
        s->stream = disk_out_stream(&s->file);
        if (!s->stream)
            return disk_out_end(
                &s->file, fault_set(f, ERR_NOMEM, "%s: out of memory", s->path),
                f);
    }
    for (uint32_t c = 0; c < s->columns; c++) {
        if (c > 0)
            fputc(',', s->stream);
        text_put_csv(s->stream, s->column[c].name);
    }
    fputc('\n', s->stream);
    return ERR_OK;
}

static enum err out_put(struct prediction_out *s, const double *row,
                        uint64_t rows, struct fault *f)
{
    if (s->npy)
        return npy_write(s->npy, row, rows * s->columns * sizeof(*row), f);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < s->columns; c++) {
            if (c > 0)
                fputc(',', s->stream);
            put_value(s->stream, &s->column[c], row[i * s->columns + c]);
        }
        fputc('\n', s->stream);
    }
    if (ferror(s->stream) && !s->path)
        return fault_set(f, ERR_IO, "what was predicted could not be written");
    return ERR_OK;
}

/* Ends what was opened; after the error @err the file is not there. */
static enum err out_close(struct prediction_out *s, enum err err,
                          struct fault *f)
{
    if (s->npy && err)
        npy_abort(s->npy);
    else if (s->npy)
        return npy_commit(s->npy, NULL, f);
    if (!s->path || !s->stream)
        return err;
    if (fclose(s->stream) != 0 && !err)
        err = fault_set(f, ERR_IO, "%s: could not be written", s->path);
    return disk_out_end(&s->file, err, f);
}

static enum err predict_all(struct host *h, uint64_t samples,
                            struct prediction_out *s, struct fault *f)
{
    uint64_t chunk = CHUNK_VALUES / s->columns + 1, n;
    double *row;
    enum err err = ERR_OK;

    chunk = chunk < CHUNK_SAMPLES_MAX ? chunk : CHUNK_SAMPLES_MAX;
    row = mem_alloc(chunk * s->columns * sizeof(*row));
    if (!row)
        return fault_set(f, ERR_NOMEM, "out of memory");
    for (uint64_t at = 0; at < samples && !err; at += n) {
        n = samples - at < chunk ? samples - at : chunk;
        err = host_predict(h, at, n, row, f);
        if (!err)
            err = out_put(s, row, n, f);
    }
    mem_free(row);
    return err;
}

static enum err predict(struct host *h, const char *out, struct fault *f)
{
    struct prediction_out s = {.path = out};
    uint64_t samples = host_facts(h)->info.samples;
    enum err err = host_columns(h, &s.column, &s.columns, f);

    if (!err)
        err = out_open(&s, samples, f);
    if (err)
        return err;
    err = predict_all(h, samples, &s, f);
    err = out_close(&s, err, f);
    if (!err && out)
        console_note("%" PRIu64 " samples: %s", samples, out);
    return err;
}

int verb_predict(int argc, char **argv)
{
    const char *state = STATE_DEFAULT, *out = NULL, *memory = NULL;
    const struct option_spec options[] = {
        {"out", 'o', OPTION_TEXT, "FILE",
         "write there (whole or not at all; .npy: an array) instead of on "
         "standard output",
         &out},
        MODEL_MEMORY_OPTION(memory),
        STATE_OPTION(state),
    };
    const struct usage usage = {
        .verb = "predict",
        .operands = "MODEL DATA",
        .details = details,
        .operands_min = 2,
        .operands_max = 2,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    struct model_use use;
    struct fault f = {0};
    int code = options_parse(&usage, argc, argv, &operands);
    enum err err;

    if (code != OPTIONS_GO_ON)
        return code;
    err = model_use_open(operands_at(&operands, 0), state,
                         operands_at(&operands, 1), memory, true, &use, &f);
    if (!err) {
        err = predict(use.host, out, &f);
        model_use_close(&use);
    }
    if (err)
        console_error("%s", f.text);
    return err ? exit_code_of(err) : EXIT_DONE;
}
