/* SPDX-License-Identifier: BSD-2-Clause */
/* tx_soak.c -- random transactions, and their history; tx_judge.c says what a line has */
#include "tx_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/memory.h"
#include "../common/random.h"
#include "../common/stats.h"

#define KEYS 4U

struct soak {
	const struct options *opts;
	const struct tx_protocol *protocol;
	struct tx_client client;
	struct random random;
	uint64_t seed; /* of this process: no other one may have the same */
	uint64_t sequence;
	uint64_t begun;
	uint64_t seen[TX_KEYS]; /* values that the transaction has read */
};

static volatile sig_atomic_t stopped;

static void stop(int signo)
{
	(void) signo;
	stopped = 1;
}

/* tell -- in one write, so that a client that is killed leaves whole lines */
static int tell(const char *line, int len)
{
	return write(STDOUT_FILENO, line, (size_t) len) == len ? 0 : report("the history", -FI_EIO);
}

/* tell_call -- what was read, and what is to be written */
static int tell_call(const struct soak *soak)
{
	const struct tx_client *client = &soak->client;
	char line[512];
	int len = snprintf(line, sizeof(line), "call %" PRIu64 " %" PRIu64 " %" PRIu64, soak->begun,
			   soak->seed, soak->sequence);

	for (unsigned int i = 0; i < client->count; i++) {
		const struct tx_access *access = &client->accesses[i];
		uint64_t written = 0;

		if (access->writes)
			memcpy(&written, access->record.value, sizeof(written));
		len += snprintf(line + len, sizeof(line) - (size_t) len,
				" %" PRIu64 ":%" PRIu64 ":%" PRIu64, access->key, soak->seen[i],
				written);
	}
	len += snprintf(line + len, sizeof(line) - (size_t) len, "\n");
	return tell(line, len);
}

static int tell_back(const struct soak *soak, const char *result)
{
	char line[128];

	return tell(line,
		    snprintf(line, sizeof(line), "back %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n",
			     now_ns(), soak->seed, soak->sequence, result));
}

/* change -- the value of a key that was read; all keys of a transaction have the same one then */
static void change(struct soak *soak, struct tx_access *access)
{
	uint64_t identity = soak->seed << 32 | soak->sequence;

	access->writes = true;
	memcpy(access->record.value, &identity, sizeof(identity));
	pattern_fill(access->record.value + sizeof(identity), TX_VALUE - sizeof(identity), identity,
		     0);
}

static int read_one(struct soak *soak, uint64_t key, bool writes)
{
	const size_t rest = TX_VALUE - sizeof(uint64_t);
	unsigned int number = soak->client.count;
	struct tx_access *access;
	int ret = tx_read(&soak->client, key, &access);

	if (ret)
		return ret;
	memcpy(&soak->seen[number], access->record.value, sizeof(uint64_t));
	if (soak->seen[number] && pattern_check(access->record.value + sizeof(uint64_t), rest,
						soak->seen[number], 0) != rest)
		return explain(&soak->client.link.error, -FI_EIO, "a value is torn");
	if (writes)
		change(soak, access);
	return 0;
}

/* commit -- now and then so slowly that others are about to stop it */
static int commit(struct soak *soak)
{
	struct tx_client *client = &soak->client;
	int ret;

	if (soak->protocol != &tx_chains || random_below(&soak->random, 8))
		return tx_commit(client);
	ret = tx_prepare(client);
	if (ret)
		return ret;
	nanosleep(&(struct timespec){.tv_nsec = 15000000L +
						(long) random_below(&soak->random, 15000000)},
		  NULL);
	return tx_install(client);
}

/* attempt -- a transaction: count keys from this one on, of which so many bits say which are
 * written */
static int attempt(struct soak *soak, uint64_t first, unsigned int count, unsigned int writes)
{
	int ret = 0;

	soak->sequence++;
	soak->begun = now_ns();
	tx_begin(&soak->client);
	for (unsigned int i = 0; i < count && !ret; i++)
		ret = read_one(soak, (first + i) % KEYS, writes & 1U << i);
	if (!ret)
		ret = tell_call(soak);
	if (!ret)
		ret = commit(soak);
	if (!ret)
		return tell_back(soak, "made");
	return ret == -FI_EAGAIN && tell_back(soak, "aborted") ? -FI_EIO : ret;
}

/* transact -- again, until it is made */
static int transact(struct soak *soak, uint64_t first, unsigned int count, unsigned int writes)
{
	unsigned int tries = 0;
	int ret;

	while ((ret = attempt(soak, first, count, writes)) == -FI_EAGAIN && !stopped)
		tx_pause(tries++);
	return ret == -FI_EAGAIN ? 0 : ret;
}

static int connect_soak(struct soak *soak)
{
	uint64_t deadline = deadline_in(soak->opts->timeout);
	int ret;

	do {
		ret = tx_connect(&soak->client, soak->opts, soak->protocol);
		if (ret)
			tx_disconnect(&soak->client);
	} while (ret && kv_lost(ret) && !stopped && now_ns() < deadline);
	return ret;
}

static int finish(struct soak *soak, int ret)
{
	if (ret && !stopped)
		fprintf(stderr, "%s\n", soak->client.link.error.text);
	tx_disconnect(&soak->client);
	return stopped && kv_lost(ret) ? 0 : ret;
}

int tx_soak(const struct options *opts, const struct tx_protocol *protocol)
{
	const struct sigaction action = {.sa_handler = stop};
	struct soak soak = {.opts = opts, .protocol = protocol, .seed = opts->seed};
	int ret;

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	random_seed(&soak.random, (unsigned int) opts->seed, 0);
	srandom((unsigned int) opts->seed);
	ret = connect_soak(&soak);
	while (!ret && !stopped) {
		ret = transact(&soak, random_below(&soak.random, KEYS),
			       1 + (unsigned int) random_below(&soak.random, TX_KEYS),
			       (unsigned int) random_below(&soak.random, 1U << TX_KEYS));
		if (!ret || !kv_lost(ret))
			continue;
		tx_disconnect(&soak.client);
		ret = connect_soak(&soak);
	}
	return finish(&soak, ret);
}

int tx_look_all(const struct options *opts, const struct tx_protocol *protocol)
{
	struct soak soak = {.opts = opts, .protocol = protocol, .seed = opts->seed};
	int ret = connect_soak(&soak);

	for (uint64_t key = 0; !ret && key < KEYS; key++)
		ret = transact(&soak, key, TX_KEYS, 0);
	return finish(&soak, ret);
}
