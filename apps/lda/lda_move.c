/* Tokens' topics for another number of workers.
 *
 * A part is the same documents in the same order whatever the number of
 * workers; each has a stretch of them, its tokens sorted by word, then
 * document. So all tokens of a part, sorted the same way, pass the tokens of
 * every worker of before, and of now, in that worker's own order.
 */
#include "apps/lda/lda_app.h"
#include "base/mem.h"

#include <string.h>

/* Where a worker's tokens of the part are in its rows. */
struct strip {
    uint64_t row, token; /* the part's first; tokens passed */
};

struct moving {
    const struct lda *l;
    const struct mlt_move *move;
    struct strip *from; /* [workers_before] */
    struct strip *to;   /* [workers] */
    uint64_t *take;     /* [workers_before] documents of the part */
    uint32_t *length;   /* [documents of a part] */
    unsigned *owner;    /* [documents of a part] of before */
    uint64_t docs_max;
    uint32_t *run; /* [workers] next run of the part */
};

static uint64_t part_docs(const struct lda *l, uint32_t part)
{
    uint64_t docs = 0;

    for (unsigned w = 0; w < l->layout.workers; w++)
        docs += l->layout.share[w].part[part].docs;
    return docs;
}

static enum err moving_init(struct moving *m, const struct lda *l,
                            const struct mlt_move *move)
{
    *m = (struct moving){.l = l, .move = move};
    for (uint32_t p = 0; p < l->layout.parts; p++)
        if (part_docs(l, p) > m->docs_max)
            m->docs_max = part_docs(l, p);
    m->from = mem_calloc(move->workers_before, sizeof(*m->from));
    m->take = mem_calloc(move->workers_before, sizeof(*m->take));
    m->to = mem_calloc(move->workers, sizeof(*m->to));
    m->run = mem_calloc(move->workers, sizeof(*m->run));
    m->length = mem_calloc(m->docs_max + 1, sizeof(*m->length));
    m->owner = mem_calloc(m->docs_max + 1, sizeof(*m->owner));
    return m->from && m->take && m->to && m->run && m->length && m->owner
               ? ERR_OK
               : ERR_NOMEM;
}

static void moving_deinit(struct moving *m)
{
    mem_free(m->from);
    mem_free(m->take);
    mem_free(m->to);
    mem_free(m->run);
    mem_free(m->length);
    mem_free(m->owner);
}

/* Former owner of the part's documents, and where its tokens begin. */
static void begin_part(struct moving *m, uint32_t part)
{
    uint64_t docs = 0;

    for (unsigned w = 0; w < m->move->workers; w++) {
        const struct lda_part *p = &m->l->layout.share[w].part[part];

        if (p->docs)
            memcpy(m->length + docs, p->length, p->docs * sizeof(*p->length));
        docs += p->docs;
        m->to[w] = (struct strip){.row = p->first_row};
        m->run[w] = 0;
    }
    lda_layout_deal(m->length, docs, m->move->workers_before, m->take);
    docs = 0;
    for (unsigned w = 0; w < m->move->workers_before; w++) {
        m->from[w].token = 0;
        for (uint64_t d = 0; d < m->take[w]; d++)
            m->owner[docs++] = w;
    }
}

static void end_part(struct moving *m)
{
    for (unsigned w = 0; w < m->move->workers_before; w++)
        m->from[w].row += lda_rows_of(m->from[w].token);
}

/* False where the old worker has no such row: it had another layout. */
static bool move_token(struct moving *m, unsigned from, unsigned to)
{
    struct strip *a = &m->from[from], *b = &m->to[to];
    uint64_t row = a->row + a->token / LDA_ROW_TOKENS;
    const uint16_t *was;
    uint16_t *is;

    if (row >= m->move->rows_before)
        return false;
    was = mlt_move_from(m->move, from, row);
    is = mlt_move_to(m->move, to, b->row + b->token / LDA_ROW_TOKENS);
    if (is) /* else another node's */
        is[b->token % LDA_ROW_TOKENS] = was[a->token % LDA_ROW_TOKENS];
    a->token++;
    b->token++;
    return true;
}

/* The run of @word of each worker of now, if it has one. */
static bool move_word(struct moving *m, uint32_t part, uint32_t word)
{
    uint64_t doc = 0; /* of the worker's first, in the part */

    for (unsigned w = 0; w < m->move->workers; w++) {
        const struct lda_part *p = &m->l->layout.share[w].part[part];

        if (m->run[w] < p->runs && p->run[m->run[w]].word == word) {
            uint32_t n = p->run[m->run[w]++].count;
            uint64_t at = m->to[w].token;

            for (uint64_t i = at; i < at + n; i++)
                if (!move_token(m, m->owner[doc + p->doc[i]], w))
                    return false;
        }
        doc += p->docs;
    }
    return true;
}

int lda_move_topics(const struct mlt_move *move, void *lda)
{
    const struct lda *l = lda;
    struct moving m;
    enum err err = moving_init(&m, l, move);

    for (uint32_t part = 0; part < l->layout.parts && !err; part++) {
        begin_part(&m, part);
        for (uint32_t word = 0; word < l->prior.words && !err; word++)
            if (!move_word(&m, part, word))
                err = ERR_FORMAT;
        end_part(&m);
    }
    moving_deinit(&m);
    return (int)err;
}
