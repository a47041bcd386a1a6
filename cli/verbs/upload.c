/* `mltune upload FILE`: a file into the data folder of a service. */
#include "base/disk_io.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/source.h"
#include "cli/verbs/service_use.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 }; /* as much as a request may have */

struct upload_arguments {
    const char *state, *server, *as;
    bool resume, anew, json;
};

struct upload {
    const struct upload_arguments *a;
    struct service_place place;
    struct disk_in in;
    const char *name;
    char *piece; /* [PIECE_BYTES]: owned */
};

static const char details[] =
    "The service is found by --server, MLTUNE_SERVER, or the state folder that "
    "it has;\nits token by MLTUNE_TOKEN or that folder. The file is in the "
    "data "
    "folder once it is\nwhole there: \"data\": \"NAME\" in a configuration "
    "means it. An upload that was\ncut off goes on with --resume.";

static int parse_arguments(struct upload_arguments *a, int argc, char **argv,
                           const char **file)
{
    const struct option_spec options[] = {
        STATE_OPTION(a->state),
        {"server", 0, OPTION_TEXT, "URL", "the service (MLTUNE_SERVER)",
         &a->server},
        CLIENT_CACERT_OPTION,
        {"as", 0, OPTION_TEXT, "NAME",
         "what it is called there (the file's own name)", &a->as},
        {"resume", 0, OPTION_FLAG, NULL,
         "go on where an upload of the same file was cut off", &a->resume},
        {"anew", 0, OPTION_FLAG, NULL,
         "give up what is there of an upload of that name", &a->anew},
        {"json", 0, OPTION_FLAG, NULL, "the answer as one JSON object",
         &a->json},
    };
    const struct usage usage = {
        .verb = "upload",
        .operands = "FILE",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code == OPTIONS_GO_ON)
        *file = operands_at(&operands, 0);
    return code;
}

/* Goes into the address as it is; the service says what else is wrong. */
static bool name_is_fine(const char *name)
{
    static const char may_be[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789._-";

    return *name && strlen(name) <= 128 && strspn(name, may_be) == strlen(name);
}

/* ---- asking -------------------------------------------------------------- */

/* @bytes NULL: how much is there. */
static enum err ask(struct upload *u, const char *bytes, size_t len,
                    uint64_t offset, struct client_answer *answer,
                    struct fault *f)
{
    char target[320];
    const struct client_request q = {.url = u->place.url,
                                     .socket = u->place.socket,
                                     .method = bytes ? "POST" : "GET",
                                     .target = target,
                                     .token = u->place.token,
                                     .bytes = bytes,
                                     .len = len};
    int n = snprintf(target, sizeof(target), "/api/v1/data/%s", u->name);

    assert(n > 0);
    if (bytes)
        snprintf(target + n, sizeof(target) - (size_t)n,
                 "?offset=%" PRIu64 "&size=%" PRIu64 "%s", offset, u->in.bytes,
                 u->a->anew && offset == 0 ? "&anew=true" : "");
    return client_ask(&q, answer, f);
}

/* Bytes that are there of an upload to go on with. */
static enum err look(struct upload *u, uint64_t *out, int *refused,
                     struct fault *f)
{
    struct client_answer answer = {0};
    enum err err = ask(u, NULL, 0, 0, &answer, f);

    *out = 0;
    if (err)
        return err;
    if (answer.status == 200 &&
        json_is_true(json_object_get(answer.json, "complete")))
        err = fault_set(f, ERR_EXIST,
                        "there is a file %s in the data folder: choose another "
                        "name (--as)",
                        u->name);
    else if (answer.status == 200)
        *out =
            (uint64_t)json_integer_value(json_object_get(answer.json, "bytes"));
    else if (answer.status != 404)
        *refused = service_refusal(&answer);
    json_decref(answer.json);
    if (!err && *out > u->in.bytes)
        err = fault_set(f, ERR_INVAL,
                        "%" PRIu64 " bytes of %s are there, but the file has "
                        "%" PRIu64 ": it is another one (--anew)",
                        *out, u->name, u->in.bytes);
    return err;
}

/* ---- sending ------------------------------------------------------------- */

static enum err skip(struct upload *u, uint64_t bytes, struct fault *f)
{
    enum err err = ERR_OK;

    for (uint64_t n; !err && bytes > 0; bytes -= n) {
        n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        err = disk_in_read(&u->in, u->piece, (size_t)n, f);
    }
    return err;
}

/* @answer is of the last piece, or of the one that was refused. */
static enum err send_all(struct upload *u, uint64_t at,
                         struct client_answer *answer, struct fault *f)
{
    enum err err = skip(u, at, f);

    while (!err) {
        uint64_t left = u->in.bytes - at;
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;

        json_decref(answer->json);
        answer->json = NULL;
        err = disk_in_read(&u->in, u->piece, n, f);
        if (!err)
            err = ask(u, u->piece, n, at, answer, f);
        at += n;
        if (!err && (answer->status >= 300 || at >= u->in.bytes))
            return ERR_OK;
    }
    return err;
}

static int say(const struct upload *u, const struct client_answer *answer)
{
    bool begun =
        strcmp(service_text(answer->json, "code"), "wrong_offset") == 0;
    int code;

    if (answer->status >= 300) {
        code = service_refusal(answer);
        if (begun)
            console_note("mltune upload --resume goes on there, --anew begins "
                         "again");
        return code;
    }
    if (u->a->json)
        return console_json(answer->json, 0);
    console_line(stdout, "%s: %" PRIu64 " bytes; \"data\": \"%s\" means it",
                 u->name, u->in.bytes, u->name);
    return EXIT_DONE;
}

static int upload(struct upload *u)
{
    struct client_answer answer = {0};
    struct fault f = {0};
    uint64_t at = 0;
    int code = EXIT_DONE;
    enum err err = service_find(u->a->state, u->a->server, &u->place, &f);

    if (!err && u->a->resume)
        err = look(u, &at, &code, &f);
    if (!err && code == EXIT_DONE)
        err = send_all(u, at, &answer, &f);
    if (err) {
        console_error("%s", f.text);
        code = err == ERR_EXIST ? EXIT_RUN_FAILED : service_exit_code(err);
    } else if (code == EXIT_DONE) {
        code = say(u, &answer);
    }
    json_decref(answer.json);
    return code;
}

int verb_upload(int argc, char **argv)
{
    struct upload_arguments a = {.state = STATE_DEFAULT};
    struct upload u = {.a = &a};
    struct fault f = {0};
    const char *file, *slash;
    int code = parse_arguments(&a, argc, argv, &file);

    if (code != OPTIONS_GO_ON)
        return code;
    slash = strrchr(file, '/');
    u.name = a.as ? a.as : slash ? slash + 1 : file;
    if (!name_is_fine(u.name) || (a.resume && a.anew)) {
        if (a.resume && a.anew)
            console_error("--resume or --anew, not both");
        else
            console_error("%s: expected a name of 1 to 128 of A-Z a-z 0-9 . _ "
                          "- in the data folder; --as gives one",
                          u.name);
        return EXIT_USAGE;
    }
    u.piece = mem_alloc(PIECE_BYTES);
    if (!u.piece)
        fault_set(&f, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
    else
        disk_in_open(&u.in, NULL, file, &f);
    if (f.code) {
        console_error("%s", f.text);
        code = exit_code_of(f.code);
    } else {
        code = upload(&u);
    }
    disk_in_close(&u.in);
    mem_free(u.piece);
    return code;
}
