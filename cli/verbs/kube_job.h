/* A job of Kubernetes: the objects by which a configuration is trained in pods,
 * a node in each. An Indexed Job, a headless Service, by which the pods find
 * index 0, and a Secret with the job's key and the configuration. Pure.
 *
 * Each pod starts mltune with the configuration (cluster.launcher kubernetes).
 * Index 0 is the tuner and has node 0; where its run is there already, since
 * its pod was lost, it goes on with that. tuner/shell/ranks_io.h tells how they
 * meet.
 */
#ifndef CLI_KUBE_JOB_H
#define CLI_KUBE_JOB_H

#include "base/fault.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define KUBE_HOME                                                              \
    "/var/lib/mltune" /* in the pods: where the claim is mounted */
#define KUBE_STATE KUBE_HOME "/state"
#define KUBE_CONFIG "/etc/mltune"
#define KUBE_DATA "/data" /* unless said otherwise */

enum {
    KUBE_PORT = 7700,          /* where index 0 listens for the others */
    KUBE_USER = 10001,         /* unless said otherwise */
    KUBE_NAME_MAX = 63,        /* bytes of a label of DNS */
    KUBE_SECRET_MAX = 1000000, /* bytes of a configuration; Kubernetes takes
                                * 1 MiB with all that is beside it */
    KUBE_AGAIN_MAX = 5,        /* pods that failed and are started again */
    KUBE_GRACE_S = 30          /* for the last snapshot of a pod that ends */
};

/* All borrowed. */
struct kube_job {
    const char *name;         /* of all objects: a label of DNS, with a letter
                               * first */
    const char *space;        /* namespace; NULL: kubectl's own */
    const char *image, *pull; /* pull: the secret that fetches it; NULL: none */
    unsigned nodes;           /* 1 or more */
    unsigned cpus;            /* of each pod; 0: none said */
    uint64_t memory;          /* bytes of each pod; 0: none said */
    const char *state_claim;  /* NULL: the state is lost with its pod */
    const char *data_claim, *data_path; /* where it is mounted, absolute */
    unsigned wait_s;                    /* for a pod to come */
    unsigned user;                      /* its processes are this one's */
    const char *id;                     /* of this printing, in DNS's letters */
    const char *key;                    /* base/run_key_io.h */
    const char *config;                 /* its text */
};

/* Whether @text is a label of DNS (RFC 1123) of at most @most bytes; with
 * @letter it begins with one (RFC 1035, names of services). Errors: ERR_INVAL,
 * with @what and what is wrong with it. */
enum err kube_label(const char *what, const char *text, size_t most,
                    bool letter, struct fault *f);
/* A name of several such labels with dots between, of 253 bytes at most. */
enum err kube_subdomain(const char *what, const char *text, struct fault *f);
/* What may name an image of a registry: NAME, NAME:TAG, HOST/NAME@DIGEST. */
enum err kube_image(const char *what, const char *text, struct fault *f);

/* The most bytes that a job of @nodes may have in its name. */
size_t kube_name_most(unsigned nodes);
/* @text as such a name: in lower case, other characters as '-'. "mltune" where
 * nothing is left of it. */
void kube_name_of(const char *text, unsigned nodes,
                  char out[KUBE_NAME_MAX + 1]);

/* The file or folder @name of the data, in a pod: where it starts at
 * @data_path. False: it is on none of the job's volumes. */
bool kube_has_data(const struct kube_job *job, const char *name);

/* Whether the data may be mounted at @path: absolute, no mount of the job's own
 * or folder of the system, which it would hide, and neither above nor below
 * one; without a colon, at which Kubernetes mounts nothing. */
bool kube_is_free(const char *path);

/* Bytes that a pod asks for where memory.limit, which is for all nodes
 * together, is @limit bytes: a node's part, a quarter more, and 512 MiB, for
 * the program and what is on its way. */
uint64_t kube_memory_of(uint64_t limit, unsigned nodes);

/* The objects, one List that kubectl takes; owned by the caller. NULL: out of
 * memory. */
json_t *kube_job_objects(const struct kube_job *job);

#endif
