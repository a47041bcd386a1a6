#include "cli/verbs/kube_job.h"

#include "base/text.h"
#include "cli/basics/exit_code.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- names --------------------------------------------------------------- */

#define SMALL "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static enum err refuse(const char *what, const char *text, const char *why,
                       struct fault *f)
{
    return fault_set(f, ERR_INVAL, "%s: \"%.100s\" %s", what, text, why);
}

static enum err check_label(const char *what, const char *all, const char *text,
                            size_t n, bool letter, struct fault *f)
{
    if (n == 0)
        return refuse(what, all, "has a part without a character", f);
    if (strspn(text, SMALL DIGITS "-") < n)
        return refuse(what, all,
                      "has a character that Kubernetes does not take in a "
                      "name: only small letters, digits and dashes (DNS, RFC "
                      "1123)",
                      f);
    if (letter && !is_one_of(text[0], SMALL))
        return refuse(what, all,
                      "begins with no small letter, as the name of a service "
                      "must (DNS, RFC 1035)",
                      f);
    if (text[0] == '-' || text[n - 1] == '-')
        return refuse(what, all,
                      "begins or ends with a dash, as no name of DNS may", f);
    return ERR_OK;
}

enum err kube_label(const char *what, const char *text, size_t most,
                    bool letter, struct fault *f)
{
    enum err err = check_label(what, text, text, strlen(text), letter, f);

    if (!err && strlen(text) > most)
        return fault_set(f, ERR_INVAL,
                         "%s: \"%.100s\" is longer than %zu characters", what,
                         text, most);
    return err;
}

enum err kube_subdomain(const char *what, const char *text, struct fault *f)
{
    enum err err = ERR_OK;

    if (strlen(text) > 253)
        return fault_set(f, ERR_INVAL,
                         "%s: \"%.100s...\" is longer than 253 characters",
                         what, text);
    for (const char *at = text; !err;) {
        size_t n = strcspn(at, ".");

        err = check_label(what, text, at, n, false, f);
        if (!at[n])
            break;
        at += n + 1;
    }
    return err;
}

enum err kube_image(const char *what, const char *text, struct fault *f)
{
    static const char plain[] = SMALL DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "._-/:@+";

    if (*text && text[strspn(text, plain)] == '\0' &&
        isalnum((unsigned char)text[0]) && strlen(text) < 512)
        return ERR_OK;
    return refuse(what, text,
                  "is no image's name, as mltune:0.1, or "
                  "registry.lan:5000/mltune@sha256:...",
                  f);
}

/* Pods are NAME-INDEX, a label each. */
size_t kube_name_most(unsigned nodes)
{
    char last[16];

    assert(nodes > 0);
    return KUBE_NAME_MAX -
           (size_t)snprintf(last, sizeof(last), "-%u", nodes - 1);
}

void kube_name_of(const char *text, unsigned nodes, char out[KUBE_NAME_MAX + 1])
{
    size_t most = kube_name_most(nodes), n = 0;

    for (; *text && n < most; text++) {
        char c = (char)tolower((unsigned char)*text);

        if (!is_one_of(c, SMALL DIGITS))
            c = '-';
        if (n > 0 || is_one_of(c, SMALL))
            out[n++] = c;
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
    if (n == 0)
        snprintf(out, KUBE_NAME_MAX + 1, "mltune");
}

/* ---- data ---------------------------------------------------------------- */

/* No part of it leads up. */
static bool stays(const char *path)
{
    for (const char *at = path; *at; at += strcspn(at, "/")) {
        at += strspn(at, "/");
        if (strncmp(at, "..", 2) == 0 && (!at[2] || at[2] == '/'))
            return false;
    }
    return true;
}

static bool is_within(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    while (n > 1 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && (!path[n] || path[n] == '/');
}

bool kube_has_data(const struct kube_job *job, const char *name)
{
    if (!stays(name))
        return false;
    if (name[0] == '/')
        return (job->data_claim && is_within(name, job->data_path)) ||
               (job->state_claim && is_within(name, KUBE_HOME));
    return job->data_claim != NULL;
}

/* No part of it is empty, "." or ".."; it may end with a slash. */
static bool is_plain(const char *path)
{
    for (const char *at = path; *at; at += strcspn(at, "/")) {
        size_t n = strcspn(++at, "/");

        if ((n == 0 && *at) || (n == 1 && at[0] == '.') ||
            (n == 2 && at[0] == '.' && at[1] == '.'))
            return false;
    }
    return true;
}

bool kube_is_free(const char *path)
{
    static const char *const taken[] = {
        KUBE_HOME, KUBE_CONFIG, "/tmp",   "/bin",    "/dev",  "/etc",
        "/lib",    "/lib32",    "/lib64", "/libx32", "/proc", "/run",
        "/sbin",   "/sys",      "/usr",   "/var/run"};

    if (path[0] != '/' || !path[1] || strpbrk(path, ":\n") || !is_plain(path))
        return false;
    for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
        if (is_within(path, taken[i]) || is_within(taken[i], path))
            return false;
    return true;
}

uint64_t kube_memory_of(uint64_t limit, unsigned nodes)
{
    uint64_t part;

    assert(nodes > 0);
    part = limit / nodes + (limit % nodes > 0);
    return part + part / 4 + (512ULL << 20);
}

/* ---- the pods ------------------------------------------------------------ */

/* What a pod does. Index 0 goes on with its run where there is one: the claim
 * has its id since it can be resumed. One that has finished, or that its user
 * has stopped, is not gone on with: its pod was lost before Kubernetes knew, or
 * the same job is applied again. What fails here is EXIT_IO: with
 * EXIT_RUN_FAILED the job would end. */
static const char script[] =
    "umask 077\n"
    "state=" KUBE_STATE "\n"
    "run=$state/kubernetes/$MLTUNE_JOB.run\n"
    "if [ \"$JOB_COMPLETION_INDEX\" = 0 ]; then\n"
    "    mkdir -p \"$state/kubernetes\" || exit 74\n"
    "    if [ -s \"$run\" ]; then\n"
    "        id=$(cat \"$run\") || exit 74\n"
    "        if mltune show \"$id\" --state \"$state\" --json |\n"
    "            grep -Eq '\"status\": *\"(finished|stopped)\"'; then\n"
    "            echo \"$id has finished, or was stopped\" >&2\n"
    "            exit 0\n"
    "        fi\n"
    "        exec mltune resume \"$id\" --state \"$state\" --json\n"
    "    fi\n"
    "fi\n"
    "exec mltune run - --state \"$state\" --id-file \"$run\" --json \\\n"
    "    --set cluster.launcher=kubernetes \\\n"
    "    --set cluster.nodes=\"$MLTUNE_PODS\" <" KUBE_CONFIG "/config.json\n";

static json_t *variable(const char *name, const char *value)
{
    return json_pack("{s:s, s:s}", "name", name, "value", value);
}

static json_t *environment(const struct kube_job *job)
{
    char root[2 * KUBE_NAME_MAX + 32], name[2 * KUBE_NAME_MAX], number[2][16];

    snprintf(root, sizeof(root), "tcp://%s-0.%s:%d", job->name, job->name,
             KUBE_PORT);
    snprintf(name, sizeof(name), "%s-%s", job->name, job->id);
    snprintf(number[0], sizeof(number[0]), "%u", job->nodes);
    snprintf(number[1], sizeof(number[1]), "%u", job->wait_s);
    return json_pack(
        "[o, o, o, o, {s:s, s:{s:{s:s}}}, {s:s, s:{s:{s:s, s:s}}}]",
        variable("MLTUNE_JOB", name), variable("MLTUNE_PODS", number[0]),
        variable("MLTUNE_POD_WAIT", number[1]), variable("MLTUNE_ROOT", root),
        "name", "MLTUNE_POD_IP", "valueFrom", "fieldRef", "fieldPath",
        "status.podIP", "name", "MLTUNE_KEY", "valueFrom", "secretKeyRef",
        "name", job->name, "key", "key");
}

static json_t *mounts(const struct kube_job *job)
{
    json_t *list =
        json_pack("[{s:s, s:s, s:b}, {s:s, s:s}, {s:s, s:s}]", "name", "config",
                  "mountPath", KUBE_CONFIG, "readOnly", 1, "name", "state",
                  "mountPath", KUBE_HOME, "name", "tmp", "mountPath", "/tmp");

    if (list && job->data_claim &&
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "name", "data",
                                              "mountPath", job->data_path,
                                              "readOnly", 1)) != 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *claim(const char *name, const char *of)
{
    return json_pack("{s:s, s:{s:s}}", "name", name, "persistentVolumeClaim",
                     "claimName", of);
}

static json_t *volumes(const struct kube_job *job)
{
    json_t *list = json_pack(
        "[{s:s, s:{s:s, s:[{s:s, s:s}], s:i}}, {s:s, s:{}}]", "name", "config",
        "secret", "secretName", job->name, "items", "key", "config.json",
        "path", "config.json", "defaultMode", 0440, "name", "tmp", "emptyDir");
    int failed = !list;

    if (!failed)
        failed |= json_array_append_new(
            list, job->state_claim
                      ? claim("state", job->state_claim)
                      : json_pack("{s:s, s:{}}", "name", "state", "emptyDir"));
    if (!failed && job->data_claim)
        failed |= json_array_append_new(list, claim("data", job->data_claim));
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* As much is asked for as is allowed: a pod that trains uses it all. */
static json_t *resources(const struct kube_job *job)
{
    json_t *all = json_object();
    char text[32];
    int failed = !all;

    if (!failed && job->cpus) {
        snprintf(text, sizeof(text), "%u", job->cpus);
        failed |= json_object_set_new(all, "cpu", json_string(text));
    }
    if (!failed && job->memory) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)job->memory);
        failed |= json_object_set_new(all, "memory", json_string(text));
    }
    if (failed) {
        json_decref(all);
        return NULL;
    }
    return json_pack("{s:O, s:o}", "requests", all, "limits", all);
}

static json_t *container(const struct kube_job *job)
{
    return json_pack(
        "{s:s, s:s, s:[s, s, s], s:s, s:o, s:[{s:s, s:i}], s:o, s:o, s:{s:b, "
        "s:b, s:{s:[s]}}}",
        "name", "mltune", "image", job->image, "command", "/bin/sh", "-ec",
        script, "workingDir", job->data_claim ? job->data_path : "/tmp", "env",
        environment(job), "ports", "name", "mltune", "containerPort", KUBE_PORT,
        "resources", resources(job), "volumeMounts", mounts(job),
        "securityContext", "allowPrivilegeEscalation", 0,
        "readOnlyRootFilesystem", 1, "capabilities", "drop", "ALL");
}

static json_t *pod(const struct kube_job *job)
{
    json_t *spec = json_pack(
        "{s:s, s:s, s:i, s:b, s:b, s:{s:b, s:i, s:i, s:i, s:s, s:{s:s}}, s:[o],"
        " s:o}",
        "restartPolicy", "Never", "subdomain", job->name,
        "terminationGracePeriodSeconds", KUBE_GRACE_S,
        "automountServiceAccountToken", 0, "enableServiceLinks", 0,
        "securityContext", "runAsNonRoot", 1, "runAsUser", (int)job->user,
        "runAsGroup", (int)job->user, "fsGroup", (int)job->user,
        "fsGroupChangePolicy", "OnRootMismatch", "seccompProfile", "type",
        "RuntimeDefault", "containers", container(job), "volumes",
        volumes(job));

    if (spec && job->pull &&
        json_object_set_new(spec, "imagePullSecrets",
                            json_pack("[{s:s}]", "name", job->pull)) != 0) {
        json_decref(spec);
        return NULL;
    }
    return spec;
}

/* ---- the objects --------------------------------------------------------- */

static json_t *labels(const struct kube_job *job)
{
    return json_pack("{s:s, s:s}", "app.kubernetes.io/name", "mltune",
                     "app.kubernetes.io/instance", job->name);
}

static json_t *metadata(const struct kube_job *job)
{
    json_t *o =
        json_pack("{s:s, s:o}", "name", job->name, "labels", labels(job));

    if (o && job->space &&
        json_object_set_new(o, "namespace", json_string(job->space)) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* A pod that was moved is no failure; a run that failed, and a configuration
 * that is not valid, do so again. The others wait for index 0: when it is done,
 * all is. */
static json_t *job_object(const struct kube_job *job)
{
    return json_pack(
        "{s:s, s:s, s:o, s:{s:s, s:i, s:i, s:i, s:s, s:{s:[{s:s, s:[{s:s, "
        "s:s}]}, {s:s, s:{s:s, s:s, s:[i, i]}}]}, s:{s:[{s:s}]}, s:{s:{s:o}, "
        "s:o}}}",
        "apiVersion", "batch/v1", "kind", "Job", "metadata", metadata(job),
        "spec", "completionMode", "Indexed", "completions", (int)job->nodes,
        "parallelism", (int)job->nodes, "backoffLimit", KUBE_AGAIN_MAX,
        "podReplacementPolicy", "Failed", "podFailurePolicy", "rules", "action",
        "Ignore", "onPodConditions", "type", "DisruptionTarget", "status",
        "True", "action", "FailJob", "onExitCodes", "containerName", "mltune",
        "operator", "In", "values", EXIT_RUN_FAILED, EXIT_CONFIG,
        "successPolicy", "rules", "succeededIndexes", "0", "template",
        "metadata", "labels", labels(job), "spec", pod(job));
}

/* Pods are to find index 0 before it is ready for anything. */
static json_t *service_object(const struct kube_job *job)
{
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:b, s:{s:s}, s:[{s:s, s:i}]}}",
                     "apiVersion", "v1", "kind", "Service", "metadata",
                     metadata(job), "spec", "clusterIP", "None",
                     "publishNotReadyAddresses", 1, "selector",
                     "batch.kubernetes.io/job-name", job->name, "ports", "name",
                     "mltune", "port", KUBE_PORT);
}

/* Never changed: pods that are started again have the key of the others. */
static json_t *secret_object(const struct kube_job *job)
{
    return json_pack("{s:s, s:s, s:o, s:s, s:b, s:{s:s, s:s}}", "apiVersion",
                     "v1", "kind", "Secret", "metadata", metadata(job), "type",
                     "Opaque", "immutable", 1, "stringData", "key", job->key,
                     "config.json", job->config);
}

json_t *kube_job_objects(const struct kube_job *job)
{
    assert(job->name && job->image && job->nodes > 0 && job->id && job->key);
    assert(job->config && (!job->data_claim || job->data_path));
    return json_pack("{s:s, s:s, s:[o, o, o]}", "apiVersion", "v1", "kind",
                     "List", "items", secret_object(job), service_object(job),
                     job_object(job));
}
