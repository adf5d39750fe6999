/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cases_loss.c -- a connection is lost with what nobody has committed on it
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdm_functional.h"

/* A new connection, as RxM makes it after one was lost: it forgets both with the address. */
static int lose_connection(struct client *client)
{
	int ret = fi_av_remove(client->side.av, &client->server, 1, 0);

	if (ret ||
	    fi_av_insert(client->side.av, client->offer.name, 1, &client->server, 0, NULL) != 1)
		return FAIL(client, "removing and inserting the server failed");
	return 0;
}

/* write_to_lose -- and nothing commits it; where every write commits, only injected ones don't */
static int write_to_lose(struct client *client, size_t offset, int n)
{
	ssize_t ret;

	if (!commit_all)
		return check(client, writemsg(client, offset, INJECT, n, FI_COMPLETION), 0,
			     "write") ||
		       await(client, n, WRITTEN);
	POST(client, ret,
	     fi_inject_write(client->side.ep, client->buf + offset, INJECT, client->server,
			     client->offer.addr + offset, client->offer.key));
	return check(client, ret, 0, "fi_inject_write");
}

/* is_proven -- does the completion of a write say that it is durable? */
static bool is_proven(const struct client *client)
{
	return client->attr.persist == PMV_WSP && is_one_sided(client) && !commit_all;
}

/* What went down with a connection is covered by no commit on another one, and that is told. */
static int run_loss(struct client *client)
{
	ssize_t lost = is_proven(client) ? 0 : -FI_ECONNRESET;
	struct offer offer = client->offer;

	pattern_fill(client->buf, SIZE, 13, 0);
	if (connect_first(client) || write_to_lose(client, 64, 1) || lose_connection(client) ||
	    check(client, commit(client, 128, INJECT, 2, FI_COMPLETION), lost,
		  "a commit after a loss") ||
	    (!lost && await(client, 2, WRITTEN)))
		return -1;
	/* Once: what is written again, and committed, is safe from the next loss. */
	for (int n = 3; n < 9; n += 2) {
		if (write_to_lose(client, 64, n) ||
		    check(client, commit(client, 128, INJECT, n + 1, FI_COMPLETION), 0,
			  "a commit after it was told") ||
		    await(client, n + 1, WRITTEN) || lose_connection(client))
			return -1;
	}
	/* Other memory of the peer has lost nothing, but a fence covers it all. */
	if (write_to_lose(client, 64, 9) || lose_connection(client))
		return -1;
	name_volatile(client);
	if (check(client, commit(client, 0, INJECT, 10, FI_COMPLETION), 0, "a commit elsewhere") ||
	    await(client, 10, WRITTEN) ||
	    check(client, writemsg(client, 0, INJECT, 11, FI_COMMIT_COMPLETE | FI_FENCE), lost,
		  "a fenced commit elsewhere") ||
	    (!lost && await(client, 11, WRITTEN)))
		return -1;
	client->offer = offer;
	if (is_safe(client) &&
	    (write_to_lose(client, 64, 13) || lose_connection(client) ||
	     check(client, sum(client, 14, FI_COMMIT_COMPLETE), lost, "a committed atomic") ||
	     (!lost && await(client, 14, FI_ATOMIC)) ||
	     check(client, sum(client, 15, FI_COMMIT_COMPLETE), 0, "another one") ||
	     await(client, 15, FI_ATOMIC)))
		return -1;
	return check(client, commit(client, 64, INJECT, 12, FI_COMPLETION), 0, "a last commit") ||
	       await(client, 12, WRITTEN) || expect_data(client, 64, INJECT, "the last commit") ||
	       expect_none(client);
}

/*
 * An atomic was executed, but is not durable yet, when the connection is lost.  Who answers
 * on the next one may have started without it: nobody may say there that it is durable.
 */
static int run_atomic_loss(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	ssize_t ret;

	if (is_safe(client))
		return 0;
	for (int n = 1; n < 9; n += 2) {
		if (check(client, sum(client, n, FI_COMPLETION), 0, "fi_atomicmsg"))
			return -1;
		/* RxM has its completion then, which nobody has asked for yet. */
		while ((ret = fi_cq_read(client->side.cq, NULL, 0)) == -FI_EAGAIN && now_ns() < end)
			;
		if (check(client, ret, 0, "waiting for RxM") || lose_connection(client))
			return -1;
		/* At once: there may be nobody to connect to. */
		ret = fi_cq_read(client->side.cq, &entry, 1);
		if (ret != -FI_EAVAIL)
			return FAIL(client, "an atomic of before a loss: fi_cq_read: %zd", ret);
		if (expect_error(client, n, FI_ECONNRESET))
			return -1;
		/* On the new connection all is well. */
		if (check(client, sum(client, n + 1, FI_COMPLETION), 0, "another one") ||
		    await(client, n + 1, FI_ATOMIC))
			return -1;
	}
	return expect_none(client);
}

/* One that has not been answered then.  RxM forgets it, whether it commits or not. */
static int run_atomic_forgotten(struct client *client)
{
	uint64_t flags = FI_COMPLETION | (is_safe(client) && !commit_all ? FI_COMMIT_COMPLETE : 0);
	ssize_t ret;

	/* What counts has no atomics that are committed behind themselves. */
	if (commit_all && client->side.cntr)
		return 0;
	pattern_fill(client->buf, SIZE, 19, 0);
	if (connect_first(client))
		return -1;
	for (int n = 1; n < 9; n += 2) {
		if (stop_server(client) ||
		    check(client, sum(client, n, flags), 0, "fi_atomicmsg") ||
		    expect_stuck(client, "an atomic") || lose_connection(client) ||
		    await_error(client, n, FI_ECANCELED) || go_on(client))
			return -1;
		/* What was not committed before is lost with the connection, which is told once. */
		ret = sum(client, n + 1, flags);
		if (ret == -FI_ECONNRESET)
			ret = sum(client, n + 1, flags);
		if (check(client, ret, 0, "another one") || await(client, n + 1, FI_ATOMIC))
			return -1;
	}
	return expect_none(client);
}

/* The same when the target starts again: RxM hears of it some time. */
static int run_restart(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	ssize_t ret;

	pattern_fill(client->buf, SIZE, 14, 0);
	if (connect_first(client) || write_to_lose(client, 64, 1) ||
	    ask(client, ASK_REOPEN, 0, 0, NULL, 0))
		return -1;
	if (is_proven(client))
		return 0;
	/* What is posted to the old connection fails by itself. */
	do {
		ret = commit(client, 128, INJECT, 2, FI_COMPLETION);
		if (!ret && !await(client, 2, WRITTEN))
			return FAIL(client, "a commit to the restarted target was accepted");
	} while (!ret && now_ns() < end);
	return check(client, ret, -FI_ECONNRESET, "a commit to the restarted target") ||
	       check(client, commit(client, 64, INJECT, 3, FI_COMPLETION), 0, "a last commit") ||
	       await(client, 3, WRITTEN) || expect_data(client, 64, INJECT, "the last commit") ||
	       expect_none(client);
}

/* listens_not -- a port that stays taken, and where nobody listens: a socket, or -1 */
static int listens_not(struct sockaddr_in *in)
{
	socklen_t len = sizeof(*in);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	in->sin_port = 0;
	if (fd < 0 || bind(fd, (struct sockaddr *) in, len) ||
	    getsockname(fd, (struct sockaddr *) in, &len))
		return -1;
	return fd;
}

/* times_out -- whatever is asked of the client's server, which is not there, fails in time, each */
static int times_out(struct client *client)
{
	const struct offer *offer = &client->offer;
	struct fid_ep *ep = client->side.ep;
	ssize_t ret;

	if (check(client, writemsg(client, 0, INJECT, 1, FI_COMPLETION), -FI_ETIMEDOUT,
		  "a write to nobody"))
		return -1;
	/* It has been told, and the next call tries again. */
	ret = fi_inject_write(ep, client->buf, 8, client->server, offer->addr, offer->key);
	if (check(client, ret, -FI_EAGAIN, "fi_inject_write to nobody"))
		return -1;
	POST(client, ret,
	     fi_read(ep, client->buf, 8, client->desc, client->server, offer->addr, offer->key,
		     &client->contexts[3]));
	if (check(client, ret, -FI_ETIMEDOUT, "fi_read from nobody"))
		return -1;
	POST(client, ret,
	     fi_send(ep, client->buf, 8, client->desc, client->server, &client->contexts[4]));
	return check(client, ret, -FI_ETIMEDOUT, "fi_send to nobody") ||
	       check(client, sum(client, 5, FI_COMPLETION), -FI_ETIMEDOUT, "an atomic to nobody");
}

static int run_nobody_there(struct client *client)
{
	fi_addr_t server = client->server;
	struct sockaddr_in in;
	int fd, ret;

	memcpy(&in, client->offer.name, sizeof(in));
	fd = listens_not(&in);
	if (in.sin_family != AF_INET || fd < 0)
		return FAIL(client, "no port where nobody listens");
	if (connect_first(client) ||
	    fi_av_insert(client->side.av, &in, 1, &client->server, 0, NULL) != 1)
		return FAIL(client, "the address of nobody can't be inserted");
	ret = times_out(client);
	close(fd);
	client->server = server;
	/* Others are served as before. */
	return ret || check(client, commit(client, 0, INJECT, 6, FI_COMPLETION), 0, "a commit") ||
	       await(client, 6, WRITTEN) || expect_none(client);
}

/* Somebody who refuses each connection, with a reason. */
struct refuser {
	struct node node;
	atomic_bool stops;
};

static void *refuse(void *arg)
{
	struct refuser *refuser = arg;
	struct cm_event event;

	while (!atomic_load(&refuser->stops)) {
		if (node_event(&refuser->node, &event, 100) == 1 && !event.err &&
		    event.event == FI_CONNREQ)
			node_reject(&refuser->node, event.entry.info, "nobody is welcome");
	}
	return NULL;
}

static int is_refused(struct client *client, const struct sockaddr_in *in)
{
	fi_addr_t server = client->server;
	int ret;

	if (fi_av_insert(client->side.av, in, 1, &client->server, 0, NULL) != 1)
		return FAIL(client, "the refuser's address can't be inserted");
	ret = check(client, writemsg(client, 0, INJECT, 1, FI_COMPLETION), -FI_ETIMEDOUT,
		    "a write to a peer that refuses");
	client->server = server;
	return ret;
}

static int run_refused(struct client *client)
{
	const struct node_attr attr = {.provider = "tcp", .source = "127.0.0.1", .port = "0"};
	struct refuser refuser = {0};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	pthread_t thread;
	int ret;

	if (node_listen(&refuser.node, &attr) || pthread_create(&thread, NULL, refuse, &refuser)) {
		node_close(&refuser.node);
		return FAIL(client, "nobody can listen and refuse");
	}
	in.sin_port = htons(node_port(&refuser.node));
	ret = is_refused(client, &in);
	atomic_store(&refuser.stops, true);
	pthread_join(thread, NULL);
	node_close(&refuser.node);
	return ret;
}

/* refuses_old_key -- whatever is done with it */
static int refuses_old_key(struct client *client)
{
	const struct offer *offer = &client->offer;
	struct fid_ep *ep = client->side.ep;
	uint64_t result;
	ssize_t ret;

	if (check(client, commit(client, 128, INJECT, 3, FI_COMPLETION), -FI_EKEYREJECTED,
		  "a commit by an old key") ||
	    check(client, write_plain(client, 128, INJECT, 3), -FI_EKEYREJECTED,
		  "fi_write by an old key") ||
	    check(client, writemsg(client, 128, INJECT, 3, FI_INJECT | FI_FENCE), -FI_EKEYREJECTED,
		  "an injected write by an old key") ||
	    check(client, sum(client, 3, FI_COMPLETION), -FI_EKEYREJECTED,
		  "fi_atomicmsg by an old key") ||
	    check(client, fetch_sum(client, &result, 3, FI_COMPLETION), -FI_EKEYREJECTED,
		  "fi_fetch_atomicmsg by an old key"))
		return -1;
	POST(client, ret,
	     fi_inject_write(ep, client->buf, 8, client->server, offer->addr, offer->key));
	if (check(client, ret, -FI_EKEYREJECTED, "fi_inject_write by an old key"))
		return -1;
	POST(client, ret,
	     fi_read(ep, client->buf, 8, client->desc, client->server, offer->addr, offer->key,
		     &client->contexts[3]));
	return check(client, ret, -FI_EKEYREJECTED, "fi_read by an old key");
}

/* commit_until_refused -- what is posted to the old connection fails by itself */
static int commit_until_refused(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	ssize_t ret;

	do {
		ret = commit(client, 128, INJECT, 2, FI_COMPLETION);
		if (!ret && !await(client, 2, WRITTEN))
			return FAIL(client, "a commit by an old key was accepted");
	} while ((!ret || ret == -FI_ECONNRESET) && now_ns() < end);
	return check(client, ret, -FI_EKEYREJECTED, "a commit by an old key");
}

/*
 * The target starts again under the same address, with another file.  RxM connects again without a
 * word, and the core's keys are the same as before: nothing may come to the new file by an old key.
 */
static int run_old_key(struct client *client)
{
	struct offer offer;

	pattern_fill(client->buf, SIZE, 15, 0);
	if (connect_first(client) || ask(client, ASK_RESTART, 0, 0, &offer, sizeof(offer)))
		return -1;
	if (!(client->side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) &&
	    pmv_key_core(offer.key) != pmv_key_core(client->offer.key))
		return FAIL(client, "the core has given another key");
	if (commit_until_refused(client) || refuses_old_key(client))
		return -1;
	memset(client->buf, 0, SIZE);
	if (expect_data(client, 0, SIZE, "the new file"))
		return -1;
	/* Keys are exchanged again, and all is well. */
	client->offer = offer;
	pattern_fill(client->buf, SIZE, 16, 0);
	return check(client, commit(client, 64, INJECT, 4, FI_COMPLETION), 0,
		     "a commit by the new key") ||
	       await(client, 4, WRITTEN) || expect_data(client, 64, INJECT, "the last commit") ||
	       expect_none(client);
}

/* With a counter it is the target that refuses an atomic. */
static int run_old_key_counted(struct client *client)
{
	uint64_t end = now_ns() + PATIENCE_NS;
	struct fi_cq_data_entry entry;
	struct offer offer;
	ssize_t ret;

	memset(client->buf, 1, SIZE);
	if (connect_first(client) || ask(client, ASK_RESTART, 0, 0, &offer, sizeof(offer)) ||
	    commit_until_refused(client))
		return -1;
	/* There each atomic would have to commit, and is refused for that. */
	if (commit_all)
		return 0;
	if (check(client, sum(client, 3, FI_COMPLETION), 0, "fi_atomicmsg"))
		return -1;
	do
		ret = fi_cq_read(client->side.cq, &entry, 1);
	while (ret == -FI_EAGAIN && now_ns() < end);
	if (check(client, ret, -FI_EAVAIL, "the atomic") || expect_error(client, 3, FI_EACCES))
		return -1;
	memset(client->buf, 0, SIZE);
	return expect_data(client, 0, SIZE, "the new file");
}

/* A message that RxM makes writes of: they are its own, and what was lost is none of theirs. */
static int run_rendezvous(struct client *client)
{
	const size_t len = 100000;
	ssize_t ret;

	for (int n = 1; n < 9; n += 4) {
		pattern_fill(client->buf, SIZE, (uint64_t) n, 0);
		if (write_to_lose(client, 0, n) || lose_connection(client) ||
		    ask(client, ASK_RECV, len, 0, NULL, 0))
			return -1;
		POST(client, ret,
		     fi_send(client->side.ep, client->buf, len, client->desc, client->server,
			     &client->contexts[n + 1]));
		if (check(client, ret, 0, "fi_send") || await(client, n + 1, FI_SEND))
			return -1;
		if (!is_proven(client) && check(client, commit(client, 0, 8, n + 2, 0),
						-FI_ECONNRESET, "a commit after a loss"))
			return -1;
		if (check(client, commit(client, 0, 8, n + 3, 0), 0, "a commit") ||
		    await(client, n + 3, WRITTEN))
			return -1;
	}
	return expect_none(client);
}

const struct test rdm_loss_cases[] = {
	{"rdm_loss", run_loss, {MAP}, ALWAYS},
	{"rdm_atomic_loss", run_atomic_loss, {MAP}, COMMIT_ALL},
	{"rdm_atomic_forgotten", run_atomic_forgotten, {MAP}, ALWAYS},
	{"rdm_atomic_forgotten_sread", run_atomic_forgotten, {MAP, .waits = true}, ALWAYS},
	{"rdm_atomic_forgotten_counter", run_atomic_forgotten, {MAP, .counter = true}, ALWAYS},
	{"rdm_nobody_there", run_nobody_there, {MAP}, TIMEOUT},
	{"rdm_nobody_there_fences", run_nobody_there, {MAP, .fences = true}, TIMEOUT},
	{"rdm_refuses_all", run_refused, {MAP}, TIMEOUT},
	{"rdm_restart", run_restart, {MAP}, ALWAYS},
	{"rdm_old_key", run_old_key, {MAP}, ALWAYS},
	{"rdm_old_key_counted", run_old_key_counted, {MAP, .counter = true}, ALWAYS},
	{"rdm_rendezvous", run_rendezvous, {MAP}, ALWAYS},
	{0},
};
