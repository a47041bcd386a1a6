/* Structured log: a stable event name and key=value pairs, one line an event.
 *
 * Lines go to stderr ("2026-11-21T02:43:49.123Z info node_ready node=0 ...");
 * stdout stays free for results. Control characters in values are escaped, so
 * that a log line is always one line. Thread-safe. Names of events and keys are
 * snake_case, units last in the key (`wait_us`).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Events above @level are dropped; the default is LOG_WARN. */
void log_set_level(enum log_level level);

/* Receives each finished line (without newline) instead of stderr; NULL goes
 * back to stderr. A progress line on a terminal uses it to get out of the way,
 * tests to read what was logged. Called under the log's lock: no logging from
 * inside. */
typedef void log_sink(void *ctx, enum log_level level, const char *line);
void log_set_sink(log_sink *sink, void *ctx);

/* @event a literal; @fmt makes the key=value part and may be "". */
void log_event(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
