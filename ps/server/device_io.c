/* Opens the device of a server's tables. */
#include "ps/server/core.h"
#include "ps/server/device.h"
#include "ps/server/errors.h"
#include "ps/space/open_io.h"

#include <string.h>

static enum err check_shape(const struct mlt_ps *ps, const char *device,
                            struct fault *f)
{
    if (shape_workers(&ps->shape) != 1)
        return fault_set(f, ERR_INVAL,
                         "device %s: expected one worker on one node, found %u "
                         "(set \"workers\" to 1, or \"device\" to \"cpu\")",
                         device, shape_workers(&ps->shape));
    if (strcmp(shape_model(&ps->shape), "bsp") != 0)
        return fault_set(f, ERR_INVAL,
                         "device %s: expected consistency \"bsp\", found "
                         "\"%s\"",
                         device, shape_model(&ps->shape));
    return ERR_OK;
}

int mlt_ps_device(struct mlt_ps *ps, const char *device, uint64_t memory,
                  struct mlt_error *err)
{
    uint64_t limit = memory ? memory : ps->device_memory;
    struct space_options o = {.limit = limit, .total = limit};
    struct memory_space *space = NULL;
    struct fault f = {0};

    if (ps->started || ps->device)
        ps_misuse("mlt_ps_device: after mlt_ps_start, or twice");
    if (check_shape(ps, device, &f) || space_open(device, &o, &space, &f) ||
        device_new(space, &ps->device, &f))
        return ps_give_error(err, &f);
    return 0;
}
