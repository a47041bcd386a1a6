/* The inside of the device's tables: what its files share. */
#ifndef PS_DEVICE_INTERNAL_H
#define PS_DEVICE_INTERNAL_H

#include "ps/server/device.h"

#include <stddef.h>
#include <stdint.h>

enum { DEVICE_SLOTS = 2, DEVICE_NONE = -1 };

struct device_table {
    bool here;
    bool pinned;          /* on the device for good; else it is swapped */
    uint64_t at;          /* in the image's part: device's, or home */
    uint64_t bytes;       /* rows with what the rule remembers */
    uint64_t sums, width; /* of the sums: where, bytes */
    bool touched;         /* this clock has sums */
    int sums_slot;
};

/* A branch's state, or that of several that are equal. */
struct device_image {
    struct device *device;
    unsigned char *at;   /* [device_bytes] of the space */
    unsigned char *home; /* [home_bytes] of the host, pinned: what is swapped */
    unsigned branches;
    bool dirty;
    uint64_t scheduled;
};

/* One of the two buffers that swapped tables come into. */
struct device_slot {
    unsigned char *at;
    int table; /* DEVICE_NONE */
    bool dirty, held;
    struct space_event *loaded, *used, *saved;
};

struct device_swap {
    struct space_stream *in, *out;
    struct device_slot slot[DEVICE_SLOTS];
    uint64_t slot_bytes;
    /* The order of leases: learned in the first clock. */
    int *order;
    size_t count, room, next;
    bool learned;
};

/* What has gone between host and device. */
struct device_traffic {
    uint64_t in, out; /* bytes */
    uint64_t waits;   /* leases that found their table not on its way */
};

struct device {
    struct memory_space *space;
    const struct space_ops *ops;
    struct space_stream *stream;
    struct device_table *table; /* owned */
    size_t tables, tables_room;
    bool planned, ready, swaps;
    enum err no_plan;                  /* why there is none: asked once */
    uint64_t device_bytes, home_bytes; /* of an image */
    unsigned char *sums;               /* of the space */
    uint64_t sums_bytes;
    bool sums_taken[DEVICE_SLOTS];
    uint64_t sums_slot_bytes;
    unsigned char *staging; /* [staging_bytes] of the host, pinned */
    uint64_t staging_bytes;
    struct device_image **image;
    size_t images, images_room;
    uint64_t slices;
    struct device_image *running;
    struct device_swap swap;
    struct device_traffic traffic;
};

/* ---- device_images.c ----------------------------------------------------- */

/* No branch has it. */
void device_image_free(struct device_image *m);

/* The active branch's state is on the device, its own where it trains. */
enum err device_image_ready(struct mlt_ps *ps, struct fault *f);

/* ---- device_swap.c ------------------------------------------------------- */

/* Buffers of @bytes each. */
enum err device_swap_open(struct device *d, uint64_t bytes, struct fault *f);
void device_swap_close(struct device *d);

/* Swapped table @t of the running image for the stream's work; NULL: both
 * buffers are held. */
unsigned char *device_swap_hold(struct device *d, int t);
void device_swap_let_go(struct device *d, int t);
/* What the stream's work writes into @t is to be kept. */
void device_swap_wrote(struct device *d, int t);
/* All that was written is at home; the buffers hold nothing. */
enum err device_swap_flush(struct device *d);

#endif
