/* Histories and requests for the tests of the HTTP side. */
#ifndef TESTS_UNIT_HTTP_FIXTURE_H
#define TESTS_UNIT_HTTP_FIXTURE_H

#include "api/service.h"
#include "api/view.h"

#include <jansson.h>

/* A run that searched (three trials: converging, diverged with losses that are
 * not finite, still running), trained two epochs and made two decisions, from
 * 2026-01-02T03:04:05Z on. Branches: 0 init, 1 trial, 2 trial (freed), 3
 * trial, 4 training (a fork of 1 at clock 20), 5 testing. Records fed to a
 * history. */
struct http_fixture {
    struct history h;
    struct view *view;
    double at_s;
    clock_no clock;
};

/* A view with the run "run-1", named "digits"; its history is empty. */
void http_fixture_init(struct http_fixture *x);
void http_fixture_deinit(struct http_fixture *x);

/* Feeds what the run above recorded. */
void http_fixture_run(struct http_fixture *x);

void http_fixture_start(struct http_fixture *x);
void http_fixture_finish(struct http_fixture *x);
void http_fixture_branch(struct http_fixture *x, branch_id branch,
                         branch_id parent, enum branch_type type,
                         const char *role);
/* A window of @clocks clocks and ten samples a clock, with mean @loss. */
void http_fixture_window(struct http_fixture *x, branch_id branch,
                         clock_no branch_clock, uint64_t clocks, double loss);
void http_fixture_decision(struct http_fixture *x, const char *text);
void http_fixture_trial(struct http_fixture *x, enum record_kind kind,
                        uint32_t trial, branch_id branch,
                        enum trial_label label, double speed);

/* Any record; its JSON members go with it. */
void http_fixture_feed(struct http_fixture *x, struct record *r);

/* A beat of node @node that has sent @sent bytes; its workers have read three
 * rows, one of them four clocks behind. */
void http_fixture_beat(struct http_fixture *x, uint32_t node, uint64_t sent);

/* Body of GET @target as JSON (the caller's), whose status must be @status;
 * fails the test otherwise. */
json_t *http_fixture_get(struct view *view, const char *target, int status);

/* Lets this process have as many files open as it may: servers and clients of
 * hundreds of connections. False: fewer than @wanted. */
bool http_fixture_allow_files(unsigned wanted);

/* Pointer of error @index of the problem; "" where there is none. */
const char *http_fixture_error(const json_t *problem, size_t index);

#endif
