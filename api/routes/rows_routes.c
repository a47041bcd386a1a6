#include "api/routes/rows_routes.h"

#include "api/http/value.h"
#include "api/view/list.h"
#include "api/view/view.h"
#include "base/json/json.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const struct shape rows_shapes[] = {
    {"tables", "tables:[table]" SHAPE_PAGE},
    {"table", "table:s number:i rows:i width:i type:@table_type "
              "access:@table_access update_rule:s? "
              "saved:b"},
    {"rows", "run:s table:s branch:i? offset:i rows:[row]"},
    {"row", "row:i values:a"},
    {"added", "run:s table:s row:i branch:i? changed:b message:s"},
    {NULL, NULL},
};

/* ---- tables -------------------------------------------------------------- */

struct table_copy {
    struct table_info table;
    size_t number;
};

static void tables_range(const struct history *h, uint64_t *low, uint64_t *len)
{
    *low = 0;
    *len = history_tables_len(h);
}

static bool table_copy(const struct history *h, const struct route_call *call,
                       size_t index, void *item)
{
    struct table_copy *copy = item;

    assert(index < history_tables_len(h));
    (void)call;
    copy->table = *history_table_at(h, index);
    copy->number = index;
    return true;
}

static json_t *table_to_json(const struct list_scope *scope, const void *item)
{
    const struct table_copy *copy = item;
    const struct table_info *t = &copy->table;

    (void)scope;
    return json_pack("{s:o, s:I, s:I, s:I, s:s, s:s, s:o, s:b}", "table",
                     value_text(t->name), "number", (json_int_t)copy->number,
                     "rows", (json_int_t)t->rows, "width", (json_int_t)t->width,
                     "type", table_type_name(t->type), "access",
                     table_access_name(t->access), "update_rule",
                     value_text_or_null(t->rule), "saved", t->saved);
}

static const struct list_kind tables = {
    .name = "tables",
    .item_size = sizeof(struct table_copy),
    .range = tables_range,
    .copy = table_copy,
    .to_json = table_to_json,
};

void handle_tables(const struct route_call *call, struct response *out)
{
    list_respond(call, &tables, out);
}

/* ---- parameters ---------------------------------------------------------- */

/* clang-format off */
#define TABLE_PARAMS                                                           \
    {.type = PARAM_TEXT, .name = "table", .help = "the table's name or number",\
     .choices = "weights"},                                                    \
    {.type = PARAM_INT, .name = "row", .help = "the row, from 0", .min = 0,    \
     .max = INT64_MAX},                                                        \
    {.type = PARAM_ID, .name = "run",                                          \
     .help = "the run's id; may be left out where there is only one"}

const struct route_param read_params[] = {
    TABLE_PARAMS,
    {.type = PARAM_INT, .name = "branch",
     .help = "number of the branch; default: what the run trains", .min = 0,
     .max = UINT32_MAX - 1},
    {.type = PARAM_INT, .name = "count", .help = "rows, from that one on",
     .min = 1, .max = ROWS_COUNT_MAX, .fallback = 1},
    {.type = PARAM_INT, .name = "offset",
     .help = "the first value of each row", .min = 0, .max = UINT32_MAX},
    {.type = PARAM_INT, .name = "values",
     .help = "how many of each row; default: to its end", .min = 1,
     .max = COMMAND_VALUES_MAX},
    {.type = PARAM_END}};
const struct route_param add_params[] = {
    TABLE_PARAMS, {.type = PARAM_END}};
/* clang-format on */

/* ---- which rows ---------------------------------------------------------- */

static void not_found(const char *code, const char *pointer, const char *text,
                      struct response *out)
{
    struct response_faults faults = {0};

    response_fault_add(&faults, pointer, "%s", text);
    response_problem(out, 404, code, &faults, "%s", text);
}

/* The table that @call names, of the run that it names. */
static bool find_table(const struct route_call *call, struct table_info *out,
                       struct response *refusal)
{
    const char *name = route_arg(call, "table")->text;
    const struct table_info *t = NULL;
    const struct history *h;
    char text[160];

    view_lock(call->view);
    h = list_run(call, refusal);
    if (h)
        t = history_table(h, name);
    if (t)
        *out = *t;
    view_unlock(call->view);
    if (h && !t) {
        snprintf(text, sizeof(text),
                 "the run has no table \"%.64s\"; /api/v1/tables lists those "
                 "that it has, once it is loaded",
                 name);
        not_found("table_not_found", "/path/table", text, refusal);
    }
    return t != NULL;
}

/* The row that @call names, of a table with rows that can be asked for. */
static bool find_row(const struct route_call *call, struct table_info *t,
                     struct command_rows *rows, struct response *out)
{
    uint64_t row = (uint64_t)route_arg(call, "row")->number;
    char text[128];

    if (!find_table(call, t, out))
        return false;
    if (t->access == TABLE_LOCAL) {
        response_problem(out, 409, "not_supported", NULL,
                         "table %s is local: every worker has rows of its own, "
                         "which nobody else sees",
                         t->name);
        return false;
    }
    if (row >= t->rows) {
        snprintf(text, sizeof(text), "table %s has rows 0 to %llu", t->name,
                 (unsigned long long)(t->rows - 1));
        not_found("row_not_found", "/path/row", text, out);
        return false;
    }
    *rows = (struct command_rows){
        .branch = BRANCH_NONE, .first = row, .count = 1, .values = t->width};
    memcpy(rows->table, t->name, sizeof(rows->table));
    return true;
}

/* ---- reading ------------------------------------------------------------- */

static void take_part(const struct route_call *call, const struct table_info *t,
                      struct command_rows *rows, struct response_faults *faults)
{
    const struct route_arg *offset = route_arg(call, "offset");
    const struct route_arg *values = route_arg(call, "values");
    uint64_t count = (uint64_t)route_arg(call, "count")->number;

    assert(t->width > 0);
    if ((uint64_t)offset->number >= t->width) {
        response_fault_add(faults, "/query/offset",
                           "expected less than %u, the values of a row",
                           t->width);
        return;
    }
    rows->from = (uint32_t)offset->number;
    rows->values = t->width - rows->from;
    if (values->given && values->number < rows->values)
        rows->values = (uint32_t)values->number;
    if (count > t->rows - rows->first)
        count = t->rows - rows->first;
    rows->count = (uint32_t)count;
    if (count * rows->values > COMMAND_VALUES_MAX)
        response_fault_add(faults, count > 1 ? "/query/count" : "/query/values",
                           "%llu rows of %u values are too many: at most %d "
                           "values an answer; ask for fewer rows (count), or "
                           "for parts of them (offset, values)",
                           (unsigned long long)count, rows->values,
                           COMMAND_VALUES_MAX);
}

bool take_read(const struct route_call *call, const json_t *body,
               struct mailbox_request *request, struct response *out)
{
    const struct route_arg *branch = route_arg(call, "branch");
    struct response_faults faults = {0};
    struct table_info t;

    assert(request->command == COMMAND_READ);
    (void)body; /* the guard lets none through */
    if (!find_row(call, &t, &request->args.rows, out))
        return false;
    take_part(call, &t, &request->args.rows, &faults);
    if (branch->given)
        request->args.rows.branch = (branch_id)branch->number;
    if (faults.len == 0)
        return true;
    response_problem(out, 400, "invalid_parameter", &faults,
                     "1 parameter of the request is not valid");
    return false;
}

/* ---- adding -------------------------------------------------------------- */

static void take_branch(const json_t *v, struct command_rows *rows,
                        struct response_faults *faults)
{
    json_int_t n = json_integer_value(v);

    if (json_is_integer(v) && n >= 0 && n < BRANCH_NONE)
        rows->branch = (branch_id)n;
    else
        response_fault_add(faults, "/branch",
                           "expected the number of a branch");
}

/* Takes the numbers of @values into @to. */
static void take_values(const json_t *values, const struct table_info *t,
                        double to[], struct response_faults *faults)
{
    char pointer[JSON_POINTER_MAX] = "/values";

    assert(faults->len == 0);
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *v = json_array_get(values, i);
        size_t n = json_pointer_push_index(pointer, i);

        to[i] = json_number_value(v);
        if (!json_is_number(v) || !table_type_holds(t->type, to[i]))
            response_fault_add(faults, pointer,
                               "expected a number that a value of type %s can "
                               "hold",
                               table_type_name(t->type));
        json_pointer_cut(pointer, n);
    }
}

/* Where the values begin; without a word the row is whole. */
static void check_length(const json_t *body, const struct table_info *t,
                         size_t *offset, struct response_faults *faults)
{
    const json_t *values = json_object_get(body, "values");
    const json_t *from = json_object_get(body, "offset");
    json_int_t at = from ? json_integer_value(from) : 0;
    size_t len = json_array_size(values);

    assert(t->width > 0);
    if (from && (!json_is_integer(from) || at < 0 || at >= t->width))
        response_fault_add(faults, "/offset",
                           "expected a whole number from 0 to %u",
                           t->width - 1);
    else if (!json_is_array(values) || len == 0)
        response_fault_add(faults, "/values",
                           "expected an array of numbers, not empty");
    else if (!from && len != t->width)
        response_fault_add(faults, "/values",
                           "expected %u numbers, found %zu; with \"offset\", "
                           "the others are 0",
                           t->width, len);
    else if (len > t->width - (size_t)at)
        response_fault_add(faults, "/values",
                           "expected at most %zu numbers from there on",
                           t->width - (size_t)at);
    else if (t->width > COMMAND_VALUES_MAX)
        response_fault_add(faults, "/values",
                           "a row of this table has %u values: rows of at most "
                           "%d can be added to here",
                           t->width, COMMAND_VALUES_MAX);
    else
        *offset = (size_t)at;
}

/* False: out of memory. */
static bool take_increment(const json_t *body, const struct table_info *t,
                           struct mailbox_request *request,
                           struct response_faults *faults)
{
    const char *name;
    json_t *value;
    size_t offset = 0;

    if (!json_is_object(body))
        response_fault_add(faults, "",
                           "expected an object such as {\"values\": [0.5, "
                           "-1.0], \"branch\": 3}");
    json_object_foreach((json_t *)body, name, value)
    {
        char pointer[JSON_POINTER_MAX] = "";

        json_pointer_push(pointer, name);
        if (strcmp(name, "branch") == 0)
            take_branch(value, &request->args.rows, faults);
        else if (strcmp(name, "values") != 0 && strcmp(name, "offset") != 0)
            response_fault_add(faults, pointer,
                               "unknown; what may be said: values, offset, "
                               "branch");
    }
    if (json_is_object(body))
        check_length(body, t, &offset, faults);
    if (faults->len > 0)
        return true;
    request->args.rows.add =
        mem_calloc(t->width, sizeof(*request->args.rows.add));
    if (!request->args.rows.add)
        return false;
    take_values(json_object_get(body, "values"), t,
                request->args.rows.add + offset, faults);
    return true;
}

bool take_add(const struct route_call *call, const json_t *body,
              struct mailbox_request *request, struct response *out)
{
    struct response_faults faults = {0};
    struct table_info t;

    assert(request->command == COMMAND_ADD && !request->args.rows.add);
    if (!find_row(call, &t, &request->args.rows, out))
        return false;
    if (!take_increment(body, &t, request, &faults)) {
        response_json(out, 200, NULL); /* 503 */
        return false;
    }
    if (faults.len == 0)
        return true;
    mailbox_request_deinit(request);
    response_problem(out, 422, "invalid_body", &faults,
                     "%zu part%s of the body %s not valid", faults.len,
                     faults.len == 1 ? "" : "s",
                     faults.len == 1 ? "is" : "are");
    return false;
}

/* ---- answers ------------------------------------------------------------- */

static json_t *values_to_json(const double value[], uint32_t n)
{
    json_t *array = json_array();

    for (uint32_t i = 0; array && i < n; i++)
        if (json_array_append_new(array, value_number(value[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *rows_to_json(const struct command_rows *r,
                            const struct tuner_answer *a)
{
    json_t *array = json_array();

    const json_int_t first = (json_int_t)r->first;

    for (uint32_t i = 0; array && (i + 1) * r->values <= a->values; i++)
        if (json_array_append_new(
                array,
                json_pack("{s:I, s:o}", "row", first + i, "values",
                          values_to_json(a->value + (size_t)i * r->values,
                                         r->values))) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

void rows_respond(const char *run, const struct mailbox_request *request,
                  const struct tuner_answer *answer, struct response *out)
{
    const struct command_rows *r = &request->args.rows;
    json_t *branch = answer->branch == BRANCH_NONE
                         ? json_null()
                         : json_integer(answer->branch);

    assert(request->command == COMMAND_READ || request->command == COMMAND_ADD);
    if (request->command == COMMAND_READ)
        response_json(out, 200,
                      json_pack("{s:s, s:s, s:o, s:I, s:o}", "run", run,
                                "table", r->table, "branch", branch, "offset",
                                (json_int_t)r->from, "rows",
                                rows_to_json(r, answer)));
    else
        response_json(out, 200,
                      json_pack("{s:s, s:s, s:I, s:o, s:b, s:o}", "run", run,
                                "table", r->table, "row", (json_int_t)r->first,
                                "branch", branch, "changed", answer->changed,
                                "message", value_text(answer->text)));
}
