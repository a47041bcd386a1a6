/* The first line of a script, which names what runs it: "#!/bin/sh -e". Pure.
 */
#ifndef BASE_SHEBANG_H
#define BASE_SHEBANG_H

#include <stdbool.h>
#include <stddef.h>

enum { SHEBANG_MAX = 256 }; /* bytes of a file that the kernel looks at */

/* The interpreter that the file beginning with @data[@len] asks for, as
 * execve(2) reads it: after "#!" and blanks, up to a blank or the line's end.
 * It may end in a carriage return. Copied into @out, terminated. False: it is
 * no script, or its name is empty or not whole within SHEBANG_MAX bytes. */
bool shebang_read(const char *data, size_t len, char out[SHEBANG_MAX]);

#endif
