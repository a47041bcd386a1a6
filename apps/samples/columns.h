/* Names of a table's columns, and of the inputs that became of them: data that
 * go together have them at the same places.
 *
 * Columns are taken by their place, never sorted by name. Two tables that both
 * have a header must name the columns alike; a table without one goes with any.
 */
#ifndef APPS_COLUMNS_H
#define APPS_COLUMNS_H

#include "apps/samples/samples.h"
#include "base/fault.h"

/* @train and @test, of the same shape, name their columns alike, or one has no
 * names. @file is what a message calls @test. Errors: ERR_FORMAT. */
enum err columns_same(const struct samples *train, const char *file,
                      const struct samples *test, struct fault *f);

/* A column called @found stands where @wanted did in training. Errors:
 * ERR_FORMAT where they differ; @file is what the message calls the data. */
enum err columns_compare(const char *file, const char *wanted,
                         const char *found, struct fault *f);

/* The names, a line each, as the file DIR/columns.txt, and how columns became
 * inputs as DIR/encoding.json (encoding_file.h): each whole or not there;
 * nothing where @s has none. Errors: ERR_IO, ERR_NOMEM, ERR_INVAL (path). */
enum err columns_save(const struct samples *s, const char *dir,
                      struct fault *f);

/* @s, which messages call @file, has the columns of DIR/columns.txt; nothing
 * where that is not there or @s has no names. Errors: ERR_FORMAT, ERR_IO,
 * ERR_INVAL (path). */
enum err columns_check(const struct samples *s, const char *file,
                       const char *dir, struct fault *f);

/* The names in DIR/columns.txt: *@name [@columns], owned by the caller, to be
 * freed with columns_free; NULL where that file is not there. Errors:
 * ERR_FORMAT (not that many lines), ERR_IO, ERR_INVAL (path), ERR_NOMEM. */
enum err columns_load(const char *dir, uint64_t columns, char ***name,
                      struct fault *f);

/* Accepts NULL. */
void columns_free(char **name, uint64_t columns);

#endif
