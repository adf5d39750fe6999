/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random.h -- which item is next: numbers as Zipf's law has them
 *
 * No library that Debian has does that for a finite number of items (GSL's gsl_ran_discrete takes
 * any table of weights, and this one would still have to be made), so it is done here: the law's
 * sums in a table, and a search in it.  The random numbers are libc's.
 */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H

#include <stdint.h>

struct random {
	unsigned short state[3];
};

void random_seed(struct random *random, unsigned int seed, unsigned int stream);
double random_fraction(struct random *random); /* 0 to 1, without 1 */
uint64_t random_below(struct random *random, uint64_t below);

struct zipf {
	uint64_t count;
	double *sums;
};

int zipf_make(struct zipf *zipf, uint64_t count, double theta);
void zipf_free(struct zipf *zipf);

/* zipf_rank -- 0 is the most frequent one */
uint64_t zipf_rank(const struct zipf *zipf, struct random *random);

/* zipf_item -- the same, and the frequent ones are not beside each other */
uint64_t zipf_item(const struct zipf *zipf, struct random *random);

#endif /* COMMON_RANDOM_H */
