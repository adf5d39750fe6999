/* SPDX-License-Identifier: BSD-2-Clause */
/* number.h -- numbers on the command lines of programs that use argp */
#ifndef UTIL_NUMBER_H
#define UTIL_NUMBER_H

#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* argp_bytes -- a number from 1 up that may end with K, M, G or T; anything else ends the program
 */
static inline uint64_t argp_bytes(struct argp_state *state, const char *text, uint64_t most)
{
	static const char units[] = "KMGT";
	char *end;
	uint64_t value = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;
	unsigned int shift = unit ? 10 * (unsigned int) (unit - units + 1) : 0;

	if (end == text || *text == '-' || *(unit ? end + 1 : end) || !value ||
	    value > most >> shift)
		argp_error(state,
			   "%s: '%s' is not a number of bytes from 1 to %lluT, with K, M, G, T or "
			   "nothing behind it",
			   argp_named(state, text), text, (unsigned long long) (most >> 40));
	return value << shift;
}

#endif /* UTIL_NUMBER_H */
