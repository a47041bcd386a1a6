/* Named tokens: their text and file, who is found by which secret, and what is
 * left of them where something is damaged, fails, or comes at once. */
#include "api/http/tokens_io.h"

#include "base/json/json.h"
#include "base/mem.h"
#include "tests/unit/fixture/check.h"
#include "tests/unit/fixture/faulty_disk.h"
#include "tests/unit/fixture/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* SHA-256 of "abc": FIPS 180-4, its first example. */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

#define ONE(name, role, made, hash)                                            \
    "{\"version\": 1, \"tokens\": [{\"name\": \"" name "\", \"role\": \"" role \
    "\", \"made\": \"" made "\", \"sha256\": \"" hash "\"}]}"
#define MADE "2026-11-23T20:40:00Z"

#define LIMITED(limit)                                                         \
    "{\"version\": 2, \"tokens\": [{\"name\": \"a\", \"role\": \"run\", "      \
    "\"made\": \"" MADE "\", \"sha256\": \"" ABC                               \
    "\", \"upload_limit\": " limit "}]}"

/* ---- secrets ------------------------------------------------------------- */

/* The hash is SHA-256, as others compute it. */
static void tokens_hash_is_sha_256(void **state)
{
    char hash[TOKENS_HASH_LEN + 1];

    (void)state;
    assert_true(token_hash("abc", 3, hash));
    assert_string_equal(hash, ABC);
    assert_true(token_hash("", 0, hash));
    assert_string_equal(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934c"
                              "a495991b7852b855");
}

static struct named_token token_of(const char *name, enum role role,
                                   const char *secret)
{
    struct named_token k = {.role = role, .made = MADE};

    snprintf(k.name, sizeof(k.name), "%s", name);
    assert_true(token_hash(secret, strlen(secret), k.hash));
    return k;
}

/* Whoever has the whole secret is found, and nobody else: none that is longer,
 * shorter or differs in any place, and none that was taken out. */
static void tokens_are_found_by_their_secret_alone(void **state)
{
    static const char secret[] = "0123456789abcdef0123456789abcdef";
    struct named_tokens t = {.len = 0};
    struct named_token a = token_of("a", ROLE_READ, "another"),
                       b = token_of("b", ROLE_RUN, secret);
    char other[sizeof(secret)];

    (void)state;
    assert_null(tokens_find(&t, secret, strlen(secret)));
    assert_int_equal(tokens_put(&t, &a), ERR_OK);
    assert_int_equal(tokens_put(&t, &b), ERR_OK);
    assert_string_equal(tokens_find(&t, secret, strlen(secret))->name, "b");
    assert_null(tokens_find(&t, secret, strlen(secret) - 1));
    assert_null(tokens_find(&t, secret, 0));
    assert_null(tokens_find(&t, b.hash, strlen(b.hash)));
    for (size_t i = 0; i < strlen(secret); i++) {
        memcpy(other, secret, sizeof(secret));
        other[i] ^= 1;
        assert_null(tokens_find(&t, other, strlen(secret)));
    }
    assert_true(tokens_has(&t, token_number(&b)));
    assert_true(tokens_remove(&t, "b"));
    assert_false(tokens_remove(&t, "b"));
    assert_null(tokens_find(&t, secret, strlen(secret)));
    assert_false(tokens_has(&t, token_number(&b)));
    assert_non_null(tokens_find(&t, "another", 7));
    tokens_deinit(&t);
}

/* A hash differs in one digit, whichever: it is not taken for the secret's, and
 * no digit is passed over. */
static void tokens_compare_each_digit(void **state)
{
    (void)state;
    for (size_t i = 0; i < TOKENS_HASH_LEN; i++) {
        struct named_tokens t = {.len = 0};
        struct named_token k = token_of("a", ROLE_READ, "secret");

        k.hash[i] = k.hash[i] == '0' ? '1' : '0';
        assert_int_equal(tokens_put(&t, &k), ERR_OK);
        assert_null(tokens_find(&t, "secret", 6));
        tokens_deinit(&t);
    }
}

/* ---- text ---------------------------------------------------------------- */

static void tokens_names_are_plain(void **state)
{
    static const char *const good[] = {"a", "Alice", "a.b_c@d-e", "7"};
    static const char *const bad[] = {"",    "-a",  ".a", "a b",     "a/b",
                                      "a\n", "(a)", "@a", "\xc3\xa4"};
    char longest[TOKENS_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        if (!token_name_valid(good[i]))
            fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (token_name_valid(bad[i]))
            fail_msg("%s", bad[i]);
    memset(longest, 'a', sizeof(longest));
    longest[TOKENS_NAME_MAX + 1] = '\0';
    assert_false(token_name_valid(longest));
    longest[TOKENS_NAME_MAX] = '\0';
    assert_true(token_name_valid(longest));
}

/* Each damage is refused with its place, and nothing is half taken. */
static void tokens_damaged_text_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
        enum err err;
    } rows[] = {
        {"", "", ERR_FORMAT},
        {"[]", "version 1", ERR_FORMAT},
        {"{\"version\": 1}", "version 1", ERR_FORMAT},
        {"{\"version\": \"1\", \"tokens\": []}", "version 1", ERR_FORMAT},
        {"{\"version\": 1, \"tokens\": {}}", "version 1", ERR_FORMAT},
        {"{\"version\": 3, \"tokens\": []}", "later mltune", ERR_VERSION},
        {"{\"version\": 0, \"tokens\": []}", "version 1", ERR_FORMAT},
        {LIMITED("-1"), "/tokens/0/upload_limit", ERR_FORMAT},
        {LIMITED("1e3"), "/tokens/0/upload_limit", ERR_FORMAT},
        {LIMITED("null"), "/tokens/0/upload_limit", ERR_FORMAT},
        {LIMITED("1000000000000000000"), "/tokens/0/upload_limit", ERR_FORMAT},
        {LIMITED("1, \"more\": 1"), "/tokens/0:", ERR_FORMAT},
        {"{\"version\": 1, \"tokens\": [1]}", "/tokens/0:", ERR_FORMAT},
        {ONE("a", "run", MADE, ABC) "x", "", ERR_FORMAT},
        {ONE("-a", "run", MADE, ABC), "/tokens/0/name", ERR_FORMAT},
        {ONE("a\\u0000b", "run", MADE, ABC), "", ERR_FORMAT},
        {ONE("a", "root", MADE, ABC), "read, run or admin", ERR_FORMAT},
        {ONE("a", "anybody", MADE, ABC), "/tokens/0/role", ERR_FORMAT},
        {ONE("a", "run", "today", ABC), "/tokens/0/made", ERR_FORMAT},
        {ONE("a", "run", MADE, "ab"), "/tokens/0/sha256", ERR_FORMAT},
        {ONE("a", "run", MADE, "g" ABC), "/tokens/0/sha256", ERR_FORMAT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct named_tokens t = {.len = 0};
        struct fault f = {0};
        enum err err = tokens_parse(rows[i].text, strlen(rows[i].text), &t, &f);

        if (err != rows[i].err || !strstr(f.text, rows[i].says))
            fail_msg("%s: %d, %s", rows[i].text, err, f.text);
        assert_null(t.item);
    }
}

/* One name stands for one token; there is room for so many. */
static void tokens_are_bounded_and_unique(void **state)
{
    struct named_tokens t = {.len = 0}, again = {.len = 0};
    struct named_token k;
    char name[16], *text;

    (void)state;
    for (int i = 0; i < TOKENS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        k = token_of(name, ROLE_RUN, name);
        assert_int_equal(tokens_put(&t, &k), ERR_OK);
    }
    assert_int_equal(tokens_put(&t, &k), ERR_EXIST);
    k = token_of("more", ROLE_RUN, "more");
    assert_int_equal(tokens_put(&t, &k), ERR_LIMIT);
    assert_int_equal(t.len, TOKENS_MAX);
    text = tokens_print(&t);
    assert_non_null(text);
    assert_int_equal(tokens_parse(text, strlen(text), &again, NULL), ERR_OK);
    assert_int_equal(again.len, TOKENS_MAX);
    assert_string_equal(tokens_find(&again, "n255", 4)->made, MADE);
    mem_free(text);
    tokens_deinit(&t);
    tokens_deinit(&again);
}

/* A limit is read back as it was; where none has one the text is of the version
 * that programs without limits read. */
static void tokens_with_limits_are_another_version(void **state)
{
    static const struct {
        const char *text, *version;
        bool limited;
        uint64_t most;
    } rows[] = {{ONE("a", "run", MADE, ABC), "\"version\": 1", false, 0},
                {LIMITED("0"), "\"version\": 2", true, 0},
                {LIMITED("999999999999999999"), "\"version\": 2", true,
                 TOKENS_UPLOAD_MAX}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (int again = 0; again < 2; again++) {
            struct named_tokens t = {.len = 0};
            char *text = NULL;

            assert_int_equal(
                tokens_parse(rows[i].text, strlen(rows[i].text), &t, NULL),
                ERR_OK);
            text = tokens_print(&t);
            assert_non_null(strstr(text, rows[i].version));
            tokens_deinit(&t);
            assert_int_equal(tokens_parse(text, strlen(text), &t, NULL),
                             ERR_OK);
            assert_int_equal(t.item[0].upload_limited, rows[i].limited);
            assert_int_equal(t.item[0].upload_max, rows[i].most);
            tokens_deinit(&t);
            mem_free(text);
        }
}

/* Whichever allocation fails: ERR_NOMEM, or all is read; nothing is left. */
static void tokens_survive_want_of_memory(void **state)
{
    static const char text[] = LIMITED("1");
    enum err err = ERR_NOMEM;

    (void)state;
    for (unsigned nth = 1; err != ERR_OK; nth++) {
        struct named_tokens t = {.len = 0};
        char *back = NULL;

        mem_fail_at(nth, 0);
        err = tokens_parse(text, strlen(text), &t, NULL);
        if (!err && !(back = tokens_print(&t)))
            err = ERR_NOMEM;
        mem_fail_at(0, 0);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
        mem_free(back);
        tokens_deinit(&t);
    }
}

/* ---- the file ------------------------------------------------------------ */

static size_t count(const char *state)
{
    struct named_tokens t = {.len = 0};
    struct fault f = {0};
    size_t n;

    if (tokens_read(state, &t, &f) != ERR_OK)
        fail_msg("%s", f.text);
    n = t.len;
    tokens_deinit(&t);
    return n;
}

static void add(const char *name, char secret[TOKENS_SECRET_LEN + 1])
{
    struct fault f = {0};

    if (tokens_add(scratch_folder(), name, ROLE_RUN, NULL, secret, &f) !=
        ERR_OK)
        fail_msg("%s", f.text);
}

/* A token is added with a secret that the file does not hold, for nobody else
 * to read; its name is taken, then free again. */
static void tokens_file_keeps_no_secret(void **state)
{
    char a[TOKENS_SECRET_LEN + 1], b[TOKENS_SECRET_LEN + 1];
    struct named_tokens t = {.len = 0};
    struct fault f = {0};
    const uint64_t most = 4096;
    struct stat st;
    size_t n;
    char *text;

    (void)state;
    assert_int_equal(count(scratch_folder()), 0);
    add("alice", a);
    add("bob", b);
    assert_int_equal(strlen(a), TOKENS_SECRET_LEN);
    assert_string_not_equal(a, b);
    text = (char *)scratch_read("tokens", &n);
    assert_non_null(text);
    assert_null(memmem(text, n, a, 16));
    free(text);
    assert_int_equal(stat(scratch_path("tokens"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(
        tokens_add(scratch_folder(), "bob", ROLE_READ, NULL, a, &f), ERR_EXIST);
    assert_non_null(strstr(f.text, "bob already"));
    assert_int_equal(tokens_read(scratch_folder(), &t, &f), ERR_OK);
    assert_int_equal(t.len, 2);
    assert_string_equal(tokens_find(&t, b, strlen(b))->name, "bob");
    assert_int_equal(strlen(t.item[0].made), strlen(MADE));
    tokens_deinit(&t);
    assert_int_equal(tokens_revoke(scratch_folder(), "bob", &f), ERR_OK);
    assert_int_equal(tokens_revoke(scratch_folder(), "bob", &f), ERR_NOENT);
    assert_non_null(strstr(f.text, "no token bob"));
    assert_int_equal(count(scratch_folder()), 1);
    add("bob", b);
    assert_int_equal(tokens_limit(scratch_folder(), "bob", &most, &f), ERR_OK);
    assert_int_equal(tokens_limit(scratch_folder(), "eve", &most, &f),
                     ERR_NOENT);
    assert_non_null(strstr(f.text, "no token eve"));
    assert_int_equal(tokens_read(scratch_folder(), &t, &f), ERR_OK);
    assert_true(tokens_find(&t, b, strlen(b))->upload_limited);
    assert_int_equal(tokens_find(&t, b, strlen(b))->upload_max, most);
    assert_false(tokens_named(&t, "alice")->upload_limited);
    tokens_deinit(&t);
    assert_int_equal(tokens_limit(scratch_folder(), "bob", NULL, &f), ERR_OK);
    assert_int_equal(tokens_read(scratch_folder(), &t, &f), ERR_OK);
    assert_false(tokens_named(&t, "bob")->upload_limited);
    tokens_deinit(&t);
}

/* Whichever call fails, on a full disk say: it is said, and the file is as it
 * was or as it was to be; the next try succeeds. */
static void tokens_survive_any_call_that_fails(void **state)
{
    char secret[TOKENS_SECRET_LEN + 1];
    bool failed = true;

    (void)state;
    add("old", secret);
    for (unsigned nth = 1; failed; nth++) {
        struct fault f = {0};
        enum err err;

        faulty_disk_on(NULL, nth, ENOSPC);
        err = tokens_add(scratch_folder(), "new", ROLE_READ, NULL, secret, &f);
        failed = faulty_disk_failed();
        faulty_disk_off();
        if (err) {
            assert_true(failed);
            assert_non_null(strstr(f.text, "No space left"));
            assert_non_null(strstr(f.text, "tokens"));
        }
        assert_in_range(count(scratch_folder()), 1, 2);
        if (count(scratch_folder()) == 2)
            assert_int_equal(tokens_revoke(scratch_folder(), "new", &f),
                             ERR_OK);
        else
            assert_true(err != ERR_OK);
    }
}

/* A file that somebody damaged, or opened to others, is not changed and not
 * believed; the words say what to do. */
static void tokens_damaged_file_is_left_alone(void **state)
{
    char secret[TOKENS_SECRET_LEN + 1], *text;
    struct named_tokens t = {.len = 0};
    struct fault f = {0};
    size_t n;

    (void)state;
    scratch_text("tokens", "{\"version\": 1");
    assert_int_equal(chmod(scratch_path("tokens"), 0600), 0);
    assert_int_equal(
        tokens_add(scratch_folder(), "a", ROLE_RUN, NULL, secret, &f),
        ERR_FORMAT);
    assert_non_null(strstr(f.text, "tokens is damaged (move it away"));
    text = (char *)scratch_read("tokens", &n);
    assert_int_equal(n, strlen("{\"version\": 1"));
    free(text);
    scratch_text("tokens", "{\"version\": 1, \"tokens\": []}");
    assert_int_equal(chmod(scratch_path("tokens"), 0620), 0);
    assert_int_equal(tokens_read(scratch_folder(), &t, &f), ERR_INVAL);
    assert_non_null(strstr(f.text, "chmod 600"));
    assert_int_equal(chmod(scratch_path("tokens"), 0600), 0);
    assert_int_equal(count(scratch_folder()), 0);
    assert_int_equal(rename(scratch_path("tokens"), scratch_path("x")), 0);
    assert_int_equal(symlink("x", scratch_path("tokens")), 0);
    assert_int_equal(tokens_read(scratch_folder(), &t, &f), ERR_IO);
}

/* Many who add tokens at once: each is there. */
static void tokens_added_at_once_are_all_there(void **state)
{
    enum { PROCESSES = 4, EACH = 4 };
    int status;

    (void)state;
    for (int p = 0; p < PROCESSES; p++)
        if (fork() == 0) {
            char secret[TOKENS_SECRET_LEN + 1], name[32];
            enum err err = ERR_OK;

            for (int i = 0; i < EACH && !err; i++) {
                snprintf(name, sizeof(name), "p%d.%d", p, i);
                /* Its wait has an end; here there is time. */
                do
                    err = tokens_add(scratch_folder(), name, ROLE_READ, NULL,
                                     secret, NULL);
                while (err == ERR_BUSY);
            }
            _exit(err != ERR_OK);
        }
    for (int p = 0; p < PROCESSES; p++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count(scratch_folder()), PROCESSES * EACH);
}

/* ---- a server's view ----------------------------------------------------- */

/* A server knows of each change at its next look; a file that it cannot read
 * lets nobody in, and it is read again once it is good. */
static void tokens_watch_sees_each_change(void **state)
{
    char a[TOKENS_SECRET_LEN + 1], b[TOKENS_SECRET_LEN + 1];
    struct tokens_watch w = {.reads = 0};
    unsigned reads;

    (void)state;
    tokens_watch_init(&w, scratch_folder());
    assert_int_equal(tokens_watch_look(&w)->len, 0);
    add("alice", a);
    assert_non_null(tokens_find(tokens_watch_look(&w), a, strlen(a)));
    add("bob", b);
    assert_non_null(tokens_find(tokens_watch_look(&w), b, strlen(b)));
    assert_int_equal(tokens_revoke(scratch_folder(), "alice", NULL), ERR_OK);
    assert_null(tokens_find(tokens_watch_look(&w), a, strlen(a)));
    assert_non_null(tokens_find(tokens_watch_look(&w), b, strlen(b)));
    /* What is old and the same is not read again; that it is old is told it. */
    w.fresh = false;
    reads = w.reads;
    assert_int_equal(tokens_watch_look(&w)->len, 1);
    assert_int_equal(w.reads, reads);
    assert_int_equal(chmod(scratch_path("tokens"), 0644), 0);
    assert_null(tokens_find(tokens_watch_look(&w), b, strlen(b)));
    assert_int_equal(chmod(scratch_path("tokens"), 0600), 0);
    assert_non_null(tokens_find(tokens_watch_look(&w), b, strlen(b)));
    scratch_text("tokens", "{");
    assert_int_equal(tokens_watch_look(&w)->len, 0);
    assert_int_equal(unlink(scratch_path("tokens")), 0);
    assert_int_equal(tokens_watch_look(&w)->len, 0);
    tokens_watch_deinit(&w);
}

/* A file that could not be read just now, where no descriptor is free say, is
 * read again though it does not change. */
static void tokens_watch_tries_again(void **state)
{
    char secret[TOKENS_SECRET_LEN + 1];
    struct tokens_watch w = {.reads = 0};
    struct rlimit was, none;
    int next;

    (void)state;
    add("alice", secret);
    tokens_watch_init(&w, scratch_folder());
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    next = dup(0);
    close(next);
    none = (struct rlimit){(rlim_t)next, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(tokens_watch_look(&w)->len, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    w.fresh = false; /* it is old by now */
    assert_int_equal(tokens_watch_look(&w)->len, 1);
    assert_false(w.unread);
    tokens_watch_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_hash_is_sha_256),
        cmocka_unit_test(tokens_are_found_by_their_secret_alone),
        cmocka_unit_test(tokens_compare_each_digit),
        cmocka_unit_test(tokens_names_are_plain),
        cmocka_unit_test(tokens_damaged_text_is_refused),
        cmocka_unit_test(tokens_are_bounded_and_unique),
        cmocka_unit_test(tokens_with_limits_are_another_version),
        cmocka_unit_test(tokens_survive_want_of_memory),
        cmocka_unit_test_setup_teardown(tokens_file_keeps_no_secret,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(tokens_survive_any_call_that_fails,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(tokens_damaged_file_is_left_alone,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(tokens_added_at_once_are_all_there,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(tokens_watch_sees_each_change,
                                        scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(tokens_watch_tries_again, scratch_make,
                                        scratch_remove),
    };

    json_count_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
