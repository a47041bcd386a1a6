/* The space `fake`: a device made of host memory and a thread, on which what is
 * wrong with a program on a real device goes wrong for certain, and again with
 * the same seed:
 *
 *  - work is done late: when somebody waits, asks, or much has gathered;
 * streams get on in an order that the seed draws,
 *  - what a piece of work will write is poison (bytes 0xff: not a number) from
 *    when its turn comes until it is done; so is memory that was not written,
 *  - what it reads is read at the end, so that a source given back early shows,
 *  - work on memory that is not of the space is ERR_INVAL,
 *  - its memory has a size, and work number @fails_after fails.
 *
 * For tests, and for trying what a run would do on a small device.
 */
#ifndef PS_SPACE_FAKE_H
#define PS_SPACE_FAKE_H

#include "ps/space/space.h"

extern const struct space_ops space_fake;

#endif
