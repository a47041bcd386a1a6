/* The space `host`: memory of this process, all work done as it is put. The
 * reference: its update rules are those of ps/rows/rule.c, to the bit. */
#ifndef PS_SPACE_HOST_H
#define PS_SPACE_HOST_H

#include "ps/space/space.h"

extern const struct space_ops space_host;

#endif
