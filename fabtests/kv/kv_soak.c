/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kv_soak.c -- random operations, and their history
 *
 * A line has: call or back, the time, the client, the operation's number, then
 * call: get, put or del, the key, and the identity of what is put (0: nothing);
 * back: ok, none or full, the version, and the identity of what was read.
 * An operation without a line "back" may have been made or not.  Each line is one write, so that a
 * client that is killed leaves whole lines.
 */
#include "kv_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv_client.h"
#include "../common/memory.h"
#include "../common/stats.h"

#define OWN 8U /* keys of each client ... */
#define OWNERS 16U
#define SHARED 4U /* ... and of all */
#define SHARED_AT 1000U

struct soak {
	const struct options *opts;
	struct kv_client client;
	uint64_t seed; /* of this process: no other one may have the same */
	uint64_t random;
	uint64_t sequence;
};

static volatile sig_atomic_t stopped;

static void stop(int signo)
{
	(void) signo;
	stopped = 1;
}

/* draw -- xorshift64: the state is not 0 */
static uint64_t draw(struct soak *soak, uint64_t below)
{
	soak->random ^= soak->random << 13;
	soak->random ^= soak->random >> 7;
	soak->random ^= soak->random << 17;
	return soak->random % below;
}

/* ---- the history ---- */

static int tell(const char *line, int len)
{
	return write(STDOUT_FILENO, line, (size_t) len) == len ? 0 : report("the history", -FI_EIO);
}

static int tell_call(struct soak *soak, const char *what, uint64_t key, uint64_t identity)
{
	char line[160];

	soak->sequence++;
	return tell(line, snprintf(line, sizeof(line),
				   "call %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %" PRIu64
				   " %" PRIu64 "\n",
				   now_ns(), soak->seed, soak->sequence, what, key, identity));
}

static int tell_back(struct soak *soak, int ret, uint64_t version, uint64_t identity)
{
	const char *result = !ret ? "ok" : ret == -FI_ENOSPC ? "full" : "none";
	char line[160];

	return tell(line,
		    snprintf(line, sizeof(line),
			     "back %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRIu64
			     "\n",
			     now_ns(), soak->seed, soak->sequence, result, version, identity));
}

/* ---- operations ---- */

/* came_back -- 0, or an error that ends all */
static int came_back(struct soak *soak, int ret, uint64_t version, uint64_t identity)
{
	if (ret && ret != -FI_ENOENT && ret != -FI_ENOSPC)
		return ret;
	return tell_back(soak, ret, version, identity);
}

static int get(struct soak *soak, uint64_t key)
{
	const struct kv_record *got = &soak->client.buffers->got;
	uint64_t identity = 0;
	int ret = tell_call(soak, "get", key, 0);

	if (!ret)
		ret = kv_get(&soak->client, key);
	if (!ret) {
		memcpy(&identity, got->value, sizeof(identity));
		if (got->len < sizeof(identity) ||
		    pattern_check(got->value + 8, got->len - 8, identity, 0) != got->len - 8)
			return explain(&soak->client.error, -FI_EIO, "a value is torn");
	}
	return came_back(soak, ret, got->version, identity);
}

static int put(struct soak *soak, uint64_t key)
{
	uint64_t identity = soak->seed << 32 | (soak->sequence + 1);
	size_t len = 8 + draw(soak, KV_VALUE_MAX - 7);
	uint8_t *value = soak->client.buffers->put.value;
	int ret = tell_call(soak, "put", key, identity);

	memcpy(value, &identity, sizeof(identity));
	pattern_fill(value + 8, len - 8, identity, 0);
	if (!ret)
		ret = kv_put(&soak->client, key, len);
	return came_back(soak, ret, soak->client.version, identity);
}

static int delete (struct soak *soak, uint64_t key)
{
	int ret = tell_call(soak, "del", key, 0);

	if (!ret)
		ret = kv_delete(&soak->client, key);
	return came_back(soak, ret, soak->client.version, 0);
}

static int one_operation(struct soak *soak, unsigned int number)
{
	uint64_t what = draw(soak, 20), key;

	if (draw(soak, 3))
		key = number * OWN + draw(soak, OWN);
	else
		key = SHARED_AT + draw(soak, SHARED);
	if (what < 8)
		return get(soak, key);
	return what < 19 ? put(soak, key) : delete (soak, key);
}

/* ---- the program ---- */

static int connect_soak(struct soak *soak)
{
	uint64_t deadline = deadline_in(soak->opts->timeout);
	int ret;

	do {
		ret = kv_connect(&soak->client, soak->opts);
		if (ret)
			kv_disconnect(&soak->client);
	} while (ret && kv_lost(ret) && !stopped && now_ns() < deadline);
	return ret;
}

static int run(struct soak *soak, unsigned int number)
{
	int ret = connect_soak(soak);

	while (!ret && !stopped) {
		ret = one_operation(soak, number);
		if (!ret || !kv_lost(ret))
			continue;
		kv_disconnect(&soak->client);
		ret = connect_soak(soak);
	}
	return ret;
}

static int finish(struct soak *soak, int ret)
{
	if (ret && !stopped)
		fprintf(stderr, "%s\n", soak->client.error.text);
	kv_disconnect(&soak->client);
	return stopped && kv_lost(ret) ? 0 : ret;
}

int kv_soak(const struct options *opts, unsigned int number)
{
	const struct sigaction action = {.sa_handler = stop};
	struct soak soak = {
		.opts = opts, .seed = opts->seed, .random = opts->seed * 2654435761U + 1};

	if (number >= OWNERS)
		return report("the client's number", -FI_EINVAL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	return finish(&soak, run(&soak, number));
}

int kv_look(const struct options *opts)
{
	struct soak soak = {.opts = opts, .seed = opts->seed};
	int ret = connect_soak(&soak);

	for (uint64_t key = 0; !ret && key < OWNERS * OWN; key++)
		ret = get(&soak, key);
	for (uint64_t key = 0; !ret && key < SHARED; key++)
		ret = get(&soak, SHARED_AT + key);
	return finish(&soak, ret);
}
