/* Spaces by name. `cuda` is a plug-in, libmltune-cuda.so, that is loaded when
 * it is asked for: a program that was built without CUDA has the others, and
 * one with it runs where there is no driver. */
#ifndef PS_SPACE_OPEN_H
#define PS_SPACE_OPEN_H

#include "ps/space/space.h"

/* The space of that name ("host", "fake", "cuda"), which needs no device yet.
 * @plugin: path of the plug-in; NULL: libmltune-cuda.so beside the program, or
 * in ../lib/mltune as seen from it. A plug-in stays loaded. @out static
 * storage. Errors: ERR_NOENT (no such space, no plug-in: it is built where nvcc
 * is), ERR_VERSION, ERR_INVAL (no plug-in of ours). */
enum err space_ops_find(const char *name, const char *plugin,
                        const struct space_ops **out, struct fault *f);

/* Opens @name, "host", "fake", "cuda" or "cuda:0" (which overrides o->device).
 * Errors: as space_ops_find, and as the space's open. */
enum err space_open(const char *name, const struct space_options *o,
                    struct memory_space **out, struct fault *f);

#endif
