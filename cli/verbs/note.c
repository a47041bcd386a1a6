/* `mltune note RUN [TEXT]`: tags of a run, and a note. A service writes them
 * itself; without one they are written into the state folder here, and no
 * service begins meanwhile. */
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/notes_file.h"
#include "cli/state/replay.h"
#include "cli/state/serve.h"
#include "cli/state/source.h"
#include "cli/verbs/command.h"
#include "tuner/shell/state_io.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "a,b" as a list; NULL: no memory. Empty parts are none. */
static json_t *split(const char *tags)
{
    json_t *out = json_array();

    while (out && *tags) {
        size_t n = strcspn(tags, ",");

        if (n > 0 &&
            json_array_append_new(out, json_stringn_nocheck(tags, n)) != 0) {
            json_decref(out);
            return NULL;
        }
        tags += n + (tags[n] == ',');
    }
    return out;
}

/* What is to change; NULL: no memory. */
static json_t *change_of(const char *tags, const char *text)
{
    json_t *o = json_object();
    int failed = !o;

    if (tags)
        failed |= json_object_set_new(o, "tags", split(tags));
    if (text)
        failed |= json_object_set_new(o, "note", json_string_nocheck(text));
    if (!failed)
        return o;
    json_decref(o);
    return NULL;
}

static int note_here(const struct command_options *c, const char *state,
                     const char *word, const json_t *change)
{
    char id[RUN_ID_MAX + 1] = "";
    json_t *now = NULL;
    struct fault f = {0};
    enum err err = replay_find_id(state, word, id, &f);

    if (!err)
        err = notes_file_change(state, id, change, &now, &f);
    if (err) {
        console_error("%s", f.text);
        return err == ERR_INVAL ? EXIT_USAGE : source_exit_code(err);
    }
    if (c->json) {
        int code;

        now = json_whole(now, json_object_set_new(now, "run", json_string(id)));
        code = console_json(now, 0);

        json_decref(now);
        return code;
    }
    json_decref(now);
    printf("%s: it is written to the run\n", id);
    return EXIT_DONE;
}

static int send(const struct command_options *c, const char *word,
                const json_t *change)
{
    char *body = json_write(change, 0);
    int code;

    if (!body) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    code = command_send(c, word, "PATCH", "/notes", body);
    mem_free(body);
    return code;
}

/* In the folder, unless a service has it. */
static int note_there(const struct command_options *c, const char *word,
                      const json_t *change)
{
    char state[FILE_PATH_MAX], path[FILE_PATH_MAX];
    struct fault f = {0};
    enum err err;
    int fd = -1, code;

    if (state_find(c->state, state, &f) != ERR_OK) {
        console_error("%s", f.text);
        return source_exit_code(ERR_NOENT);
    }
    err = file_join(path, state, SERVE_LOCK, &f);
    if (!err)
        err = file_lock(path, &fd, &f);
    if (err == ERR_BUSY)
        return send(c, word, change);
    if (err) {
        console_error("%s", f.text);
        return exit_code_of(err);
    }
    code = note_here(c, state, word, change);
    close(fd);
    return code;
}

int verb_note(int argc, char **argv)
{
    struct command_options c = {.state = STATE_DEFAULT};
    const char *tags = NULL, *text;
    const struct option_spec options[] = {
        {"tags", 0, OPTION_TEXT, "A,B",
         "all its tags from now on; \"\" takes them away", &tags},
        STATE_OPTION(c.state),
        COMMAND_SERVER_OPTION(c),
        CLIENT_CACERT_OPTION,
        COMMAND_JSON_OPTION(c)};
    const struct usage usage = {
        .verb = "note",
        .operands = "RUN [TEXT]",
        .details = "TEXT is the run's note from now on; \"\" takes it away. "
                   "Both are shown on the page, found by\nits search, and in "
                   "`mltune ls --json`. RUN is an id, the beginning of one, or "
                   "a name\n(its newest run).",
        .operands_min = 1,
        .operands_max = 2,
        .n = sizeof(options) / sizeof(*options),
        .option = options};
    struct operands operands;
    json_t *change;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    text = operands.len == 2 ? operands_at(&operands, 1) : NULL;
    if (!text && !tags) {
        console_error("nothing is noted: expected a text, or --tags A,B");
        return EXIT_USAGE;
    }
    change = change_of(tags, text);
    if (!change) {
        console_error("out of memory");
        return EXIT_RUN_FAILED;
    }
    code = source_server(c.server)
               ? send(&c, operands_at(&operands, 0), change)
               : note_there(&c, operands_at(&operands, 0), change);
    json_decref(change);
    return code;
}
