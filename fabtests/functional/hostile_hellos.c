/* SPDX-License-Identifier: BSD-2-Clause */
/* hostile_hellos.c -- a peer whose connection begins with a handshake that is none */
#include <endian.h>
#include <string.h>

#include "hostile.h"
#include "../common/stats.h"

static const struct edit hello_edits[] = {
	{"another magic", 0, 2, 0x1234},
	{"a later version", 8, 1, 0x22},
	{"a later version beside ours", 8, 1, 0x21},
	{"later versions down to ours", 8, 1, 0xf1},
	{"a range that is none", 8, 1, 0x12},
	{"version 0", 8, 1, 0},
	{"versions from 0", 8, 1, 0x10},
	{"all flags", 2, 1, 255},
	{"a block at the end of all", 3, 5, UINT64_C(0xffffffffff)},
	{"a block that is not there", 3, 5, UINT64_C(0x07f0000000)},
	{"a port that nobody listens to", 14, 2, 1},
	{"an unknown key", 16, 4, 0x5a5a00},
	{"another secret", 9, 5, 0},
};

/* one_hello -- connect with it, and where the target understands it have a message served */
static int one_hello(struct scene *scene, const void *handshake, size_t len)
{
	struct pmv_flush_message message = {.count = 1,
					    .ranges = {scene_range(scene->open, 0, 64)}};
	struct raw *raw = &scene->raw;
	uint64_t end = now_ns() + 100 * 1000000ULL;

	if (raw_connect(raw, handshake, len))
		return -1;
	/* its acknowledgement may go nowhere, which ends this connection and no other */
	if (raw->theirs.agent && raw_send(raw, &message))
		return -1;
	while (now_ns() < end)
		raw_reap(raw);
	return 0;
}

static int odd_hellos(struct scene *scene)
{
	uint8_t handshake[PMV_HANDSHAKE_SIZE], noise_bytes[40];
	uint64_t value;
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(hello_edits); i++) {
		len = raw_hello(&scene->raw, handshake);
		value = htole64(hello_edits[i].value);
		memcpy(handshake + hello_edits[i].at, &value, hello_edits[i].size);
		if (one_hello(scene, handshake, len) || scene_reopen(scene))
			return -1;
	}
	for (len = 0; len <= sizeof(noise_bytes); len += 8) {
		pattern_fill(noise_bytes, len, len, 0);
		if (one_hello(scene, noise_bytes, len) || scene_reopen(scene))
			return -1;
	}
	return raw_greet(&scene->raw) || scene_flush_works(scene, "odd handshakes") ? -1 : 0;
}

int hostile_hellos(struct fx *fx)
{
	static struct scene scene;
	int ret = scene_open(fx, &scene);

	if (!ret)
		ret = odd_hellos(&scene);
	return scene_close(&scene, ret);
}
