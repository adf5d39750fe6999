/* SPDX-License-Identifier: BSD-2-Clause */
/* test_rdma_connect.c -- what is offered, and connections */
#include "link.h"
#include "listener.h"

#include <netdb.h>
#include <poll.h>

#include "pmemrdma/cm_data.h"
#include "pmemrdma/fabric.h"
#include "pmemrdma/flush.h"
#include "pmemrdma/getinfo.h"
#include "pmemrdma/info.h"

static int ask(const char *node, const char *service, uint64_t flags, struct fi_info *hints,
	       struct fi_info **info)
{
	return pmr_getinfo(FI_VERSION(1, 17), node, service, flags, hints, info);
}

/* refused -- these hints are, and so they were changed */
#define refused(change)                                                                            \
	do {                                                                                       \
		struct fi_info *hints = link_hints(), *info = NULL;                                \
		change;                                                                            \
		cr_expect_eq(ask("10.9.9.9", "1", 0, hints, &info), -FI_ENODATA, #change);         \
		cr_expect_null(info);                                                              \
		fi_freeinfo(hints);                                                                \
	} while (0)

Test(rdma_getinfo, offers_nothing_that_the_device_can_not_do)
{
	refused(hints->caps = FI_TAGGED);
	refused(hints->caps = FI_MSG | FI_RMA_PMEM);
	refused((hints->caps = FI_RMA, hints->mode = 0));
	refused(hints->addr_format = FI_SOCKADDR_IB);
	refused(hints->ep_attr->type = FI_EP_RDM);
	refused(hints->ep_attr->protocol = FI_PROTO_IWARP);
	refused(hints->tx_attr->size = 513);
	refused(hints->tx_attr->inject_size = FAKE_MAX_INLINE + 1);
	refused(hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE);
	refused(hints->tx_attr->msg_order = FI_ORDER_WAR);
	refused(hints->rx_attr->size = 257);
	refused(hints->domain_attr->mr_mode = FI_MR_LOCAL);
	refused(hints->domain_attr->cq_data_size = 8);
	refused(hints->domain_attr->name = strdup("other"));
	refused(hints->fabric_attr->name = strdup("other"));
	refused((free(hints->fabric_attr->prov_name), hints->fabric_attr->prov_name = NULL));
	refused((free(hints->fabric_attr->prov_name),
		 hints->fabric_attr->prov_name = strdup("^pmemrdma")));
}

Test(rdma_getinfo, offers_the_device_by_which_an_address_is_reached)
{
	struct fi_info *hints = link_hints(), *info = NULL;

	cr_assert_eq(ask("10.9.9.9", "1234", 0, hints, &info), 0);
	cr_assert_null(info->next);
	cr_assert_str_eq(info->domain_attr->name, "fake0");
	cr_assert_str_eq(info->fabric_attr->name, "RDMA-0xfe00000000000000");
	cr_assert_eq(info->addr_format, (uint32_t) FI_SOCKADDR_IN);
	cr_assert_eq(ntohs(((struct sockaddr_in *) info->dest_addr)->sin_port), 1234);
	cr_assert_eq(((struct sockaddr_in *) info->src_addr)->sin_port, 0);
	cr_assert_eq(info->tx_attr->inject_size, (size_t) FAKE_MAX_INLINE);
	cr_assert_eq(info->tx_attr->iov_limit, 3U);
	cr_assert_eq(info->ep_attr->max_msg_size, (size_t) 1 << 20);
	fi_freeinfo(info);
	/* Not by the loopback's, which is no device's. */
	cr_assert_eq(ask("127.0.0.1", "1", FI_SOURCE, hints, &info), -FI_ENODATA);
	/* At a server's own address. */
	cr_assert_eq(ask(FAKE_ADDR, "99", FI_SOURCE, hints, &info), 0);
	cr_assert_null(info->dest_addr);
	cr_assert_eq(ntohs(((struct sockaddr_in *) info->src_addr)->sin_port), 99);
	fi_freeinfo(info);
	/* A layer above asks for a fabric only. */
	free(hints->domain_attr);
	hints->domain_attr = NULL;
	cr_assert_eq(ask(FAKE_ADDR, "99", FI_SOURCE, hints, &info), 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	cr_assert_eq(fake.live, 0);
	cr_assert_eq(fake.references, 1, "nothing holds the devices, which are still used");
}

/* offers_flushing -- to hints that ask for it */
static bool offers_flushing(struct fi_info *hints)
{
	struct fi_info *info = NULL;
	bool offered = !ask("10.9.9.9", "1", 0, hints, &info);

	if (offered)
		cr_expect_not(info->caps & PMEMRDMA_FLUSHES);
	fi_freeinfo(info);
	return offered;
}

Test(rdma_getinfo, offers_a_device_without_flush_to_nobody_who_needs_it)
{
	struct fi_info *hints = link_hints();

	fake.flush_ways = PMEMRDMA_FLUSH_GLOBAL;
	hints->caps = PMEMRDMA_FLUSHES;
	cr_expect_not(offers_flushing(hints));
	hints->caps = 0;
	cr_expect(offers_flushing(hints));
	fi_freeinfo(hints);
}

Test(rdma_getinfo, offers_a_device_with_flush_to_who_needs_it)
{
	struct fi_info *hints = link_hints();
	bool can = pmr_flush_access(PMEMRDMA_FLUSH_PERSISTENT);

	fake.flush_ways = PMEMRDMA_FLUSH_GLOBAL | PMEMRDMA_FLUSH_PERSISTENT;
	hints->caps = PMEMRDMA_FLUSHES;
	cr_expect_eq(offers_flushing(hints), can);
	/* It looks for no device in vain. */
	cr_expect_eq(fake.references, can);
	hints->caps |= FI_MSG | FI_RMA;
	cr_expect_eq(offers_flushing(hints), can);
	fi_freeinfo(hints);
}

/* Names: of both families, that of IPv6 first, or of IPv6 only. */
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list)
{
	bool both = node && !strcmp(node, "both"), six = node && !strcmp(node, "six");
	const char *first = hints->ai_family == AF_INET ? "10.9.9.9" : "fd00::9";
	int ret;

	if (!both && !six)
		return __real_getaddrinfo(node, service, hints, list);
	if (six && hints->ai_family == AF_INET)
		return EAI_NONAME;
	ret = __real_getaddrinfo(first, service, hints, list);
	if (!ret && both && hints->ai_family == AF_UNSPEC)
		ret = __real_getaddrinfo("10.9.9.9", service, hints, &(*list)->ai_next);
	return ret;
}

/* As verbs has it, which the peer may use. */
Test(rdma_getinfo, means_ipv4_where_a_name_has_both)
{
	static const struct {
		const char *node;
		uint32_t format, offered;
	} cases[] = {
		{"both", FI_FORMAT_UNSPEC, FI_SOCKADDR_IN},
		{"both", FI_SOCKADDR, FI_SOCKADDR_IN6},
		{"both", FI_SOCKADDR_IN, FI_SOCKADDR_IN},
		{"both", FI_SOCKADDR_IN6, FI_SOCKADDR_IN6},
		{"six", FI_FORMAT_UNSPEC, FI_SOCKADDR_IN6},
		{"fd00::9", FI_FORMAT_UNSPEC, FI_SOCKADDR_IN6},
		{"six", FI_SOCKADDR_IN, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_info *hints = link_hints(), *info = NULL;
		int wanted = cases[i].offered ? 0 : -FI_ENODATA;

		hints->addr_format = cases[i].format;
		cr_assert_eq(ask(cases[i].node, "1", 0, hints, &info), wanted, "case %zu", i);
		if (info)
			cr_expect_eq(((struct sockaddr *) info->dest_addr)->sa_family,
				     cases[i].offered == FI_SOCKADDR_IN ? AF_INET : AF_INET6,
				     "case %zu", i);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* A mode that was not asked for is none that an application knows of. */
Test(rdma_getinfo, demands_no_more_than_was_asked_for)
{
	struct fi_info *hints = link_hints(), *info = NULL;

	cr_assert_eq(hints->caps, 0U);
	cr_assert_eq(ask("10.9.9.9", "1", 0, hints, &info), 0);
	cr_expect_eq(info->mode, FI_RX_CQ_DATA);
	cr_expect(info->caps & FI_RMA);
	fi_freeinfo(info);
	hints->mode = 0;
	cr_assert_eq(ask("10.9.9.9", "1", 0, hints, &info), 0);
	cr_expect_eq(info->mode, 0U);
	cr_expect_eq(info->rx_attr->mode, 0U);
	cr_expect_not(info->caps & FI_RMA);
	cr_expect(info->caps & FI_MSG);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* Whoever listens at a wildcard gets what it has asked for, over whichever device it is reached. */
Test(rdma_getinfo, another_device_keeps_what_was_asked_for)
{
	struct fi_info *hints = link_hints(), *passive = NULL, *info;
	struct ibv_device other = {.name = "fake1"};
	struct ibv_context context = {.device = &other};
	struct pmr_device device = *pmr_devices();

	device.verbs = &context;
	hints->tx_attr->size = 33;
	hints->rx_attr->size = 34;
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	cr_assert_eq(ask(FAKE_ADDR, "99", FI_SOURCE, hints, &passive), 0);
	info = pmr_info_of_request(passive, &device, NULL, NULL);
	cr_assert_not_null(info);
	cr_expect_str_eq(info->domain_attr->name, "fake1");
	cr_expect_eq(info->tx_attr->size, 33U);
	cr_expect_eq(info->rx_attr->size, 34U);
	cr_expect_eq(info->ep_attr->rx_ctx_cnt, (size_t) FI_SHARED_CONTEXT);
	fi_freeinfo(info);
	/* But no more than it has. */
	device.inject_size = 16;
	info = pmr_info_of_request(passive, &device, NULL, NULL);
	cr_assert_not_null(info);
	cr_expect_eq(info->tx_attr->inject_size, 16U);
	cr_expect_eq(info->rx_attr->size, 34U);
	fi_freeinfo(info);
	fi_freeinfo(passive);
	fi_freeinfo(hints);
}

Test(rdma_cm_data, has_a_byte_of_length)
{
	const uint8_t longer[] = {200, 1, 2, 3};
	struct pmr_cm_data data;
	uint8_t to[256];

	cr_assert_eq(pmr_cm_data_pack(&data, "abc", 3), 4);
	cr_assert_eq(pmr_cm_data_unpack(&data, sizeof(data), to, sizeof(to)), 3U);
	cr_assert_eq(memcmp(to, "abc", 3), 0);
	cr_assert_eq(pmr_cm_data_pack(&data, to, PMR_CM_DATA_SIZE), PMR_CM_DATA_SIZE + 1);
	cr_assert_eq(pmr_cm_data_pack(&data, to, PMR_CM_DATA_SIZE + 1), -FI_EINVAL);
	cr_assert_eq(pmr_cm_data_pack(&data, NULL, 1), -FI_EINVAL);
	/* A peer that claims more than it has sent, or than there is room for. */
	cr_assert_eq(pmr_cm_data_unpack(longer, sizeof(longer), to, sizeof(to)), 3U);
	cr_assert_eq(pmr_cm_data_unpack(longer, sizeof(longer), to, 2), 2U);
	cr_assert_eq(pmr_cm_data_unpack(longer, 1, to, sizeof(to)), 0U);
	cr_assert_eq(pmr_cm_data_unpack(NULL, 0, to, sizeof(to)), 0U);
}

Test(rdma_cm_data, says_how_long_they_may_be)
{
	struct link link = {0};
	size_t size = 0, len = sizeof(size), none = 0;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	cr_expect_eq(fi_getopt(&link.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &len),
		     0);
	cr_expect_eq(size, (size_t) PMR_CM_DATA_SIZE);
	cr_expect_eq(fi_getopt(&link.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &none),
		     -FI_ETOOSMALL);
	cr_expect_eq(fi_getopt(&link.ep->fid, FI_OPT_ENDPOINT, FI_OPT_BUFFERED_MIN, &size, &len),
		     -FI_ENOPROTOOPT);
	link_close(&link);
}

Test(rdma_connect, carries_private_data_both_ways)
{
	struct link link = {0};

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	cr_assert_eq(fake.sent_len, 6U);
	cr_assert_eq(memcmp(fake.sent, "\5hello", 6), 0);
	link_close(&link);
}

Test(rdma_connect, a_request_is_told_and_rejected)
{
	struct listener listener = {0};
	struct {
		struct fi_eq_cm_entry entry;
		char data[64];
	} got;
	uint32_t event;

	cr_assert_eq(listener_open(&listener), 0);
	fake_request(fake.id, "\3abc\0\0\0\0", 8);
	cr_assert_eq(fi_eq_sread(listener.eq, &event, &got, sizeof(got), -1, FI_PEEK),
		     (ssize_t) sizeof(got.entry) + 3);
	cr_assert_eq(fi_eq_read(listener.eq, &event, &got, sizeof(got), 0),
		     (ssize_t) sizeof(got.entry) + 3);
	cr_assert_eq(event, (uint32_t) FI_CONNREQ);
	cr_assert_eq(got.entry.fid, &listener.pep->fid);
	cr_assert_eq(memcmp(got.entry.data, "abc", 3), 0);
	cr_assert_str_eq(got.entry.info->fabric_attr->prov_name, "pmemrdma");
	cr_assert_eq(fi_reject(listener.pep, got.entry.info->handle, "no", 2), 0);
	cr_assert_eq(memcmp(fake.sent, "\2no", 3), 0);
	fi_freeinfo(got.entry.info);
	listener_close(&listener);
}

Test(rdma_connect, a_request_that_nobody_reads_is_rejected_in_the_end)
{
	struct listener listener = {0};
	struct fi_eq_cm_entry entry;
	uint32_t event;

	cr_assert_eq(listener_open(&listener), 0);
	fake_request(fake.id, "\0", 1);
	cr_assert_gt(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), FI_PEEK), 0);
	listener_close(&listener);
	cr_assert(fake.rejected);
}

Test(rdma_connect, a_rejection_is_an_error_with_the_peers_data)
{
	struct link link = {0};
	struct fi_eq_err_entry err = {0};
	struct fi_eq_cm_entry entry;
	uint32_t event;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	fake_event(fake.id, RDMA_CM_EVENT_REJECTED, "\2no\0\0", 5);
	cr_assert_eq(fi_eq_read(link.eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
	cr_assert_eq(fi_eq_readerr(link.eq, &err, 0), (ssize_t) sizeof(err));
	cr_assert_eq(err.err, FI_ECONNREFUSED);
	cr_expect_eq(err.prov_errno, 28);
	cr_expect_str_eq(fi_eq_strerror(link.eq, err.prov_errno, NULL, NULL, 0),
			 "Rejected by the peer's application");
	cr_expect_str_eq(fi_eq_strerror(link.eq, -FI_ETIMEDOUT, NULL, NULL, 0),
			 strerror(FI_ETIMEDOUT));
	cr_assert_eq(err.fid, &link.ep->fid);
	cr_assert_eq(err.err_data_size, 2U);
	cr_assert_eq(memcmp(err.err_data, "no", 2), 0);
	fake_event(fake.id, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	cr_assert_eq(fi_eq_read(link.eq, &event, &entry, sizeof(entry), 0),
		     (ssize_t) sizeof(entry));
	cr_assert_eq(event, (uint32_t) FI_SHUTDOWN);
	link_close(&link);
}

Test(rdma_connect, an_application_writes_events)
{
	struct link link = {0};
	uint32_t event;
	int value = 5, got = 0;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	cr_assert_eq(fi_eq_write(link.eq, FI_NOTIFY, &value, sizeof(value), 0),
		     (ssize_t) sizeof(value));
	cr_assert_eq(fi_eq_sread(link.eq, &event, &got, sizeof(got), -1, 0), (ssize_t) sizeof(got));
	cr_assert_eq(event, (uint32_t) FI_NOTIFY);
	cr_assert_eq(got, value);
	cr_assert_eq(fi_eq_sread(link.eq, &event, &got, sizeof(got), 0, 0), -FI_EAGAIN);
	link_close(&link);
}

/* As with verbs: attributes that are zeroed can be slept on, too. */
Test(rdma_connect, queues_of_events_wait_by_all_that_has_a_descriptor)
{
	static const enum fi_wait_obj objects[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD,
						   FI_WAIT_POLLFD};
	struct pollfd room[1];
	struct fi_wait_pollfd polled = {.fd = room};
	struct link link = {0};
	struct fid_eq *eq;
	uint32_t event;
	int value = 5;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		struct fi_eq_attr attr = {.wait_obj = objects[i]};

		cr_assert_eq(fi_eq_open(link.fabric, &attr, &eq, NULL), 0, "%d", objects[i]);
		cr_expect_eq(fi_eq_sread(eq, &event, &value, sizeof(value), 1, 0), -FI_EAGAIN);
		if (objects[i] == FI_WAIT_POLLFD) {
			cr_expect_eq(fi_control(&eq->fid, FI_GETWAIT, &polled), -FI_ETOOSMALL);
			cr_assert_eq(polled.nfds, 1);
			cr_assert_eq(fi_control(&eq->fid, FI_GETWAIT, &polled), 0);
			cr_expect_eq(poll(room, 1, 0), 0);
			fi_eq_write(eq, FI_NOTIFY, &value, sizeof(value), 0);
			cr_expect_eq(poll(room, 1, -1), 1);
		}
		cr_assert_eq(fi_close(&eq->fid), 0);
	}
	cr_expect_eq(fi_eq_open(link.fabric, &(struct fi_eq_attr){.wait_obj = FI_WAIT_MUTEX_COND},
				&eq, NULL),
		     -FI_ENOSYS);
	link_close(&link);
}

Test(rdma_connect, events_of_an_endpoint_go_with_it)
{
	struct link link = {0};
	struct fi_eq_cm_entry entry;
	uint32_t event;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	fake_event(fake.id, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	cr_assert_gt(fi_eq_read(link.eq, &event, &entry, sizeof(entry), FI_PEEK), 0);
	cr_assert_eq(fi_close(&link.ep->fid), 0);
	link.ep = NULL;
	cr_assert_eq(fi_eq_read(link.eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	link_close(&link);
}

Test(rdma_connect, a_request_that_can_not_go_says_nothing)
{
	struct listener listener = {0};
	struct fi_eq_cm_entry entry;
	struct rdma_cm_id *id;
	uint32_t event;

	cr_assert_eq(listener_open(&listener), 0);
	id = fake_request(fake.id, "\0", 1);
	cr_assert_gt(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), 0), 0);
	fake.fail_at = fake.calls + 2;
	cr_assert_lt(fi_reject(listener.pep, entry.info->handle, NULL, 0), 0);
	cr_assert_str_eq(fake.failed, "rdma_destroy_id");
	fi_freeinfo(entry.info);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	cr_expect_eq(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	listener_close(&listener);
}

/* What becomes of a request that has no endpoint yet is not told of its passive endpoint. */
Test(rdma_connect, a_request_that_ends_says_nothing)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_REJECTED};
	struct listener listener = {0};
	struct fi_eq_cm_entry entry;
	struct rdma_cm_id *id;
	struct fi_info *info;
	uint32_t event;

	cr_assert_eq(listener_open(&listener), 0);
	id = fake_request(fake.id, "\0", 1);
	cr_assert_gt(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), 0), 0);
	info = entry.info;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fake_event(id, types[i], NULL, 0);
		cr_expect_eq(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	}
	cr_assert_eq(fi_reject(listener.pep, info->handle, NULL, 0), 0);
	fi_freeinfo(info);
	listener_close(&listener);
}

/* What arrives at a queue pair in the state INIT is dropped. */
Test(rdma_connect, one_that_is_held_receives_nothing_before_it_is_established)
{
	struct link link = {.holds = true};

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	cr_expect_eq(fake.state, IBV_QPS_INIT);
	cr_expect_eq(fake.conn.qp_num, fake.qp->qp_num);
	cr_expect_not(fake.established);
	cr_assert_eq(link_lists(&link)->establish(link.ep), 0);
	cr_expect_eq(fake.state, IBV_QPS_RTS);
	cr_expect(fake.established);
	cr_expect_eq(fake.id->qp, fake.qp, "librdmacm ends it with the connection");
	cr_assert_eq(fi_shutdown(link.ep, 0), 0);
	cr_expect_not(fake.rejected);
	link_close(&link);
}

Test(rdma_connect, one_that_is_not_held_is_there_at_once)
{
	struct link link = {0};

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	cr_expect_eq(fake.state, IBV_QPS_RTS);
	cr_expect_eq(link_lists(&link)->establish(link.ep), 0);
	cr_expect_not(fake.established, "librdmacm has done it");
	link_close(&link);
}

Test(rdma_connect, the_answer_to_one_that_is_held_can_be_refused)
{
	struct link link = {.holds = true};

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	cr_assert_eq(fi_shutdown(link.ep, 0), 0);
	cr_expect(fake.rejected);
	cr_expect_eq(fake.state, IBV_QPS_INIT);
	link_close(&link);
}

/* As librdmacm has it: what the peer's device has, or nothing; and not another vendor's. */
Test(rdma_connect, one_that_is_held_agrees_on_what_the_devices_have_beyond_the_standard)
{
	static const struct {
		struct ibv_ece peer;
		int ret;
		uint32_t options;
	} cases[] = {{{.vendor_id = 15, .options = 3}, 0, 3},
		     {{.vendor_id = 0}, 0, 0},
		     {{.vendor_id = 16, .options = 3}, -FI_EINVAL, 99}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct link link = {.holds = true};

		fake.has_ece = true;
		fake.peer_ece = cases[i].peer;
		fake.ece.options = 99;
		cr_assert_eq(link_open(&link, 16, 100, 0), 0);
		cr_expect_eq(link_lists(&link)->establish(link.ep), cases[i].ret);
		cr_expect_eq(fake.ece.options, cases[i].options);
		cr_expect_eq(fake.established, !cases[i].ret);
		fake.established = false;
		link_close(&link);
	}
}

/* last_request -- one that was read, before its passive endpoint was closed; its id */
static struct rdma_cm_id *last_request(struct listener *listener, struct fi_info **info)
{
	struct fi_eq_cm_entry entry;
	struct rdma_cm_id *id;
	uint32_t event;

	cr_assert_eq(listener_open(listener), 0);
	id = fake_request(fake.id, "\0", 1);
	cr_assert_gt(fi_eq_read(listener->eq, &event, &entry, sizeof(entry), 0), 0);
	*info = entry.info;
	cr_assert_eq(fi_close(&listener->pep->fid), 0);
	listener->pep = NULL;
	return id;
}

/* The passive endpoint's memory is another one's then. */
Test(rdma_connect, a_request_outlives_its_passive_endpoint)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ADDR_CHANGE};
	struct listener listener = {0};
	struct fi_eq_cm_entry entry;
	struct fi_info *info;
	struct rdma_cm_id *id = last_request(&listener, &info);
	struct fid_domain *domain;
	struct fid_ep *ep;
	uint32_t event;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		fake_event(id, types[i], NULL, 0);
		cr_expect_eq(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN,
			     "event %d", types[i]);
	}
	/* An endpoint without a queue does not hear of it, either, and may go. */
	cr_assert_eq(fi_domain(listener.fabric, info, &domain, NULL), 0);
	cr_assert_eq(fi_endpoint(domain, info, &ep, NULL), 0);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	cr_expect_eq(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	/* With one it does. */
	cr_assert_eq(fi_ep_bind(ep, &listener.eq->fid, 0), 0);
	fake_event(id, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
	cr_assert_gt(fi_eq_read(listener.eq, &event, &entry, sizeof(entry), 0), 0);
	cr_expect_eq(event, (uint32_t) FI_SHUTDOWN);
	cr_expect_eq(entry.fid, &ep->fid);
	cr_assert_eq(fi_close(&ep->fid), 0);
	cr_assert_eq(fi_close(&domain->fid), 0);
	fi_freeinfo(info);
	listener_close(&listener);
}

/* Its queue pair is gone already when the way to the peer is known. */
Test(rdma_connect, one_that_is_held_and_can_not_be_closed_calls_nobody)
{
	struct link link = {.holds = true};
	struct fi_eq_cm_entry entry;
	uint32_t event;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	/* Behind ibv_modify_qp, ibv_poll_cq, ibv_destroy_qp and ibv_poll_cq. */
	fake.fail_at = fake.calls + 5;
	cr_assert_neq(fi_close(&link.ep->fid), 0);
	cr_expect_str_eq(fake.failed, "rdma_destroy_id");
	fake_event(fake.id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
	fi_eq_read(link.eq, &event, &entry, sizeof(entry), 0);
	cr_expect_eq(link_lists(&link)->establish(link.ep), 0);
	link_close(&link);
}
