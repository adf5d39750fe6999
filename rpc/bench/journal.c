/* SPDX-License-Identifier: BSD-2-Clause */
/* journal.c -- persistent memory that is changed all or nothing; journal.h says how */
#include "journal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

/* The log's last transaction.  Its hash is right, or it was not durable when the power failed. */
struct journal_log {
	uint64_t hash; /* of all that follows, as long as it is */
	uint64_t len;  /* of the changes */
	char changes[];
};

struct change {
	uint64_t offset;
	uint64_t len;
	char data[];
};

static size_t change_len(size_t len)
{
	return sizeof(struct change) + (len + 7) / 8 * 8;
}

static uint64_t hash(const struct journal_log *log)
{
	return XXH3_64bits(&log->len, sizeof(log->len) + log->len);
}

/* apply -- the log's changes go to their places, and are durable there */
static void apply(struct journal *journal)
{
	const struct journal_log *log = journal->log;

	for (size_t at = 0; at < log->len;) {
		const struct change *change = (const struct change *) (log->changes + at);

		memcpy(journal->memory + change->offset, change->data, change->len);
		journal->flush(journal->memory + change->offset, change->len);
		at += change_len(change->len);
	}
	journal->drain();
}

static int store(struct effects *effects, void *place, const void *data, size_t len)
{
	struct transaction *transaction = (struct transaction *) effects;
	struct journal *journal = transaction->journal;
	struct change *change;
	size_t offset = (size_t) ((char *) place - journal->memory);

	if (offset > journal->memory_len || len > journal->memory_len - offset)
		return -EINVAL;
	if (sizeof(*journal->log) + transaction->used + change_len(len) > journal->log_len)
		return -ENOSPC;
	effects->exclude(effects);
	change = (struct change *) (journal->log->changes + transaction->used);
	*change = (struct change){.offset = offset, .len = len};
	memcpy(change->data, data, len);
	transaction->used += change_len(len);
	return 0;
}

static void exclude(struct effects *effects)
{
	struct transaction *transaction = (struct transaction *) effects;

	if (!transaction->locked)
		pthread_mutex_lock(&transaction->journal->lock);
	transaction->locked = true;
}

void transaction_begin(struct transaction *transaction, struct journal *journal)
{
	*transaction = (struct transaction){.effects = {.store = store,
							.exclude = exclude,
							.memory = journal->memory,
							.len = journal->memory_len},
					    .journal = journal};
}

void transaction_end(struct transaction *transaction, bool keep)
{
	struct journal *journal = transaction->journal;
	struct journal_log *log = journal->log;

	if (transaction->used && keep) {
		log->len = transaction->used;
		log->hash = hash(log);
		journal->flush(log, sizeof(*log) + log->len);
		journal->drain();
		apply(journal);
	}
	if (transaction->locked)
		pthread_mutex_unlock(&journal->lock);
}

static int map(struct journal *journal, const char *path)
{
	struct pmem2_config *config = NULL;
	int ret = pmem2_source_from_fd(&journal->source, journal->fd);

	if (!ret)
		ret = pmem2_config_new(&config);
	if (!ret)
		ret = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
	if (!ret)
		ret = pmem2_map_new(&journal->map, config, journal->source);
	pmem2_config_delete(&config);
	if (ret)
		return bench_fail("%s: %s", path, pmem2_errormsg());
	journal->flush = pmem2_get_flush_fn(journal->map);
	journal->drain = pmem2_get_drain_fn(journal->map);
	return 0;
}

int journal_open(struct journal *journal, const struct settings *settings)
{
	bool device = !strncmp(settings->memory, "/dev/dax", 8);
	size_t len;
	int err = 0;

	*journal = (struct journal){.lock = PTHREAD_MUTEX_INITIALIZER};
	journal->log_len =
		(sizeof(struct journal_log) + settings->effects_max + 4095) / 4096 * 4096;
	journal->memory_len = settings->memory_len;
	len = journal->log_len + journal->memory_len;
	journal->fd = open(settings->memory, O_RDWR | O_CLOEXEC | (device ? 0 : O_CREAT), 0600);
	if (journal->fd >= 0 && !device)
		err = posix_fallocate(journal->fd, 0, (off_t) len);
	if (journal->fd < 0 || err)
		return bench_fail("%s: %s", settings->memory, strerror(err ? err : errno));
	if (map(journal, settings->memory))
		return -1;
	if (pmem2_map_get_size(journal->map) < len)
		return bench_fail("%s is too small: %zu bytes are needed", settings->memory, len);
	journal->log = pmem2_map_get_address(journal->map);
	journal->memory = (char *) journal->log + journal->log_len;
	bench_populate(journal->log, len);
	if (journal->log->len && sizeof(*journal->log) + journal->log->len <= journal->log_len &&
	    journal->log->hash == hash(journal->log))
		apply(journal);
	return 0;
}

void journal_close(struct journal *journal)
{
	if (journal->map)
		pmem2_map_delete(&journal->map);
	if (journal->source)
		pmem2_source_delete(&journal->source);
	if (journal->fd >= 0)
		close(journal->fd);
}
