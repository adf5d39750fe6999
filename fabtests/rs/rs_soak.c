/* SPDX-License-Identifier: BSD-2-Clause */
/* rs_soak.c -- random operations, and their history; rs_judge.c says what a line has */
#include "rs_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rs_lock.h"
#include "../common/memory.h"
#include "../common/random.h"
#include "../common/stats.h"

#define BLOCKS 3U

struct soak {
	struct rs_client client;
	struct random random;
	uint64_t seed; /* of this process: no other one may have the same */
	uint64_t sequence;
	bool locks;
};

static volatile sig_atomic_t stopped;

static void stop(int signo)
{
	(void) signo;
	stopped = 1;
}

/* tell -- in one write, so that a client that is killed leaves whole lines */
static int tell(const struct soak *soak, const char *kind, const char *what, uint64_t block,
		uint64_t identity)
{
	char line[160];
	int len = snprintf(line, sizeof(line),
			   "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRIu64 "\n",
			   kind, now_ns(), soak->seed, soak->sequence, what, block, identity);

	return write(STDOUT_FILENO, line, (size_t) len) == len ? 0 : report("the history", -FI_EIO);
}

/* identify -- the value that was read */
static int identify(struct soak *soak, uint64_t *identity)
{
	const uint8_t *value = soak->client.record.value;
	size_t rest = RS_BLOCK - sizeof(*identity);

	memcpy(identity, value, sizeof(*identity));
	if (*identity && pattern_check(value + sizeof(*identity), rest, *identity, 0) != rest)
		return explain(&soak->client.error, -FI_EIO, "a value is torn");
	return 0;
}

static int get(struct soak *soak, uint64_t block)
{
	uint64_t identity;
	int ret;

	soak->sequence++;
	ret = tell(soak, "call", "read", block, 0);
	if (!ret)
		ret = soak->locks ? rs_lock_get(&soak->client, block)
				  : rs_get(&soak->client, block);
	if (!ret)
		ret = identify(soak, &identity);
	return ret ? ret : tell(soak, "back", "read", block, identity);
}

static int put(struct soak *soak, uint64_t block)
{
	uint8_t *value = soak->client.record.value;
	uint64_t identity = soak->seed << 32 | ++soak->sequence;
	int ret;

	memcpy(value, &identity, sizeof(identity));
	pattern_fill(value + sizeof(identity), RS_BLOCK - sizeof(identity), identity, 0);
	ret = tell(soak, "call", "write", block, identity);
	if (!ret)
		ret = soak->locks ? rs_lock_put(&soak->client, block)
				  : rs_put(&soak->client, block);
	return ret ? ret : tell(soak, "back", "write", block, identity);
}

static int open_soak(struct soak *soak, const struct options *opts)
{
	soak->seed = opts->seed;
	random_seed(&soak->random, (unsigned int) opts->seed, 0);
	return rs_open(&soak->client, opts);
}

static int finish(struct soak *soak, int ret)
{
	rs_failed(&soak->client, ret);
	rs_close(&soak->client);
	return ret;
}

int rs_soak(const struct options *opts, bool locks)
{
	const struct sigaction action = {.sa_handler = stop};
	struct soak soak = {.locks = locks};
	uint64_t block;
	int ret;

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	ret = open_soak(&soak, opts);
	while (!ret && !stopped) {
		block = random_below(&soak.random, BLOCKS);
		ret = random_below(&soak.random, 2) ? put(&soak, block) : get(&soak, block);
	}
	return finish(&soak, ret);
}

int rs_look(const struct options *opts)
{
	struct soak soak = {0};
	int ret = open_soak(&soak, opts);

	for (uint64_t block = 0; !ret && block < BLOCKS; block++)
		ret = get(&soak, block);
	return finish(&soak, ret);
}
