/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_verbs.c -- libibverbs without a device: fake_verbs.h */
#include "fake_verbs.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_impl.h"

struct fake fake;

bool fake_fails(const char *call)
{
	if (fake.own || ++fake.calls != fake.fail_at)
		return false;
	fake.failed = call;
	errno = ENOMEM;
	return true;
}

static struct ibv_device device = {.transport_type = IBV_TRANSPORT_IB, .name = "fake0"};
static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
static int req_notify(struct ibv_cq *cq, int solicited);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct verbs_context fake_verbs_context = {
	.sz = sizeof(fake_verbs_context),
	.query_device_ex = fake_query_device_ex,
	.context = {.device = &device,
		    .ops = {.poll_cq = poll_cq,
			    .req_notify_cq = req_notify,
			    .post_send = post_send,
			    .post_recv = post_recv,
			    .post_srq_recv = post_srq_recv},
		    .abi_compat = __VERBS_ABI_IS_EXTENDED},
};

void *fake_zeros(size_t size)
{
	void *memory;

	fake.own++;
	memory = calloc(1, size);
	fake.own--;
	if (!memory)
		abort();
	return memory;
}

int fake_eventfd(void)
{
	int fd;

	fake.own++;
	fd = eventfd(0, EFD_SEMAPHORE);
	fake.own--;
	return fd;
}

/* make -- an object; NULL: the call fails */
static void *make(const char *call, size_t size)
{
	if (fake_fails(call))
		return NULL;
	fake.live++;
	return fake_zeros(size);
}

static bool entry_is_gone;

/* is_removed -- what it has said of the object; what is left of that nobody may look at again */
static int is_removed(void *object)
{
	if (entry_is_gone) {
		fake.live--;
		free(object);
	}
	return fake.removed_errno ? fake.removed_errno : EIO;
}

void fake_plug_in(void)
{
	strcpy(device.ibdev_path, "/tmp/fake0.XXXXXX");
	cr_assert_not_null(mkdtemp(device.ibdev_path));
}

void fake_take_out(bool another)
{
	char other[sizeof(device.ibdev_path) + 2];

	/* A file system may give the number of what has gone to what comes next. */
	if (another) {
		snprintf(other, sizeof(other), "%s.2", device.ibdev_path);
		cr_assert_eq(mkdir(other, 0700), 0);
	}
	cr_assert_eq(rmdir(device.ibdev_path), 0);
	if (another)
		cr_assert_eq(rename(other, device.ibdev_path), 0);
	entry_is_gone = true;
}

static int destroy(const char *call, void *object)
{
	if (fake_fails(call))
		return errno;
	if (fake.removed)
		return is_removed(object);
	fake.live--;
	free(object);
	return 0;
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void) context;
	if (fake_fails(__func__))
		return errno;
	*attr = (struct ibv_device_attr){
		.max_qp_wr = 512,
		.max_sge = 8,
		.max_sge_rd = 3,
		.max_cqe = FAKE_MAX_CQE,
		.max_cq = 9,
		.max_qp = 9,
		.max_mr = 9,
		.max_srq = 9,
		.max_srq_wr = 256,
	};
	return 0;
}

int fake_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size)
{
	(void) context;
	(void) input;
	if (fake_fails("ibv_query_device_ex"))
		return errno;
	memset(attr, 0, size);
	attr->device_cap_flags_ex = (uint64_t) fake.flush_ways << 38;
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	(void) context;
	(void) port;
	if (fake_fails(__func__))
		return errno;
	((struct ibv_port_attr *) attr)->max_msg_sz = 1 << 20;
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void) context;
	(void) port;
	(void) index;
	if (fake_fails(__func__))
		return errno;
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 0xfe;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = make(__func__, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return destroy(__func__, pd);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = make("ibv_reg_mr", sizeof(*mr));

	fake.access = access;
	if (mr)
		*mr = (struct ibv_mr){.pd = pd, .addr = addr, .length = len, .lkey = 7, .rkey = 8};
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return reg_mr(pd, addr, len, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				unsigned int access)
{
	(void) iova;
	return reg_mr(pd, addr, len, (int) access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return destroy(__func__, mr);
}

/* Completion queues */

struct fake_cq {
	struct ibv_cq cq;
	unsigned first, count;
	bool armed;
	struct ibv_wc wc[FAKE_MAX_CQE];
	struct fake_qp *of[FAKE_MAX_CQE]; /* whose send queue it frees, up to */
	unsigned upto[FAKE_MAX_CQE];
};

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq = make(__func__, sizeof(*cq));

	(void) cq_context;
	(void) vector;
	if (!cq)
		return NULL;
	cr_assert_leq(cqe, FAKE_MAX_CQE);
	cq->cq = (struct ibv_cq){.context = context, .channel = channel, .cqe = cqe};
	if (channel)
		channel->refcnt++;
	return &cq->cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (fake_fails(__func__))
		return errno;
	cr_assert_leq(cqe, FAKE_MAX_CQE);
	fake.resizes++;
	cq->cqe = cqe;
	return 0;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct ibv_comp_channel *channel = cq->channel;
	int ret = destroy(__func__, cq);

	if (!ret && channel)
		channel->refcnt--;
	return ret;
}

static void push(struct fake_cq *cq, const struct ibv_wc *wc, struct fake_qp *of, unsigned upto)
{
	unsigned at = (cq->first + cq->count) % FAKE_MAX_CQE;

	cr_assert_lt(cq->count, (unsigned) cq->cq.cqe, "the completion queue overruns");
	cq->wc[at] = *wc;
	cq->of[at] = of;
	cq->upto[at] = upto;
	cq->count++;
	if (cq->armed)
		eventfd_write(cq->cq.channel->fd, 1);
	cq->armed = false;
}

static int poll_cq(struct ibv_cq *fid, int count, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *) fid;
	int n = 0;

	if (fake_fails("ibv_poll_cq"))
		return -1;
	for (; n < count && cq->count; n++) {
		wc[n] = cq->wc[cq->first];
		if (cq->of[cq->first])
			cq->of[cq->first]->freed = cq->upto[cq->first];
		cq->first = (cq->first + 1) % FAKE_MAX_CQE;
		cq->count--;
	}
	return n;
}

static int req_notify(struct ibv_cq *cq, int solicited)
{
	(void) solicited;
	if (fake_fails("ibv_req_notify_cq"))
		return errno;
	((struct fake_cq *) cq)->armed = true;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = make(__func__, sizeof(*channel));

	(void) context;
	if (channel)
		channel->fd = fake_eventfd();
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt) {
		fake.left = channel;
		return EBUSY;
	}
	close(channel->fd);
	fake.live--;
	free(channel);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	eventfd_t one;

	(void) cq;
	(void) context;
	if (fake_fails(__func__))
		return -1;
	return eventfd_read(channel->fd, &one);
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void) cq;
	(void) count;
}

/* Queue pairs */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp;

	if (attr->cap.max_inline_data > FAKE_MAX_INLINE) {
		errno = EINVAL;
		return NULL;
	}
	qp = make(__func__, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->qp = (struct ibv_qp){.context = pd->context,
				 .send_cq = attr->send_cq,
				 .recv_cq = attr->recv_cq,
				 .srq = attr->srq};
	qp->max_send = attr->cap.max_send_wr;
	qp->max_recv = attr->cap.max_recv_wr;
	fake.qp = &qp->qp;
	fake.state = IBV_QPS_INIT;
	return &qp->qp;
}

static void end_one(struct fake_qp *qp, enum ibv_wc_status status)
{
	const struct ibv_send_wr *wr = &qp->sends[qp->ended++ % FAKE_QUEUE];
	const struct ibv_wc wc = {.wr_id = wr->wr_id, .status = status};

	if (status != IBV_WC_SUCCESS || (wr->send_flags & IBV_SEND_SIGNALED))
		push((struct fake_cq *) qp->qp.send_cq, &wc, qp, qp->ended);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct fake_cq *cq = (struct fake_cq *) qp->send_cq;
	struct fake_qp *own = (struct fake_qp *) qp;

	cr_assert(own->stopped || (!own->posted && !own->recv_posted), "it is still at work");
	if (fake_fails(__func__))
		return errno;
	if (fake.removed)
		return is_removed(qp);
	if (fake.ends_late && own->ended < own->posted)
		end_one(own, IBV_WC_SUCCESS);
	/* What was not read of it frees nothing any more. */
	for (unsigned i = 0; i < cq->count; i++) {
		if (cq->of[(cq->first + i) % FAKE_MAX_CQE] == own)
			cq->of[(cq->first + i) % FAKE_MAX_CQE] = NULL;
	}
	fake.live--;
	free(qp);
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	(void) qp;
	(void) mask;
	(void) init;
	if (fake_fails(__func__))
		return errno;
	*attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .max_rd_atomic = fake.depth};
	return 0;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void) qp;
	if (fake_fails(__func__))
		return errno;
	*ece = (struct ibv_ece){.vendor_id = 15, .options = 7};
	return fake.has_ece ? 0 : EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void) qp;
	fake.ece = *ece;
	return fake_fails(__func__) ? errno : 0;
}

static void flush(struct fake_qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR};

	while (qp->ended < qp->posted)
		end_one(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->recv_ended < qp->recv_posted) {
		wc.wr_id = qp->recvs[qp->recv_ended++ % FAKE_QUEUE];
		push((struct fake_cq *) qp->qp.recv_cq, &wc, NULL, 0);
	}
}

int ibv_modify_qp(struct ibv_qp *fid, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *) fid;

	if (mask & IBV_QP_STATE)
		fake.state = attr->qp_state;
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR) {
		qp->stopped = true;
		if (fake.flushes)
			flush(qp);
	}
	return fake_fails(__func__) ? errno : 0;
}

int fake_refusal(void)
{
	return fake.refusal ? fake.refusal : EINVAL;
}

void fake_take(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	cr_assert_lt(qp->posted - qp->freed, qp->max_send, "the send queue overruns");
	qp->sends[qp->posted++ % FAKE_QUEUE] = *wr;
	fake.before = fake.last;
	fake.last = *wr;
}

static int post_send(struct ibv_qp *fid, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *) fid;
	int accepted = 0;

	fake.doorbells++;
	for (; wr; wr = wr->next) {
		*bad = wr;
		if (fake.accept_at_most && accepted >= fake.accept_at_most)
			return fake_refusal();
		if (fake_fails("ibv_post_send"))
			return fake_refusal();
		accepted++;
		fake_take(qp, wr);
	}
	return 0;
}

static int post_recv(struct ibv_qp *fid, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *) fid;

	*bad = wr;
	if (fake_fails("ibv_post_recv"))
		return fake_refusal();
	cr_assert_lt(qp->recv_posted - qp->recv_ended, qp->max_recv, "the receive queue overruns");
	qp->recvs[qp->recv_posted++ % FAKE_QUEUE] = wr->wr_id;
	return 0;
}

struct fake_srq {
	struct ibv_srq srq;
	unsigned posted, ended, max;
	uint64_t recvs[FAKE_QUEUE];
};

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq = make(__func__, sizeof(*srq));

	if (!srq)
		return NULL;
	srq->srq.context = pd->context;
	srq->max = attr->attr.max_wr;
	return &srq->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return destroy(__func__, srq);
}

static int post_srq_recv(struct ibv_srq *fid, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_srq *srq = (struct fake_srq *) fid;

	*bad = wr;
	if (fake_fails("ibv_post_srq_recv"))
		return fake_refusal();
	cr_assert_lt(srq->posted - srq->ended, srq->max, "the shared receive queue overruns");
	srq->recvs[srq->posted++ % FAKE_QUEUE] = wr->wr_id;
	return 0;
}

/* What tests do */

void fake_end(struct ibv_qp *fid, enum ibv_wc_status status)
{
	struct fake_qp *qp = (struct fake_qp *) fid;

	cr_assert_lt(qp->ended, qp->posted);
	end_one(qp, status);
	while (status != IBV_WC_SUCCESS && qp->ended < qp->posted)
		end_one(qp, IBV_WC_WR_FLUSH_ERR);
}

struct ibv_send_wr *fake_sends(struct ibv_qp *qp)
{
	return ((struct fake_qp *) qp)->sends;
}

unsigned fake_waiting(struct ibv_qp *qp)
{
	return ((struct fake_qp *) qp)->posted - ((struct fake_qp *) qp)->ended;
}

void fake_arrive(struct ibv_qp *fid, enum ibv_wc_opcode opcode, uint32_t len, uint32_t immediate)
{
	struct fake_qp *qp = (struct fake_qp *) fid;
	struct fake_srq *srq = (struct fake_srq *) fid->srq;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = opcode, .byte_len = len};

	wc.wr_id = srq ? srq->recvs[srq->ended++ % FAKE_QUEUE]
		       : qp->recvs[qp->recv_ended++ % FAKE_QUEUE];
	if (immediate) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = htonl(immediate);
	}
	push((struct fake_cq *) fid->recv_cq, &wc, NULL, 0);
}
