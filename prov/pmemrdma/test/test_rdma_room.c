/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_rdma_room.c -- receives of many endpoints in one completion queue that the device makes no
 * longer: none overruns it, and none keeps requests to send out.  The fake device tells of
 * overruns.
 */
#include "link.h"

#define EPS 5
#define RX_SIZE 256

struct many {
	struct link link;
	struct fid_ep *ep[EPS];
	struct ibv_qp *qp[EPS];
	unsigned posted[EPS];
};

static struct fid_ep *open_ep(struct link *link, struct fid_cq *rx_cq)
{
	struct fid_ep *ep;

	cr_assert_eq(fi_endpoint(link->domain, link->info, &ep, NULL), 0);
	cr_assert_eq(fi_ep_bind(ep, &link->eq->fid, 0), 0);
	cr_assert_eq(fi_ep_bind(ep, &link->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION), 0);
	cr_assert_eq(fi_ep_bind(ep, &rx_cq->fid, FI_RECV), 0);
	return ep;
}

/* open_some -- endpoints, with queues of these sizes */
static struct many *open_some(int count, size_t tx_size, size_t rx_size)
{
	static struct many many;
	struct link *link = &many.link;

	cr_assert_eq(link_open(link, 16, 100, FI_SELECTIVE_COMPLETION), 0);
	link->info->tx_attr->size = tx_size;
	link->info->rx_attr->size = rx_size;
	for (int i = 0; i < count; i++) {
		many.ep[i] = open_ep(link, link->cq);
		cr_assert_eq(fi_enable(many.ep[i]), 0, "endpoint %d", i);
		many.qp[i] = fake.qp;
	}
	return &many;
}

/* open_many -- their receives are twice as many as the queue can have */
static struct many *open_many(void)
{
	cr_assert_gt(EPS * RX_SIZE, 2 * FAKE_MAX_CQE);
	return open_some(EPS, 16, RX_SIZE);
}

static void close_many(struct many *many)
{
	for (int i = 0; i < EPS; i++) {
		if (many->ep[i])
			cr_assert_eq(fi_close(&many->ep[i]->fid), 0);
	}
	link_close(&many->link);
}

static ssize_t receive(struct many *many, int i)
{
	struct link *link = &many->link;
	ssize_t ret = fi_recv(many->ep[i], link->buf, 8, fi_mr_desc(link->mr), 0, NULL);

	many->posted[i] += !ret;
	return ret;
}

/* receive_all -- as many as there is room for; how many that are */
static unsigned receive_all(struct many *many)
{
	unsigned sum = 0;
	ssize_t ret;

	for (int i = 0; i < EPS && many->ep[i]; i++) {
		while (!(ret = receive(many, i)))
			;
		cr_assert_eq(ret, -FI_EAGAIN);
		sum += many->posted[i];
	}
	return sum;
}

/* write_by -- unsignalled, if there is room for that */
static ssize_t write_by(struct many *many, int i)
{
	struct link link = many->link;

	link.ep = many->ep[i];
	return link_write(&link, 8, 0, NULL);
}

static void end_all(struct many *many)
{
	struct fi_cq_data_entry entry;

	for (int i = 0; i < EPS && many->ep[i]; i++) {
		while (fake_waiting(many->qp[i]))
			fake_end(many->qp[i], IBV_WC_SUCCESS);
	}
	cr_assert_eq(fi_cq_read(many->link.cq, &entry, 1), -FI_EAGAIN);
}

Test(rdma_room, receives_take_what_there_is)
{
	struct many *many = open_many();
	struct fi_cq_data_entry entry;

	/* The first ones have theirs; and a list of requests to send is kept room for. */
	cr_expect_eq(receive_all(many), (unsigned) FAKE_MAX_CQE - PMEMRDMA_MAX_LIST);
	cr_expect_eq(many->posted[0], RX_SIZE);
	/* One that has completed makes room for one, wherever. */
	for (int i = 0; i < 5; i++) {
		cr_expect_eq(receive(many, EPS - 1), -FI_EAGAIN);
		fake_arrive(many->qp[0], IBV_WC_RECV, 8, 0);
		cr_assert_eq(fi_cq_read(many->link.cq, &entry, 1), 1);
		cr_expect_eq(receive(many, EPS - 1), 0);
	}
	close_many(many);
}

/* Requests that are not signalled would keep their room for ever. */
Test(rdma_room, receives_leave_room_for_requests_to_send)
{
	struct many *many = open_many();
	unsigned written = 0;

	/* By turns, so that no endpoint signals one for itself. */
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < EPS; i++)
			written += !write_by(many, i);
	}
	cr_assert_eq(written, 3 * EPS);
	for (int i = 0; i < EPS; i++) {
		while (fake_waiting(many->qp[i]))
			fake_end(many->qp[i], IBV_WC_SUCCESS);
	}
	cr_expect_eq(receive_all(many), (unsigned) FAKE_MAX_CQE - 3 * EPS - PMEMRDMA_MAX_LIST);
	for (int i = 0; i < EPS; i++) {
		cr_assert_eq(write_by(many, i), 0, "endpoint %d", i);
		end_all(many);
	}
	cr_expect_eq(receive_all(many), (unsigned) FAKE_MAX_CQE - PMEMRDMA_MAX_LIST);
	close_many(many);
}

/* As long as all of them fit: who posts none of them waits for no completion, either. */
Test(rdma_room, of_receives_is_not_kept_by_requests_that_have_succeeded)
{
	struct many *many = open_some(2, 256, RX_SIZE);
	unsigned written = 0;

	cr_assert_lt(2 * RX_SIZE, FAKE_MAX_CQE - 2 * PMEMRDMA_MAX_LIST);
	/* Neither endpoint signals one for itself. */
	for (int i = 0; i < 2; i++) {
		while (written < 60U * (unsigned) (i + 1) && !write_by(many, i))
			written++;
	}
	for (int i = 0; i < 2; i++) {
		while (fake_waiting(many->qp[i]))
			fake_end(many->qp[i], IBV_WC_SUCCESS);
	}
	pmr_cq_drain(pmr_to_cq(&many->link.cq->fid));
	cr_expect_eq(receive_all(many), 2U * RX_SIZE);
	close_many(many);
}

/* Each would be a call of the kernel, and a copy. */
Test(rdma_room, is_not_asked_for_again_where_there_is_no_more)
{
	struct many *many = open_some(3, 16, RX_SIZE);
	int resizes = fake.resizes;

	cr_assert_eq(pmr_to_cq(&many->link.cq->fid)->size, FAKE_MAX_CQE);
	many->ep[3] = open_ep(&many->link, many->link.cq);
	cr_assert_eq(fi_enable(many->ep[3]), 0);
	cr_expect_eq(fake.resizes, resizes);
	close_many(many);
}

/* lists_fit -- behind what other endpoints have sent, when all receives are posted */
static void lists_fit(struct many *many)
{
	struct pmemrdma_request list[PMEMRDMA_MAX_LIST];

	for (size_t i = 0; i < PMEMRDMA_MAX_LIST; i++)
		list[i] = link_pair(&many->link)[0];
	while (!fi_recv(many->link.ep, many->link.buf, 8, fi_mr_desc(many->link.mr), 0, NULL))
		;
	receive_all(many);
	for (int i = 0; i + 1 < EPS && many->ep[i + 1]; i++) {
		for (int n = 0; n < 3; n++) {
			cr_assert_eq(write_by(many, i), 0);
			end_all(many);
		}
		cr_expect_eq(
			link_lists(&many->link)->post(many->ep[i + 1], list, PMEMRDMA_MAX_LIST),
			PMEMRDMA_MAX_LIST, "behind endpoint %d", i);
		end_all(many);
	}
}

Test(rdma_room, is_left_for_a_list_of_requests_to_send)
{
	struct many *many = open_many();

	lists_fit(many);
	close_many(many);
}

/* And where receives leave hardly more than that. */
Test(rdma_room, is_left_for_a_list_whatever_is_promised)
{
	for (size_t left = PMEMRDMA_MAX_LIST; left < 4 * PMEMRDMA_MAX_LIST; left++) {
		struct many *many = open_some(2, 16, RX_SIZE);

		/* Those of the two, and of the endpoint that the link has. */
		many->link.info->rx_attr->size = FAKE_MAX_CQE - 2 * RX_SIZE - 8 - left;
		many->ep[2] = open_ep(&many->link, many->link.cq);
		cr_assert_eq(fi_enable(many->ep[2]), 0);
		many->qp[2] = fake.qp;
		lists_fit(many);
		close_many(many);
		memset(many, 0, sizeof(*many));
	}
}

Test(rdma_room, that_everything_fails_overruns_nothing)
{
	struct many *many = open_many();
	struct fi_cq_err_entry entry;
	unsigned sum, errors = 0;

	sum = receive_all(many);
	for (int i = 0; i < PMEMRDMA_MAX_LIST; i++)
		cr_assert_eq(write_by(many, 0), 0);
	cr_assert_eq(write_by(many, 1), -FI_EAGAIN);
	fake.flushes = true;
	for (int i = 0; i < EPS; i++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

		cr_assert_eq(ibv_modify_qp(many->qp[i], &attr, IBV_QP_STATE), 0);
	}
	pmr_cq_drain(pmr_to_cq(&many->link.cq->fid));
	while (fi_cq_readerr(many->link.cq, &entry, 0) == 1)
		errors++;
	cr_expect_eq(errors, sum + PMEMRDMA_MAX_LIST);
	close_many(many);
}

Test(rdma_room, comes_back_from_refusals_and_from_endpoints_that_go)
{
	struct many *many = open_many();
	unsigned most = receive_all(many);

	/* By who goes. */
	cr_assert_eq(fi_close(&many->ep[0]->fid), 0);
	many->ep[0] = open_ep(&many->link, many->link.cq);
	cr_assert_eq(fi_enable(many->ep[0]), 0);
	many->qp[0] = fake.qp;
	many->posted[0] = 0;
	/* By what the device does not take. */
	for (int i = 0; i < FAKE_MAX_CQE; i++) {
		fake.fail_at = fake.calls + 1;
		cr_assert_eq(receive(many, 0), -FI_EINVAL);
	}
	cr_expect_eq(receive_all(many), most);
	close_many(many);
}

/* Nobody sends there, so nothing is left free. */
Test(rdma_room, of_a_queue_of_receives_is_theirs)
{
	struct fi_cq_attr attr = {.size = 8, .format = FI_CQ_FORMAT_DATA};
	static struct many many;
	struct fid_cq *rx_cq;

	cr_assert_eq(link_open(&many.link, 16, 100, 0), 0);
	cr_assert_eq(fi_cq_open(many.link.domain, &attr, &rx_cq, NULL), 0);
	many.ep[0] = open_ep(&many.link, rx_cq);
	cr_assert_eq(fi_enable(many.ep[0]), 0);
	for (int i = 0; i < 8; i++)
		cr_expect_eq(receive(&many, 0), 0);
	cr_expect_eq(pmr_to_cq(&rx_cq->fid)->size, 8, "it has grown");
	/* Who sends there needs more. */
	cr_assert_eq(fi_endpoint(many.link.domain, many.link.info, &many.ep[1], NULL), 0);
	cr_assert_eq(fi_ep_bind(many.ep[1], &many.link.eq->fid, 0), 0);
	cr_assert_eq(fi_ep_bind(many.ep[1], &rx_cq->fid, FI_TRANSMIT), 0);
	cr_assert_eq(fi_ep_bind(many.ep[1], &many.link.cq->fid, FI_RECV), 0);
	fake.fail_at = fake.calls + 1;
	cr_expect_eq(fi_enable(many.ep[1]), -FI_ENOSPC);
	cr_expect_str_eq(fake.failed, "ibv_resize_cq");
	cr_expect_eq(fi_enable(many.ep[1]), 0);
	cr_expect_eq(pmr_to_cq(&rx_cq->fid)->size, 8 + 16);
	cr_assert_eq(fi_close(&many.ep[1]->fid), 0);
	cr_assert_eq(fi_close(&many.ep[0]->fid), 0);
	cr_assert_eq(fi_close(&rx_cq->fid), 0);
	link_close(&many.link);
}

/* One that alone can't have what it was promised would wait for ever. */
Test(rdma_room, for_all_receives_of_an_endpoint_is_needed)
{
	struct link link = {0};
	struct fid_ep *ep;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	link.info->rx_attr->size = FAKE_MAX_CQE - PMEMRDMA_MAX_LIST + 1;
	ep = open_ep(&link, link.cq);
	cr_expect_eq(fi_enable(ep), -FI_ENOSPC);
	cr_assert_eq(fi_close(&ep->fid), 0);
	link.info->rx_attr->size--;
	ep = open_ep(&link, link.cq);
	cr_expect_eq(fi_enable(ep), 0);
	cr_assert_eq(fi_close(&ep->fid), 0);
	link_close(&link);
}

Test(rdma_room, of_shared_receives_comes_back_with_the_last_endpoint)
{
	struct fi_rx_attr attr = {.size = FAKE_MAX_CQE - PMEMRDMA_MAX_LIST};
	struct link link = {0};
	struct fid_ep *srx, *ep;

	cr_assert_eq(link_open(&link, 16, 100, 0), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(fi_srx_context(link.domain, &attr, &srx, NULL), 0);
		ep = open_ep(&link, link.cq);
		cr_assert_eq(fi_ep_bind(ep, &srx->fid, 0), 0);
		cr_expect_eq(fi_enable(ep), 0, "round %d", i);
		/* It is all theirs. */
		cr_expect_eq(fi_recv(link.ep, link.buf, 8, NULL, 0, NULL), -FI_EAGAIN);
		cr_assert_eq(fi_close(&ep->fid), 0);
		cr_assert_eq(fi_close(&srx->fid), 0);
	}
	cr_expect_eq(fi_recv(link.ep, link.buf, 8, NULL, 0, NULL), 0);
	link_close(&link);
}

/* Whatever others send: who was promised receives has room for them, where all of them fit. */
Test(rdma_room, of_promised_receives_is_not_taken_by_others)
{
	struct many *many = open_some(2, 256, 64);
	unsigned written = 0;

	for (int i = 0; i < 2; i++) {
		while (written < 2000 && !write_by(many, i))
			written++;
	}
	cr_expect_eq(receive_all(many), 2U * 64);
	end_all(many);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(write_by(many, i), 0);
	close_many(many);
}
