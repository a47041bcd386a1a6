/* `mltune topics MODEL`: the top words of each topic of a saved model. */
#include "base/file_io.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "cli/basics/console.h"
#include "cli/basics/exit_code.h"
#include "cli/basics/options.h"
#include "cli/basics/verbs.h"
#include "cli/state/model_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TOPICS_BYTES_MAX = 256 << 20, WORDS_MAX = 20 };

static const char details[] = MODEL_OPERAND
    "It has to be one of\n`lda`. The largest topics come first: their number "
    "(the column of\nword_topic.npy), the share of all tokens they have, "
    "their most frequent words.";

static enum err read_topics(const char *dir, json_t **out, struct fault *f)
{
    char path[FILE_PATH_MAX];
    char *text = NULL;
    json_error_t error;
    bool lacking;
    json_t *json;
    size_t len;
    enum err err = file_join(path, dir, "topics.json", f);

    if (!err)
        err = file_read(path, TOPICS_BYTES_MAX, &text, &len, f);
    if (err == ERR_NOENT)
        return fault_set(
            f, err, "%s: not found; expected the model folder of lda", path);
    if (err)
        return err;
    /* The model of many topics is longer than what json_load takes. */
    json = json_parse(text, len, 0, &error, &lacking);
    mem_free(text);
    if (lacking)
        return fault_set(f, ERR_NOMEM, "%s: %s", path, err_text(ERR_NOMEM));
    if (json_is_array(json_object_get(json, "topics"))) {
        *out = json;
        return ERR_OK;
    }
    err = fault_set(f, ERR_FORMAT, "%s: expected topics as lda writes them%s%s",
                    path, json ? "" : ": ", json ? "" : error.text);
    json_decref(json);
    return err;
}

static double share_of(const json_t *topic)
{
    return json_number_value(json_object_get(topic, "share"));
}

static int by_share(const void *a, const void *b)
{
    double x = share_of(*(json_t *const *)a), y = share_of(*(json_t *const *)b);

    return (x < y) - (x > y);
}

static void print_topic(const json_t *topic, size_t words)
{
    const json_t *list = json_object_get(topic, "words");
    const json_t *number = json_object_get(topic, "topic");

    printf("%5lld %6.2f %% ", (long long)json_integer_value(number),
           100 * share_of(topic));
    for (size_t i = 0; i < words && i < json_array_size(list); i++) {
        const json_t *word = json_object_get(json_array_get(list, i), "word");
        const char *text = json_string_value(word);

        printf(" %s", text ? text : "?");
    }
    putchar('\n');
}

static enum err print_topics(const json_t *json, size_t words, struct fault *f)
{
    const json_t *topics = json_object_get(json, "topics");
    size_t n = json_array_size(topics), i;
    const json_t **order = mem_alloc((n + 1) * sizeof(*order));

    if (!order)
        return fault_set(f, ERR_NOMEM, "out of memory");
    for (i = 0; i < n; i++)
        order[i] = json_array_get(topics, i);
    qsort(order, n, sizeof(*order), by_share);
    for (i = 0; i < n; i++)
        print_topic(order[i], words);
    mem_free(order);
    return ERR_OK;
}

/* A folder with topics in it is read whatever else it lacks. */
static enum err find(const char *word, const char *state,
                     struct found_model *out, struct fault *f)
{
    char path[FILE_PATH_MAX];

    if (file_join(path, word, "topics.json", NULL) != ERR_OK ||
        access(path, F_OK) != 0)
        return model_find(word, state, out, f);
    snprintf(out->dir, sizeof(out->dir), "%s", word);
    return ERR_OK;
}

static int show(const char *word, const char *state, size_t words, bool as_json)
{
    struct found_model model;
    struct fault f = {0};
    json_t *json = NULL;
    char *text;
    enum err err = find(word, state, &model, &f);

    if (!err)
        err = read_topics(model.dir, &json, &f);
    if (!err && as_json) {
        text = json_write(json, 0);
        if (text)
            puts(text);
        else
            err = fault_set(&f, ERR_NOMEM, "out of memory");
        mem_free(text);
    } else if (!err) {
        err = print_topics(json, words, &f);
    }
    json_decref(json);
    if (err)
        console_error("%s", f.text);
    return err ? exit_code_of(err) : EXIT_DONE;
}

int verb_topics(int argc, char **argv)
{
    struct option_uint words = {.value = 10};
    bool json = false;
    const char *state = STATE_DEFAULT;
    const struct option_spec options[] = {
        STATE_OPTION(state),
        {"words", 0, OPTION_UINT, "N", "words a topic (10), at most 20",
         &words},
        {"json", 0, OPTION_FLAG, NULL,
         "all that is known, as one JSON object on stdout", &json},
    };
    const struct usage usage = {
        .verb = "topics",
        .operands = "MODEL",
        .details = details,
        .operands_min = 1,
        .operands_max = 1,
        .n = sizeof(options) / sizeof(*options),
        .option = options,
    };
    struct operands operands;
    int code = options_parse(&usage, argc, argv, &operands);

    if (code != OPTIONS_GO_ON)
        return code;
    if (words.value < 1 || words.value > WORDS_MAX) {
        console_error("--words: expected a number from 1 to %d", WORDS_MAX);
        return EXIT_USAGE;
    }
    return show(operands_at(&operands, 0), state, words.value, json);
}
