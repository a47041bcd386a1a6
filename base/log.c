#include "base/log.h"

#include "base/talk_io.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LOG_LINE_MAX = 2048 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static log_sink *sink; /* under lock */
static void *sink_ctx; /* under lock */
static _Atomic int max_level = LOG_WARN;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    assert(level <= LOG_DEBUG);
    atomic_store(&max_level, (int)level);
}

void log_set_sink(log_sink *new_sink, void *ctx)
{
    pthread_mutex_lock(&lock);
    sink = new_sink;
    sink_ctx = ctx;
    pthread_mutex_unlock(&lock);
}

static int put_prefix(char *line, size_t size, enum log_level level,
                      const char *event)
{
    struct timespec now;
    struct tm tm;
    size_t n;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    n = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
    return (int)n + snprintf(line + n, size - n, ".%03ldZ %s %s",
                             now.tv_nsec / 1000000, level_names[level], event);
}

static void escape_controls(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

/* In one piece: others write to stderr as well. */
static void say(char line[LOG_LINE_MAX])
{
    size_t len = strlen(line);

    if (len + 1 == LOG_LINE_MAX)
        len--;
    line[len] = '\n';
    talk(line, len + 1);
}

void log_event(enum log_level level, const char *event, const char *fmt, ...)
{
    char line[LOG_LINE_MAX];
    va_list ap;
    int n;

    assert(level <= LOG_DEBUG && event && fmt);
    if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed))
        return;
    n = put_prefix(line, sizeof(line), level, event);
    if (*fmt) {
        line[n++] = ' ';
        va_start(ap, fmt);
        vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
        va_end(ap);
    }
    escape_controls(line);
    pthread_mutex_lock(&lock);
    if (sink)
        sink(sink_ctx, level, line);
    else
        say(line);
    pthread_mutex_unlock(&lock);
}
