#include "apps/word2vec/w2v_pairs.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double negative_power = 0.75;

void w2v_source_deinit(struct w2v_source *s)
{
    mem_free(s->keep);
    mem_free(s->own);
    mem_free(s->other);
    memset(s, 0, sizeof(*s));
}

static double chance_to_stay(double share, double sample)
{
    double stay = sample > 0 ? sqrt(sample / share) + sample / share : 1;

    return stay < 1 ? stay : 1;
}

/* Vose's way: @left[] has each word's share times the number of words; words
 * below 1 are filled up by those above. @stack[words] holds the former from its
 * beginning, the latter from its end. */
static void fill_alias(struct w2v_source *s, double left[], uint32_t stack[])
{
    uint32_t small = 0, large = s->words;

    for (uint32_t i = 0; i < s->words; i++) {
        if (left[i] < 1)
            stack[small++] = i;
        else
            stack[--large] = i;
    }
    while (small > 0 && large < s->words) {
        uint32_t one = stack[--small], more = stack[large++];

        s->own[one] = (float)left[one];
        s->other[one] = more;
        left[more] -= 1 - left[one];
        if (left[more] < 1)
            stack[small++] = more;
        else
            stack[--large] = more;
    }
    while (small > 0)
        s->own[stack[--small]] = 1;
    while (large < s->words)
        s->own[stack[large++]] = 1;
}

static void weigh(struct w2v_source *s, const uint64_t times[], double left[],
                  double sample)
{
    double all = 0, weight = 0;

    for (uint32_t i = 0; i < s->words; i++) {
        all += (double)times[i];
        weight += pow((double)times[i], negative_power);
    }
    for (uint32_t i = 0; i < s->words; i++) {
        left[i] = pow((double)times[i], negative_power) / weight * s->words;
        s->keep[i] = (float)chance_to_stay((double)times[i] / all, sample);
        s->other[i] = i;
    }
}

enum err w2v_source_init(struct w2v_source *s, const uint64_t times[],
                         uint32_t words, double sample, unsigned window,
                         unsigned negative)
{
    double *left = mem_alloc(words * sizeof(*left));
    uint32_t *stack = mem_alloc(words * sizeof(*stack));

    assert(words >= 1 && window >= 1 && window <= W2V_WINDOW_MAX);
    assert(negative <= W2V_NEGATIVE_MAX);
    *s = (struct w2v_source){
        .words = words, .window = window, .negative = negative};
    s->keep = mem_alloc(words * sizeof(*s->keep));
    s->own = mem_alloc(words * sizeof(*s->own));
    s->other = mem_alloc(words * sizeof(*s->other));
    if (left && stack && s->keep && s->own && s->other) {
        weigh(s, times, left, sample);
        fill_alias(s, left, stack);
    } else {
        w2v_source_deinit(s);
    }
    mem_free(left);
    mem_free(stack);
    return s->keep ? ERR_OK : ERR_NOMEM;
}

static float uniform(uint64_t bits)
{
    return (float)(bits & 0xffffff) * 0x1p-24F;
}

uint32_t w2v_negative(const struct w2v_source *s, struct rng *rng)
{
    uint64_t r = rng_next(rng);
    uint32_t i = (uint32_t)((r >> 32) * s->words >> 32);

    return uniform(r) < s->own[i] ? i : s->other[i];
}

void w2v_pairs_deinit(struct w2v_pairs *p)
{
    mem_free(p->in);
    mem_free(p->out);
    mem_free(p->kept);
    memset(p, 0, sizeof(*p));
}

static enum err make_room(struct w2v_pairs *p, size_t pairs, unsigned targets)
{
    return mem_grow((void **)&p->in, &p->in_room, sizeof(*p->in), pairs) ||
                   mem_grow((void **)&p->out, &p->out_room, sizeof(*p->out),
                            pairs * targets)
               ? ERR_NOMEM
               : ERR_OK;
}

static enum err add_pair(const struct w2v_source *s, uint32_t in, uint32_t out,
                         struct rng *rng, struct w2v_pairs *p)
{
    uint32_t *to;

    if (make_room(p, p->pairs + 1, 1 + s->negative))
        return ERR_NOMEM;
    to = p->out + p->pairs * (1 + s->negative);
    p->in[p->pairs++] = in;
    to[0] = out;
    for (unsigned k = 1; k <= s->negative; k++) {
        to[k] = w2v_negative(s, rng);
        if (to[k] == out)
            to[k] = WORD_NONE;
    }
    return ERR_OK;
}

/* The pairs of the word at @at, up to @reach words to each side. */
static enum err add_window(const struct w2v_source *s, size_t at, size_t kept,
                           size_t reach, struct rng *rng, struct w2v_pairs *p)
{
    enum err err = ERR_OK;

    for (size_t i = at; i > 0 && at - i < reach && !err; i--) {
        if (p->kept[i - 1] == WORDS_BREAK)
            break;
        err = add_pair(s, p->kept[i - 1], p->kept[at], rng, p);
    }
    for (size_t i = at + 1; i < kept && i - at <= reach && !err; i++) {
        if (p->kept[i] == WORDS_BREAK)
            break;
        err = add_pair(s, p->kept[i], p->kept[at], rng, p);
    }
    return err;
}

/* What stays of @text[from .. to - 1], behind the @n that are kept already. */
static size_t keep(const struct w2v_source *s, const uint32_t text[],
                   uint64_t from, uint64_t to, struct rng *rng, uint32_t kept[],
                   size_t n)
{
    for (uint64_t i = from; i < to; i++)
        if (text[i] == WORDS_BREAK || s->keep[text[i]] >= 1 ||
            uniform(rng_next(rng)) < s->keep[text[i]])
            kept[n++] = text[i];
    return n;
}

enum err w2v_draw(const struct w2v_source *s, const uint32_t text[],
                  uint64_t length, uint64_t first, uint64_t count,
                  struct rng *rng, struct w2v_pairs *out)
{
    uint64_t from = first > s->window ? first - s->window : 0;
    uint64_t end = first + count;
    uint64_t to = length - end > s->window ? end + s->window : length;
    size_t begin, stop, kept;
    enum err err = ERR_OK;

    assert(end <= length);
    out->pairs = 0;
    if (mem_grow((void **)&out->kept, &out->kept_room, sizeof(*out->kept),
                 to - from + 1))
        return ERR_NOMEM;
    begin = keep(s, text, from, first, rng, out->kept, 0);
    stop = keep(s, text, first, end, rng, out->kept, begin);
    kept = keep(s, text, end, to, rng, out->kept, stop);
    for (size_t at = begin; at < stop && !err; at++)
        if (out->kept[at] != WORDS_BREAK)
            err = add_window(s, at, kept, 1 + rng_below(rng, s->window), rng,
                             out);
    return err;
}
