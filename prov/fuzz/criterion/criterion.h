/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * criterion.h -- Criterion's assertions where there is no Criterion: in a fuzzer
 *
 * The unit tests' rig and pair are used there, too.  Whatever fails ends the process, and
 * libFuzzer keeps the input.
 */
#ifndef FUZZ_CRITERION_H
#define FUZZ_CRITERION_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static inline void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

#define FUZZ_CHECK(condition) ((condition) ? (void) 0 : fuzz_fail(__FILE__, __LINE__, #condition))

#define cr_assert(condition, ...) FUZZ_CHECK(condition)
#define cr_assert_fail(...) fuzz_fail(__FILE__, __LINE__, #__VA_ARGS__)
#define cr_assert_not_null(at) FUZZ_CHECK((at) != NULL)
#define cr_assert_eq(a, b, ...) FUZZ_CHECK((a) == (b))
#define cr_assert_neq(a, b, ...) FUZZ_CHECK((a) != (b))
#define cr_assert_lt(a, b, ...) FUZZ_CHECK((a) < (b))
#define cr_assert_leq(a, b, ...) FUZZ_CHECK((a) <= (b))
#define cr_assert_str_eq(a, b, ...) FUZZ_CHECK(!strcmp(a, b))

#endif /* FUZZ_CRITERION_H */
