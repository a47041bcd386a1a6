/* `mltune deploy kubernetes CONFIG`: prints the objects of a job
 * (cli/verbs/kube_job.h), for kubectl. */
#include "apps/data/gen.h"
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/run_key_io.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/config/config.h"
#include "cli/config/config_file.h"
#include "cli/verbs/kube_job.h"
#include "tuner/shell/keeper.h"

#include "base/deadlines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ID_DIGITS = 8, USER_MAX = 0x7fffffff, CPUS_MAX = 4096 };

struct deploy_arguments {
    struct kube_job job;
    struct option_uint nodes, cpus, user;
    const char *config, *name, *memory, *wait;
};

/* What it is made of beside the command line. */
struct deploy_parts {
    struct run_config *config; /* owned */
    char *text;                /* owned */
    char name[KUBE_NAME_MAX + 1], key[RUN_KEY_LEN + 1], id[ID_DIGITS + 1];
};

static const char details[] =
    "Prints a Job, a Service and a Secret for kubectl: the configuration is "
    "trained in\npods, a node in each, and the tuner in the one of index 0. "
    "The Secret has the job's\nkey and CONFIG (- is stdin). Nothing is sent "
    "anywhere. A pod that is lost is started\nagain, and the run goes on from "
    "its last snapshot, which --state-claim keeps.";

static int parse_arguments(struct deploy_arguments *a, int argc, char **argv)
{
    const struct option_spec options[] = {
        {"image", 0, OPTION_TEXT, "IMAGE",
         "what the pods run: built from deploy/Containerfile", &a->job.image},
        {"nodes", 0, OPTION_UINT, "N", "pods, each with a node (cluster.nodes)",
         &a->nodes},
        {"name", 0, OPTION_TEXT, "NAME",
         "of all three objects (the run's name)", &a->name},
        {"namespace", 0, OPTION_TEXT, "NAME", "where they are (kubectl's own)",
         &a->job.space},
        {"state-claim", 0, OPTION_TEXT, "NAME",
         "the volume claim that keeps runs; of several nodes one that all "
         "write, ReadWriteMany",
         &a->job.state_claim},
        {"data-claim", 0, OPTION_TEXT, "NAME",
         "the volume claim that has the data; mounted read-only",
         &a->job.data_claim},
        {"data-path", 0, OPTION_TEXT, "DIR",
         "where it is mounted, and where relative paths start (" KUBE_DATA ")",
         &a->job.data_path},
        {"cpu", 0, OPTION_UINT, "N", "cores of each pod (cluster.workers)",
         &a->cpus},
        {"memory", 0, OPTION_TEXT, "SIZE",
         "memory of each pod (its part of memory.limit, a quarter more, and "
         "512 MiB)",
         &a->memory},
        {"wait", 0, OPTION_TEXT, "TIME",
         "how long pods wait for one another (10m)", &a->wait},
        {"user", 0, OPTION_UINT, "UID",
         "user and group of the pods' processes (10001)", &a->user},
        {"pull-secret", 0, OPTION_TEXT, "NAME",
         "the secret by which the image is fetched", &a->job.pull},
    };
    const struct usage usage = {
        .verb = "deploy",
        .operands = "kubernetes CONFIG",
        .details = details,
        .operands_min = 2,
        .operands_max = 2,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    a->config = operands_at(&operands, 1);
    if (strcmp(operands_at(&operands, 0), "kubernetes") == 0)
        return code;
    console_error("deploy: expected kubernetes, found \"%s\"",
                  operands_at(&operands, 0));
    return EXIT_USAGE;
}

/* ---- what is said -------------------------------------------------------- */

static int refused(const char *why)
{
    console_error("%s", why);
    return EXIT_USAGE;
}

static int check_names(const struct kube_job *job)
{
    struct fault f = {0};
    enum err err = kube_image("--image", job->image, &f);

    if (!err && job->space)
        err = kube_label("--namespace", job->space, KUBE_NAME_MAX, false, &f);
    if (!err && job->state_claim)
        err = kube_subdomain("--state-claim", job->state_claim, &f);
    if (!err && job->data_claim)
        err = kube_subdomain("--data-claim", job->data_claim, &f);
    if (!err && job->pull)
        err = kube_subdomain("--pull-secret", job->pull, &f);
    return err ? refused(f.text) : EXIT_DONE;
}

static int check_data_path(struct kube_job *job)
{
    if (job->data_path && !job->data_claim)
        return refused("--data-path needs --data-claim: there is nothing to "
                       "be mounted there");
    if (!job->data_path)
        job->data_path = KUBE_DATA;
    if (kube_is_free(job->data_path))
        return EXIT_DONE;
    console_error("--data-path: expected an absolute path that hides nothing "
                  "of the system or of the job's own (" KUBE_HOME
                  ", " KUBE_CONFIG ", /tmp), found %s",
                  job->data_path);
    return EXIT_USAGE;
}

static int take_numbers(struct deploy_arguments *a)
{
    struct kube_job *job = &a->job;
    double wait_s = DEADLINE_POD_MS * 1e-3;

    if (a->nodes.given &&
        (a->nodes.value < 1 || a->nodes.value > KEEPER_NODES_MAX)) {
        console_error("--nodes: expected 1 to %d", KEEPER_NODES_MAX);
        return EXIT_USAGE;
    }
    if (a->cpus.given && (a->cpus.value < 1 || a->cpus.value > CPUS_MAX))
        return refused("--cpu: expected 1 to 4096, in whole cores");
    if (a->user.given && (a->user.value < 1 || a->user.value > USER_MAX))
        return refused("--user: expected the number of a user who is not root");
    if (a->memory && !options_size(a->memory, 64 << 20, &job->memory))
        return refused("--memory: expected a size such as 8GiB, of 64MiB at "
                       "least");
    if (a->wait &&
        (!options_time(a->wait, 1e6, &wait_s) || wait_s != floor(wait_s)))
        return refused("--wait: expected whole seconds, such as 10m, of 1s to "
                       "1000000s");
    job->wait_s = (unsigned)wait_s;
    job->cpus = (unsigned)a->cpus.value;
    job->user = a->user.given ? (unsigned)a->user.value : KUBE_USER;
    return EXIT_DONE;
}

static int check_arguments(struct deploy_arguments *a)
{
    int code;

    if (!a->job.image)
        return refused("deploy: --image IMAGE is missing: an image with mltune "
                       "in it, built from deploy/Containerfile");
    code = check_names(&a->job);
    if (code == EXIT_DONE)
        code = check_data_path(&a->job);
    return code == EXIT_DONE ? take_numbers(a) : code;
}

/* ---- the configuration --------------------------------------------------- */

static unsigned given(const struct deploy_parts *p, const char *pointer)
{
    const json_t *n = json_at(p->config->given, pointer);

    return json_is_integer(n) ? (unsigned)json_integer_value(n) : 0;
}

static int read_config(const struct deploy_arguments *a, struct deploy_parts *p)
{
    const struct option_list sets = {.len = 1,
                                     .item = {"cluster.launcher=kubernetes"}};
    int code = run_config_load_text(a->config, &sets, &p->config, &p->text);

    if (code == EXIT_DONE && strlen(p->text) > KUBE_SECRET_MAX) {
        console_error("%s: a Secret of Kubernetes holds no configuration of "
                      "more than %d bytes",
                      a->config, KUBE_SECRET_MAX);
        code = EXIT_CONFIG;
    }
    return code;
}

static int take_name(const struct deploy_arguments *a, struct deploy_parts *p,
                     struct kube_job *job)
{
    struct fault f = {0};

    if (!a->name) {
        kube_name_of(p->config->name, job->nodes, p->name);
        job->name = p->name;
        return EXIT_DONE;
    }
    job->name = a->name;
    return kube_label("--name", a->name, kube_name_most(job->nodes), true, &f)
               ? refused(f.text)
               : EXIT_DONE;
}

static int refuse_data(const struct kube_job *job, const char *pointer,
                       const char *name)
{
    if (job->data_claim)
        console_error("%s: %s is on no volume of the pods: the claim %s is "
                      "mounted at %s, where relative paths start",
                      pointer, name, job->data_claim, job->data_path);
    else
        console_error("%s: %s is on no volume of the pods: name the claim that "
                      "has it with --data-claim, and write the path as it is "
                      "there (%s/...)",
                      pointer, name, KUBE_DATA);
    return EXIT_USAGE;
}

/* Each path that an application's settings have (apps/settings.h). */
static int check_data(const struct deploy_parts *p, const struct kube_job *job)
{
    static const char *const pointers[] = {"/app/data", "/app/test",
                                           "/app/vocab"};

    for (size_t i = 0; i < sizeof(pointers) / sizeof(*pointers); i++) {
        const char *name =
            json_string_value(json_at(p->config->given, pointers[i]));

        if (name && !gen_is(name) && !kube_has_data(job, name))
            return refuse_data(job, pointers[i], name);
    }
    return EXIT_DONE;
}

static int check_state(const struct kube_job *job)
{
    if (job->state_claim)
        return EXIT_DONE;
    if (job->nodes > 1)
        return refused("--state-claim is missing: several nodes write "
                       "snapshots and the model into one folder, so the pods "
                       "need a volume claim that all of them write "
                       "(ReadWriteMany)");
    console_note("without --state-claim the run and its model are lost with "
                 "the pod");
    return EXIT_DONE;
}

static void size_pods(const struct deploy_parts *p, struct kube_job *job)
{
    uint64_t limit = 0;

    if (!job->cpus)
        job->cpus = given(p, "/cluster/workers");
    if (!job->cpus)
        console_note("the pods ask for no cores: --cpu, or cluster.workers, "
                     "says how many");
    if (!job->memory &&
        json_to_bytes(json_at(p->config->given, "/memory/limit"), &limit))
        job->memory = kube_memory_of(limit, job->nodes);
    if (!job->memory)
        console_note("the pods ask for no memory: --memory, or memory.limit, "
                     "says how much");
}

static int fill(const struct deploy_arguments *a, struct deploy_parts *p,
                struct kube_job *job)
{
    unsigned said = given(p, "/cluster/nodes");
    int code;

    job->nodes = a->nodes.given ? (unsigned)a->nodes.value : said ? said : 1;
    code = take_name(a, p, job);
    if (code == EXIT_DONE)
        code = check_data(p, job);
    if (code == EXIT_DONE)
        code = check_state(job);
    if (code == EXIT_DONE)
        size_pods(p, job);
    job->config = p->text;
    return code;
}

/* A key, and another's beginning as what tells this printing from others. */
static int draw(struct deploy_parts *p, struct kube_job *job)
{
    char other[RUN_KEY_LEN + 1];
    struct fault f = {0};

    if (run_key_make(p->key, &f) != ERR_OK ||
        run_key_make(other, &f) != ERR_OK) {
        console_error("%s", f.text);
        return EXIT_IO;
    }
    snprintf(p->id, sizeof(p->id), "%.*s", ID_DIGITS, other);
    job->key = p->key;
    job->id = p->id;
    return EXIT_DONE;
}

static int print(const struct kube_job *job)
{
    json_t *objects = kube_job_objects(job);
    int code = console_json(objects, 2);

    json_decref(objects);
    return code;
}

int verb_deploy(int argc, char **argv)
{
    struct deploy_arguments a = {.config = NULL};
    struct deploy_parts p = {.config = NULL};
    int code = parse_arguments(&a, argc, argv);

    if (code != OPTIONS_GO_ON)
        return code;
    code = check_arguments(&a);
    if (code == EXIT_DONE)
        code = read_config(&a, &p);
    if (code == EXIT_DONE)
        code = fill(&a, &p, &a.job);
    if (code == EXIT_DONE)
        code = draw(&p, &a.job);
    if (code == EXIT_DONE)
        code = print(&a.job);
    run_config_free(p.config);
    mem_free(p.text);
    return code;
}
