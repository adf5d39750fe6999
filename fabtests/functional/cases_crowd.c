/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_crowd.c -- many peers, and what they and the target's application leave undone
 *
 * Somebody else's commits go on, whoever floods, leaves, or does not read, and nobody has to read
 * anything at the target.
 */
#include <string.h>

#include "memory/key.h"
#include "hostile.h"
#include "../common/stats.h"

#define CLIENTS 64

static const struct link_attr unread_link = {
	.conn = {.format = FI_CQ_FORMAT_DATA, .selective = true},
	.accept = ACCEPT_UNREAD,
	.local_size = 65536,
};

/* commits_work -- at a target that sleeps, with and without a notice */
static int commits_work(struct link *link, struct remote *remote, unsigned int n)
{
	struct control_msg idle = {.command = CTL_IDLE, .arg = {2000 * link->fx->opts->timeout}};
	unsigned int i;
	int ret = 0;

	if (target_begin(link->target, &idle, NULL))
		return -1;
	for (i = 0; i < n && !ret; i++)
		ret = commit(link, remote, i * 500, 100 + i, i % 2 ? FI_REMOTE_CQ_DATA : 0);
	if (end_command(link->target, &idle) || ret)
		return -1;
	return remote_same(link->fx, remote);
}

/* come_and_go -- a client that commits something, and leaves its receives at the target */
static int come_and_go(struct fx *fx, struct target_proc *target, struct remote *remote)
{
	struct control_msg close = {.command = CTL_CLOSE};
	struct link *link = fx_link(fx, target, &unread_link);

	if (!link || commit(link, remote, 0, 64, 0))
		return -1;
	close.arg[0] = link->id;
	link_close(link);
	return target_must_call(target, &close, NULL, 0, "close a connection");
}

/* Whoever comes and goes leaves entries of its receives in the queue, which nobody reads */
static int crowd_comes_and_goes(struct fx *fx)
{
	struct link *link = served_link(fx, &unread_link);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	int i;

	if (!remote)
		return -1;
	for (i = 0; i < CLIENTS; i++) {
		if (come_and_go(fx, link->target, remote))
			return -1;
	}
	return commits_work(link, remote, 50);
}

/* flood -- more immediate data than the target's queue has entries for */
static int flood(struct link *link, struct remote *remote)
{
	int i;

	for (i = 0; i < 3000; i++) {
		if (plain_at(link, PLAIN_WRITEDATA, remote, i * 16 % 32768, 8, NULL))
			return -1;
	}
	return commit(link, remote, 40000, 64, 0);
}

static int crowd_has_one_that_floods(struct fx *fx)
{
	struct control_msg idle = {.command = CTL_IDLE, .arg = {2000 * fx->opts->timeout}};
	struct link *link = served_link(fx, &unread_link);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct link *flooding;
	struct remote *theirs;
	int ret;

	if (!remote)
		return -1;
	if (node_is_passive(&link->target->node))
		return skipped(fx, "immediate data need receives, so they wait");
	flooding = fx_link(fx, link->target, &unread_link);
	theirs = flooding ? served_region(flooding, 65536) : NULL;
	if (!theirs || target_begin(link->target, &idle, NULL))
		return -1;
	ret = flood(flooding, theirs);
	if (end_command(link->target, &idle) || ret)
		return -1;
	return commits_work(link, remote, 50) || remote_same(fx, theirs) ? -1 : 0;
}

/* Peers of another provider: the target's application, asleep, hears that they have gone */
static int crowd_of_strangers(struct fx *fx)
{
	static struct raw strangers[24];
	struct control_msg eq = {.command = CTL_EQ, .arg = {ARRAY_SIZE(strangers)}};
	struct link *link = served_link(fx, NULL);
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	size_t i, n;
	int ret = 0;

	if (!remote)
		return -1;
	for (n = 0; n < ARRAY_SIZE(strangers) && !ret; n++)
		ret = raw_open(fx, &strangers[n], link) || raw_connect(&strangers[n], NULL, 0);
	if (ret) {
		for (i = 0; i < n; i++)
			raw_close(&strangers[i]);
		return -1;
	}
	for (i = 0; i < n; i++)
		raw_leave(&strangers[i]);
	return target_must_call(link->target, &eq, NULL, 0, "hear that all peers have gone") ||
			       commits_work(link, remote, 10)
		       ? -1
		       : 0;
}

/* So many acknowledgements of each are on their way that all operations of a domain are used up */
#define SILENT 16
#define SILENT_REQUESTS 4500
#define SILENT_BURST 16 /* at once: their requests have PMV_SLOTS places */

/* fill_socket -- ask for more than it holds, and take nothing */
static int fill_socket(struct raw *raw, const struct remote *big)
{
	ssize_t ret = 0;
	int i;

	for (i = 0; i < 200 && !ret; i++)
		ret = fi_read(raw->conn.ep, raw->block, big->len, raw->region.desc, 0, big->addr,
			      (uint32_t) pmv_key_core(big->key), NULL);
	return ret ? failed_call(raw->fx, "fi_read", ret) : 0;
}

/* ask_only -- what has a fault is answered by itself; and no look at what comes back */
static int ask_only(struct raw *raw, const struct remote *remote)
{
	struct pmv_flush_message message = {.count = 1,
					    .ranges = {scene_range(remote, remote->len, 64)}};
	size_t at = ++raw->sent % PMV_SLOTS * PMV_MESSAGE_SIZE, len;
	ssize_t ret;

	message.envelope.number = raw->sent;
	len = message_encode(raw_slot(raw, raw->sent), &message, &raw->message_out);
	ret = fi_write(raw->conn.ep, raw->block + PMV_BLOCK_SIZE + at, len, raw->region.desc, 0,
		       raw->theirs.addr + at, raw->theirs.key, NULL);
	return ret ? failed_call(raw->fx, "fi_write", ret) : 0;
}

static int ask_without_reading(struct raw *silent, struct link *link, struct remote *remote)
{
	int i, k;

	for (i = 0; i < SILENT_REQUESTS; i++) {
		for (k = 0; k < SILENT; k++) {
			if (ask_only(&silent[k], remote))
				return -1;
		}
		if (i % SILENT_BURST != SILENT_BURST - 1)
			continue;
		/* They are taken and answered meanwhile. */
		if (commit(link, remote, 0, 64, 0) || commit(link, remote, 64, 64, 0))
			return -1;
	}
	return 0;
}

/* Peers that take no acknowledgements: whoever comes after them is served */
static int crowd_takes_no_answers(struct fx *fx)
{
	static struct raw silent[SILENT];
	struct control_msg idle = {.command = CTL_IDLE, .arg = {2000 * fx->opts->timeout}};
	struct link *link = served_link(fx, NULL), *late = NULL;
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct remote *big = remote ? fx_remote(fx, link->target, 65536, FI_REMOTE_READ, 0) : NULL;
	int n, ret = 0;

	if (!big)
		return -1;
	if (node_is_passive(&link->target->node))
		return skipped(fx, "a NIC takes them");
	for (n = 0; n < SILENT && !ret; n++)
		ret = raw_open(fx, &silent[n], link) || raw_greet(&silent[n]) ||
		      fill_socket(&silent[n], big);
	if (!ret && !target_begin(link->target, &idle, NULL))
		ret = ask_without_reading(silent, link, remote) || end_command(link->target, &idle);
	if (!ret)
		late = fx_link(fx, link->target, NULL);
	if (late)
		ret = commits_work(late, remote, 10);
	while (n--)
		raw_close(&silent[n]);
	return late && !ret ? 0 : -1;
}

const struct test_case crowd_cases[] = {
	{"crowd_comes_and_goes", crowd_comes_and_goes},
	{"crowd_has_one_that_floods", crowd_has_one_that_floods},
	{"crowd_of_strangers", crowd_of_strangers},
	{"crowd_takes_no_answers", crowd_takes_no_answers},
	{NULL, NULL},
};
