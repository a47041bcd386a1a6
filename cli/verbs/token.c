/* `mltune token add|limit|ls|revoke|audit`: named tokens of a state folder.
 * What servers of the folder know of them is its file `tokens`
 * (api/http/tokens_io.h). */
#include "api/http/audit_io.h"
#include "api/http/tokens_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/fold.h"
#include "cli/basics/options.h"
#include "cli/basics/table.h"
#include "cli/basics/verbs.h"
#include "cli/service/upload.h"
#include "cli/state/replay.h"
#include "tuner/shell/state_io.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct token_arguments {
    const char *state, *role, *upload_limit;
    bool json;
};

static const char details[] =
    "add NAME      makes a token for NAME and prints it, this once: only a "
    "hash is kept\n"
    "limit NAME    sets or (none) takes away how much it may upload in all\n"
    "ls            the tokens: name, role, when made, what they uploaded\n"
    "revoke NAME   takes a token back\n"
    "audit         who changed what in a service of the folder, and when\n\n"
    "A role is all that it says and what those before it may: read (look), "
    "run (submit,\nsteer, upload, delete one's own runs), admin (all). Whoever "
    "has the token gives it as\nMLTUNE_TOKEN. Servers of the state folder know "
    "of a change from the next request on.";

static int fail(const struct fault *f, enum err err)
{
    console_error("%s", f->text);
    switch (err) {
    case ERR_EXIST:
    case ERR_NOENT:
    case ERR_LIMIT:
    case ERR_BUSY:
        return EXIT_RUN_FAILED;
    default:
        return exit_code_of(err);
    }
}

/* By a command, without any server: whoever may write to the folder. */
static void note(const char *state, const char *what, const char *name,
                 enum err err)
{
    const struct audit_entry entry = {.by = ASKER_SHELL,
                                      .role = ROLE_ADMIN,
                                      .what = what,
                                      .on = name,
                                      .outcome = err ? err_name(err) : "done"};
    struct fault f = {0};

    if (audit_write(state, &entry, &f) != ERR_OK)
        console_error("the audit has no line of it: %s", f.text);
}

/* ---- whose folder -------------------------------------------------------- */

/* Root changes a service's folder as its owner: files of root's the service,
 * which runs as that user, could neither read nor write. */
static enum err act_as_owner(const char *state, struct fault *f)
{
    struct stat st;

    if (stat(state, &st) != 0)
        return errno == ENOENT ? ERR_OK
                               : fault_errno(f, ERR_IO, errno, "%s", state);
    if (geteuid() == 0 && st.st_uid != 0 &&
        (setgroups(0, NULL) != 0 || setgid(st.st_gid) != 0 ||
         setuid(st.st_uid) != 0))
        return fault_errno(f, ERR_IO, errno, "become the owner of %s", state);
    if (st.st_uid == geteuid())
        return ERR_OK;
    return fault_set(f, ERR_INVAL,
                     "%s is the folder of user %u: its tokens are for that "
                     "user, as whom its service runs, and for root",
                     state, (unsigned)st.st_uid);
}

/* Of a folder that is there; a token may be older than its first run. */
static enum err find(const struct token_arguments *a, struct fault *f)
{
    if (access(a->state, F_OK) == 0)
        return act_as_owner(a->state, f);
    return fault_set(f, ERR_NOENT,
                     "there is no state folder %s: name it with "
                     "--state",
                     a->state);
}

/* The limit that was given: NULL, there is none. False: it was no size. */
static bool limit_given(const struct token_arguments *a, uint64_t *bytes,
                        const uint64_t **out)
{
    json_t *value;
    bool ok;

    *out = NULL;
    if (!a->upload_limit || strcmp(a->upload_limit, "none") == 0)
        return true;
    value = json_string(a->upload_limit);
    ok = value && json_to_bytes(value, bytes) && *bytes <= TOKENS_UPLOAD_MAX;
    json_decref(value);
    *out = bytes;
    if (!ok)
        console_error("--upload-limit: expected a size such as 8GiB, or none, "
                      "found \"%s\"",
                      a->upload_limit);
    return ok;
}

/* ---- add ----------------------------------------------------------------- */

/* The secret is nowhere else: what does not reach whoever asked for it is
 * lost. */
static int show_secret(const struct token_arguments *a, const char *name,
                       const char *secret)
{
    if (a->json)
        printf("{\"name\":\"%s\",\"role\":\"%s\",\"token\":\"%s\"}\n", name,
               a->role, secret);
    else
        printf("%s\n", secret);
    if (fflush(stdout) != 0) {
        console_error("the token of %s was made, but could not be shown: "
                      "revoke it (mltune token revoke %s), and add it again",
                      name, name);
        return EXIT_IO;
    }
    console_note("this is the token of %s (%s), shown this once; %s gives it "
                 "as MLTUNE_TOKEN, or pastes it into the page",
                 name, a->role, name);
    return EXIT_DONE;
}

static int add(const struct token_arguments *a, const char *name)
{
    char state[FILE_PATH_MAX], secret[TOKENS_SECRET_LEN + 1];
    enum role role = a->role ? role_of_name(a->role) : ROLE_UNSET;
    const uint64_t *limit;
    uint64_t bytes;
    struct fault f = {0};
    enum err err;

    if (role == ROLE_UNSET) {
        console_error("--role: expected " ROLE_NAMES "%s%s",
                      a->role ? ", found " : "", a->role ? a->role : "");
        return EXIT_USAGE;
    }
    if (!token_name_valid(name)) {
        console_error("%s: expected a name of 1 to %d of A-Z a-z 0-9 . _ @ -, "
                      "which begins with a letter or digit",
                      name, TOKENS_NAME_MAX);
        return EXIT_USAGE;
    }
    if (!limit_given(a, &bytes, &limit))
        return EXIT_USAGE;
    err = act_as_owner(a->state, &f);
    if (!err)
        err = state_make(a->state, state, &f);
    if (!err) {
        err = tokens_add(state, name, role, limit, secret, &f);
        note(state, "token add", name, err);
    }
    return err ? fail(&f, err) : show_secret(a, name, secret);
}

/* ---- ls, revoke ---------------------------------------------------------- */

static json_t *token_to_json(const char *state, const struct named_token *k,
                             struct fault *f)
{
    json_t *limit = k->upload_limited ? json_integer((json_int_t)k->upload_max)
                                      : json_null();
    uint64_t bytes;
    enum err err = uploads_of(state, k->name, &bytes, f);
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:I}", "name", k->name, "role",
                          role_name(k->role), "made", k->made, "upload_limit",
                          limit, "uploaded", (json_int_t)bytes);

    if (!err)
        return o;
    json_decref(o);
    return NULL;
}

static int list_json(const char *state, const struct named_tokens *t)
{
    json_t *array = json_array();
    struct fault f = {0};
    int code;

    for (size_t i = 0; array && i < t->len; i++) {
        if (json_array_append_new(array,
                                  token_to_json(state, &t->item[i], &f)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    if (f.text[0])
        return fail(&f, f.code);
    code = console_json(array, 0);
    json_decref(array);
    return code;
}

/* As a person reads it: 1.5 GiB. */
static void size_text(uint64_t bytes, char out[32])
{
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    size_t i = 0;

    if (bytes < 1024) {
        snprintf(out, 32, "%d B", (int)bytes);
        return;
    }
    while (size >= 1024 && i < 3) {
        size /= 1024;
        i++;
    }
    snprintf(out, 32, "%.3g %s", size, unit[i]);
}

static enum err add_row(const char *state, const struct named_token *k,
                        struct text_table *table, struct fault *f)
{
    char bytes[32], most[32];
    uint64_t uploaded;
    enum err err = uploads_of(state, k->name, &uploaded, f);

    size_text(uploaded, bytes);
    size_text(k->upload_max, most);
    table_add(table, "%s", k->name);
    table_add(table, "%s", role_name(k->role));
    table_add(table, "%s", k->made);
    table_add(table, k->upload_limited ? "%s of %s" : "%s", bytes, most);
    return err;
}

static int list_table(const char *state, const struct named_tokens *t)
{
    struct text_table table = {.columns = 4,
                               .width = fold_width(STDOUT_FILENO)};
    struct fault f = {0};
    enum err err = ERR_OK;
    int failed;

    if (t->len == 0) {
        console_note("there are no named tokens; mltune token add makes one");
        return EXIT_DONE;
    }
    table_add(&table, "name");
    table_add(&table, "role");
    table_add(&table, "made");
    table_add(&table, "uploads");
    for (size_t i = 0; i < t->len && !err; i++)
        err = add_row(state, &t->item[i], &table, &f);
    failed = !err && table_print(&table, stdout, "");
    table_deinit(&table);
    if (err)
        return fail(&f, err);
    if (!failed)
        return EXIT_DONE;
    console_error("out of memory");
    return EXIT_RUN_FAILED;
}

static int list(const struct token_arguments *a)
{
    struct named_tokens t = {.len = 0};
    struct fault f = {0};
    enum err err = find(a, &f);
    int code;

    if (!err)
        err = tokens_read(a->state, &t, &f);
    if (err)
        return fail(&f, err);
    code = a->json ? list_json(a->state, &t) : list_table(a->state, &t);
    tokens_deinit(&t);
    return code;
}

static int take_back(const struct token_arguments *a, const char *name)
{
    struct fault f = {0};
    enum err err = find(a, &f);

    if (!err) {
        err = tokens_revoke(a->state, name, &f);
        note(a->state, "token revoke", name, err);
    }
    if (err)
        return fail(&f, err);
    if (a->json)
        printf("{\"name\":\"%s\",\"revoked\":true}\n", name);
    else
        printf("%s: the token is revoked; what it still has open is cut within "
               "a second\n",
               name);
    return EXIT_DONE;
}

static int limit(const struct token_arguments *a, const char *name)
{
    struct fault f = {0};
    const uint64_t *most;
    uint64_t bytes;
    enum err err;

    if (!a->upload_limit) {
        console_error("expected: mltune token limit %s --upload-limit SIZE",
                      name);
        return EXIT_USAGE;
    }
    if (!limit_given(a, &bytes, &most))
        return EXIT_USAGE;
    err = find(a, &f);
    if (!err) {
        err = tokens_limit(a->state, name, most, &f);
        note(a->state, "token limit", name, err);
    }
    if (err)
        return fail(&f, err);
    if (a->json && most)
        printf("{\"name\":\"%s\",\"upload_limit\":%" PRIu64 "}\n", name, *most);
    else if (a->json)
        printf("{\"name\":\"%s\",\"upload_limit\":null}\n", name);
    else
        printf("%s: it may upload %s in all\n", name,
               most ? a->upload_limit : "as much as the service takes");
    return EXIT_DONE;
}

/* ---- audit --------------------------------------------------------------- */

/* A line, for people. One that is torn is shown as it is. */
static void show_line(const char *line)
{
    json_t *o = NULL;

    if (json_load(line, strlen(line), &o, NULL, NULL) == ERR_OK)
        console_line(stdout, "%s  %s (%s)  %s%s%s: %s", json_text_at(o, "/at"),
                     json_text_at(o, "/by"), json_text_at(o, "/role"),
                     json_text_at(o, "/what"),
                     *json_text_at(o, "/on") ? " " : "", json_text_at(o, "/on"),
                     json_text_at(o, "/outcome"));
    else
        console_line(stdout, "a line that is not whole: %s", line);
    json_decref(o);
}

static int show_audit(const struct token_arguments *a)
{
    struct fault f = {0};
    char *text = NULL, *rest;
    size_t len = 0;
    enum err err = find(a, &f);

    if (!err)
        err = audit_read(a->state, &text, &len, &f);
    if (err)
        return fail(&f, err);
    rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (*line && a->json)
            console_line(stdout, "%s", line);
        else if (*line)
            show_line(line);
    }
    mem_free(text);
    return EXIT_DONE;
}

int verb_token(int argc, char **argv)
{
    struct token_arguments a = {.state = STATE_DEFAULT};
    const struct option_spec options[] = {
        STATE_OPTION(a.state),
        {"role", 0, OPTION_TEXT, "read|run|admin", "of add", &a.role},
        {"upload-limit", 0, OPTION_TEXT, "SIZE",
         "of add and limit: bytes that it may upload in all, as 8GiB; none",
         &a.upload_limit},
        {"json", 0, OPTION_FLAG, NULL, "the answer as JSON", &a.json},
    };
    const struct usage usage = {
        .verb = "token",
        .operands = "add NAME | limit NAME | ls | revoke NAME | audit",
        .details = details,
        .operands_min = 1,
        .operands_max = 2,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);
    const char *what, *name;

    if (code != OPTIONS_GO_ON)
        return code;
    what = operands_at(&operands, 0);
    name = operands.len == 2 ? operands_at(&operands, 1) : NULL;
    if (strcmp(what, "add") == 0 && name)
        return add(&a, name);
    if (a.role) {
        console_error("--role is of add: mltune token add NAME --role %s",
                      a.role);
        return EXIT_USAGE;
    }
    if (strcmp(what, "limit") == 0 && name)
        return limit(&a, name);
    if (a.upload_limit) {
        console_error("--upload-limit is of add and limit");
        return EXIT_USAGE;
    }
    if (strcmp(what, "ls") == 0 && !name)
        return list(&a);
    if (strcmp(what, "audit") == 0 && !name)
        return show_audit(&a);
    if (strcmp(what, "revoke") == 0 && name)
        return take_back(&a, name);
    console_error("expected: mltune token %s", usage.operands);
    return EXIT_USAGE;
}
