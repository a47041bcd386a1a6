/* Names in a run's folder that more than one part of the program knows. */
#ifndef BASE_RUN_FILES_H
#define BASE_RUN_FILES_H

/* The configuration as it was given. */
#define RUN_GIVEN "given.json"

#endif
