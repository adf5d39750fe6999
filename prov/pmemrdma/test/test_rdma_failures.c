/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rdma_failures.c -- whatever fails below pmemrdma, once: an error, never a hang, and never a
 * success
 *
 * Each scene runs once for each call that it makes of libibverbs, librdmacm, libfabric and the C
 * library, and that one fails.  Some call of the application has to tell of it, and nothing is
 * left.  Calls whose failure takes nothing away that was promised are in `harmless`.
 */
#include "link.h"
#include "listener.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmemrdma/device.h"
#include "pmemrdma/fabric.h"
#include "pmemrdma/flush.h"
#include "pmemrdma/getinfo.h"

static bool is_one_of(const char *call, const char *const *names)
{
	while (*names && strcmp(call, *names) != 0)
		names++;
	return *names;
}

/* A client */

struct client {
	struct link link;
	struct fid_mr *flushable;
	int flushes; /* that were posted */
};

static int await(struct link *link)
{
	struct fi_cq_data_entry entry;
	int ret = (int) fi_cq_sread(link->cq, &entry, 1, NULL, -1);

	return ret == 1 ? 0 : ret;
}

/* write_and_sleep -- until the completion comes, and once more */
static int write_and_sleep(struct link *link)
{
	struct fid *cq = &link->cq->fid;
	int ret = (int) fi_recv(link->ep, link->buf, 64, fi_mr_desc(link->mr), 0, NULL);

	if (!ret)
		ret = (int) link_write(link, 8, FI_COMPLETION, CONTEXT(1));
	if (!ret)
		ret = fi_trywait(link->fabric, &cq, 1);
	if (ret)
		return ret;
	fake_end(fake.qp, IBV_WC_SUCCESS);
	ret = await(link);
	return ret ? ret : fi_trywait(link->fabric, &cq, 1);
}

static int write_and_flush(struct client *client)
{
	struct link *link = &client->link;
	const struct pmemrdma_request list[] = {
		link_pair(link)[0],
		{.kind = PMEMRDMA_FLUSH,
		 .flags = FI_COMPLETION,
		 .addr = 0x1000,
		 .key = 9,
		 .len = 8,
		 .flush = PMEMRDMA_FLUSH_PERSISTENT},
	};
	int ret = fi_mr_reg(link->domain, link->buf, 8, FI_REMOTE_READ, 0, 0, PMEMRDMA_MR_FLUSH,
			    &client->flushable, NULL);

	if (!ret)
		ret = (int) link_lists(link)->post(link->ep, list, 2);
	if (ret < 0)
		return ret;
	client->flushes++;
	fake_end(fake.qp, IBV_WC_SUCCESS);
	fake_end(fake.qp, IBV_WC_SUCCESS);
	return await(link);
}

static int run_client(struct client *client)
{
	struct link *link = &client->link;
	int ret = link_open(link, 16, 8, FI_SELECTIVE_COMPLETION);

	if (!ret)
		ret = write_and_sleep(link);
	if (!ret && link_lists(link)->flushes(link->ep))
		ret = write_and_flush(client);
	return ret ? ret : fi_shutdown(link->ep, 0);
}

/* try_client -- 0, or an error that was told */
static int try_client(void)
{
	struct client client = {0};
	int ret = run_client(&client);
	struct fid *fid = client.flushable ? &client.flushable->fid : NULL;
	int late = link_close_all(&fid, 1), last = link_close(&client.link);
	bool can = pmr_flush_access(PMEMRDMA_FLUSH_PERSISTENT);

	/* Whoever can't learn how many the peer keeps does not FLUSH. */
	if (!ret)
		cr_expect_eq(client.flushes,
			     can && !(fake.failed && !strcmp(fake.failed, "ibv_query_qp")), "%s",
			     fake.failed);
	return ret ? ret : late ? late : last;
}

/* A server */

struct server {
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *srx, *ep;
};

/* open_server -- an endpoint with shared receives for whoever asks for a connection */
static int open_server(const struct listener *listener, struct fi_info *info, struct server *server)
{
	struct fi_rx_attr attr = {.size = 4};
	int ret = fi_domain(listener->fabric, info, &server->domain, NULL);

	if (!ret)
		ret = fi_cq_open(server->domain, NULL, &server->cq, NULL);
	if (!ret)
		ret = fi_srx_context(server->domain, &attr, &server->srx, NULL);
	if (!ret)
		ret = fi_endpoint(server->domain, info, &server->ep, NULL);
	if (!ret)
		info->handle = NULL;
	if (!ret)
		ret = fi_ep_bind(server->ep, &listener->eq->fid, 0);
	if (!ret)
		ret = fi_ep_bind(server->ep, &server->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(server->ep, &server->srx->fid, 0);
	if (!ret)
		ret = (int) fi_recv(server->srx, server, 8, NULL, 0, NULL);
	return ret ? ret : fi_accept(server->ep, NULL, 0);
}

/* next_request -- for a connection; 0, or an error */
static int next_request(struct listener *listener, struct fi_info **info)
{
	struct fi_eq_err_entry err = {0};
	struct fi_eq_cm_entry entry;
	uint32_t event;
	ssize_t got;

	fake_request(fake.id, "\0", 1);
	got = fi_eq_read(listener->eq, &event, &entry, sizeof(entry), 0);
	if (got == -FI_EAVAIL && fi_eq_readerr(listener->eq, &err, 0) > 0)
		return -err.err;
	if (got < 0)
		return (int) got;
	*info = entry.info;
	return 0;
}

/* run_server -- one connection */
static int run_server(struct listener *listener, struct server *server)
{
	struct fi_info *info;
	int ret = listener_open(listener), late = 0;

	if (!ret)
		ret = next_request(listener, &info);
	if (ret)
		return ret;
	ret = open_server(listener, info, server);
	if (info->handle)
		late = fi_reject(listener->pep, info->handle, NULL, 0);
	fi_freeinfo(info);
	return ret ? ret : late;
}

static int try_server(void)
{
	struct listener listener = {0};
	struct server server = {0};
	int ret = run_server(&listener, &server), late, last;
	struct fid *const all[] = {
		server.ep ? &server.ep->fid : NULL,
		server.srx ? &server.srx->fid : NULL,
		server.cq ? &server.cq->fid : NULL,
		server.domain ? &server.domain->fid : NULL,
	};

	late = link_close_all(all, sizeof(all) / sizeof(all[0]));
	last = listener_close(&listener);
	return ret ? ret : late ? late : last;
}

/* A server that does not want to */

static int run_refusal(struct listener *listener)
{
	struct fi_info *info;
	int ret = listener_open(listener);

	if (!ret)
		ret = next_request(listener, &info);
	if (ret)
		return ret;
	ret = fi_reject(listener->pep, info->handle, "no", 2);
	fi_freeinfo(info);
	if (!ret)
		ret = (int) fi_eq_write(listener->eq, FI_NOTIFY, "x", 1, 0);
	return ret < 0 ? ret : 0;
}

static int try_refusal(void)
{
	struct listener listener = {0};
	int ret = run_refusal(&listener), late = listener_close(&listener);

	return ret ? ret : late;
}

/* One that listens somewhere else */

static int run_move(struct listener *listener)
{
	struct sockaddr_in elsewhere = {.sin_family = AF_INET, .sin_port = htons(98)};
	struct fi_info *hints = link_hints();
	int ret = pmr_getinfo(FI_VERSION(1, 17), NULL, "99", FI_SOURCE, hints, &listener->info);

	fi_freeinfo(hints);
	if (!ret)
		ret = pmr_fabric_open(listener->info->fabric_attr, &listener->fabric, NULL);
	if (!ret)
		ret = fi_passive_ep(listener->fabric, listener->info, &listener->pep, NULL);
	return ret ? ret : fi_setname(&listener->pep->fid, &elsewhere, sizeof(elsewhere));
}

static int try_move(void)
{
	struct listener listener = {0};
	int ret = run_move(&listener), late = listener_close(&listener);

	return ret ? ret : late;
}

/* Each call */

/*
 * These take nothing away that anybody counts on: a timer is that of the device, a queue pair goes
 * without being told to stop before, nobody FLUSHes, and an event is read the next time.
 */
static const char *const harmless[] = {"ibv_modify_qp", "ibv_query_qp", "ibv_get_cq_event", NULL};

static void each_call_fails(int (*scene)(void), int least)
{
	static const struct fake fresh = {.flush_ways = 3, .depth = 16};
	bool ended;
	int n = 0;

	/* The devices are found once. */
	fake = fresh;
	pmr_devices();
	do {
		int ret;

		fake = fresh;
		fake.fail_at = ++n;
		ret = scene();
		ended = !fake.failed;
		if (ended || is_one_of(fake.failed, harmless))
			cr_expect_eq(ret, 0, "%s fails, and that is an error: %d", fake.failed,
				     ret);
		else
			cr_expect_lt(ret, 0, "%s fails, and nobody is told", fake.failed);
	} while (!ended);
	cr_expect_geq(n, least);
}

Test(rdma_failures, any_call_of_a_client_is_an_error)
{
	each_call_fails(try_client, 50);
}

Test(rdma_failures, any_call_of_a_server_is_an_error)
{
	each_call_fails(try_server, 40);
}

Test(rdma_failures, any_call_of_who_refuses_is_an_error)
{
	each_call_fails(try_refusal, 20);
}

Test(rdma_failures, any_call_of_who_moves_is_an_error)
{
	each_call_fails(try_move, 15);
}

/* Of the last one only the timer depends. */
Test(rdma_failures, any_call_that_establishes_is_an_error)
{
	bool ended;
	int n = 0;

	do {
		struct link link = {.holds = true};
		int ret;

		fake = (struct fake){.has_ece = true, .peer_ece = {.vendor_id = 15}};
		cr_assert_eq(link_open(&link, 16, 8, FI_SELECTIVE_COMPLETION), 0);
		fake.fail_at = fake.calls + ++n;
		ret = link_lists(&link)->establish(link.ep);
		ended = !fake.failed;
		fake.fail_at = 0;
		cr_expect_eq(ret == 0, fake.established, "%s fails", fake.failed);
		cr_expect_eq(link_close(&link), 0);
	} while (!ended);
	cr_expect_eq(n, 12);
}

/* The devices, which a process looks for once */

struct found {
	const char *failed;
	int ret;
	size_t inject_size;
	unsigned flush_ways;
};

static void look(struct found *found, int fail_at)
{
	struct fi_info *hints = link_hints(), *info = NULL;

	fake.flush_ways = 3;
	fake.fail_at = fail_at;
	found->ret = pmr_getinfo(FI_VERSION(1, 17), FAKE_ADDR, "99", FI_SOURCE, hints, &info);
	found->failed = fake.failed;
	fake.fail_at = 0;
	if (info)
		found->inject_size = info->tx_attr->inject_size;
	if (pmr_devices())
		found->flush_ways = pmr_devices()->flush_ways;
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* look_apart -- in a process of its own */
static void look_apart(struct found *found, int fail_at)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		look(found, fail_at);
		_exit(0);
	}
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

Test(rdma_failures, of_which_a_device_is_looked_for_leave_none_or_one_that_can_less)
{
	/* What was opened to try it out stays open. */
	static const char *const left[] = {"ibv_destroy_qp", "ibv_destroy_cq", "ibv_dealloc_pd",
					   NULL};
	const unsigned ways = pmr_flush_access(3) ? 3 : 0;
	struct found *found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int n = 0;

	cr_assert_neq(found, MAP_FAILED);
	do {
		bool less, unflushable;

		*found = (struct found){0};
		look_apart(found, ++n);
		less = found->failed && !strcmp(found->failed, "ibv_create_qp");
		unflushable = found->failed && !strcmp(found->failed, "ibv_query_device_ex");
		if (found->failed && !less && !unflushable && !is_one_of(found->failed, left)) {
			cr_expect_lt(found->ret, 0, "%s fails, and nobody is told", found->failed);
			continue;
		}
		cr_expect_eq(found->ret, 0, "%s fails, and that is an error", found->failed);
		cr_expect_eq(found->inject_size, less ? FAKE_MAX_INLINE / 2U : FAKE_MAX_INLINE,
			     "%s", found->failed);
		cr_expect_eq(found->flush_ways, unflushable ? 0 : ways, "%s", found->failed);
	} while (found->failed);
	cr_expect_geq(n, 15);
}
