/* `mltune export RUN --format F`. */
#include "cli/export/export.h"

#include "base/disk_io.h"

#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/model_find.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

static const struct export_ops *const formats[] = {
    &export_csv,    &export_jsonl,  &export_tensorboard, &export_mlflow,
    &export_optuna, &export_folder, &export_zip,         &export_onnx};
enum { FORMATS = sizeof(formats) / sizeof(*formats) };

struct export_arguments {
    const char *state, *format, *out;
    bool run; /* its operand is a run, no folder */
};

/* What is written: of a run, or of a model. */
struct export_work {
    const struct export_ops *ops;
    const struct export_source *source;
    const struct export_model *model;
    const char *name; /* the run's id, or what a model is called by */
    int64_t mtime_s;
};

static enum err work_on(const struct export_work *w,
                        const struct export_target *t, struct fault *f)
{
    assert(w->source || w->model);
    return w->model ? w->ops->write_model(w->model, t, f)
                    : w->ops->write(w->source, t, f);
}

/* "csv|jsonl|...". */
static void name_formats(char *out, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; i < FORMATS; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%s", i ? "|" : "",
                                formats[i]->name);
        assert(len < size);
    }
}

static const struct export_ops *find_format(const char *name)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (name && strcmp(formats[i]->name, name) == 0)
            return formats[i];
    console_error("--format: %s; there are:", name ? name : "which one?");
    for (size_t i = 0; i < FORMATS; i++)
        fprintf(stderr, "  %-15s %s\n", formats[i]->name, formats[i]->summary);
    return NULL;
}

/* A folder that is whole or absent. */
static enum err write_folder(const struct export_work *w, const char *out,
                             struct fault *f)
{
    char path[FILE_PATH_MAX], tmp[FILE_PATH_MAX];
    enum err err = folder_absolute(out, path, f);

    if (!err && strlen(path) + sizeof(".tmp") > sizeof(tmp))
        err = fault_set(f, ERR_LIMIT, "%s: too long", out);
    if (err)
        return err;
    if (access(path, F_OK) == 0 && !folder_is_empty(path))
        return fault_set(f, ERR_EXIST,
                         "%s exists and is not empty: name another with --out",
                         out);
    snprintf(tmp, sizeof(tmp), "%.*s.tmp", (int)sizeof(tmp) - 5, path);
    err = folder_remove(tmp, f);
    if (!err)
        err = folder_make(tmp, f);
    if (!err)
        err =
            work_on(w, &(struct export_target){.path = tmp, .place = path}, f);
    if (!err)
        err = folder_publish(tmp, path, f);
    if (err)
        folder_remove(tmp, NULL);
    return err;
}

static enum err finish_stream(FILE *file, const char *out, enum err err,
                              struct fault *f)
{
    bool failed = fflush(file) != 0 || ferror(file);
    int errnum = errno;

    if (file != stdout)
        failed |= fclose(file) != 0;
    if (failed && (!err || err == ERR_IO))
        err = fault_errno(f, ERR_IO, errnum, "%s", out);
    return err;
}

/* One file, or all files of a format as one archive. */
static enum err write_stream(const struct export_work *w, FILE *out,
                             struct fault *f)
{
    char prefix[RUN_ID_MAX + 32];
    const struct export_target t = {
        .out = out, .prefix = prefix, .mtime_s = w->mtime_s};
    enum err err;

    snprintf(prefix, sizeof(prefix), "%.*s-%s", RUN_ID_MAX, w->name,
             w->ops->name);
    err = work_on(w, &t, f);
    if (!err && w->ops->folder)
        err = export_archive_end(&t, f);
    return err;
}

static enum err write_file(const struct export_work *w, const char *out,
                           struct fault *f)
{
    struct disk_out file;
    FILE *stream;
    enum err err;

    if (access(out, F_OK) == 0)
        return fault_set(f, ERR_EXIST,
                         "%s exists: name another with --out, or - for "
                         "standard output",
                         out);
    err = disk_out_open(&file, NULL, out, DISK_SHARED, f);
    if (err)
        return err;
    stream = disk_out_stream(&file);
    err = stream ? finish_stream(stream, out, write_stream(w, stream, f), f)
                 : fault_set(f, ERR_NOMEM, "%s: out of memory", out);
    return disk_out_end(&file, err, f);
}

static enum err write_standard(const struct export_work *w, struct fault *f)
{
    return finish_stream(stdout, "-", write_stream(w, stdout, f), f);
}

static enum err write_out(const struct export_work *w, const char *out,
                          struct fault *f)
{
    char name[FILE_PATH_MAX + 32];
    bool standard;
    enum err err;

    snprintf(name, sizeof(name), w->ops->folder ? "%s-%s" : "%s.%s", w->name,
             w->ops->name);
    if (!out)
        out = name;
    standard = strcmp(out, "-") == 0;
    err = standard         ? write_standard(w, f)
          : w->ops->folder ? write_folder(w, out, f)
                           : write_file(w, out, f);
    if (!err && !standard)
        printf("%s\n", out);
    if (err && !f->text[0])
        fault_set(f, err, "%s", err_text(err));
    return err;
}

static enum err write_run(const struct export_ops *ops, struct journal *j,
                          const struct replayed *run, const char *out,
                          struct fault *f)
{
    struct export_source s;
    const struct export_work w = {.ops = ops,
                                  .source = &s,
                                  .name = run->id,
                                  .mtime_s = run->last_ns / 1000000000};
    enum err err = export_open(&s, j, run);

    if (err)
        return fault_set(f, err, "%s", err_text(err));
    err = write_out(&w, out, f);
    export_close(&s);
    return err;
}

static int say(enum err err, const struct fault *f)
{
    if (!err)
        return EXIT_DONE;
    console_error("%s", f->text);
    return err == ERR_EXIST ? EXIT_USAGE : exit_code_of(err);
}

static int export_run(const struct export_arguments *a,
                      const struct export_ops *ops, const char *word)
{
    char state[FILE_PATH_MAX];
    struct journal *j = NULL;
    struct replayed run;
    struct fault f = {0};
    enum err err = replay_open(a->state, state, &j, &f);

    if (!err)
        err = replay_run(j, state, word, &run, &f);
    if (err) {
        journal_close(j);
        console_error("%s", f.text);
        return replay_exit_code(err);
    }
    err = write_run(ops, j, &run, a->out, &f);
    replayed_deinit(&run);
    journal_close(j);
    return say(err, &f);
}

/* Its time is that of model.json, the last file that is written. */
static int64_t time_of(const char *dir)
{
    char path[FILE_PATH_MAX];
    struct stat st;

    if (file_join(path, dir, MODEL_FILE, NULL) || stat(path, &st) != 0)
        return 0;
    return st.st_mtim.tv_sec;
}

static int export_model(const struct export_arguments *a,
                        const struct export_ops *ops, const char *word)
{
    struct found_model found;
    struct export_model m = {.dir = found.dir};
    struct export_work w = {.ops = ops, .model = &m, .name = found.name};
    struct fault f = {0};
    enum err err = a->run ? model_find_run(word, a->state, &found, &f)
                          : model_find(word, a->state, &found, &f);

    if (!err)
        err = model_read(found.dir, &m.model, &f);
    if (!err) {
        w.mtime_s = time_of(found.dir);
        err = write_out(&w, a->out, &f);
        model_deinit(&m.model);
    }
    return say(err, &f);
}

static const char details[] =
    "FORMAT is csv (a folder of tables), jsonl (the journal, a record a line), "
    "tensorboard\n(a log folder), mlflow (a folder as its file store) or "
    "optuna-journal (the log of a\nJournalStorage); of the model, model (its "
    "folder as it is), zip (the same as one file) or onnx (one file, for mlr "
    "and\nnn). RUN is an id, the "
    "beginning of one, or a name (its newest run); one that is under\nway is "
    "written as far as it is. A model folder may stand for a run's model.";

int verb_export(int argc, char **argv)
{
    struct export_arguments a = {.state = STATE_DEFAULT};
    char names[128] = "";
    const struct option_spec options[] = {
        {"format", 0, OPTION_TEXT, names, "what to write", &a.format},
        {"out", 'o', OPTION_TEXT, "PATH",
         "where (RUN-FORMAT here; - is standard output: of a folder a tar "
         "archive)",
         &a.out},
        {"run", 0, OPTION_FLAG, NULL, "RUN is a run, never a folder", &a.run},
        STATE_OPTION(a.state),
    };
    const struct usage usage = {
        .verb = "export",
        .operands = "RUN",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    const struct export_ops *ops;
    struct operands operands;
    int code;

    name_formats(names, sizeof(names));
    code = options_parse(&usage, argc, argv, &operands);
    if (code != OPTIONS_GO_ON)
        return code;
    ops = find_format(a.format);
    if (!ops)
        return EXIT_USAGE;
    if (a.out && ops->folder && strcmp(a.out, "-") == 0 &&
        isatty(STDOUT_FILENO)) {
        console_error(
            "--out: an archive is nothing for a terminal: name a folder, "
            "or pipe it into tar x");
        return EXIT_USAGE;
    }
    return ops->write_model ? export_model(&a, ops, operands_at(&operands, 0))
                            : export_run(&a, ops, operands_at(&operands, 0));
}
