/* Memory of the machine. */
#ifndef PS_MEMORY_IO_H
#define PS_MEMORY_IO_H

#include <stdint.h>

/* Bytes that a new process could use without swapping: what the machine has
 * available, or what its control group leaves, whichever is less. */
uint64_t memory_available(void);

#endif
