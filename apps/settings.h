/* The settings that all apps share, out of the "app" object.
 *
 * The object was checked against the app's schema before; what a schema cannot
 * say is checked here. Also the two bridges every app needs: between the
 * project's faults and the installed interface's errors. One owner thread.
 */
#ifndef APPS_SETTINGS_H
#define APPS_SETTINGS_H

#include "base/fault.h"
#include "mltune/app.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct settings {
    json_t *json;         /* owned: the whole object, for the app's own */
    const char *data;     /* borrowed from json; never NULL */
    const char *test;     /* borrowed; NULL: none */
    double test_fraction; /* -1: not given */
    uint64_t clocks;      /* a pass; 0: a clock is a batch, or auto */
    const char *folder;   /* borrowed */
    uint64_t seed;
    bool evaluate;
    bool goes_on; /* the run began before */
    /* Borrowed: the model folder to evaluate or to predict with, or NULL. */
    const char *model;
    const char *predict; /* the same to predict, else NULL */
};

/* Errors: ERR_INVAL, ERR_NOMEM, with the member in @f. */
enum err settings_init(struct settings *s, const struct mlt_app_config *config,
                       struct fault *f);
void settings_deinit(struct settings *s);

/* Number @name, or @fallback where it is absent or none. */
double settings_number(const struct settings *s, const char *name,
                       double fallback);

/* Gives @f to a caller of the installed interface; returns its code. */
int settings_fault(const struct fault *f, struct mlt_error *err);

/* Members that every app's schema has (JSON text, no comma at the end). */
/* clang-format off */
#define SETTINGS_SCHEMA(app, kind) \
    "\"name\": {\"type\": \"string\", \"const\": \"" app "\"," \
    " \"description\": \"the application\"}," \
    "\"data\": {\"type\": \"string\", \"minLength\": 1," \
    " \"x-file\": \"data\", \"description\": \"" kind ": a file, a folder, a glob, or gen:...\"}," \
    "\"test\": {\"type\": \"string\", \"minLength\": 1," \
    " \"x-file\": \"data\"," \
    " \"description\": \"validation data, named like data\"}"
/* clang-format on */

#endif
