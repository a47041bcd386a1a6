#include "apps/lda/lda_layout.h"

#include "base/mem.h"
#include "base/rng.h"

#include <assert.h>
#include <string.h>

static void part_deinit(struct lda_part *p)
{
    mem_free(p->id);
    mem_free(p->length);
    mem_free(p->doc);
    mem_free(p->run);
}

void lda_layout_deinit(struct lda_layout *l)
{
    for (unsigned w = 0; l->share && w < l->workers; w++) {
        struct lda_share *s = &l->share[w];

        for (uint32_t p = 0; s->part && p < l->parts; p++)
            part_deinit(&s->part[p]);
        mem_free(s->part);
    }
    mem_free(l->share);
    mem_free(l->part_tokens);
    memset(l, 0, sizeof(*l));
}

static uint32_t doc_length(const struct corpus *c, uint32_t d)
{
    uint64_t sum = 0, i;

    for (i = c->begin[d]; i < c->begin[d + 1]; i++)
        sum += c->count[i];
    return (uint32_t)sum;
}

/* Ids of the documents that are not empty, shuffled; their number. */
static uint64_t shuffle_docs(const struct corpus *c, uint64_t seed,
                             uint32_t id[])
{
    uint64_t n = 0, i;
    struct perm perm;

    perm_init(&perm, c->docs, seed);
    for (i = 0; i < c->docs; i++) {
        uint32_t d = (uint32_t)perm_at(&perm, i);

        if (c->begin[d] < c->begin[d + 1])
            id[n++] = d;
    }
    return n;
}

/* Number of documents, of @n, to take so that about @want tokens come together:
 * the one on the border goes where more of it is. At least @least. */
static uint64_t take_docs(const uint32_t length[], uint64_t n, uint64_t want,
                          uint64_t least, uint64_t *tokens)
{
    uint64_t taken = 0;

    *tokens = 0;
    while (taken < n) {
        if (taken >= least && *tokens + length[taken] / 2 >= want)
            break;
        *tokens += length[taken];
        taken++;
    }
    return taken;
}

void lda_layout_deal(const uint32_t length[], uint64_t docs, unsigned workers,
                     uint64_t out[])
{
    uint64_t left = 0, own;

    for (uint64_t d = 0; d < docs; d++)
        left += length[d];
    for (unsigned w = 0; w < workers; w++) {
        out[w] = docs;
        if (w + 1 < workers)
            out[w] = take_docs(length, docs, left / (workers - w), 0, &own);
        else
            own = left;
        left -= own;
        length += out[w];
        docs -= out[w];
    }
}

/* Scratch for sorting one part by word. */
struct sorter {
    const struct corpus *c;
    uint64_t *begin; /* [words + 1] */
    uint64_t *take;  /* [workers] documents that each has of a part */
};

static void sort_tokens(struct sorter *s, struct lda_part *p)
{
    const struct corpus *c = s->c;
    uint64_t at = 0, i;
    uint32_t d, w;

    memset(s->begin, 0, (c->words + (size_t)1) * sizeof(*s->begin));
    for (d = 0; d < p->docs; d++)
        for (i = c->begin[p->id[d]]; i < c->begin[p->id[d] + 1]; i++)
            s->begin[c->word[i]] += c->count[i];
    for (w = 0; w < c->words; w++) {
        uint64_t count = s->begin[w];

        s->begin[w] = at;
        at += count;
        if (count > 0)
            p->run[p->runs++] = (struct lda_run){w, (uint32_t)count};
    }
    for (d = 0; d < p->docs; d++)
        for (i = c->begin[p->id[d]]; i < c->begin[p->id[d] + 1]; i++)
            for (uint32_t j = 0; j < c->count[i]; j++)
                p->doc[s->begin[c->word[i]]++] = d;
}

static enum err part_init(struct lda_part *p, struct sorter *s,
                          const uint32_t id[], uint64_t docs)
{
    const struct corpus *c = s->c;
    uint64_t entries = 0, i;

    p->docs = (uint32_t)docs;
    for (i = 0; i < docs; i++) {
        p->tokens += doc_length(c, id[i]);
        entries += c->begin[id[i] + 1] - c->begin[id[i]];
    }
    if (docs == 0)
        return ERR_OK;
    p->id = mem_alloc(docs * sizeof(*p->id));
    p->length = mem_alloc(docs * sizeof(*p->length));
    p->doc = mem_alloc(p->tokens * sizeof(*p->doc));
    p->run =
        mem_alloc((entries < c->words ? entries : c->words) * sizeof(*p->run));
    if (!p->id || !p->length || !p->doc || !p->run)
        return ERR_NOMEM;
    memcpy(p->id, id, docs * sizeof(*id));
    for (i = 0; i < docs; i++)
        p->length[i] = doc_length(c, id[i]);
    sort_tokens(s, p);
    return ERR_OK;
}

static void note_sizes(struct lda_share *s, const struct lda_part *p)
{
    if (p->tokens > s->tokens_max)
        s->tokens_max = p->tokens;
    if (p->docs > s->docs_max)
        s->docs_max = p->docs;
    for (uint32_t r = 0; r < p->runs; r++)
        if (p->run[r].count > s->run_max)
            s->run_max = p->run[r].count;
}

static enum err add_part(struct lda_layout *l, uint32_t part, struct sorter *s,
                         const uint32_t id[], const uint32_t length[],
                         uint64_t docs, uint64_t tokens)
{
    enum err err = ERR_OK;

    l->part_tokens[part] = tokens;
    lda_layout_deal(length, docs, l->workers, s->take);
    for (unsigned w = 0; w < l->workers && !err; w++) {
        struct lda_share *share = &l->share[w];
        struct lda_part *p = &share->part[part];

        err = part_init(p, s, id, s->take[w]);
        p->first_row = share->rows;
        share->rows += lda_rows_of(p->tokens);
        share->tokens += p->tokens;
        note_sizes(share, p);
        id += s->take[w];
    }
    return err;
}

static enum err lay_out(struct lda_layout *l, struct sorter *s,
                        const uint32_t id[], const uint32_t length[],
                        uint64_t docs)
{
    uint64_t left = s->c->tokens;
    enum err err = ERR_OK;

    for (uint32_t p = 0; p < l->parts && !err; p++) {
        uint64_t others = l->parts - p - (uint64_t)1, tokens = left;
        uint64_t take = docs;

        if (others > 0) /* and a document for each of them */
            take = take_docs(length, docs - others, left / (others + 1), 1,
                             &tokens);
        err = add_part(l, p, s, id, length, take, tokens);
        left -= tokens;
        id += take;
        length += take;
        docs -= take;
    }
    return err;
}

static enum err alloc_shares(struct lda_layout *l)
{
    l->part_tokens = mem_calloc(l->parts, sizeof(*l->part_tokens));
    l->share = mem_calloc(l->workers, sizeof(*l->share));
    if (!l->part_tokens || !l->share)
        return ERR_NOMEM;
    for (unsigned w = 0; w < l->workers; w++) {
        l->share[w].parts = l->parts;
        l->share[w].part = mem_calloc(l->parts, sizeof(struct lda_part));
        if (!l->share[w].part)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

enum err lda_layout_init(struct lda_layout *l, const struct corpus *c,
                         uint32_t parts, unsigned workers, uint64_t seed)
{
    uint32_t *id = mem_alloc(c->docs * sizeof(*id));
    uint32_t *length = mem_alloc(c->docs * sizeof(*length));
    struct sorter s = {.c = c};
    uint64_t docs;
    enum err err = ERR_NOMEM;

    assert(parts >= 1 && workers >= 1 && c->tokens > 0);
    memset(l, 0, sizeof(*l));
    s.begin = mem_alloc((c->words + (size_t)1) * sizeof(*s.begin));
    s.take = mem_alloc(workers * sizeof(*s.take));
    if (!id || !length || !s.begin || !s.take)
        goto done;
    docs = shuffle_docs(c, seed, id);
    for (uint64_t i = 0; i < docs; i++)
        length[i] = doc_length(c, id[i]);
    l->workers = workers;
    l->parts = parts < docs ? parts : (uint32_t)docs;
    l->tokens = c->tokens;
    err = alloc_shares(l);
    if (!err)
        err = lay_out(l, &s, id, length, docs);
done:
    mem_free(id);
    mem_free(length);
    mem_free(s.begin);
    mem_free(s.take);
    if (err)
        lda_layout_deinit(l);
    return err;
}
