#include "cli/config/service_settings.h"

#include "base/json/schema.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct config_field fields[] = {
    {.path = "runs.keep.number",
     .type = CONFIG_INT,
     .min = 1,
     .max = SERVICE_KEEP_MAX,
     .unit = "runs",
     .help = SERVICE_KEEP_HELP},
    {.path = "runs.keep.age",
     .type = CONFIG_DURATION,
     .min = 60,
     .max = SERVICE_KEEP_DAYS_MAX * 86400.0,
     .help = SERVICE_KEEP_AGE_HELP},
    {.path = "runs.keep.resumable",
     .type = CONFIG_BOOL,
     .fallback = "true",
     .help = "keep all runs that could be continued: stopped ones, and failed "
             "ones with a snapshot or trials"},
};

const struct config_field *service_settings_table(size_t *n)
{
    *n = sizeof(fields) / sizeof(*fields);
    return fields;
}

static void read_all(const json_t *root, struct service_settings *out)
{
    const json_t *number = json_at(root, "/runs/keep/number");
    double age;

    *out = (struct service_settings){
        .keep = (uint32_t)json_integer_value(number),
        .keep_age_s =
            json_to_seconds(json_at(root, "/runs/keep/age"), &age) ? age : 0,
        .keep_resumable =
            !json_is_false(json_at(root, "/runs/keep/resumable"))};
}

/* Text that is no JSON: what it lacks, and where. */
static enum err say_malformed(struct problems *problems,
                              const struct json_place *place,
                              const struct fault *f)
{
    struct problem *p = problems_add(problems, "", NULL, "valid JSON");
    const char *reason = strstr(f->text, ": "); /* behind its place */

    if (!p)
        return ERR_NOMEM;
    p->place = *place;
    snprintf(p->found, sizeof(p->found), "%.200s",
             reason ? reason + 2 : f->text);
    return ERR_INVAL;
}

enum err service_settings_parse(const char *text, size_t len,
                                struct service_settings *out,
                                struct problems *problems)
{
    json_t *root, *schema;
    struct json_place place = {0};
    struct fault f = {0};
    enum err err = json_load(text, len, &root, &place, &f);

    assert(out);
    if (err)
        return err == ERR_NOMEM ? err : say_malformed(problems, &place, &f);
    err = config_schema(fields, sizeof(fields) / sizeof(*fields), &schema, &f);
    if (!err) {
        schema_check(schema, root, "", problems);
        json_decref(schema);
        problems_locate(problems, text, len);
        if (problems_no_memory(problems))
            err = ERR_NOMEM;
        else if (problems_errors(problems) > 0)
            err = ERR_INVAL;
    }
    if (!err)
        read_all(root, out);
    json_decref(root);
    return err;
}
