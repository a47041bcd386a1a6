#include "base/host/confine_io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef OWN_ARCH

/* The leak sanitizer stops its own process by ptrace. */
#if defined(__SANITIZE_ADDRESS__)
#define LEAKS_ARE_LOOKED_FOR
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS_ARE_LOOKED_FOR
#endif
#endif

/* Younger than the headers may be; numbers that all systems share. */
#define CALL_PIDFD_GETFD 438
#define CALL_FCHMODAT2 452

/* Calls of the other, 32-bit kind on x86-64 are above these numbers. */
#define NUMBER_MAX 0x3fffffff

static const int never[] = {
    SYS_execve,
    SYS_execveat,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    CALL_PIDFD_GETFD,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_setns,
    SYS_unshare,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_open_by_handle_at,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_acct,
    SYS_quotactl,
    SYS_personality,
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
#endif
#ifndef LEAKS_ARE_LOOKED_FOR
    SYS_ptrace,
#endif
};

static const int never_reading[] = {
    SYS_socket,    SYS_socketpair, SYS_connect,   SYS_bind,
    SYS_unlinkat,  SYS_renameat2,  SYS_mkdirat,   SYS_linkat,
    SYS_symlinkat, SYS_mknodat,    SYS_fchmodat,  SYS_fchmod,
    SYS_fchownat,  SYS_fchown,     SYS_truncate,  SYS_ftruncate,
    SYS_setxattr,  SYS_lsetxattr,  SYS_fsetxattr, SYS_removexattr,
    SYS_utimensat, SYS_fallocate,  SYS_renameat,  CALL_FCHMODAT2,
#ifdef SYS_openat2
    SYS_openat2, /* what it is to do is in memory, which no filter sees */
#endif
#ifdef __x86_64__
    SYS_creat,     SYS_unlink,     SYS_rename,    SYS_mkdir,
    SYS_rmdir,     SYS_link,       SYS_symlink,   SYS_mknod,
    SYS_chmod,     SYS_chown,      SYS_lchown,    SYS_utimes,
    SYS_utime,     SYS_futimesat,
#endif
};

static const int domains[] = {AF_UNIX, AF_INET, AF_INET6,
                              AF_NETLINK /* which addresses there are */};

enum { CODE_MAX = 256 };

/* A filter as it grows: it looks at a call and goes on, or returns. */
struct code {
    struct sock_filter at[CODE_MAX];
    unsigned short n;
};

static void add(struct code *c, struct sock_filter instruction)
{
    assert(c->n < CODE_MAX);
    c->at[c->n++] = instruction;
}

static void load(struct code *c, size_t offset)
{
    add(c, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                        (uint32_t)offset));
}

static void answer(struct code *c, uint32_t what)
{
    add(c, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

static const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;

/* What was loaded is @value: refused. */
static void refuse_if(struct code *c, uint32_t value)
{
    add(c,
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    answer(c, refuse);
}

/* Low half of argument @i. */
static size_t argument(unsigned i)
{
    size_t at = offsetof(struct seccomp_data, args) + i * sizeof(uint64_t);

    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? at : at + 4;
}

/* Opening for anything but reading is refused; @flags is the argument's place.
 * The number is loaded before and after. */
static void only_read(struct code *c, int number, unsigned flags)
{
    add(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                        (uint32_t)number, 0, 4));
    load(c, argument(flags));
    add(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K,
                                        O_WRONLY | O_RDWR | O_CREAT | O_TRUNC,
                                        0, 1));
    answer(c, refuse);
    load(c, offsetof(struct seccomp_data, nr));
}

/* Sockets of other domains than these are refused; as above. */
static void only_domains(struct code *c)
{
    const size_t n = sizeof(domains) / sizeof(*domains);

    add(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket,
                                        0, (uint8_t)(n + 3)));
    load(c, argument(0));
    for (size_t i = 0; i < n; i++)
        add(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                            (uint32_t)domains[i],
                                            (uint8_t)(n - i), 0));
    answer(c, refuse);
    load(c, offsetof(struct seccomp_data, nr));
}

static void write_filter(struct code *c, enum confine how)
{
    load(c, offsetof(struct seccomp_data, arch));
    add(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1,
                                        0));
    answer(c, refuse);
    load(c, offsetof(struct seccomp_data, nr));
    add(c, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NUMBER_MAX,
                                        0, 1));
    answer(c, refuse);
    for (size_t i = 0; i < sizeof(never) / sizeof(*never); i++)
        refuse_if(c, (uint32_t)never[i]);
    if (how == CONFINE_NODE) {
        only_domains(c);
    } else {
        for (size_t i = 0; i < sizeof(never_reading) / sizeof(*never_reading);
             i++)
            refuse_if(c, (uint32_t)never_reading[i]);
        only_read(c, SYS_openat, 2);
#ifdef __x86_64__
        only_read(c, SYS_open, 1);
#endif
    }
    answer(c, SECCOMP_RET_ALLOW);
}

bool confine(enum confine how)
{
    struct code code = {.n = 0};
    struct sock_fprog program = {.filter = code.at};

    assert(how == CONFINE_NODE || how == CONFINE_READ);
    write_filter(&code, how);
    program.len = code.n;
    /* Without it only root may; with it no program that is started has more
     * rights than this one, and none is started. */
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                   SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#else

bool confine(enum confine how)
{
    assert(how == CONFINE_NODE || how == CONFINE_READ);
    return false;
}

#endif
