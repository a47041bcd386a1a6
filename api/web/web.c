#include "api/web/web.h"

#include <string.h>

/* The assembler takes the files in as they are; api/api.mk has this object
 * rebuilt when one of them changes. Paths start at the repository's root, where
 * make runs the compiler. */
#define WEB_DATA(symbol, path)                                                 \
    __asm__(".section .rodata\n" #symbol ":\n"                                 \
            ".incbin \"" path "\"\n" #symbol "_end:\n"                         \
            ".byte 0\n"                                                        \
            ".previous\n");                                                    \
    extern const char symbol[], symbol##_end[];

#define HTML "text/html; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define TEXT "text/plain; charset=utf-8"
#define STYLE "text/css; charset=utf-8"

#define WEB_FILES(X)                                                           \
    X(web_index_html, "index.html", HTML, "api/web/index.html")                \
    X(web_style_css, "style.css", STYLE, "api/web/style.css")                  \
    X(web_app_js, "app.js", SCRIPT, "api/web/app.js")                          \
    X(web_data_js, "data.js", SCRIPT, "api/web/data.js")                       \
    X(web_text_js, "text.js", SCRIPT, "api/web/text.js")                       \
    X(web_axes_js, "axes.js", SCRIPT, "api/web/axes.js")                       \
    X(web_plot_js, "plot.js", SCRIPT, "api/web/plot.js")                       \
    X(web_canvas_js, "canvas.js", SCRIPT, "api/web/canvas.js")                 \
    X(web_runs_js, "runs.js", SCRIPT, "api/web/runs.js")                       \
    X(web_search_js, "search.js", SCRIPT, "api/web/search.js")                 \
    X(web_run_js, "run.js", SCRIPT, "api/web/run.js")                          \
    X(web_loss_js, "loss.js", SCRIPT, "api/web/loss.js")                       \
    X(web_help_js, "help.js", SCRIPT, "api/web/help.js")                       \
    X(web_glossary_md, "glossary.md", TEXT, "docs/glossary.md")                \
    X(web_trials_js, "trials.js", SCRIPT, "api/web/trials.js")                 \
    X(web_verdict_js, "verdict.js", SCRIPT, "api/web/verdict.js")              \
    X(web_tree_js, "tree.js", SCRIPT, "api/web/tree.js")                       \
    X(web_lineages_js, "lineages.js", SCRIPT, "api/web/lineages.js")           \
    X(web_settings_js, "settings.js", SCRIPT, "api/web/settings.js")           \
    X(web_learn_js, "learn.js", SCRIPT, "api/web/learn.js")                    \
    X(web_space_js, "space.js", SCRIPT, "api/web/space.js")                    \
    X(web_parallel_js, "parallel.js", SCRIPT, "api/web/parallel.js")           \
    X(web_contour_js, "contour.js", SCRIPT, "api/web/contour.js")              \
    X(web_fanova_js, "fanova.js", SCRIPT, "api/web/fanova.js")                 \
    X(web_stats_js, "stats.js", SCRIPT, "api/web/stats.js")                    \
    X(web_compare_js, "compare.js", SCRIPT, "api/web/compare.js")              \
    X(web_metrics_js, "metrics.js", SCRIPT, "api/web/metrics.js")              \
    X(web_log_js, "log.js", SCRIPT, "api/web/log.js")                          \
    X(web_config_js, "config.js", SCRIPT, "api/web/config.js")                 \
    X(web_cluster_js, "cluster.js", SCRIPT, "api/web/cluster.js")              \
    X(web_byhand_js, "byhand.js", SCRIPT, "api/web/byhand.js")                 \
    X(web_schema_js, "schema.js", SCRIPT, "api/web/schema.js")                 \
    X(web_form_js, "form.js", SCRIPT, "api/web/form.js")                       \
    X(web_newrun_js, "newrun.js", SCRIPT, "api/web/newrun.js")                 \
    X(web_control_js, "control.js", SCRIPT, "api/web/control.js")              \
    X(web_me_js, "me.js", SCRIPT, "api/web/me.js")                             \
    X(web_field_js, "field.js", SCRIPT, "api/web/field.js")                    \
    X(web_notes_js, "notes.js", SCRIPT, "api/web/notes.js")                    \
    X(web_suggest_js, "suggest.js", SCRIPT, "api/web/suggest.js")              \
    X(web_account_js, "account.js", SCRIPT, "api/web/account.js")              \
    X(web_uplot_js, "uplot.js", SCRIPT, "api/web/vendor/uplot.js")             \
    X(web_uplot_css, "uplot.css", STYLE, "api/web/vendor/uplot.css")

#define WEB_FILE_DATA(symbol, name, type, path) WEB_DATA(symbol, path)
WEB_FILES(WEB_FILE_DATA)

static const struct web_file files[] = {
#define WEB_FILE_ENTRY(symbol, name, type, path)                               \
    {name, type, symbol, symbol##_end},
    WEB_FILES(WEB_FILE_ENTRY)
#undef WEB_FILE_ENTRY
};

const struct web_file *web_file_at(size_t index)
{
    return index < sizeof(files) / sizeof(files[0]) ? &files[index] : NULL;
}

const struct web_file *web_file(const char *name)
{
    for (size_t i = 0; web_file_at(i); i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}
