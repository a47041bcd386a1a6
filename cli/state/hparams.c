#include "cli/state/hparams.h"

#include "base/json/json.h"
#include "base/protobuf.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* tensorboard/plugins/hparams/api.proto: DataType, Status. */
enum { TYPE_STRING = 1, TYPE_FLOAT64 = 3 };
enum { STATUS_UNKNOWN = 0, STATUS_SUCCESS = 1, STATUS_FAILURE = 2 };

/* google.protobuf.Value: number_value 2, string_value 3. */
static void put_value(struct text *out, unsigned field, const json_t *value)
{
    struct text one = {0};

    if (json_is_number(value))
        protobuf_double(&one, 2, json_number_value(value));
    else
        protobuf_string(&one, 3, json_string_value(value));
    protobuf_message(out, field, &one);
}

static bool is_value(const json_t *value)
{
    return json_is_number(value) || json_is_string(value);
}

/* ---- the experiment ------------------------------------------------------ */

/* All of @values are texts, or none: those that are both have no type there. */
static int type_of(const json_t *values)
{
    size_t texts = 0, i;
    json_t *value;

    json_array_foreach(values, i, value) texts += json_is_string(value);
    if (texts == 0)
        return TYPE_FLOAT64;
    return texts == json_array_size(values) ? TYPE_STRING : 0;
}

/* HParamInfo: domain_discrete 5 (its values 1), domain_interval 6 (min_value 1,
 * max_value 2). A tunable that is fixed has no domain: a re-tune may find
 * another value fixed. */
static void put_domain(struct text *info, const json_t *tunable,
                       const json_t *values)
{
    const json_t *min = json_object_get(tunable, "min"),
                 *max = json_object_get(tunable, "max");
    struct text domain = {0};
    size_t i;
    json_t *value;

    if (values) {
        json_array_foreach(values, i, value) if (is_value(value))
            put_value(&domain, 1, value);
        protobuf_message(info, 5, &domain);
    } else if (json_is_number(min) && json_is_number(max)) {
        protobuf_double(&domain, 1, json_number_value(min));
        protobuf_double(&domain, 2, json_number_value(max));
        protobuf_message(info, 6, &domain);
    }
}

/* HParamInfo: name 1, type 4. */
static void put_tunable(struct text *experiment, const char *name,
                        const json_t *tunable)
{
    const json_t *values = json_object_get(tunable, "values");
    int type = type_of(values);
    struct text info = {0};

    protobuf_string(&info, 1, name);
    if (type)
        protobuf_int(&info, 4, type);
    if (type && !json_object_get(tunable, "fixed"))
        put_domain(&info, tunable, values);
    protobuf_message(experiment, 4, &info);
}

/* MetricInfo: name 1 (its tag 2), display_name 3, description 4. */
static void put_measure(struct text *experiment, const char *tag,
                        const char *name, const char *description)
{
    struct text info = {0}, full = {0};

    protobuf_string(&full, 2, tag);
    protobuf_message(&info, 1, &full);
    protobuf_string(&info, 3, name);
    protobuf_string(&info, 4, description);
    protobuf_message(experiment, 5, &info);
}

static void put_measures(struct text *experiment)
{
    put_measure(experiment, "trial/speed", "speed",
                "how fast the loss fell, a second; those of different searches "
                "cannot be compared");
    put_measure(experiment, "trial/loss", "loss", "the last loss");
    put_measure(experiment, "trial/seconds", "seconds", "how long it ran");
    put_measure(experiment, "trial/search", "search", "in which search");
}

bool hparams_known(const struct scalars *s)
{
    json_t *tunables;
    bool known;

    if (history_searches_len(s->h) == 0)
        return false;
    tunables = history_search_tunables(s->h, 0);
    known = json_is_object(tunables);
    json_decref(tunables);
    return known;
}

/* Experiment: time_created_secs 3, hparam_infos 4, metric_infos 5;
 * HParamsPluginData: experiment 2. Its version is 0, which is not written. */
enum err hparams_experiment(const struct scalars *s, struct text *out)
{
    struct text data = {0}, experiment = {0};
    json_t *tunables = history_search_tunables(s->h, 0), *tunable;
    const char *name;

    if (!tunables)
        return ERR_NOMEM;
    protobuf_double(&experiment, 3, s->began_s);
    json_object_foreach(tunables, name, tunable)
        put_tunable(&experiment, name, tunable);
    put_measures(&experiment);
    protobuf_message(&data, 2, &experiment);
    event_version(out, s->began_s);
    event_hparams(out, s->began_s, "_hparams_/experiment", &data);
    json_decref(tunables);
    return ERR_OK;
}

/* ---- sessions ------------------------------------------------------------ */

static int status_of(enum trial_label label)
{
    switch (label) {
    case TRIAL_CONVERGING:
    case TRIAL_UNSTABLE:
    case TRIAL_STOPPED:
        return STATUS_SUCCESS;
    case TRIAL_DIVERGED:
    case TRIAL_FAILED:
        return STATUS_FAILURE;
    default:
        return STATUS_UNKNOWN;
    }
}

/* SessionStartInfo: hparams 1, a map (key 1, value 2); start_time_secs 5.
 * HParamsPluginData: session_start_info 3. */
static void put_start(struct text *out, double wall_s, const json_t *setting)
{
    struct text data = {0}, info = {0};
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)setting, name, value)
    {
        struct text entry = {0};

        if (!is_value(value))
            continue;
        protobuf_string(&entry, 1, name);
        put_value(&entry, 2, value);
        protobuf_message(&info, 1, &entry);
    }
    protobuf_double(&info, 5, wall_s);
    protobuf_message(&data, 3, &info);
    event_hparams(out, wall_s, "_hparams_/session_start_info", &data);
}

/* SessionEndInfo: status 1, end_time_secs 2; HParamsPluginData:
 * session_end_info 4. */
static void put_end(struct text *out, double wall_s, int status)
{
    struct text data = {0}, info = {0};

    protobuf_int(&info, 1, status);
    protobuf_double(&info, 2, wall_s);
    protobuf_message(&data, 4, &info);
    event_hparams(out, wall_s, "_hparams_/session_end_info", &data);
}

/* TensorBoard sorts by measures: what is no number is left out. */
static void put_figure(struct text *out, double wall_s, const char *tag,
                       double value)
{
    if (isfinite(value))
        event_scalar(out, wall_s, 0, tag, value);
}

enum err hparams_session(const struct scalars *s, struct text *out, size_t i)
{
    struct trial_told t = scalars_told(s, i);
    json_t *setting = history_trial_setting(s->h, i);

    assert(t.ended);
    if (!setting)
        return ERR_NOMEM;
    event_version(out, t.began_s);
    put_start(out, t.began_s, setting);
    put_figure(out, t.ended_s, "trial/speed", t.speed);
    put_figure(out, t.ended_s, "trial/seconds", t.seconds);
    put_figure(out, t.ended_s, "trial/search", t.search);
    put_figure(out, t.ended_s, "trial/loss", t.loss);
    put_end(out, t.ended_s, status_of(t.label));
    json_decref(setting);
    return ERR_OK;
}
