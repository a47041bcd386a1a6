/* What a process may use of its machine (base/host/machine_io.h), in made-up
 * machines: folders with /proc and /sys of their own. */
#include "base/file_io.h"
#include "base/host/machine_io.h"
#include "tests/unit/fixture/check.h"

#include <libgen.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/mltune-test-machine-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    return folder_remove(root, NULL) == ERR_OK ? 0 : -1;
}

/* The file @path of the machine, with its folders. */
static void put(const char *path, const char *text)
{
    char whole[256], folder[256];

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    snprintf(folder, sizeof(folder), "%s", whole);
    assert_int_equal(folder_make(dirname(folder), NULL), ERR_OK);
    assert_int_equal(file_write(whole, text, strlen(text), NULL), ERR_OK);
}

static void put_memory(void)
{
    put("/proc/meminfo", "MemTotal:       16777216 kB\n"
                         "MemFree:          100000 kB\n"
                         "MemAvailable:    8388608 kB\n");
}

/* Version 2 alone, as systemd mounts it. */
static void put_version_2(const char *group)
{
    char text[256];

    put_memory();
    put("/proc/self/mountinfo",
        "23 1 0:20 / /proc rw - proc proc rw\n"
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 "
        "rw,nsdelegate\n");
    snprintf(text, sizeof(text), "0::%s\n", group);
    put("/proc/self/cgroup", text);
}

/* A machine without groups is what it says itself. */
static void machine_without_groups_is_whole(void **state)
{
    (void)state;
    put_memory();
    assert_int_equal(machine_memory(root), 16ull << 30);
    assert_int_equal(machine_memory_left(root), 8ull << 30);
    assert_int_equal(machine_memory_limit(root), UINT64_MAX);
    assert_int_equal(machine_oom_kills(root), 0);
    assert_true(machine_cores(root) >= 1);
}

/* One that says nothing has all that can be counted, and a processor. */
static void machine_that_is_silent_has_no_bound(void **state)
{
    (void)state;
    assert_int_equal(machine_memory_left(root), UINT64_MAX);
    assert_int_equal(machine_memory_held(root), 0);
    assert_true(machine_cores(root) >= 1);
}

/* The group that the process is in counts, not the root's; what it uses is
 * taken off, but not what is only cached. */
static void machine_own_group_counts(void **state)
{
    (void)state;
    put_version_2("/system.slice/job.service");
    put("/sys/fs/cgroup/system.slice/job.service/memory.max", "209715200\n");
    put("/sys/fs/cgroup/system.slice/job.service/memory.high", "max\n");
    put("/sys/fs/cgroup/system.slice/job.service/memory.current",
        "104857600\n");
    put("/sys/fs/cgroup/system.slice/job.service/memory.stat",
        "anon 1\ninactive_file 52428800\n");
    put("/sys/fs/cgroup/system.slice/memory.max", "max\n");
    assert_int_equal(machine_memory(root), 200 << 20);
    assert_int_equal(machine_memory_limit(root), 200 << 20);
    assert_int_equal(machine_memory_left(root), 150 << 20);
}

/* Of nested groups the smallest limit counts, wherever it is. */
static void machine_smallest_on_the_way_up_counts(void **state)
{
    (void)state;
    put_version_2("/a/b/c");
    put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/a/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/a/memory.current", "1073741000\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1073741000\n");
    assert_int_equal(machine_memory(root), 1 << 30);
    assert_int_equal(machine_memory_left(root), 824);
}

/* memory.high throttles long before memory.max kills. */
static void machine_high_is_a_limit(void **state)
{
    (void)state;
    put_version_2("/a");
    put("/sys/fs/cgroup/a/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/a/memory.high", "1073741824\n");
    assert_int_equal(machine_memory(root), 1 << 30);
}

/* A group over its limit leaves nothing. */
static void machine_full_group_leaves_nothing(void **state)
{
    (void)state;
    put_version_2("/a");
    put("/sys/fs/cgroup/a/memory.max", "1000000\n");
    put("/sys/fs/cgroup/a/memory.current", "2000000\n");
    assert_int_equal(machine_memory_left(root), 0);
}

/* Version 1, a hierarchy a controller, the process in another group of each;
 * beside an empty version 2. */
static void machine_version_1_is_read(void **state)
{
    (void)state;
    put_memory();
    put("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup "
        "rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/proc/self/cgroup", "7:pids:/\n4:memory:/job_3\n"
                             "2:cpu,cpuacct:/slow\n1:name=systemd:/\n0::/\n");
    put("/sys/fs/cgroup/mem ory/memory.limit_in_bytes",
        "9223372036854771712\n");
    put("/sys/fs/cgroup/mem ory/job_3/memory.limit_in_bytes", "209715200\n");
    put("/sys/fs/cgroup/mem ory/job_3/memory.usage_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/mem ory/job_3/memory.stat",
        "inactive_file 1\ntotal_inactive_file 4857600\n");
    put("/sys/fs/cgroup/mem ory/job_3/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slow/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/slow/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(machine_memory(root), 200 << 20);
    assert_int_equal(machine_memory_left(root), 209715200 - 100000000);
    assert_int_equal(machine_oom_kills(root), 3);
    assert_int_equal(machine_cores(root), 1);
}

/* Version 1 writes no limit as a huge number. */
static void machine_version_1_without_a_limit_has_none(void **state)
{
    (void)state;
    put_memory();
    put("/proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put("/proc/self/cgroup", "4:memory:/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(machine_memory_limit(root), UINT64_MAX);
    assert_int_equal(machine_memory(root), 16ull << 30);
}

/* A container that is told its name on the host sees its own group mounted as
 * the whole hierarchy. */
static void machine_container_sees_its_own_group(void **state)
{
    (void)state;
    put_memory();
    put("/proc/self/mountinfo",
        "30 23 0:26 /docker/1f3 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put("/proc/self/cgroup", "0::/docker/1f3/inner\n");
    put("/sys/fs/cgroup/memory.max", "536870912\n");
    put("/sys/fs/cgroup/inner/memory.max", "268435456\n");
    assert_int_equal(machine_memory(root), 256 << 20);
    put("/proc/self/cgroup", "0::/docker/1f3\n");
    assert_int_equal(machine_memory(root), 512 << 20);
    /* One that is in a group outside of what it sees. */
    put("/proc/self/cgroup", "0::/../other\n");
    assert_int_equal(machine_memory(root), 512 << 20);
}

/* A quota is rounded up to whole processors; the smallest counts. */
static void machine_quota_bounds_processors(void **state)
{
    unsigned all;

    (void)state;
    put_version_2("/a/b");
    all = machine_cores(root);
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(machine_cores(root), all);
    put("/sys/fs/cgroup/a/cpu.max", "30000 100000\n");
    assert_int_equal(machine_cores(root), 1);
    put("/sys/fs/cgroup/a/cpu.max", "100000000 100000\n");
    assert_int_equal(machine_cores(root), all);
    put("/sys/fs/cgroup/a/cpu.max", "nonsense\n");
    assert_int_equal(machine_cores(root), all);
}

/* A kill is counted at the victim's group: those of neighbours in the slice,
 * and of groups below, are no kills of ours. */
static void machine_counts_the_kills_of_its_own_group(void **state)
{
    (void)state;
    put_version_2("/a/b");
    put("/sys/fs/cgroup/a/memory.events", "oom 5\noom_kill 5\n");
    put("/sys/fs/cgroup/a/memory.events.local", "oom 1\noom_kill 1\n");
    assert_int_equal(machine_oom_kills(root), 0);
    put("/sys/fs/cgroup/a/b/memory.events",
        "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n");
    assert_int_equal(machine_oom_kills(root), 2); /* a kernel without .local */
    put("/sys/fs/cgroup/a/b/memory.events.local",
        "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n");
    assert_int_equal(machine_oom_kills(root), 1);
}

/* This machine, whatever it is, is consistent. */
static void machine_this_one_is_consistent(void **state)
{
    (void)state;
    assert_true(machine_memory("") > 0);
    assert_true(machine_memory_left("") <= machine_memory(""));
    assert_true(machine_memory_held("") > 0);
    assert_true(machine_memory_held("") < machine_memory(""));
    assert_true(machine_cores("") >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
        T(machine_without_groups_is_whole),
        T(machine_that_is_silent_has_no_bound),
        T(machine_own_group_counts),
        T(machine_smallest_on_the_way_up_counts),
        T(machine_high_is_a_limit),
        T(machine_full_group_leaves_nothing),
        T(machine_version_1_is_read),
        T(machine_version_1_without_a_limit_has_none),
        T(machine_container_sees_its_own_group),
        T(machine_quota_bounds_processors),
        T(machine_counts_the_kills_of_its_own_group),
        T(machine_this_one_is_consistent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
