/* 16-bit floats: IEEE 754 binary16, for rows on the wire.
 *
 * From f32 the nearest binary16 is taken, ties to the even one. So for x with
 * |x| in [2^-14, 65504] the error is at most |x| * 2^-11, below that at most
 * 2^-25; |x| from 65520 on becomes infinite. Signs, infinities and NaN stay
 * what they are (of a NaN, the upper bits of its payload). Back to f32 is
 * exact. Pure.
 */
#ifndef PS_FLOAT16_H
#define PS_FLOAT16_H

#include <stddef.h>
#include <stdint.h>

uint16_t float16_from_float(float x);
float float16_to_float(uint16_t h);

/* @n values from or to packed little-endian bytes; neither overlaps. With the
 * processor's own conversion where it has one, the same bits but for a NaN that
 * signals: unpacked, it may be a quiet one. */
void float16_pack(size_t n, const float in[], unsigned char *out);
void float16_unpack(size_t n, const unsigned char *in, float out[]);

#endif
