#include "cli/state/job.h"

#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOB_BYTES_MAX = 16384 };

uint64_t job_hash(const char *text, size_t len)
{
    uint64_t hash = 14695981039346656037u;

    assert(text || len == 0);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return hash;
}

static enum err path_of(const char *state, const char *id,
                        char out[FILE_PATH_MAX], struct fault *f)
{
    char name[RUN_ID_MAX + 24];

    snprintf(name, sizeof(name), "runs/%s/job.json", id);
    return file_join(out, state, name, f);
}

bool job_exists(const char *state, const char *id)
{
    char path[FILE_PATH_MAX];

    assert(id[0]);
    return path_of(state, id, path, NULL) == ERR_OK && access(path, F_OK) == 0;
}

static bool take_text(const json_t *o, const char *name, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(o, name));

    if (!text || strlen(text) >= size)
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static bool from_json(const json_t *o, struct job *out)
{
    char hash[24];
    const json_t *number = json_object_get(o, "number");
    const json_t *at = json_object_get(o, "submitted_ns");

    *out = (struct job){
        .held = json_is_true(json_object_get(o, "held")),
        .other_data = json_is_true(json_object_get(o, "other_data")),
    };
    if (!take_text(o, "group", out->group, sizeof(out->group)) ||
        !take_text(o, "reason", out->reason, sizeof(out->reason)) ||
        !take_text(o, "key", out->key, sizeof(out->key)) ||
        !take_text(o, "body_hash", hash, sizeof(hash)) ||
        !json_is_integer(number) || !json_is_integer(at))
        return false;
    out->number = (uint64_t)json_integer_value(number);
    out->submitted_ns = json_integer_value(at);
    out->body_hash = strtoull(hash, NULL, 16);
    /* Older ones say nothing of it. */
    if (!take_text(o, "by", out->by, sizeof(out->by)))
        out->by[0] = '\0';
    return true;
}

enum err job_read(const char *state, const char *id, struct job *out,
                  struct fault *f)
{
    char path[FILE_PATH_MAX];
    char *text = NULL;
    json_t *o = NULL;
    size_t len = 0;
    enum err err = path_of(state, id, path, f);

    assert(id[0]);
    assert(out);
    if (!err)
        err = file_read(path, JOB_BYTES_MAX, &text, &len, f);
    if (!err)
        err = json_load(text, len, &o, NULL, f);
    if (err && text)
        fault_wrap(f, "%s", path);
    if (!err && !from_json(o, out))
        err = fault_set(f, ERR_FORMAT, "%s is damaged", path);
    json_decref(o);
    mem_free(text);
    return err;
}

enum err job_write(const char *state, const char *id, const struct job *job,
                   struct fault *f)
{
    char path[FILE_PATH_MAX], hash[24];
    char *text = NULL;
    json_t *o;
    enum err err = path_of(state, id, path, f);

    assert(state[0] == '/' && id && job);
    if (err)
        return err;
    snprintf(hash, sizeof(hash), "%016" PRIx64, job->body_hash);
    o = json_pack("{s:s, s:s, s:I, s:I, s:b, s:b, s:s, s:s, s:s}", "group",
                  job->group, "by", job->by, "number", (json_int_t)job->number,
                  "submitted_ns", (json_int_t)job->submitted_ns, "held",
                  job->held, "other_data", job->other_data, "reason",
                  job->reason, "key", job->key, "body_hash", hash);
    text = o ? json_write(o, 2) : NULL;
    json_decref(o);
    if (!text)
        return fault_set(f, ERR_NOMEM, "write %s: out of memory", path);
    err = file_write(path, text, strlen(text), f);
    mem_free(text);
    return err;
}
