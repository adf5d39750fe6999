/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_stranger.c -- a third process that is connected to the same target
 *
 * All regions of a domain are open to all of its peers, as far as their access
 * goes.  So a stranger knows, or guesses, where the mailbox of another connection
 * is.  It reads nothing there, and what it writes there is not served.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/socket.h>

#include "memory/key.h"
#include "raw_peer.h"
#include "../common/stats.h"

struct scene {
	struct fx *fx;
	struct link *link;
	struct remote *remote;
	struct raw victim;
	struct raw stranger;
	uint8_t seen[PMV_MESSAGE_SIZE]; /* of the victim's mailbox */
};

static int meet(struct scene *scene, struct raw *raw, uint64_t secret)
{
	if (raw_open(scene->fx, raw, scene->link))
		return -1;
	raw->secret = secret;
	return raw_greet(raw);
}

/* meet_again -- what the target does not allow ends the stranger's connection */
static int meet_again(struct scene *scene)
{
	raw_close(&scene->stranger);
	return meet(scene, &scene->stranger, 0xbad);
}

static int open_scene(struct scene *scene, struct fx *fx)
{
	memset(scene, 0, sizeof(*scene));
	scene->fx = fx;
	scene->link = served_link(fx, NULL);
	scene->remote = scene->link ? served_region(scene->link, 65536) : NULL;
	return !scene->remote || meet(scene, &scene->victim, 0x5eed) ||
			       meet(scene, &scene->stranger, 0xbad)
		       ? -1
		       : 0;
}

static int close_scene(struct scene *scene, int ret)
{
	if (scene->stranger.fx)
		raw_close(&scene->stranger);
	if (scene->victim.fx)
		raw_close(&scene->victim);
	return ret || commit(scene->link, scene->remote, 0, 64, 0) || linger(scene->link, 20) ? -1
											      : 0;
}

/* serves_victim -- an ordinary request of the victim's */
static int serves_victim(struct scene *scene, const char *after)
{
	struct pmv_flush_message message = {
		.count = 1,
		.ranges = {{scene->remote->addr, 4096,
			    (uint32_t) pmv_key_core(scene->remote->key)}},
	};

	return raw_send(&scene->victim, &message) || raw_answers(&scene->victim, after,
								 scene->victim.sent, PMV_FAULT_NONE)
		       ? -1
		       : 0;
}

static size_t slot_at(uint64_t number)
{
	return number % PMV_SLOTS * PMV_MESSAGE_SIZE;
}

/* has_cache -- libfabric's registration cache gives every region of verbs all rights */
static bool has_cache(const struct raw *raw)
{
	const char *count = getenv("FI_MR_CACHE_MAX_COUNT");

	return !strcmp(raw->opts.provider, "verbs") && (!count || strcmp(count, "0"));
}

/* read_mailbox -- where the victim's first request is */
static int read_mailbox(struct scene *scene)
{
	struct raw *stranger = &scene->stranger;
	const struct pmv_handshake *mailbox = &scene->victim.theirs;

	memset(stranger->block, 0, PMV_MESSAGE_SIZE);
	if (raw_read(stranger, mailbox->addr + slot_at(1), mailbox->key, PMV_MESSAGE_SIZE)) {
		memcpy(scene->seen, stranger->block, PMV_MESSAGE_SIZE);
		return expect(scene->fx, has_cache(stranger),
			      "a stranger reads another one's mailbox");
	}
	return meet_again(scene);
}

/* try_forgery -- as the victim's next request: nobody hears of it */
static int try_forgery(struct scene *scene, const char *what, const uint8_t *bytes, size_t len)
{
	const struct pmv_handshake *mailbox = &scene->victim.theirs;
	size_t at = slot_at(scene->victim.sent + 1);
	struct raw *stranger = &scene->stranger;

	memcpy(stranger->block + PMV_BLOCK_SIZE + at, bytes, len);
	return raw_write_to(stranger, mailbox->addr + at, mailbox->key, at, len) ||
			       raw_settle(stranger) || raw_stays_silent(&scene->victim, what)
		       ? -1
		       : 0;
}

/* forge -- a request that asks for nothing: what is served would cover all before it */
static int forge(struct scene *scene)
{
	const struct raw *victim = &scene->victim, *stranger = &scene->stranger;
	const struct {
		const char *what;
		struct pmv_seal seal;
	} seals[] = {
		{"sealed with zeros", {{0}}},
		{"sealed with the stranger's secret", stranger->message_out},
		{"sealed with half of a secret",
		 pmv_seal(victim->secret, stranger->theirs.secret, PMV_SEALED_MESSAGE)},
		{"sealed with the other half",
		 pmv_seal(stranger->secret, victim->theirs.secret, PMV_SEALED_MESSAGE)},
	};
	struct pmv_flush_message message = {.envelope.number = victim->sent + 1};
	uint8_t bytes[PMV_MESSAGE_SIZE];
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(seals); i++) {
		memset(bytes, 0, sizeof(bytes));
		len = message_encode(bytes, &message, &seals[i].seal);
		if (try_forgery(scene, seals[i].what, bytes, len))
			return -1;
	}
	/* what was sealed once, with the next number */
	memcpy(scene->seen, &message.envelope.number, sizeof(message.envelope.number));
	return try_forgery(scene, "made of an earlier request", scene->seen, PMV_MESSAGE_SIZE);
}

/* flush_page -- may be read, since that pushes writes; it never holds anything */
static int flush_page(struct scene *scene)
{
	const struct pmv_handshake *theirs = &scene->victim.theirs;
	struct raw *stranger = &scene->stranger;
	uint64_t addr = pmv_handshake_flush_addr(theirs);
	size_t i;

	memset(stranger->block, 0xbb, PMV_FLUSH_SIZE);
	if (expect(scene->fx, raw_read(stranger, addr, theirs->flush_key, PMV_FLUSH_SIZE),
		   "the flush page can't be read"))
		return -1;
	for (i = 0; i < PMV_FLUSH_SIZE; i++) {
		if (expect(scene->fx, !stranger->block[i], "the flush page holds something"))
			return -1;
	}
	return 0;
}

static int requests(struct scene *scene)
{
	return serves_victim(scene, "the first request") || read_mailbox(scene) || forge(scene) ||
			       serves_victim(scene, "forged requests") || forge(scene) ||
			       flush_page(scene) || serves_victim(scene, "more of them")
		       ? -1
		       : 0;
}

static int stranger_requests(struct fx *fx)
{
	static struct scene scene;

	return close_scene(&scene, open_scene(&scene, fx) || requests(&scene));
}

/* begin_request -- to the link's target; the rest never comes: the socket, or -1 */
static int begin_request(struct link *link, size_t len)
{
	/* As tcp sends it: a version, a connection request, and 200 bytes that are to follow */
	static const uint8_t request[64] = {3, 0, 0, 200, [24] = 1};
	struct sockaddr_storage addr;
	size_t addr_len = sizeof(addr);
	int fd;

	if (fi_getpeer(link->conn.ep, &addr, &addr_len))
		return -1;
	fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (!connect(fd, (struct sockaddr *) &addr, (socklen_t) addr_len) &&
	    send(fd, request, len, MSG_NOSIGNAL) == (ssize_t) len)
		return fd;
	close(fd);
	return -1;
}

/* commit_after_them -- by one who connects when all have gone: the core frees them no later */
static int commit_after_them(struct fx *fx, struct link *link, struct remote *remote)
{
	struct link *late = fx_link(fx, link->target, NULL);

	return late && !commit(late, remote, 0, 64, 0) && !remote_same(fx, remote) ? 0 : -1;
}

/* Whoever says nothing, or not all, holds up nobody who connects after him */
static int stranger_unfinished(struct fx *fx)
{
	static const size_t lens[] = {0, 1, 31, 32, 33, 64};
	struct link *link = served_link(fx, NULL), *late = NULL;
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	int fds[ARRAY_SIZE(lens)], ret = 0;
	size_t n;

	if (!remote)
		return -1;
	if (node_is_passive(&link->target->node))
		return skipped(fx, "connections are no sockets");
	for (n = 0; n < ARRAY_SIZE(lens) && !ret; n++) {
		fds[n] = begin_request(link, lens[n]);
		late = fds[n] < 0 ? NULL : fx_link(fx, link->target, NULL);
		ret = !late || commit(late, remote, n * 64, 64, 0) ? -1 : 0;
	}
	while (n--)
		close(fds[n]);
	return ret || commit_after_them(fx, link, remote) ? -1 : 0;
}

/* More than the target has descriptors for say nothing: whoever comes after them is served */
static int stranger_silence(struct fx *fx)
{
	struct link *link = served_link(fx, NULL), *late = NULL;
	struct remote *remote = link ? served_region(link, 65536) : NULL;
	struct rlimit limit;
	int fds[200], ret = 0;
	size_t n;

	if (!remote)
		return -1;
	if (node_is_passive(&link->target->node))
		return skipped(fx, "connections are no sockets");
	if (prlimit(link->target->pid, RLIMIT_NOFILE, NULL, &limit))
		return failed(fx, "the target's limits can't be read");
	limit.rlim_cur = 100;
	if (prlimit(link->target->pid, RLIMIT_NOFILE, &limit, NULL))
		return failed(fx, "the target's limits can't be set");
	for (n = 0; n < ARRAY_SIZE(fds) && !ret; n++) {
		fds[n] = begin_request(link, 0);
		ret = fds[n] < 0 ? failed(fx, "no connection") : 0;
	}
	if (!ret)
		late = fx_link(fx, link->target, NULL);
	if (late)
		ret = commit(late, remote, 0, 64, 0);
	while (n--)
		close(fds[n]);
	return !late || ret || commit_after_them(fx, link, remote) ? -1 : 0;
}

const struct test_case stranger_cases[] = {
	{"stranger_requests", stranger_requests},
	{"stranger_unfinished", stranger_unfinished},
	{"stranger_silence", stranger_silence},
	{NULL, NULL},
};
