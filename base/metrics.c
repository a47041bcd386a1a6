#include "base/metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct metric of_classes[] = {
    {"accuracy", true, true, false},  {"balanced_accuracy", true, false, false},
    {"macro_f1", true, false, false}, {"log_loss", false, false, false},
    {"auc", true, false, true},
};
static const struct metric of_numbers[] = {
    {"rmse", false, false, false},
    {"mae", false, false, false},
    {"r2", true, false, false},
};

const struct metric *metrics_of(enum metric_task task, size_t *n)
{
    bool classes = task == METRICS_OF_CLASSES;

    assert(task < METRIC_TASKS);
    assert(n);
    *n = classes ? sizeof(of_classes) / sizeof(*of_classes)
                 : sizeof(of_numbers) / sizeof(*of_numbers);
    assert(*n <= METRICS_MAX);
    return classes ? of_classes : of_numbers;
}

const struct metric *metrics_find(enum metric_task task, const char *name)
{
    const struct metric *m;
    size_t n;

    assert(name);
    m = metrics_of(task, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(m[i].name, name) == 0)
            return &m[i];
    return NULL;
}

bool metrics_has(const struct metric *m, unsigned classes)
{
    assert(m);
    return !m->of_two_alone || classes == 2;
}

const char *metrics_text(unsigned classes, char out[METRICS_TEXT_MAX])
{
    enum metric_task task = classes ? METRICS_OF_CLASSES : METRICS_OF_NUMBERS;
    const struct metric *m;
    size_t n, at = 0;

    assert(out);
    out[0] = '\0';
    m = metrics_of(task, &n);
    for (size_t i = 0; i < n; i++)
        if (metrics_has(&m[i], classes))
            at += (size_t)snprintf(out + at, METRICS_TEXT_MAX - at, "%s%s",
                                   at ? ", " : "", m[i].name);
    assert(at < METRICS_TEXT_MAX);
    return out;
}

const char *metrics_direction(bool higher_better)
{
    return higher_better ? "higher is better" : "lower is better";
}

enum metric_task metrics_task(const char *name)
{
    static const char *const tasks[METRIC_TASKS] = {"classes", "numbers"};
    int task = METRICS_OF_CLASSES;

    while (task < METRIC_TASKS && (!name || strcmp(tasks[task], name) != 0))
        task++;
    return (enum metric_task)task;
}
