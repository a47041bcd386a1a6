/* AdaRevision of one value, plain and slow: every gradient is kept, and what
 * came between a read and an update is added up again from them. */
#ifndef TESTS_UNIT_REVISION_PLAIN_H
#define TESTS_UNIT_REVISION_PLAIN_H

enum { REVISION_PLAIN_MAX = 4096 }; /* gradients */

struct revision_plain {
    double value, squares, most;
    int n;
    float gradient[REVISION_PLAIN_MAX];
};

/* The gradient was computed on the value after the first @read gradients. */
void revision_plain_update(struct revision_plain *p, double rate,
                           float gradient, int read);

#endif
