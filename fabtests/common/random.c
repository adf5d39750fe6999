/* SPDX-License-Identifier: BSD-2-Clause */
/* random.c -- numbers as Zipf's law has them; random.h says more */
#include "random.h"

#include <math.h>
#include <stdlib.h>

void random_seed(struct random *random, unsigned int seed, unsigned int stream)
{
	random->state[0] = (unsigned short) (0x330e + stream);
	random->state[1] = (unsigned short) seed;
	random->state[2] = (unsigned short) ((seed >> 16) ^ (stream * 0x9e37));
	/* Streams are alike at first. */
	for (int i = 0; i < 16; i++)
		erand48(random->state);
}

double random_fraction(struct random *random)
{
	return erand48(random->state);
}

uint64_t random_below(struct random *random, uint64_t below)
{
	return (uint64_t) (random_fraction(random) * (double) below);
}

int zipf_make(struct zipf *zipf, uint64_t count, double theta)
{
	double sum = 0;

	zipf->count = count;
	zipf->sums = malloc(count * sizeof(*zipf->sums));
	for (uint64_t i = 0; zipf->sums && i < count; i++) {
		sum += 1 / pow((double) i + 1, theta);
		zipf->sums[i] = sum;
	}
	return zipf->sums ? 0 : -1;
}

void zipf_free(struct zipf *zipf)
{
	free(zipf->sums);
}

uint64_t zipf_rank(const struct zipf *zipf, struct random *random)
{
	double wanted = random_fraction(random) * zipf->sums[zipf->count - 1];
	uint64_t low = 0, high = zipf->count - 1;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (zipf->sums[middle] > wanted)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint64_t zipf_item(const struct zipf *zipf, struct random *random)
{
	/* A prime, so each rank has its own item unless count is a multiple of it. */
	return zipf_rank(zipf, random) * 2654435761U % zipf->count;
}
