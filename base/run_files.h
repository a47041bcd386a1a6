/* Names in a run's folder that more than one part of the program knows. */
#ifndef BASE_RUN_FILES_H
#define BASE_RUN_FILES_H

/* The configuration as it was given. */
#define RUN_GIVEN "given.json"

/* The folder of what a model needs of the data (ps/node/kept_io.h). */
#define RUN_KEPT "kept"

/* Beside it: which files the data were read from (ps/node/data_files_io.h). */
#define RUN_KEPT_FILES "kept.json"

/* That list as it was, while a run is tried with other data. */
#define RUN_KEPT_FILES_WAS "kept.json.old"

/* What people wrote to it (cli/state/notes_file.h). */
#define RUN_NOTES "notes.json"

#endif
