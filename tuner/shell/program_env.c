#include "tuner/shell/program_env.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <stddef.h>

struct list {
    struct program_env *e;
    size_t len;
    bool failed;
};

static void add(struct list *l, const char *name, const char *value)
{
    struct text t = {0};

    assert(l->len < PROGRAM_ENV_MAX);
    text_puts(&t, name);
    if (value)
        text_printf(&t, "=%s", value);
    l->e->entry[l->len] = text_take(&t);
    if (l->e->entry[l->len])
        l->len++;
    else
        l->failed = true;
}

static void add_number(struct list *l, const char *name, uint32_t number)
{
    struct text t = {0};

    text_printf(&t, "%u", number);
    if (!text_lost(&t))
        add(l, name, text_so_far(&t));
    l->failed |= text_lost(&t);
    text_deinit(&t);
}

/* Variables that torch.distributed and its like read; all processes are on this
 * machine. */
static void add_fellows(struct list *l, const struct program_place *place)
{
    add(l, "MLTUNE_MEET", place->meet);
    if (place->nodes == 1)
        return;
    add(l, "MLTUNE_KEY", place->key);
    add_number(l, "RANK", place->node);
    add_number(l, "LOCAL_RANK", place->node);
    add_number(l, "WORLD_SIZE", place->nodes);
    add_number(l, "LOCAL_WORLD_SIZE", place->nodes);
    add(l, "MASTER_ADDR", "127.0.0.1");
    add_number(l, "MASTER_PORT", place->port);
    if (place->threads)
        add_number(l, "OMP_NUM_THREADS", place->threads);
}

static void add_python(struct list *l, const struct program_place *place)
{
    struct text t = {0};

    if (place->unbuffered)
        add(l, "PYTHONUNBUFFERED", "1");
    if (!place->python)
        return;
    if (place->python_path && *place->python_path)
        text_printf(&t, "%s:", place->python_path);
    text_puts(&t, place->python);
    if (!text_lost(&t))
        add(l, "PYTHONPATH", text_so_far(&t));
    l->failed |= text_lost(&t);
    text_deinit(&t);
}

enum err program_env_init(struct program_env *e,
                          const struct program_place *place)
{
    struct list l = {.e = e};

    assert(place->endpoint && place->run);
    assert(place->node < place->nodes);
    assert((place->nodes > 1) == (place->meet != NULL));
    *e = (struct program_env){{NULL}};
    add(&l, "MLTUNE_TUNER", place->endpoint);
    add_number(&l, "MLTUNE_NODE", place->node);
    add_number(&l, "MLTUNE_NODES", place->nodes);
    add(&l, "MLTUNE_RUN", place->run);
    add(&l, "MLTUNE_TOKEN", NULL); /* steers runs: no business of its own */
    add_fellows(&l, place);
    add_python(&l, place);
    if (!l.failed)
        return ERR_OK;
    program_env_deinit(e);
    return ERR_NOMEM;
}

void program_env_deinit(struct program_env *e)
{
    for (size_t i = 0; e->entry[i]; i++)
        mem_free(e->entry[i]);
    e->entry[0] = NULL;
}
