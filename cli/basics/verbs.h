/* Verbs of the command line: mltune VERB ...
 *
 * A verb is one file, cli/verbs/NAME.c, with one entry point; those that only
 * send a command are rows of base/commands/commands.h. It parses
 * its own arguments (cli/basics/options.h), writes results to stdout and talk
 * to stderr, and returns the exit code.
 */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include <stdbool.h>
#include <stddef.h>

struct verb {
    const char *name;
    const char *summary; /* one line, for `mltune --help` and its own help */
    bool hidden;         /* started by programs, not by people */
    /* argv[0] is the verb's name. */
    int (*run)(int argc, char **argv);
};

/* The verb of that name; NULL where there is none. */
const struct verb *verb_find(const char *name);

/* Verb number @i in order of help; NULL past the last. */
const struct verb *verb_at(size_t i);

/* The name that may be meant by @word; NULL. */
const char *verb_nearest(const char *word);

int verb_apps(int argc, char **argv);
int verb_branches(int argc, char **argv);
int verb_check_trainer(int argc, char **argv);
int verb_compare(int argc, char **argv);
int verb_completions(int argc, char **argv);
int verb_data(int argc, char **argv);
int verb_delete(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_eval(int argc, char **argv);
int verb_predict(int argc, char **argv);
int verb_export(int argc, char **argv);
int verb_log(int argc, char **argv);
int verb_ls(int argc, char **argv);
int verb_man(int argc, char **argv);
int verb_open(int argc, char **argv);
int verb_node(int argc, char **argv);
int verb_note(int argc, char **argv);
int verb_rank_node(int argc, char **argv);
int verb_recover(int argc, char **argv);
int verb_resume(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_save(int argc, char **argv);
int verb_schema(int argc, char **argv);
int verb_app_host(int argc, char **argv);
int verb_searcher_host(int argc, char **argv);
int verb_searchers(int argc, char **argv);
int verb_serve(int argc, char **argv);
int verb_show(int argc, char **argv);
int verb_steer(int argc, char **argv); /* all of the table of commands */
int verb_strategies(int argc, char **argv);
int verb_submit(int argc, char **argv);
int verb_deploy(int argc, char **argv);
int verb_upload(int argc, char **argv);
int verb_token(int argc, char **argv);
int verb_topics(int argc, char **argv);
int verb_trials(int argc, char **argv);
int verb_validate(int argc, char **argv);
int verb_webhook(int argc, char **argv);
int verb_watch(int argc, char **argv);

#endif
