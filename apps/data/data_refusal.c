#include "apps/data/data_refusal.h"

#include <assert.h>
#include <string.h>

const char data_table_advice[] =
    "a column of a table is of numbers, or of texts, which are categories; "
    "\"categories\" of the configuration names columns of both, "
    "\"ignore\" those not to look at; a label is "
    "never missing; \"label\" names the column to predict (the last one where "
    "it is not given), \"header\" says whether the first line is one";

const char data_text_advice[] =
    "word2vec reads texts in UTF-8 (iconv -f latin1 -t utf-8 FILE makes that "
    "of "
    "Latin-1); lda reads counts of words (a bag of words, docs/lda.md)";

/* Formats that begin with a mark of their own. */
static const struct {
    const char *mark;
    size_t bytes, at;
    struct data_refusal refusal;
} formats[] = {
    {"PAR1",
     4,
     0,
     {"it is a Parquet file", "write it as a table: "
                              "pandas.read_parquet(FILE).to_csv(\"data.csv\", "
                              "index=False)"}},
    {"\x93NUMPY",
     6,
     0,
     {"it is a NumPy array", "write it as a table: numpy.savetxt(\"data.csv\", "
                             "numpy.load(FILE), delimiter=\",\")"}},
    {"PK\x03\x04",
     4,
     0,
     {"it is a zip archive (or .xlsx, .npz)",
      "unpack it, and name the file or the folder that was in it; a sheet is "
      "to be saved as CSV"}},
    {"\x89HDF",
     4,
     0,
     {"it is an HDF5 file",
      "write the array in it as a table of numbers (CSV)"}},
    {"\x89PNG",
     4,
     0,
     {"it is one picture (PNG)",
      "put the pictures into MNIST's form (idx) or CIFAR's"}},
    {"\xff\xd8\xff",
     3,
     0,
     {"it is one picture (JPEG)",
      "put the pictures into MNIST's form (idx) or CIFAR's"}},
    {"SQLite format 3",
     15,
     0,
     {"it is an SQLite database",
      "write the table that is meant as CSV: sqlite3 -header -csv FILE "
      "\"SELECT * FROM t\""}},
    {"ARROW1",
     6,
     0,
     {"it is an Arrow file", "write it as a table: "
                             "pandas.read_feather(FILE).to_csv(\"data.csv\", "
                             "index=False)"}},
    {"\x28\xb5\x2f\xfd",
     4,
     0,
     {"it is packed with zstd, which is not unpacked here",
      "unpack it (zstd -d), or pack it with gzip or xz"}},
    {"BZh",
     3,
     0,
     {"it is packed with bzip2, which is not unpacked here",
      "unpack it (bunzip2), or pack it with gzip or xz"}},
    {"ustar",
     5,
     257,
     {"it is a tar archive", "unpack it, and name the file or the folder that "
                             "was in it"}},
    {"\x80\x04\x95",
     3,
     0,
     {"it is a Python pickle", "write what it holds as a table of numbers "
                               "(CSV); CIFAR is to be had in its binary form"}},
};

static struct data_refusal binary(const void *bytes, size_t len)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        size_t end = formats[i].at + formats[i].bytes;

        if (len >= end && memcmp((const char *)bytes + formats[i].at,
                                 formats[i].mark, formats[i].bytes) == 0)
            return formats[i].refusal;
    }
    return (struct data_refusal){
        "it is binary, and begins like no format that is known here",
        "write it as a table of numbers (CSV), or pictures in MNIST's form "
        "(idx) or CIFAR's"};
}

struct data_refusal data_refusal_of(enum data_kind kind, const void *bytes,
                                    size_t len)
{
    assert(bytes || len == 0);
    switch (kind) {
    case DATA_BINARY:
        return binary(bytes, len);
    case DATA_EMPTY:
        return (struct data_refusal){
            "it is empty", "look whether the download or the program that was "
                           "to write it went through"};
    default:
        return (struct data_refusal){
            "it is a text", "word2vec reads texts; lda reads counts of words "
                            "(a bag of words, docs/lda.md); mlr and nn read "
                            "tables of numbers"};
    }
}

static unsigned count_of(const char *p, const char *end, char c)
{
    unsigned n = 0;

    for (; p < end; p++)
        n += *p == c;
    return n;
}

bool data_looks_like_table(const char *text, size_t len)
{
    const char *end = text + len, *first_end, *second_end;
    static const char separators[] = ",;\t";

    first_end = len ? memchr(text, '\n', len) : NULL;
    if (!first_end)
        return false;
    second_end = memchr(first_end + 1, '\n', (size_t)(end - first_end - 1));
    second_end = second_end ? second_end : end;
    for (const char *c = separators; *c; c++) {
        unsigned n = count_of(text, first_end, *c);

        if (n > 0 && n == count_of(first_end + 1, second_end, *c))
            return true;
    }
    return false;
}
