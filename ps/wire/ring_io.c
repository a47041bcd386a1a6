#include "ps/wire/ring_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define RING_MAGIC UINT64_C(0x31474e49524c544d) /* "MTLRING1" */

enum { HEAD_BYTES = 4096, OFFER_FDS = 2, ACCEPTED = 'a', WAKE = 'w' };

/* As it goes over the socket. */
struct offer_bytes {
    uint64_t magic;
    struct ring_offer offer;
};

/* ---- where offers go ----------------------------------------------------- */

static enum err address_of(const char *endpoint, struct sockaddr_un *out,
                           struct fault *f)
{
    static const char scheme[] = "ipc://", end[] = ".socket";
    size_t head = sizeof(scheme) - 1, tail = sizeof(end) - 1;
    size_t n = strlen(endpoint);

    if (n <= head + tail || strncmp(endpoint, scheme, head) != 0 ||
        strcmp(endpoint + n - tail, end) != 0 ||
        n - head >= sizeof(out->sun_path))
        return fault_set(f, ERR_UNSUPPORTED, "%.200s is no Unix socket",
                         endpoint);
    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    snprintf(out->sun_path, sizeof(out->sun_path), "%.*s.rings",
             (int)(n - head - tail), endpoint + head);
    return ERR_OK;
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

enum err ring_listen(const char *endpoint, int *fd, struct fault *f)
{
    struct sockaddr_un at;
    enum err err = address_of(endpoint, &at, f);

    *fd = -1;
    if (err)
        return err;
    *fd = new_socket();
    if (*fd >= 0 && bind(*fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return ERR_OK;
    err = fault_errno(f, ERR_IO, errno, "listen at %s", at.sun_path);
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return err;
}

void ring_stop_listening(const char *endpoint, int *fd)
{
    struct sockaddr_un at;

    if (*fd < 0)
        return;
    if (address_of(endpoint, &at, NULL) == ERR_OK)
        unlink(at.sun_path);
    close(*fd);
    *fd = -1;
}

/* ---- memory -------------------------------------------------------------- */

static size_t pair_bytes(uint64_t size)
{
    return HEAD_BYTES + 2 * (size_t)size;
}

/* Its pages are there before anybody touches them: later there may be none. */
static int make_memory(uint64_t size)
{
    int fd = memfd_create("mltune-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    off_t bytes = (off_t)pair_bytes(size);

    if (fd >= 0 && ftruncate(fd, bytes) == 0 &&
        fallocate(fd, 0, 0, bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Whoever could shrink it could kill who reads it. */
static bool is_sealed(int fd, uint64_t size)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
           (uint64_t)st.st_size == pair_bytes(size);
}

/* @first: this end writes into the first of the two. */
static bool map_pair(struct ring_pair *p, int fd, uint64_t size, bool first)
{
    struct ring_shared *shared;
    unsigned char *bytes;

    p->bytes = pair_bytes(size);
    p->map = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p->map == MAP_FAILED) {
        p->map = NULL;
        return false;
    }
    shared = p->map;
    bytes = (unsigned char *)p->map + HEAD_BYTES;
    ring_init(&p->out, shared + !first, bytes + (first ? 0 : size), size);
    ring_init(&p->in, shared + first, bytes + (first ? size : 0), size);
    return true;
}

void ring_pair_close(struct ring_pair *p)
{
    if (!p->map)
        return;
    munmap(p->map, p->bytes);
    if (p->bell >= 0)
        close(p->bell);
    memset(p, 0, sizeof(*p));
}

/* ---- offers -------------------------------------------------------------- */

/* @fds: OFFER_FDS, or NULL. */
static enum err send_offer(const struct ring_offer *o, const char *endpoint,
                           const int *fds, struct fault *f)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(OFFER_FDS * sizeof(int))];
    } control = {.bytes = {0}};
    struct offer_bytes text = {.magic = RING_MAGIC, .offer = *o};
    struct iovec part = {.iov_base = &text, .iov_len = sizeof(text)};
    struct sockaddr_un to;
    struct msghdr m = {.msg_name = &to,
                       .msg_namelen = sizeof(to),
                       .msg_iov = &part,
                       .msg_iovlen = 1};
    enum err err = address_of(endpoint, &to, f);
    int fd = err ? -1 : new_socket();
    ssize_t n;

    if (err)
        return err;
    if (fds) {
        struct cmsghdr *head;

        m.msg_control = control.bytes;
        m.msg_controllen = sizeof(control.bytes);
        head = CMSG_FIRSTHDR(&m);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(OFFER_FDS * sizeof(int));
        memcpy(CMSG_DATA(head), fds, OFFER_FDS * sizeof(int));
    }
    n = fd < 0 ? -1 : sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        err = errno == EAGAIN || errno == ENOBUFS        ? ERR_AGAIN
              : errno == ENOENT || errno == ECONNREFUSED ? ERR_UNSUPPORTED
                                                         : ERR_IO;
    if (err)
        fault_errno(f, err, errno, "offer a ring at %s", to.sun_path);
    if (fd >= 0)
        close(fd);
    return err;
}

enum err ring_offer(const struct ring_offer *o, const char *endpoint,
                    struct ring_pair *out, struct fault *f)
{
    int bell[2] = {-1, -1}, fds[OFFER_FDS];
    struct ring_pair p = {.bell = -1};
    enum err err = ERR_OK;
    int memory;

    if (o->size == 0)
        return send_offer(o, endpoint, NULL, f);
    assert(o->size >= RING_BYTES_MIN && o->size <= RING_BYTES_MAX);
    memory = make_memory(o->size);
    if (memory < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                   bell) != 0)
        err = fault_errno(f, ERR_IO, errno, "make a ring of %llu bytes",
                          (unsigned long long)o->size);
    else if (!map_pair(&p, memory, o->size, true))
        err = fault_errno(f, ERR_NOMEM, errno, "map a ring of %llu bytes",
                          (unsigned long long)o->size);
    fds[0] = memory;
    fds[1] = bell[1];
    if (!err)
        err = send_offer(o, endpoint, fds, f);
    if (bell[1] >= 0)
        close(bell[1]);
    if (memory >= 0)
        close(memory);
    p.bell = bell[0];
    if (!err)
        *out = p;
    else if (p.map)
        ring_pair_close(&p);
    else if (bell[0] >= 0)
        close(bell[0]);
    return err;
}

/* Whatever descriptors came, as far as there was room; the kernel closes those
 * for which there was none. */
static int take_fds(struct msghdr *m, int fds[OFFER_FDS])
{
    struct cmsghdr *head = CMSG_FIRSTHDR(m);
    int n;

    if (!head || head->cmsg_level != SOL_SOCKET ||
        head->cmsg_type != SCM_RIGHTS)
        return 0;
    n = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    n = n < OFFER_FDS ? n : OFFER_FDS;
    memcpy(fds, CMSG_DATA(head), (size_t)n * sizeof(int));
    return n;
}

/* It is of this run and can be mapped. */
static enum err check_offer(const struct offer_bytes *text, ssize_t n,
                            uint64_t run, uint32_t self, struct fault *f)
{
    const struct ring_offer *o = &text->offer;

    if (n != (ssize_t)sizeof(*text) || text->magic != RING_MAGIC ||
        o->run != run || o->to != self)
        return fault_set(f, ERR_PROTO, "an offer of another run or form");
    if (o->size && (o->size < RING_BYTES_MIN || o->size > RING_BYTES_MAX))
        return fault_set(f, ERR_PROTO, "a ring of %llu bytes",
                         (unsigned long long)o->size);
    return ERR_OK;
}

static enum err accept_pair(const struct ring_offer *o, const int fds[],
                            int n_fds, struct ring_pair *out, struct fault *f)
{
    const char said = ACCEPTED;
    struct ring_pair p = {.bell = -1};

    if (n_fds != OFFER_FDS || !is_sealed(fds[0], o->size))
        return fault_set(f, ERR_PROTO,
                         "a ring without memory that keeps its size");
    if (!map_pair(&p, fds[0], o->size, false))
        return fault_errno(f, ERR_NOMEM, errno, "map a ring of %llu bytes",
                           (unsigned long long)o->size);
    p.bell = fds[1];
    if (send(p.bell, &said, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) {
        *out = p;
        return ERR_OK;
    }
    fault_errno(f, ERR_IO, errno, "accept a ring");
    munmap(p.map, p.bytes);
    return ERR_IO;
}

enum err ring_take_offer(int fd, uint64_t run, uint32_t self,
                         struct ring_offer *o, struct ring_pair *out,
                         struct fault *f)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(OFFER_FDS * sizeof(int))];
    } control;
    struct offer_bytes text = {0};
    struct iovec part = {.iov_base = &text, .iov_len = sizeof(text)};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int fds[OFFER_FDS], n_fds, kept = 0;
    enum err err;

    if (n < 0)
        return ERR_AGAIN;
    memset(out, 0, sizeof(*out));
    *o = (struct ring_offer){.from = UINT32_MAX};
    n_fds = take_fds(&m, fds);
    err = check_offer(&text, n, run, self, f);
    if (!err) {
        *o = text.offer;
        if (o->size)
            err = accept_pair(o, fds, n_fds, out, f);
        kept = !err && o->size ? 1 : 0;
    }
    for (int i = 0; i < n_fds; i++)
        if (!kept || i == 0)
            close(fds[i]);
    return err;
}

/* ---- the bell ------------------------------------------------------------ */

/* Where its queue is full it is woken already. */
void ring_pair_wake(struct ring_pair *p)
{
    const char said = WAKE;

    if (p->bell >= 0)
        send(p->bell, &said, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool ring_pair_heard(struct ring_pair *p)
{
    bool accepted = false;
    char said;
    ssize_t n;

    if (p->bell < 0)
        return false;
    while ((n = recv(p->bell, &said, 1, MSG_DONTWAIT)) == 1)
        accepted |= said == ACCEPTED;
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(p->bell);
        p->bell = -1;
    }
    return accepted;
}
