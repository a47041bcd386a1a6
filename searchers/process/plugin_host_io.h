/* The other end of `searcher_plugin`: a process that loads one shared object
 * written against include/mltune/searcher.h and answers for it on stdin and
 * stdout (docs/searcher-protocol.md). Whatever the plug-in does wrong, it does
 * here and not in the tuner.
 */
#ifndef SEARCHERS_PLUGIN_HOST_IO_H
#define SEARCHERS_PLUGIN_HOST_IO_H

/* Serves @file until stdin ends; returns the exit code. A plug-in that cannot
 * be loaded is told of in the answer to hello. */
int plugin_host_run(const char *file);

#endif
