/* The second half of tests/bench/ps.c: between two node processes. */
#ifndef TESTS_BENCH_PS_NODES_H
#define TESTS_BENCH_PS_NODES_H

/* Measures and prints; starts the other process itself, so no thread may have
 * been started before that still runs. */
void bench_ps_nodes(void);

#endif
