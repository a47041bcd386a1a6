/* A folder of a test's own, removed after it with all that is in it. */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

#include <stddef.h>

/* For cmocka_unit_test_setup_teardown. */
int scratch_make(void **state);
int scratch_remove(void **state);

/* The folder; "FOLDER/name" (eight such texts live at a time). */
const char *scratch_folder(void);
const char *scratch_path(const char *name);

/* Writes a file into the folder, plain or compressed. */
void scratch_write(const char *name, const void *bytes, size_t n);
void scratch_text(const char *name, const char *text);
void scratch_mkdir(const char *name);

/* @bytes as one gzip member or xz stream; owned by the caller (free). */
unsigned char *scratch_gzip(const void *bytes, size_t n, size_t *out);
unsigned char *scratch_xz(const void *bytes, size_t n, size_t *out);

/* Whole file (free), or NULL. */
unsigned char *scratch_read(const char *name, size_t *n);

/* Folder of the real data sets, or NULL where it is absent: MLTUNE_DATA, else
 * ../shared/data. */
const char *scratch_real_data(void);

#endif
