/* `mltune export RUN --format F`. */
#include "cli/export/export.h"

#include "base/disk_io.h"

#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>
#include <unistd.h>

static const struct export_ops *const formats[] = {
    &export_csv, &export_jsonl, &export_tensorboard, &export_mlflow,
    &export_optuna};
enum { FORMATS = sizeof(formats) / sizeof(*formats) };

struct export_arguments {
    const char *state, *format, *out;
};

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
static enum err write_folder(const struct export_ops *ops,
                             const struct export_source *s, const char *out,
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
        err = ops->write(s, &(struct export_target){.path = tmp}, f);
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
static enum err write_stream(const struct export_ops *ops,
                             const struct export_source *s, FILE *out,
                             struct fault *f)
{
    char prefix[RUN_ID_MAX + 32];
    const struct export_target t = {
        .out = out, .prefix = prefix, .mtime_s = s->run->last_ns / 1000000000};
    enum err err;

    snprintf(prefix, sizeof(prefix), "%s-%s", s->run->id, ops->name);
    err = ops->write(s, &t, f);
    if (!err && ops->folder)
        err = export_archive_end(&t, f);
    return err;
}

static enum err write_file(const struct export_ops *ops,
                           const struct export_source *s, const char *out,
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
    err = stream
              ? finish_stream(stream, out, write_stream(ops, s, stream, f), f)
              : fault_set(f, ERR_NOMEM, "%s: out of memory", out);
    return disk_out_end(&file, err, f);
}

static enum err write_standard(const struct export_ops *ops,
                               const struct export_source *s, struct fault *f)
{
    return finish_stream(stdout, "-", write_stream(ops, s, stdout, f), f);
}

static enum err write_out(const struct export_ops *ops, struct journal *j,
                          const struct replayed *run, const char *out,
                          struct fault *f)
{
    char name[RUN_ID_MAX + 32];
    struct export_source s;
    bool standard;
    enum err err = export_open(&s, j, run);

    if (err)
        return fault_set(f, err, "%s", err_text(err));
    snprintf(name, sizeof(name), ops->folder ? "%s-%s" : "%s.%s", run->id,
             ops->name);
    if (!out)
        out = name;
    standard = strcmp(out, "-") == 0;
    err = standard      ? write_standard(ops, &s, f)
          : ops->folder ? write_folder(ops, &s, out, f)
                        : write_file(ops, &s, out, f);
    export_close(&s);
    if (!err && !standard)
        printf("%s\n", out);
    if (err && !f->text[0])
        fault_set(f, err, "%s", err_text(err));
    return err;
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
    err = write_out(ops, j, &run, a->out, &f);
    replayed_deinit(&run);
    journal_close(j);
    if (!err)
        return EXIT_DONE;
    console_error("%s", f.text);
    return err == ERR_EXIST ? EXIT_USAGE : exit_code_of(err);
}

static const char details[] =
    "FORMAT is csv (a folder of tables), jsonl (the journal, a record a line), "
    "tensorboard\n(a log folder), mlflow (a folder as its file store) or "
    "optuna-journal (the log of a\nJournalStorage). RUN is an id, the "
    "beginning "
    "of one, or a name (its newest run); one\nthat is under way is written as "
    "far as it is.";

int verb_export(int argc, char **argv)
{
    struct export_arguments a = {.state = STATE_DEFAULT};
    const struct option_spec options[] = {
        {"format", 0, OPTION_TEXT, "FORMAT", "what to write", &a.format},
        {"out", 'o', OPTION_TEXT, "PATH",
         "where (RUN-FORMAT here; - is standard output: of a folder a tar "
         "archive)",
         &a.out},
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
    int code = options_parse(&usage, argc, argv, &operands);

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
    return export_run(&a, ops, operands_at(&operands, 0));
}
