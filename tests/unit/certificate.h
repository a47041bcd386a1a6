/* A certificate of a test's own, signed by itself. */
#ifndef TESTS_UNIT_CERTIFICATE_H
#define TESTS_UNIT_CERTIFICATE_H

/* Writes "cert.pem" and "key.pem" (mode 0600) into the scratch folder, in force
 * from a day before to a day after now. @names: DNS names and addresses, NULL
 * at the end. */
void certificate_make(const char *const names[]);

#endif
