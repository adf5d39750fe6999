/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * input.h -- a fuzzer's input is a list of actions; this reads it
 *
 * Behind its end there are zeros.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *at;
	size_t left;
};

static inline void input_copy(struct input *input, void *to, size_t len)
{
	size_t have = len < input->left ? len : input->left;

	memset(to, 0, len);
	/* libFuzzer's first input has no bytes at all. */
	if (have)
		memcpy(to, input->at, have);
	input->at += have;
	input->left -= have;
}

static inline uint8_t input_8(struct input *input)
{
	uint8_t value;

	input_copy(input, &value, sizeof(value));
	return value;
}

static inline uint16_t input_16(struct input *input)
{
	uint16_t value;

	input_copy(input, &value, sizeof(value));
	return value;
}

static inline uint64_t input_64(struct input *input)
{
	uint64_t value;

	input_copy(input, &value, sizeof(value));
	return value;
}

#endif /* FUZZ_INPUT_H */
