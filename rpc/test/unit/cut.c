/* SPDX-License-Identifier: BSD-2-Clause */
/* cut.c -- persistent memory that loses power; cut.h says how */
#include "cut.h"

#include <stdlib.h>
#include <string.h>

static size_t offset_of(const struct cut *cut, const void *place)
{
	return (size_t) ((const unsigned char *) place - cut->seen);
}

void cut_init(struct cut *cut, const unsigned char *contents)
{
	/* There are very many: what is copied is not cleared before, nor words that are not
	 * counted. */
	memset((char *) cut + offsetof(struct cut, count), 0,
	       sizeof(*cut) - offsetof(struct cut, count));
	cut->memory = (struct rpc_memory){
		.base = cut->seen, .len = CUT_LEN, .write = cut_write, .persist = cut_persist};
	if (contents) {
		memcpy(cut->seen, contents, CUT_LEN);
		memcpy(cut->durable, contents, CUT_LEN);
	} else {
		memset(cut->seen, 0, CUT_LEN);
		memset(cut->durable, 0, CUT_LEN);
	}
}

static void step(struct cut *cut)
{
	if (cut->step)
		cut->step(cut);
}

/* is_dirty -- not by memcmp, which a sanitizer would follow each time */
static bool is_dirty(const struct cut *cut, size_t word)
{
	uint64_t seen, durable;

	memcpy(&seen, cut->seen + word * 8, 8);
	memcpy(&durable, cut->durable + word * 8, 8);
	return seen != durable;
}

/* look -- which words of a range are dirty now */
static void look(struct cut *cut, size_t offset, size_t len)
{
	size_t kept = 0;

	for (size_t i = 0; i < cut->count; i++) {
		if (cut->dirty[i] < offset / 8 || cut->dirty[i] > (offset + len - 1) / 8)
			cut->dirty[kept++] = cut->dirty[i];
	}
	cut->count = kept;
	for (size_t word = offset / 8; word <= (offset + len - 1) / 8; word++) {
		if (is_dirty(cut, word))
			cut->dirty[cut->count++] = (uint16_t) word;
	}
}

void cut_write(struct rpc_memory *memory, void *place, const void *data, size_t len)
{
	struct cut *cut = (struct cut *) memory;
	size_t offset = offset_of(cut, place);

	if (!len || (cut->forget_write && cut->forget_write(cut, offset)))
		return;
	memcpy(place, data, len);
	look(cut, offset, len);
	step(cut);
}

int cut_persist(struct rpc_memory *memory, const void *place, size_t len)
{
	struct cut *cut = (struct cut *) memory;
	size_t offset = offset_of(cut, place), first = offset / 8 * 8;
	size_t end = (offset + len + 7) / 8 * 8;

	if (!len || (cut->forget_persist && cut->forget_persist(cut, offset)))
		return 0;
	step(cut);
	memcpy(cut->durable + first, cut->seen + first, end - first);
	look(cut, first, end - first);
	step(cut);
	return 0;
}

static void keep(unsigned char *image, const struct cut *cut, size_t i)
{
	memcpy(image + cut->dirty[i] * 8, cut->seen + cut->dirty[i] * 8, 8);
}

static void lose(unsigned char *image, const struct cut *cut, size_t i)
{
	memcpy(image + cut->dirty[i] * 8, cut->durable + cut->dirty[i] * 8, 8);
}

/* scatter -- too many words for all subsets */
static void scatter(const struct cut *cut, unsigned char *image, unsigned int limit,
		    void (*call)(const unsigned char *contents, void *arg), void *arg)
{
	unsigned int seed = (unsigned int) cut->count;

	call(image, arg);
	for (size_t i = 0; i < cut->count; i++) {
		keep(image, cut, i);
		call(image, arg);
		lose(image, cut, i);
	}
	for (unsigned int n = 0; n < 1U << limit; n++) {
		for (size_t i = 0; i < cut->count; i++)
			(rand_r(&seed) & 64 ? keep : lose)(image, cut, i);
		call(image, arg);
	}
	for (size_t i = 0; i < cut->count; i++)
		keep(image, cut, i);
	call(image, arg);
	for (size_t i = 0; i < cut->count; i++) {
		lose(image, cut, i);
		call(image, arg);
		keep(image, cut, i);
	}
}

void cut_explore(const struct cut *cut, unsigned int limit,
		 void (*image)(const unsigned char *contents, void *arg), void *arg)
{
	_Alignas(64) unsigned char contents[CUT_LEN];

	memcpy(contents, cut->durable, CUT_LEN);
	if (cut->count > limit) {
		scatter(cut, contents, limit, image, arg);
		return;
	}
	for (size_t subset = 0; subset < (size_t) 1 << cut->count; subset++) {
		for (size_t i = 0; i < cut->count; i++)
			(subset >> i & 1 ? keep : lose)(contents, cut, i);
		image(contents, arg);
	}
}
