#include "ps/disk/manifest.h"

#include "base/crc32c.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The end of every text: the checksum of all before it. */
#define END_BEGIN ",\"crc32c\":\""
#define END_END "\"}\n"

enum { HEX = 8, END_BYTES = sizeof(END_BEGIN) - 1 + HEX + sizeof(END_END) - 1 };

static const char format_name[] = "mltune checkpoint";

static const char *const type_name[] = {
    [MLT_F32] = "f32", [MLT_I32] = "i32", [MLT_F64] = "f64"};
static const char *const access_name[] = {[MLT_SHARED] = "shared",
                                          [MLT_EXCLUSIVE] = "exclusive",
                                          [MLT_LOCAL] = "local"};

/* ---- life ---------------------------------------------------------------- */

enum err manifest_init(struct manifest *m, uint32_t tables, uint32_t nodes,
                       uint32_t workers)
{
    assert(nodes >= 1 && workers >= 1 && workers % nodes == 0);
    *m =
        (struct manifest){.nodes = nodes, .workers = workers, .tables = tables};
    m->table = mem_calloc(tables + (size_t)1, sizeof(*m->table));
    m->part = mem_calloc(workers, sizeof(*m->part));
    if (m->table && m->part)
        return ERR_OK;
    manifest_deinit(m);
    return ERR_NOMEM;
}

void manifest_deinit(struct manifest *m)
{
    mem_free(m->table);
    mem_free(m->part);
    *m = (struct manifest){0};
}

/* ---- tables and rows ----------------------------------------------------- */

void manifest_describe(const struct table *t, struct manifest_table *out)
{
    assert(t && out);
    *out = (struct manifest_table){
        .type = t->type,
        .access = t->access,
        .flags = t->flags,
        .rows = t->rows,
        .width = t->width,
        .row_bytes = t->row_bytes,
        .chunk_rows = (uint64_t)1 << t->row_shift,
        .placed = t->placed,
    };
    snprintf(out->name, sizeof(out->name), "%s", t->name);
    snprintf(out->rule, sizeof(out->rule), "%s", t->rule ? t->rule->name : "");
}

bool manifest_same_rows(const struct manifest_table *a,
                        const struct manifest_table *b)
{
    assert(a && b);
    return strcmp(a->name, b->name) == 0 && strcmp(a->rule, b->rule) == 0 &&
           a->type == b->type && a->access == b->access &&
           (a->rows == b->rows || a->access == MLT_LOCAL) &&
           a->width == b->width && a->row_bytes == b->row_bytes;
}

void manifest_say(const struct manifest_table *t, char out[MANIFEST_TEXT_MAX])
{
    snprintf(out, MANIFEST_TEXT_MAX,
             "%" PRIu64 " x %" PRIu32 " %s, %s%s%s, %" PRIu32 " bytes a row",
             t->rows, t->width, type_name[t->type], access_name[t->access],
             t->rule[0] ? ", rule " : "", t->rule, t->row_bytes);
}

void manifest_rows(const struct manifest *m, uint32_t table, uint32_t worker,
                   uint64_t *first, uint64_t *count)
{
    const struct manifest_table *t = &m->table[table];
    struct table as = {.rows = t->rows, .access = t->access};

    assert(table < m->tables);
    assert(worker < m->workers);
    while ((uint64_t)1 << as.row_shift < t->chunk_rows)
        as.row_shift++;
    as.chunks = (t->rows + t->chunk_rows - 1) >> as.row_shift;
    table_part(&as, m->workers, worker, first, count);
}

static void name_file(const struct manifest *m, const char *kind,
                      uint32_t worker, char out[MANIFEST_FILE_MAX])
{
    assert(worker < m->workers);
    if (m->nodes == 1)
        snprintf(out, MANIFEST_FILE_MAX, "%s-%" PRIu32, kind, worker);
    else
        snprintf(out, MANIFEST_FILE_MAX, "node-%" PRIu32 "/%s-%" PRIu32,
                 worker / (m->workers / m->nodes), kind, worker);
}

void manifest_file(const struct manifest *m, uint32_t worker,
                   char out[MANIFEST_FILE_MAX])
{
    assert(worker < m->workers);
    name_file(m, "shard", worker, out);
}

void manifest_rows_file(const struct manifest *m, uint32_t worker,
                        char out[MANIFEST_FILE_MAX])
{
    assert(worker < m->workers);
    name_file(m, "rows", worker, out);
}

bool manifest_placed(const struct manifest *m)
{
    for (uint32_t i = 0; i < m->tables; i++)
        if (m->table[i].placed)
            return true;
    return false;
}

uint32_t manifest_missing(const struct manifest *m)
{
    uint32_t i = 0;

    while (i < m->workers && m->part[i].there)
        i++;
    return i;
}

/* ---- writing ------------------------------------------------------------- */

static void put_table(struct text *out, const struct manifest_table *t)
{
    text_printf(
        out,
        "  {\"name\":\"%s\",\"rows\":%" PRIu64 ",\"width\":%" PRIu32
        ",\"type\":\"%s\",\"access\":\"%s\",\"rule\":\"%s\","
        "\"flags\":%u,\"row_bytes\":%" PRIu32 ",\"chunk_rows\":%" PRIu64,
        t->name, t->rows, t->width, type_name[t->type], access_name[t->access],
        t->rule, t->flags, t->row_bytes, t->chunk_rows);
    if (t->placed)
        text_printf(out, ",\"placed\":%" PRIu32, t->placed);
    text_printf(out, "}");
}

static void put_part(struct text *out, const struct manifest *m,
                     uint32_t worker)
{
    char file[MANIFEST_FILE_MAX];

    manifest_file(m, worker, file);
    text_printf(out,
                "  {\"file\":\"%s\",\"bytes\":%" PRIu64 ",\"seal\":\"%08" PRIx32
                "\"",
                file, m->part[worker].bytes, m->part[worker].seal);
    if (manifest_placed(m))
        text_printf(out, ",\"rows_seal\":\"%08" PRIx32 "\"",
                    m->part[worker].rows_seal);
    text_puts(out, "}");
}

char *manifest_encode(const struct manifest *m)
{
    struct text out = {0};
    bool first = true;

    text_printf(&out,
                "{\"format\":\"%s\",\"version\":%d,\n"
                " \"run\":\"%016" PRIx64 "\",\"number\":%" PRIu64
                ",\"branch\":%" PRIu32 ",\"clock\":%" PRIu64 ",\n"
                " \"nodes\":%" PRIu32 ",\"workers\":%" PRIu32 ",\n"
                " \"tables\":[\n",
                format_name, MANIFEST_VERSION, m->run, m->number, m->branch,
                m->clock, m->nodes, m->workers);
    for (uint32_t i = 0; i < m->tables; i++) {
        if (i > 0)
            text_puts(&out, ",\n");
        put_table(&out, &m->table[i]);
    }
    text_puts(&out, "],\n \"parts\":[\n");
    for (uint32_t i = 0; i < m->workers; i++) {
        if (!m->part[i].there)
            continue;
        if (!first)
            text_puts(&out, ",\n");
        first = false;
        put_part(&out, m, i);
    }
    text_puts(&out, "]");
    if (!out.no_memory)
        text_printf(&out, END_BEGIN "%08" PRIx32 END_END,
                    crc32c(0, out.s, out.len));
    return text_take(&out);
}

/* ---- reading ------------------------------------------------------------- */

/* A reading: the object, its place, and the first fault, which stays. */
struct manifest_reader {
    const char *path;
    struct fault *f;
    enum err err;
};

static void wrong(struct manifest_reader *r, const char *where,
                  const char *expected)
{
    if (!r->err)
        r->err = fault_set(r->f, ERR_FORMAT, "%s: /%s: expected %s", r->path,
                           where, expected);
}

static uint64_t number_at(struct manifest_reader *r, const json_t *o,
                          const char *where, const char *name, uint64_t max)
{
    const json_t *v = json_object_get(o, name);
    char place[96];

    if (json_is_integer(v) && json_integer_value(v) >= 0 &&
        (uint64_t)json_integer_value(v) <= max)
        return (uint64_t)json_integer_value(v);
    snprintf(place, sizeof(place), "%s%s", where, name);
    wrong(r, place, "a whole number in range");
    return 0;
}

static const char *text_at(struct manifest_reader *r, const json_t *o,
                           const char *where, const char *name, size_t max)
{
    const char *s = json_string_value(json_object_get(o, name));
    char place[96];

    if (s && strlen(s) <= max)
        return s;
    snprintf(place, sizeof(place), "%s%s", where, name);
    wrong(r, place, "a text, not too long");
    return "";
}

/* A number of exactly @digits lower-case hexadecimal digits. */
static uint64_t hex_at(struct manifest_reader *r, const json_t *o,
                       const char *where, const char *name, int digits)
{
    const char *s = text_at(r, o, where, name, (size_t)digits);
    uint64_t v = 0;
    char back[20];

    if (strspn(s, "0123456789abcdef") == (size_t)digits)
        sscanf(s, "%" SCNx64, &v);
    snprintf(back, sizeof(back), "%0*" PRIx64, digits, v);
    if (strcmp(back, s) != 0)
        wrong(r, name, "hexadecimal digits");
    return v;
}

static unsigned name_at(struct manifest_reader *r, const json_t *o,
                        const char *where, const char *name,
                        const char *const names[], unsigned n)
{
    const char *s = text_at(r, o, where, name, MANIFEST_TEXT_MAX);

    for (unsigned i = 0; i < n; i++)
        if (strcmp(s, names[i]) == 0)
            return i;
    wrong(r, name, "a name that is known");
    return 0;
}

static void copy_name(struct manifest_reader *r, char *to, const char *from,
                      const char *where)
{
    if (strspn(from, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(from))
        wrong(r, where, "a-z, 0-9, _");
    else
        strcpy(to, from);
}

/* Whether the table can be laid out at all, so that later sums do not overflow.
 */
static bool plausible(const struct manifest_table *t)
{
    const uint64_t most = (uint64_t)1 << 46;

    return t->name[0] && t->rows >= 1 && t->width >= 1 && t->row_bytes >= 1 &&
           t->row_bytes % 4 == 0 && t->rows <= most / t->row_bytes &&
           t->chunk_rows >= 1 && (t->chunk_rows & (t->chunk_rows - 1)) == 0 &&
           t->chunk_rows <= most &&
           (uint64_t)t->width * rule_type_bytes(t->type) <= t->row_bytes &&
           (t->rule[0] != '\0') == (t->access != MLT_LOCAL) &&
           (!t->placed || (t->access == MLT_SHARED && t->rows <= UINT32_MAX));
}

static void read_table(struct manifest_reader *r, const json_t *o, uint32_t i,
                       struct manifest_table *t)
{
    char where[48];

    snprintf(where, sizeof(where), "tables/%" PRIu32 "/", i);
    copy_name(r, t->name, text_at(r, o, where, "name", TABLE_NAME_MAX), where);
    copy_name(r, t->rule, text_at(r, o, where, "rule", MANIFEST_RULE_MAX),
              where);
    t->rows = number_at(r, o, where, "rows", UINT64_C(1) << 46);
    t->width = (uint32_t)number_at(r, o, where, "width", UINT32_MAX);
    t->type = (enum mlt_type)name_at(r, o, where, "type", type_name, 3);
    t->access = (enum mlt_access)name_at(r, o, where, "access", access_name, 3);
    t->flags = (unsigned)number_at(r, o, where, "flags", UINT32_MAX);
    t->row_bytes = (uint32_t)number_at(r, o, where, "row_bytes", 1 << 30);
    t->chunk_rows = number_at(r, o, where, "chunk_rows", UINT64_C(1) << 46);
    if (json_object_get(o, "placed"))
        t->placed = (uint32_t)number_at(r, o, where, "placed", UINT32_MAX);
    if (!r->err && !plausible(t))
        wrong(r, where, "a table that is possible");
}

/* The worker whose file that is; in order, each once. */
static void read_part(struct manifest_reader *r, const json_t *o,
                      uint32_t *next, struct manifest *m)
{
    const char *file = text_at(r, o, "parts/", "file", MANIFEST_FILE_MAX);
    char own[MANIFEST_FILE_MAX];

    for (; *next < m->workers && !r->err; ++*next) {
        struct manifest_part *p = &m->part[*next];

        manifest_file(m, *next, own);
        if (strcmp(own, file) != 0)
            continue;
        p->there = true;
        p->bytes = number_at(r, o, "parts/", "bytes", INT64_MAX);
        p->seal = (uint32_t)hex_at(r, o, "parts/", "seal", HEX);
        if (manifest_placed(m))
            p->rows_seal = (uint32_t)hex_at(r, o, "parts/", "rows_seal", HEX);
        ++*next;
        return;
    }
    wrong(r, "parts", "names of parts, in order");
}

static void read_lists(struct manifest_reader *r, const json_t *o,
                       struct manifest *m)
{
    const json_t *tables = json_object_get(o, "tables");
    const json_t *parts = json_object_get(o, "parts");
    uint32_t next = 0;

    for (uint32_t i = 0; i < m->tables && !r->err; i++)
        read_table(r, json_array_get(tables, i), i, &m->table[i]);
    if (!json_is_array(parts))
        wrong(r, "parts", "a list");
    for (size_t i = 0; i < json_array_size(parts) && !r->err; i++)
        read_part(r, json_array_get(parts, i), &next, m);
}

static void read_object(struct manifest_reader *r, const json_t *o,
                        struct manifest *m)
{
    size_t tables = json_array_size(json_object_get(o, "tables"));
    uint64_t nodes = number_at(r, o, "", "nodes", MANIFEST_NODES_MAX);
    uint64_t workers = number_at(r, o, "", "workers", MANIFEST_WORKERS_MAX);

    if (strcmp(text_at(r, o, "", "format", 64), format_name) != 0)
        wrong(r, "format", format_name);
    if (!r->err &&
        number_at(r, o, "", "version", INT32_MAX) != (uint64_t)MANIFEST_VERSION)
        r->err = fault_set(r->f, ERR_VERSION,
                           "%s: /version: expected %d: written by another "
                           "version of mltune",
                           r->path, MANIFEST_VERSION);
    if (nodes < 1 || workers < 1 || workers % nodes != 0)
        wrong(r, "workers", "a multiple of the nodes");
    if (tables < 1 || tables > MANIFEST_TABLES_MAX)
        wrong(r, "tables", "a list of tables");
    if (r->err)
        return;
    if (manifest_init(m, (uint32_t)tables, (uint32_t)nodes,
                      (uint32_t)workers)) {
        r->err = fault_set(r->f, ERR_NOMEM, "%s: out of memory", r->path);
        return;
    }
    m->run = hex_at(r, o, "", "run", 16);
    m->number = number_at(r, o, "", "number", INT64_MAX);
    m->branch = (uint32_t)number_at(r, o, "", "branch", UINT32_MAX);
    m->clock = number_at(r, o, "", "clock", INT64_MAX);
    read_lists(r, o, m);
}

static enum err check_end(const char *text, size_t len, const char *path,
                          struct fault *f)
{
    char end[END_BYTES + 1];

    if (len < END_BYTES)
        return fault_set(f, ERR_FORMAT, "%s: byte %zu: ends too early", path,
                         len);
    snprintf(end, sizeof(end), END_BEGIN "%08" PRIx32 END_END,
             crc32c(0, text, len - END_BYTES));
    if (memcmp(end, text + len - END_BYTES, END_BYTES) == 0)
        return ERR_OK;
    return fault_set(f, ERR_FORMAT,
                     "%s: byte %zu: the checksum does not fit: damaged, or "
                     "not a manifest",
                     path, len - END_BYTES);
}

enum err manifest_decode(const char *text, size_t len, const char *path,
                         struct manifest *out, struct fault *f)
{
    struct manifest_reader r = {.path = path, .f = f};
    struct manifest m = {0};
    json_t *o = NULL;
    char *back;

    assert(text && out);
    r.err = check_end(text, len, path, f);
    if (!r.err)
        r.err = json_load(text, len, &o, NULL, f);
    if (r.err == ERR_FORMAT && f && o == NULL && len >= END_BYTES)
        fault_wrap(f, "%s", path);
    if (!r.err)
        read_object(&r, o, &m);
    json_decref(o);
    back = r.err ? NULL : manifest_encode(&m);
    if (!r.err && !back)
        r.err = fault_set(f, ERR_NOMEM, "%s: out of memory", path);
    else if (back && (strlen(back) != len || memcmp(back, text, len) != 0))
        wrong(&r, "", "the text that mltune writes");
    mem_free(back);
    if (r.err)
        manifest_deinit(&m);
    else
        *out = m;
    return r.err;
}

/* ---- several nodes ------------------------------------------------------- */

static bool same_tables(const struct manifest *a, const struct manifest *b)
{
    if (a->tables != b->tables)
        return false;
    for (uint32_t i = 0; i < a->tables; i++)
        if (!manifest_same_rows(&a->table[i], &b->table[i]) ||
            a->table[i].rows != b->table[i].rows ||
            a->table[i].chunk_rows != b->table[i].chunk_rows ||
            a->table[i].placed != b->table[i].placed)
            return false;
    return true;
}

enum err manifest_join(struct manifest *into, const struct manifest *from,
                       const char *path, struct fault *f)
{
    assert(into != from);
    if (into->run != from->run || into->number != from->number ||
        into->branch != from->branch || into->nodes != from->nodes ||
        into->workers != from->workers || !same_tables(into, from))
        return fault_set(f, ERR_FORMAT,
                         "%s: is of another checkpoint (run %016" PRIx64
                         ", number %" PRIu64 ", branch %" PRIu32
                         "; this one is of run %016" PRIx64 ", number %" PRIu64
                         ", branch %" PRIu32 ")",
                         path, from->run, from->number, from->branch, into->run,
                         into->number, into->branch);
    if (from->part[0].there)
        into->clock = from->clock;
    for (uint32_t i = 0; i < from->workers; i++)
        if (from->part[i].there)
            into->part[i] = from->part[i];
    return ERR_OK;
}
