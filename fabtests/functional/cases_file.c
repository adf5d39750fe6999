/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_file.c -- what happens to the files of a target: a commit whose data nobody
 * finds there fails, and the target lives on
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_pmemverbs.h>

#include "functional.h"
#include "spoil.h"

#define FILE_SIZE 65536

/* found_target -- one that finds out what its files are */
static struct link *found_target(struct fx *fx)
{
	static const char *const environment[] = {"FI_PMEMVERBS_DOMAIN=auto",
						  "FI_PMEMVERBS_DDIO=auto",
						  "FI_PMEMVERBS_AGENT=thread", NULL};
	const struct target_attr attr = {.environment = environment};
	struct target_proc *target;

	if (!is_pmemverbs(fx)) {
		skipped(fx, "the agent is pmemverbs' own");
		return NULL;
	}
	if (!fx->target->has_file || !fx->target->can_sync) {
		skipped(fx, "the target's memory is no file (-M)");
		return NULL;
	}
	target = fx_target(fx, &attr);
	return target ? fx_link(fx, target, NULL) : NULL;
}

static bool is_synced(struct link *link, const struct remote *remote)
{
	struct fi_pmemverbs_region region;

	return !query_key(link->fx, link, remote->key, &region) &&
	       region.domain == FI_PMEMVERBS_PAGE;
}

static int spoil(struct remote *remote, enum spoil how)
{
	struct control_msg msg = {.command = CTL_SPOIL, .arg = {remote->id, how}};
	int ret = target_call(remote->target, &msg, NULL, 0);

	return ret ? failed_call(remote->target->fx, "CTL_SPOIL", ret) : 0;
}

/* lost -- a commit there fails, and says what kind of failure it is */
static int lost(struct link *link, struct remote *remote, size_t offset, size_t len)
{
	struct write write = {.remote = remote, .offset = offset, .len = len, .flags = COMMIT};
	struct op *op;

	if (write_at(link, &write, &op) || await_error(link, op))
		return -1;
	return expect(link->fx, op->err == FI_EIO,
		      "a commit of what is lost failed with %d, not %d", op->err, FI_EIO);
}

/* Two files of one target, of which one is spoilt */
static int spoil_one(struct fx *fx, enum spoil how)
{
	struct link *link = found_target(fx);
	struct remote *sound = link ? fx_remote_file(fx, link->target, FILE_SIZE, NULL) : NULL;
	struct remote *spoilt = sound ? fx_remote_file(fx, link->target, FILE_SIZE, NULL) : NULL;
	unsigned int i;

	if (!spoilt)
		return -1;
	/* What needs no sync is not looked at again. */
	if (how == SPOIL_UNLINK && !is_synced(link, spoilt))
		return skipped(fx, "the target's files are on DAX");
	if (commit(link, sound, 20000, 64, 0) || commit(link, spoilt, 20000, 64, 0) ||
	    spoil(spoilt, how))
		return -1;
	for (i = 0; i < 4; i++) {
		if (lost(link, spoilt, 20000 + i * 8192, 64) ||
		    commit(link, sound, 20000 + i * 8192, 64, 0))
			return -1;
	}
	return remote_same(fx, sound);
}

static int truncated(struct fx *fx)
{
	return spoil_one(fx, SPOIL_TRUNCATE);
}

static int unlinked(struct fx *fx)
{
	return spoil_one(fx, SPOIL_UNLINK);
}

/*
 * More than a core copies by itself: the kernel, told to receive into pages that are
 * not there, refuses that, which ends the connection but nothing else.
 */
static int truncated_long(struct fx *fx)
{
	struct link *link = found_target(fx), *again;
	struct remote *sound = link ? fx_remote_file(fx, link->target, 1 << 20, NULL) : NULL;
	struct remote *spoilt = sound ? fx_remote_file(fx, link->target, 1 << 20, NULL) : NULL;
	struct write write = {.remote = spoilt, .len = 1 << 20, .flags = COMMIT};
	struct op *op;

	if (!spoilt || spoil(spoilt, SPOIL_TRUNCATE) || write_at(link, &write, &op) ||
	    await_error(link, op))
		return -1;
	again = fx_link(fx, link->target, NULL);
	return !again || commit(again, sound, 0, 64, 0) ? -1 : remote_same(fx, sound);
}

/*
 * Somebody else syncs the mapped descriptor, and takes the one report that the
 * kernel makes there of pages that it could not write.  PMEM_LOSSY names files
 * without their numbers, all of whose pages are lost: runtests makes them.
 */
static int error_taken(struct fx *fx)
{
	const char *lossy = getenv("PMEM_LOSSY");
	struct remote *remote;
	struct link *link;
	char path[200];
	unsigned int i;

	if (!lossy)
		return skipped(fx, "no device that loses pages (PMEM_LOSSY)");
	link = found_target(fx);
	for (i = 0; link && i < 8; i++) {
		snprintf(path, sizeof(path), "%s.%u", lossy, i);
		remote = fx_remote_file(fx, link->target, FILE_SIZE, path);
		if (!remote || spoil(remote, SPOIL_SYNC))
			return -1;
		pause_ms(20);
		if (lost(link, remote, i * 4096, 64))
			return -1;
	}
	return link ? 0 : -1;
}

const struct test_case file_cases[] = {
	{"file_truncated", truncated},
	{"file_truncated_long", truncated_long},
	{"file_unlinked", unlinked},
	{"file_error_taken", error_taken},
	{NULL, NULL},
};
