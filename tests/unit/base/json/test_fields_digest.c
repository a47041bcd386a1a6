#include "base/json/fields_digest.h"

#include "tests/unit/fixture/check.h"

#include <math.h>
#include <string.h>

struct point {
    double x;
};

struct part {
    uint32_t id;
};

struct all {
    bool flag;
    uint32_t small;
    uint64_t large;
    double real;
    char text[8], object[16];
    struct part part;
    uint32_t here, there;
    struct point point[2], *owned;
};

static const struct json_field point_fields[] = {
    {FIELD_OF(point, REAL, x)},
    {NULL},
};
static const struct json_field part_fields[] = {
    {FIELD_OF(part, ID, id)},
    {NULL},
};
static const struct field_list here = {point_fields, sizeof(struct point),
                                       offsetof(struct all, here), false};
static const struct field_list there = {point_fields, sizeof(struct point),
                                        offsetof(struct all, there), true};

static const struct json_field fields[] = {
    {FIELD_OF(all, BOOL, flag)},
    {FIELD_OF(all, U32, small)},
    {FIELD_OF(all, U64, large)},
    {FIELD_OF(all, REAL, real)},
    {FIELD_OF(all, TEXT, text)},
    {FIELD_OF(all, JSON, object)},
    {FIELD_OF(all, PART, part), .part = part_fields},
    {.name = "here",
     .kind = FIELD_TUPLES,
     .offset = offsetof(struct all, point),
     .max = 2,
     .list = &here},
    {.name = "there",
     .kind = FIELD_OBJECTS,
     .offset = offsetof(struct all, owned),
     .max = 2,
     .list = &there},
    {NULL},
};

static struct all sample(struct point owned[2])
{
    struct all a;

    memset(&a, 0x5a, sizeof(a)); /* what lies between members is no member */
    a.flag = true;
    a.small = 7;
    a.large = UINT64_C(1) << 40;
    a.real = 0.5;
    strcpy(a.text, "abc");
    strcpy(a.object, "{}");
    a.part.id = 3;
    a.here = a.there = 2;
    a.point[0].x = owned[0].x = 1;
    a.point[1].x = owned[1].x = 2;
    a.owned = owned;
    return a;
}

/* Equal members: one digest, wherever they lie and whatever lies behind a text.
 */
static void digest_of_equal_members_is_equal(void **state)
{
    struct point one[2], other[2];
    struct all a = sample(one), b = sample(other);

    (void)state;
    b.text[5] = 'x';
    assert_true(fields_digest(fields, &a) == fields_digest(fields, &b));
    a.real = NAN;
    b.real = -NAN;
    assert_true(fields_digest(fields, &a) == fields_digest(fields, &b));
    a.real = 0.0;
    b.real = -0.0;
    assert_true(fields_digest(fields, &a) == fields_digest(fields, &b));
}

/* Each member counts, and each item of a list, and how many there are. */
static void digest_tells_members_apart(void **state)
{
    struct point owned[2];
    struct all a = sample(owned), b;
    uint64_t plain = fields_digest(fields, &a);

    (void)state;
#define DIFFERS(change)                                                        \
    do {                                                                       \
        b = a;                                                                 \
        change;                                                                \
        assert_true(fields_digest(fields, &b) != plain);                       \
    } while (0)
    DIFFERS(b.flag = false);
    DIFFERS(b.small = 8);
    DIFFERS(b.large++);
    DIFFERS(b.real = NAN);
    DIFFERS(strcpy(b.text, "abd"));
    DIFFERS(strcpy(b.text, "ab"));
    DIFFERS(strcpy(b.object, "{ }"));
    DIFFERS(b.part.id = 4);
    DIFFERS(b.here = 1);
    DIFFERS(b.point[1].x = 3);
    DIFFERS(b.there = 1);
    DIFFERS(b.owned = NULL);
    DIFFERS(owned[1].x = 3);
#undef DIFFERS
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digest_of_equal_members_is_equal),
        cmocka_unit_test(digest_tells_members_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
