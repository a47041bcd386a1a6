#include "cli/config/config_internal.h"

#include "base/json/json.h"
#include "tuner/shell/ranks_io.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_launcher(const struct config_parse *p, const char *name)
{
    const char *text = json_string_value(json_at(p->root, "/cluster/launcher"));

    return text && strcmp(text, name) == 0;
}

/* Hosts of the allocation that this process is in; 0: it is in none. */
static json_int_t allocated(void)
{
    const char *text = getenv("SLURM_JOB_NUM_NODES");
    long n = text ? strtol(text, NULL, 10) : 0;

    return n > 0 ? n : 0;
}

enum err config_cluster_nodes(struct config_parse *p)
{
    const json_t *hosts = json_at(p->root, "/cluster/hosts");
    struct ranks ranks;
    json_int_t n = 0;

    assert(p->root);
    if (json_at(p->root, "/cluster/nodes"))
        return ERR_OK;
    if (has_launcher(p, "ssh"))
        n = (json_int_t)json_array_size(hosts);
    else if (has_launcher(p, "slurm"))
        n = allocated();
    else if ((has_launcher(p, "mpi") && ranks_find(&ranks)) ||
             (has_launcher(p, "kubernetes") && ranks_find_pod(&ranks)))
        n = ranks.size;
    return n > 0 ? json_put(p->root, "/cluster/nodes", json_integer(n))
                 : ERR_OK;
}

static const char of_names[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

/* HOST or USER@HOST: what ssh would take for nothing else. */
static bool is_host(const char *text)
{
    const char *at = strchr(text, '@'), *host = at ? at + 1 : text;
    size_t user = at ? (size_t)(at - text) : 1;

    return *text != '-' && *host && *host != '-' && user > 0 &&
           host[strspn(host, of_names)] == '\0' &&
           (!at || strspn(text, of_names) == user);
}

/* NAME or NAME:PORT. */
static bool is_address(const char *text)
{
    size_t name = strspn(text, of_names);
    const char *port = text + name + 1;

    if (name == 0 || !text[name])
        return name > 0;
    return text[name] == ':' && *port && strlen(port) <= 5 &&
           port[strspn(port, "0123456789")] == '\0' && atol(port) <= 65535;
}

static void check_names(struct config_parse *p)
{
    const json_t *hosts = json_at(p->root, "/cluster/hosts"), *host;
    const json_t *address = json_at(p->root, "/cluster/address");
    char pointer[40];
    size_t i;

    json_array_foreach((json_t *)hosts, i, host)
    {
        snprintf(pointer, sizeof(pointer), "/cluster/hosts/%zu", i);
        if (json_is_string(host) && !is_host(json_string_value(host)))
            problems_add(p->problems, pointer, host,
                         "a host, as HOST or USER@HOST, of letters, digits, "
                         "dots and dashes");
    }
    if (json_is_string(address) && !is_address(json_string_value(address)))
        problems_add(p->problems, "/cluster/address", address,
                     "an address of this machine, as 10.0.0.1 or "
                     "10.0.0.1:7000");
}

void config_cluster(struct config_parse *p)
{
    static const char *const mine[] = {"/cluster/command", "/cluster/address"};
    const json_t *hosts = json_at(p->root, "/cluster/hosts");
    bool ssh = has_launcher(p, "ssh"), slurm = has_launcher(p, "slurm");
    bool mpi = has_launcher(p, "mpi"), pods = has_launcher(p, "kubernetes");

    assert(p->c);
    check_names(p);
    if (ssh && !hosts)
        problems_add(p->problems, "/cluster/hosts", NULL,
                     "a list of hosts, since cluster.launcher is ssh");
    if (!ssh && hosts)
        problems_warn(p->problems, "/cluster/hosts",
                      "acts with cluster.launcher ssh alone");
    for (size_t i = 0; i < sizeof(mine) / sizeof(*mine) && !ssh && !slurm; i++)
        if (json_at(p->root, mine[i]) && !(mpi && i > 0))
            problems_warn(p->problems, mine[i],
                          mpi ? "acts with cluster.launcher ssh and slurm alone"
                              : "acts with nodes on other machines alone");
    if ((ssh || slurm || mpi || pods) && config_is_program(p->c))
        problems_add(p->problems, "/cluster/launcher",
                     json_at(p->root, "/cluster/launcher"),
                     "local: a program of your own is started on this machine "
                     "alone");
}
