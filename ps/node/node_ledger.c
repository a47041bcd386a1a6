#include "ps/node/node_ledger.h"

#include "base/mem.h"
#include "ps/node/node.h"

#include <assert.h>

struct node_branch *node_ledger_find(const struct node_ledger *l, branch_id id)
{
    for (size_t i = 0; i < l->branches; i++)
        if (l->branch[i].id == id)
            return &l->branch[i];
    return NULL;
}

struct node_branch *node_ledger_live(const struct node_ledger *l, branch_id id,
                                     struct fault *f)
{
    struct node_branch *b = node_ledger_find(l, id);

    if (b && !b->freed)
        return b;
    fault_set(f, ERR_NOENT, "branch %u does not exist", id);
    return NULL;
}

void node_ledger_take(struct node_ledger *l, uint32_t group)
{
    assert(group < l->groups);
    if (l->group[group].refs++ == 0)
        l->units++;
}

void node_ledger_give(struct node_ledger *l, uint32_t group)
{
    assert(group < l->groups);
    assert(l->group[group].refs > 0);
    if (--l->group[group].refs == 0)
        l->units--;
}

uint32_t node_ledger_group(struct node_ledger *l)
{
    uint32_t i = 0;

    while (i < l->groups && l->group[i].refs)
        i++;
    if (i == l->groups)
        l->group[l->groups++] = (struct node_state){0};
    return i;
}

enum err node_ledger_reserve(struct node_ledger *l)
{
    if (mem_grow((void **)&l->branch, &l->branches_room, sizeof(*l->branch),
                 l->branches + 1) != 0 ||
        mem_grow((void **)&l->group, &l->groups_room, sizeof(*l->group),
                 l->groups + 1) != 0)
        return ERR_NOMEM;
    return ERR_OK;
}

void node_ledger_add(struct node_ledger *l, branch_id id, enum branch_type type,
                     uint32_t group, struct node_setting *setting)
{
    assert(l->branches < l->branches_room);
    assert(group < l->groups);
    l->branch[l->branches++] = (struct node_branch){
        .id = id, .type = type, .group = group, .setting = setting};
    node_ledger_take(l, group);
    l->live++;
}

void node_ledger_end(struct node_ledger *l, struct node_branch *b)
{
    assert(b >= l->branch && b < l->branch + l->branches);
    if (b->freed)
        return;
    b->freed = true;
    node_ledger_give(l, b->group);
    l->live--;
}

void node_ledger_remove(struct node_ledger *l, struct node_branch *b)
{
    assert(b >= l->branch && b < l->branch + l->branches);
    node_ledger_end(l, b);
    mem_free(b->setting);
    *b = l->branch[--l->branches];
}

enum err node_ledger_check_units(const struct node_ledger *l, struct fault *f)
{
    if (l->units < l->units_max)
        return ERR_OK;
    return fault_set(f, ERR_LIMIT,
                     "memory holds %u complete branches, and all are in use; "
                     "free one or raise memory.limit",
                     l->units_max);
}

enum err node_ledger_check_room(const struct node_ledger *l, branch_id id,
                                bool shares, struct fault *f)
{
    if (node_ledger_find(l, id))
        return fault_set(f, ERR_EXIST, "branch %u exists already", id);
    if (l->live >= NODE_BRANCHES_MAX)
        return fault_set(f, ERR_LIMIT, "there can be %d branches at one time",
                         NODE_BRANCHES_MAX);
    return shares ? ERR_OK : node_ledger_check_units(l, f);
}

bool node_ledger_shares(const struct node_branch *parent, enum branch_type type)
{
    assert(parent);
    return type == BRANCH_KEPT && parent->type == BRANCH_KEPT;
}

void node_ledger_deinit(struct node_ledger *l)
{
    for (size_t i = 0; i < l->branches; i++)
        mem_free(l->branch[i].setting);
    mem_free(l->branch);
    mem_free(l->group);
    *l = (struct node_ledger){0};
}
