/* SPDX-License-Identifier: BSD-2-Clause */
/* number.h -- numbers on the command lines of programs that use argp */
#ifndef UTIL_NUMBER_H
#define UTIL_NUMBER_H

#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* argp_named -- the option that has this argument, as it was written: "-t", or "--timeout=x" */
static inline const char *argp_named(const struct argp_state *state, const char *text)
{
	int last = state->next - 1;

	return state->argv[state->argv[last] == text ? last - 1 : last];
}

/* argp_number -- a decimal number in these limits; anything else ends the program */
static inline uint64_t argp_number(struct argp_state *state, const char *text, uint64_t least,
				   uint64_t most)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *text == '-' || *end || value < least || value > most)
		argp_error(state, "%s: '%s' is not a number from %llu to %llu",
			   argp_named(state, text), text, (unsigned long long) least,
			   (unsigned long long) most);
	return value;
}

#endif /* UTIL_NUMBER_H */
