/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_core.c -- a core provider without a network; fake_core.h says what it is for */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "fake_core.h"

#define fake_of(ptr, type, member) ((type *) ((char *) (ptr) -offsetof(type, member)))

struct fake_entry {
	bool is_error;
	struct fi_cq_tagged_entry ok;
	int err;
	int prov_errno;
};

struct fake_cq {
	struct fid_cq fid;
	struct fake *fake;
	size_t entry_size;
	struct fake_entry *entries; /* from head to tail */
	size_t head;
	size_t tail;
	size_t max;
	int fd; /* -1: no wait object */
};

struct fake_ep {
	struct fid_ep fid;
	struct fake *fake;
	struct fake_ep *next;
	struct fake_cq *tx_cq;
	struct fake_cq *rx_cq;
	bool tx_selective;
	bool rx_selective;
	uint64_t op_flags;
	bool closed;
	struct fake_ep *peer;
};

struct fake_event {
	struct fake_event *next;
	bool is_error;
	uint32_t event;
	size_t len;
	union {
		struct fi_eq_err_entry err;
		char room[512];
	};
};

struct fake_eq {
	struct fid_eq fid;
	struct fake *fake;
	struct fake_event *events;
};

struct fake_mr {
	struct fid_mr fid;
	struct fake *fake;
	struct fake_mr *next;
	uint64_t access;
	size_t iov_count;
	struct iovec iov[FAKE_MAX_IOV];
};

/* Completion queues */

static void wake(struct fake_cq *cq)
{
	const uint64_t one = 1;

	if (cq->fd >= 0 && write(cq->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void cq_add(struct fake_cq *cq, const struct fake_entry *entry)
{
	if (cq->head == cq->tail)
		cq->head = cq->tail = 0;
	if (cq->tail == cq->max) {
		cq->max = cq->max ? 2 * cq->max : 64;
		cq->entries = realloc(cq->entries, cq->max * sizeof(*cq->entries));
		if (!cq->entries)
			abort();
	}
	cq->entries[cq->tail++] = *entry;
	wake(cq);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct fake_cq *cq = fake_of(fid, struct fake_cq, fid);
	size_t got = 0;
	ssize_t ret;

	pthread_mutex_lock(&cq->fake->lock);
	cq->fake->cq_reads++;
	while (got < count && cq->head < cq->tail && !cq->entries[cq->head].is_error)
		memcpy((char *) buf + got++ * cq->entry_size, &cq->entries[cq->head++].ok,
		       cq->entry_size);
	if (got)
		ret = got;
	else
		ret = count && cq->head < cq->tail ? -FI_EAVAIL : -FI_EAGAIN;
	pthread_mutex_unlock(&cq->fake->lock);
	return ret;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct fake_cq *cq = fake_of(fid, struct fake_cq, fid);
	size_t room = buf->err_data ? buf->err_data_size : 0;
	void *err_data = buf->err_data;
	ssize_t ret = -FI_EAGAIN;

	(void) flags;
	pthread_mutex_lock(&cq->fake->lock);
	if (cq->head < cq->tail && cq->entries[cq->head].is_error) {
		const struct fake_entry *entry = &cq->entries[cq->head++];

		*buf = (struct fi_cq_err_entry){
			.op_context = entry->ok.op_context,
			.flags = entry->ok.flags,
			.len = entry->ok.len,
			.buf = entry->ok.buf,
			.data = entry->ok.data,
			.tag = entry->ok.tag,
			.err = entry->err,
			.prov_errno = entry->prov_errno,
			.err_data = room >= sizeof(int) ? err_data : NULL,
			.err_data_size = room >= sizeof(int) ? sizeof(int) : 0,
		};
		if (buf->err_data)
			memcpy(buf->err_data, &entry->prov_errno, sizeof(int));
		ret = 1;
	}
	pthread_mutex_unlock(&cq->fake->lock);
	return ret;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	(void) fid, (void) prov_errno, (void) err_data, (void) buf, (void) len;
	return "fake";
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readerr = cq_readerr,
	.strerror = cq_strerror,
};

static int cq_close(struct fid *fid)
{
	struct fake_cq *cq = fake_of(fid, struct fake_cq, fid.fid);

	if (cq->fd >= 0)
		close(cq->fd);
	cq->fake->open_objects--;
	free(cq->entries);
	free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct fake_cq *cq = fake_of(fid, struct fake_cq, fid.fid);

	if (command != FI_GETWAIT || cq->fd < 0)
		return -FI_ENOSYS;
	*(int *) arg = cq->fd;
	return 0;
}

static struct fi_ops cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.control = cq_control,
};

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
			  void *context)
{
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	struct fake *fake = fake_of(domain, struct fake, domain);
	struct fake_cq *cq;

	if (fake->max_cq_size && attr->size > fake->max_cq_size)
		return -FI_EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->fake = fake;
	fake->cq_size = attr->size;
	fake->open_objects++;
	cq->entry_size = sizes[attr->format];
	cq->fd = attr->wait_obj == FI_WAIT_NONE ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fi_ops;
	cq->fid.ops = &cq_ops;
	*fid = &cq->fid;
	return 0;
}

/* The peer, if there is one */

/* Of who is connected to whom and of all regions; behind the locks of cores. */
static pthread_mutex_t network = PTHREAD_MUTEX_INITIALIZER;

/* place -- NULL: there is no such memory, or not for that */
static char *place(struct fake *fake, uint64_t key, uint64_t addr, size_t len, uint64_t access)
{
	struct fake_mr *mr = fake->mrs;
	size_t i = 0;

	while (mr && mr->fid.key != key)
		mr = mr->next;
	if (!mr)
		return NULL;
	if (!(mr->access & access)) {
		fake->denied++;
		return NULL;
	}
	if (fake->virt_addr)
		addr -= (uintptr_t) mr->iov[0].iov_base;
	while (i < mr->iov_count && addr >= mr->iov[i].iov_len)
		addr -= mr->iov[i++].iov_len;
	/* No test writes across pieces. */
	if (i == mr->iov_count || len > mr->iov[i].iov_len - addr)
		return NULL;
	return (char *) mr->iov[i].iov_base + addr;
}

static void notify(struct fake_ep *ep, uint64_t data)
{
	if (!ep->rx_cq)
		return;
	pthread_mutex_lock(&ep->fake->lock);
	cq_add(ep->rx_cq,
	       &(struct fake_entry){
		       .ok =
			       {
				       .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
				       .data = data,
			       },
	       });
	pthread_mutex_unlock(&ep->fake->lock);
}

static void carry_out(struct fake_post *post, struct fake_ep *peer)
{
	const char *from = post->inlined ? post->inlined : post->buf;
	bool reads = (post->what & FI_READ) && !(post->what & FI_ATOMIC);
	char *at = post->len ? place(peer->fake, post->key, post->addr, post->len,
				     reads ? FI_REMOTE_READ : FI_REMOTE_WRITE)
			     : NULL;

	if (at && (post->what & FI_ATOMIC)) {
		uint64_t sum, operand;

		/* The only one that tests have carried out: adding a 64-bit number. */
		memcpy(&sum, at, sizeof(sum));
		memcpy(&operand, from, sizeof(operand));
		if (post->result)
			memcpy(post->result, &sum, sizeof(sum));
		sum += operand;
		memcpy(at, &sum, sizeof(sum));
	} else if (at && (post->what & FI_READ)) {
		memcpy((void *) post->buf, at, post->len);
	} else if (at) {
		memcpy(at, from, post->len);
	}
}

static void end(struct fake_post *post, int err, int prov_errno);

/* scatter -- what a message brings into what a receive has room for */
static void scatter(const struct fake_post *receive, size_t offset, const char *from, size_t len)
{
	for (size_t i = 0; len && i < receive->iov_count; i++) {
		size_t room = receive->iov[i].iov_len;
		size_t piece;

		if (offset >= room) {
			offset -= room;
			continue;
		}
		piece = len < room - offset ? len : room - offset;
		memcpy((char *) receive->iov[i].iov_base + offset, from, piece);
		from += piece;
		len -= piece;
		offset = 0;
	}
}

static void fill(const struct fake_post *receive, const struct fake_post *message)
{
	size_t offset = 0;

	if (message->inlined) {
		scatter(receive, 0, message->inlined, message->len);
		return;
	}
	for (size_t i = 0; i < message->iov_count; i++) {
		scatter(receive, offset, message->iov[i].iov_base, message->iov[i].iov_len);
		offset += message->iov[i].iov_len;
	}
}

/* use_receive -- the oldest of an endpoint, if it has one */
static bool use_receive(struct fake_ep *ep, const struct fake_post *message)
{
	struct fake *fake = ep->fake;
	bool used = false;

	pthread_mutex_lock(&fake->lock);
	for (size_t i = fake->first_open; i < fake->num_posts && !used; i++) {
		struct fake_post *receive = &fake->posts[i];

		if (receive->ep != ep || receive->state != FAKE_UNDER_WAY ||
		    !(receive->what & FI_RECV))
			continue;
		if (message->what & FI_MSG)
			fill(receive, message);
		end(receive, 0, 0);
		used = true;
	}
	pthread_mutex_unlock(&fake->lock);
	return used;
}

static void deliver(struct fake_post *post)
{
	struct fake_ep *peer;

	if (post->delivered || (post->what & FI_RECV))
		return;
	pthread_mutex_lock(&network);
	peer = post->ep->peer;
	if (peer && !(post->what & FI_MSG))
		carry_out(post, peer);
	pthread_mutex_unlock(&network);
	post->delivered = peer != NULL;
	if (!peer)
		return;
	if (post->what & FI_MSG)
		use_receive(peer, post);
	else if ((post->flags & FI_REMOTE_CQ_DATA) &&
		 !(post->ep->fake->imm_receives && use_receive(peer, post)))
		notify(peer, post->data);
}

size_t fake_deliver(struct fake *fake, size_t n)
{
	size_t done = 0;

	pthread_mutex_lock(&fake->lock);
	for (size_t i = fake->first_open; i < fake->num_posts && done < n; i++) {
		struct fake_post *post = &fake->posts[i];

		if (post->state != FAKE_UNDER_WAY || post->delivered)
			continue;
		deliver(post);
		done += post->delivered;
	}
	pthread_mutex_unlock(&fake->lock);
	return done;
}

void fake_connect(struct fid_ep *one, struct fid_ep *other)
{
	pthread_mutex_lock(&network);
	fake_of(one, struct fake_ep, fid)->peer = fake_of(other, struct fake_ep, fid);
	fake_of(other, struct fake_ep, fid)->peer = fake_of(one, struct fake_ep, fid);
	pthread_mutex_unlock(&network);
}

/* Operations and their ends */

static void end(struct fake_post *post, int err, int prov_errno)
{
	bool rx = post->what & FI_RECV;
	struct fake_cq *cq = rx ? post->ep->rx_cq : post->ep->tx_cq;

	if (!err)
		deliver(post);
	post->state = FAKE_ENDED;
	post->err = err;
	if (!cq || post->quiet || (!err && !post->reported))
		return;
	cq_add(cq, &(struct fake_entry){
			   .is_error = err != 0,
			   .ok =
				   {
					   .op_context = post->context,
					   .flags = post->what,
					   .len = FAKE_LEN(post->len),
					   .buf = FAKE_BUF,
					   .data = FAKE_DATA,
					   .tag = FAKE_TAG,
				   },
			   .err = err,
			   .prov_errno = prov_errno,
		   });
}

static struct fake_post *oldest(struct fake *fake, uint64_t rx)
{
	while (fake->first_open < fake->num_posts &&
	       fake->posts[fake->first_open].state != FAKE_UNDER_WAY)
		fake->first_open++;
	for (size_t i = fake->first_open; i < fake->num_posts; i++) {
		struct fake_post *post = &fake->posts[i];

		if (post->state == FAKE_UNDER_WAY && (post->what & FI_RECV) == rx)
			return post;
	}
	return NULL;
}

static bool end_oldest(struct fake *fake, uint64_t rx, int err, int prov_errno)
{
	struct fake_post *post;

	pthread_mutex_lock(&fake->lock);
	post = oldest(fake, rx);
	if (post)
		end(post, err, prov_errno);
	pthread_mutex_unlock(&fake->lock);
	return post != NULL;
}

size_t fake_complete(struct fake *fake, size_t n)
{
	size_t done = 0;

	while (done < n && end_oldest(fake, 0, 0, 0))
		done++;
	return done;
}

bool fake_fail(struct fake *fake, int err, int prov_errno)
{
	return end_oldest(fake, 0, err, prov_errno);
}

size_t fake_fail_all(struct fake *fake, int err, int prov_errno)
{
	size_t done = 0;

	while (end_oldest(fake, 0, done ? FI_ECANCELED : err, prov_errno))
		done++;
	return done;
}

bool fake_receive(struct fake *fake, int err)
{
	return end_oldest(fake, FI_RECV, err, err);
}

void fake_report(struct fake *fake, size_t n, int err)
{
	pthread_mutex_lock(&fake->lock);
	end(&fake->posts[n], err, err);
	pthread_mutex_unlock(&fake->lock);
}

size_t fake_receives(struct fake *fake)
{
	size_t count = 0;

	for (size_t i = fake->first_open; i < fake->num_posts; i++)
		count += fake->posts[i].state == FAKE_UNDER_WAY && (fake->posts[i].what & FI_RECV);
	return count;
}

size_t fake_under_way(struct fake *fake)
{
	size_t count = 0;

	for (size_t i = fake->first_open; i < fake->num_posts; i++)
		count += fake->posts[i].state == FAKE_UNDER_WAY && !(fake->posts[i].what & FI_RECV);
	return count;
}

static void append(struct fake *fake, const struct fake_post *post)
{
	if (fake->num_posts == fake->max_posts) {
		fake->max_posts = fake->max_posts ? 2 * fake->max_posts : 64;
		fake->posts = realloc(fake->posts, fake->max_posts * sizeof(*fake->posts));
		if (!fake->posts)
			abort();
	}
	fake->posts[fake->num_posts++] = *post;
	if (fake->automatic && !(post->what & FI_RECV))
		end(&fake->posts[fake->num_posts - 1], 0, 0);
}

static ssize_t post_tx(struct fake *fake, const struct fake_post *post)
{
	if (post->ep->closed) {
		fake->posted_to_closed++;
		return -FI_EOPBADSTATE;
	}
	if (fake->fail_in && !--fake->fail_in) {
		fake->fail_context = post->context;
		return -fake->fail_err;
	}
	if (!fake->room || (fake->busy_every && !(++fake->attempts % fake->busy_every)))
		return -FI_EAGAIN;
	if (fake->room > 0)
		fake->room--;
	append(fake, post);
	return 0;
}

/* inlined -- the caller may reuse its buffer at once */
static void *inlined(const struct fake_post *post)
{
	bool connected;
	char *copy;

	pthread_mutex_lock(&network);
	connected = post->ep->peer != NULL;
	pthread_mutex_unlock(&network);
	if (!connected || !post->buf || !(post->quiet || (post->flags & FI_INJECT)))
		return NULL;
	copy = malloc(post->len + 1);
	if (!copy)
		abort();
	if (!(post->what & FI_MSG))
		return memcpy(copy, post->buf, post->len);
	for (size_t i = 0, at = 0; i < post->iov_count; at += post->iov[i++].iov_len)
		memcpy(copy + at, post->iov[i].iov_base, post->iov[i].iov_len);
	return copy;
}

bool fake_injects(enum fake_call call)
{
	return call == FAKE_INJECT_WRITE || call == FAKE_INJECT_WRITEDATA || call == FAKE_INJECT ||
	       call == FAKE_INJECTDATA || call == FAKE_INJECT_ATOMIC;
}

static ssize_t post(struct fid_ep *fid, struct fake_post *post)
{
	struct fake_ep *ep = fake_of(fid, struct fake_ep, fid);
	struct fake *fake = ep->fake;
	bool rx = post->what & FI_RECV;
	ssize_t ret = 0;

	post->ep = ep;
	post->quiet = fake_injects(post->call);
	post->reported = !post->quiet && ((post->flags & FI_COMPLETION) ||
					  !(rx ? ep->rx_selective : ep->tx_selective));
	if (fake->on_post)
		fake->on_post(fake, post, fake->on_post_arg);
	pthread_mutex_lock(&fake->lock);
	post->inlined = inlined(post);
	if (rx)
		append(fake, post);
	else
		ret = post_tx(fake, post);
	if (ret)
		free(post->inlined);
	pthread_mutex_unlock(&fake->lock);
	return ret;
}

static uint64_t op_flags(struct fid_ep *fid)
{
	return fake_of(fid, struct fake_ep, fid)->op_flags;
}

static size_t iov_len(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* RMA */

static ssize_t post_rma(struct fid_ep *fid, enum fake_call call, uint64_t what,
			const struct fi_msg_rma *msg, uint64_t flags)
{
	struct fake_post op = {
		.call = call,
		.what = FI_RMA | what,
		.flags = flags,
		.context = msg->context,
		.buf = msg->iov_count ? msg->msg_iov[0].iov_base : NULL,
		.desc = msg->iov_count && msg->desc ? msg->desc[0] : NULL,
		.iov_count = msg->iov_count,
		.len = iov_len(msg->msg_iov, msg->iov_count),
		.data = msg->data,
	};

	if (msg->rma_iov_count) {
		op.addr = msg->rma_iov[0].addr;
		op.key = msg->rma_iov[0].key;
	}
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		op.rma_len += msg->rma_iov[i].len;
	return post(fid, &op);
}

static ssize_t rma_vector(struct fid_ep *fid, enum fake_call call, uint64_t what,
			  const struct iovec *iov, void **desc, size_t count, uint64_t addr,
			  uint64_t key, uint64_t data, void *context, uint64_t flags)
{
	struct fi_rma_iov rma_iov = {addr, iov_len(iov, count), key};
	struct fi_msg_rma msg = {iov, desc, count, 0, &rma_iov, 1, context, data};

	return post_rma(fid, call, what, &msg, op_flags(fid) | flags);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t addr, uint64_t key, void *context)
{
	(void) src;
	return rma_vector(fid, FAKE_READ, FI_READ, &(struct iovec){buf, len}, &desc, 1, addr, key,
			  0, context, 0);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	(void) src;
	return rma_vector(fid, FAKE_READV, FI_READ, iov, desc, count, addr, key, 0, context, 0);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post_rma(fid, FAKE_READMSG, FI_READ, msg, flags);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	(void) dest;
	return rma_vector(fid, FAKE_WRITE, FI_WRITE, &(struct iovec){(void *) buf, len}, &desc, 1,
			  addr, key, 0, context, 0);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	(void) dest;
	return rma_vector(fid, FAKE_WRITEV, FI_WRITE, iov, desc, count, addr, key, 0, context, 0);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return post_rma(fid, FAKE_WRITEMSG, FI_WRITE, msg, flags);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	(void) dest;
	return rma_vector(fid, FAKE_WRITEDATA, FI_WRITE, &(struct iovec){(void *) buf, len}, &desc,
			  1, addr, key, data, context, FI_REMOTE_CQ_DATA);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	(void) dest;
	return rma_vector(fid, FAKE_INJECT_WRITE, FI_WRITE, &(struct iovec){(void *) buf, len},
			  NULL, 1, addr, key, 0, NULL, 0);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t addr, uint64_t key)
{
	(void) dest;
	return rma_vector(fid, FAKE_INJECT_WRITEDATA, FI_WRITE, &(struct iovec){(void *) buf, len},
			  NULL, 1, addr, key, data, NULL, FI_REMOTE_CQ_DATA);
}

static struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};

/* Messages */

static ssize_t post_msg(struct fid_ep *fid, enum fake_call call, uint64_t what,
			const struct fi_msg *msg, uint64_t flags)
{
	struct fake_post op = {
		.call = call,
		.what = FI_MSG | what,
		.flags = flags,
		.context = msg->context,
		.buf = msg->iov_count ? msg->msg_iov[0].iov_base : NULL,
		.iov_count = msg->iov_count,
		.len = iov_len(msg->msg_iov, msg->iov_count),
		.data = msg->data,
	};

	if (msg->iov_count > FAKE_MAX_IOV)
		abort();
	if (msg->iov_count)
		memcpy(op.iov, msg->msg_iov, msg->iov_count * sizeof(op.iov[0]));
	return post(fid, &op);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			void *context)
{
	struct iovec iov = {buf, len};
	struct fi_msg msg = {&iov, &desc, 1, src, context, 0};

	return post_msg(fid, FAKE_RECV, FI_RECV, &msg, 0);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, void *context)
{
	struct fi_msg msg = {iov, desc, count, src, context, 0};

	return post_msg(fid, FAKE_RECVV, FI_RECV, &msg, 0);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return post_msg(fid, FAKE_RECVMSG, FI_RECV, msg, flags);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest,
			void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct fi_msg msg = {&iov, &desc, 1, dest, context, 0};

	return post_msg(fid, FAKE_SEND, FI_SEND, &msg, op_flags(fid));
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, void *context)
{
	struct fi_msg msg = {iov, desc, count, dest, context, 0};

	return post_msg(fid, FAKE_SENDV, FI_SEND, &msg, op_flags(fid));
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return post_msg(fid, FAKE_SENDMSG, FI_SEND, msg, flags);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	struct iovec iov = {(void *) buf, len};
	struct fi_msg msg = {&iov, NULL, 1, dest, NULL, 0};

	return post_msg(fid, FAKE_INJECT, FI_SEND, &msg, 0);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct fi_msg msg = {&iov, &desc, 1, dest, context, data};

	return post_msg(fid, FAKE_SENDDATA, FI_SEND, &msg, op_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest)
{
	struct iovec iov = {(void *) buf, len};
	struct fi_msg msg = {&iov, NULL, 1, dest, NULL, data};

	return post_msg(fid, FAKE_INJECTDATA, FI_SEND, &msg, FI_REMOTE_CQ_DATA);
}

static struct fi_ops_msg msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

/* Atomics: those that the provider uses */

static ssize_t post_atomic(struct fid_ep *fid, enum fake_call call, uint64_t what,
			   const struct fi_msg_atomic *msg, const struct fi_ioc *compare,
			   const struct fi_ioc *result, uint64_t flags)
{
	struct fake_post op = {
		.call = call,
		.what = FI_ATOMIC | what,
		.flags = flags,
		.context = msg->context,
		.buf = msg->iov_count ? msg->msg_iov[0].addr : NULL,
		.desc = msg->iov_count && msg->desc ? msg->desc[0] : NULL,
		.iov_count = msg->iov_count,
		.len = 8,
		.addr = msg->rma_iov[0].addr,
		.key = msg->rma_iov[0].key,
		.dest = msg->addr,
		.compare = compare ? compare->addr : NULL,
		.result = result ? result->addr : NULL,
	};

	/* All tests operate on numbers of 64 bits. */
	for (size_t i = 0; i < msg->rma_iov_count; i++)
		op.rma_len += 8 * msg->rma_iov[i].count;
	return post(fid, &op);
}

static ssize_t atomic_msg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return post_atomic(fid, FAKE_ATOMICMSG, FI_WRITE, msg, NULL, NULL, flags);
}

static ssize_t atomic_fetch_msg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				struct fi_ioc *result, void **result_desc, size_t result_count,
				uint64_t flags)
{
	(void) result_desc;
	return post_atomic(fid, FAKE_FETCH_ATOMICMSG, FI_READ, msg, NULL,
			   result_count ? result : NULL, flags);
}

static ssize_t atomic_compare_msg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				  const struct fi_ioc *compare, void **compare_desc,
				  size_t compare_count, struct fi_ioc *result, void **result_desc,
				  size_t result_count, uint64_t flags)
{
	(void) compare_desc, (void) result_desc;
	return post_atomic(fid, FAKE_COMPARE_ATOMICMSG, FI_READ, msg,
			   compare_count ? compare : NULL, result_count ? result : NULL, flags);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	struct fi_ioc ioc = {(void *) buf, count};
	struct fi_rma_ioc rma_ioc = {addr, count, key};
	struct fi_msg_atomic msg = {&ioc, NULL, 1, dest, &rma_ioc, 1, datatype, op, NULL, 0};

	return post_atomic(fid, FAKE_INJECT_ATOMIC, FI_WRITE, &msg, NULL, NULL, 0);
}

static struct fi_ops_atomic atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.writemsg = atomic_msg,
	.inject = atomic_inject,
	.readwritemsg = atomic_fetch_msg,
	.compwritemsg = atomic_compare_msg,
};

/* Endpoints */

static ssize_t ep_cancel(struct fid *fid, void *context)
{
	struct fake_ep *ep = fake_of(fid, struct fake_ep, fid.fid);
	struct fake *fake = ep->fake;
	ssize_t ret = -FI_ENOENT;

	pthread_mutex_lock(&fake->lock);
	for (size_t i = fake->first_open; ret && i < fake->num_posts; i++) {
		struct fake_post *op = &fake->posts[i];

		if (op->ep != ep || op->state != FAKE_UNDER_WAY || !(op->what & FI_RECV) ||
		    op->context != context)
			continue;
		end(op, FI_ECANCELED, FI_ECANCELED);
		ret = 0;
	}
	pthread_mutex_unlock(&fake->lock);
	return ret;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
};

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
	(void) flags;
	fake_of(fid, struct fake_ep, fid)->fake->shutdowns++;
	return 0;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.shutdown = ep_shutdown,
};

static int ep_close(struct fid *fid)
{
	struct fake_ep *ep = fake_of(fid, struct fake_ep, fid.fid);
	struct fake *fake = ep->fake;

	if (fake->on_close == FAKE_CLOSE_IS_BUSY)
		return -FI_EBUSY;
	pthread_mutex_lock(&fake->lock);
	for (size_t i = fake->first_open; i < fake->num_posts; i++) {
		struct fake_post *op = &fake->posts[i];

		if (op->ep != ep || op->state != FAKE_UNDER_WAY)
			continue;
		if (fake->on_close == FAKE_CLOSE_CANCELS)
			end(op, FI_ECANCELED, FI_ECANCELED);
		else
			op->state = FAKE_FORGOTTEN;
	}
	ep->closed = true;
	pthread_mutex_lock(&network);
	if (ep->peer)
		ep->peer->peer = NULL;
	ep->peer = NULL;
	pthread_mutex_unlock(&network);
	fake->open_objects--;
	pthread_mutex_unlock(&fake->lock);
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct fake_ep *ep = fake_of(fid, struct fake_ep, fid.fid);

	if (bfid->fclass == FI_CLASS_EQ)
		return 0;
	if (bfid->fclass != FI_CLASS_CQ)
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = fake_of(bfid, struct fake_cq, fid.fid);
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	if (flags & FI_RECV) {
		ep->rx_cq = fake_of(bfid, struct fake_cq, fid.fid);
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
	}
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	(void) fid, (void) arg;
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
};

static int domain_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
			  void *context)
{
	struct fake *fake = fake_of(domain, struct fake, domain);
	struct fake_ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return -FI_ENOMEM;
	fi_freeinfo(fake->ep_info);
	fake->ep_info = fi_dupinfo(info);
	fake->open_objects++;
	ep->fake = fake;
	ep->next = fake->eps;
	fake->eps = ep;
	ep->op_flags = info->tx_attr->op_flags;
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &ep_fi_ops;
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &cm_ops;
	ep->fid.rma = &rma_ops;
	ep->fid.msg = &msg_ops;
	ep->fid.atomic = &atomic_ops;
	*fid = &ep->fid;
	return 0;
}

/* Memory regions */

static int mr_close(struct fid *fid)
{
	struct fake_mr *mr = fake_of(fid, struct fake_mr, fid.fid);
	struct fake_mr **at = &mr->fake->mrs;

	if (mr->fake->on_mr_close)
		mr->fake->on_mr_close(mr->fake, mr->fid.key, mr->fake->on_mr_close_arg);
	pthread_mutex_lock(&network);
	while (*at != mr)
		at = &(*at)->next;
	*at = mr->next;
	pthread_mutex_unlock(&network);
	mr->fake->open_objects--;
	free(mr);
	return 0;
}

static struct fi_ops mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr_fid)
{
	/* No two regions of any core have the same, nor one of those that tests make up. */
	static atomic_uint last_key = 0x1000;
	struct fake_mr *mr = calloc(1, sizeof(*mr));

	(void) flags;
	if (!mr || attr->iov_count > FAKE_MAX_IOV)
		abort();
	mr->fake = fake_of(fid, struct fake, domain.fid);
	mr->fake->open_objects++;
	mr->access = attr->access;
	mr->iov_count = attr->iov_count;
	memcpy(mr->iov, attr->mr_iov, attr->iov_count * sizeof(mr->iov[0]));
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = attr->context;
	mr->fid.fid.ops = &mr_fi_ops;
	mr->fid.key = ++last_key;
	mr->fid.mem_desc = attr->mr_iov[0].iov_base;
	pthread_mutex_lock(&network);
	mr->next = mr->fake->mrs;
	mr->fake->mrs = mr;
	pthread_mutex_unlock(&network);
	*mr_fid = &mr->fid;
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr_fid, void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return mr_regattr(fid, &attr, flags, mr_fid);
}

static struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regattr = mr_regattr,
};

/* Event queues */

static void add_event(struct fake_eq *eq, const struct fake_event *event)
{
	struct fake_event **at = &eq->events;
	struct fake_event *copy = malloc(sizeof(*copy));

	if (!copy)
		abort();
	*copy = *event;
	while (*at)
		at = &(*at)->next;
	*at = copy;
}

void fake_raise(struct fid_eq *fid, uint32_t event, const void *entry, size_t len)
{
	struct fake_event add = {.event = event, .len = len};

	memcpy(add.room, entry, len);
	add_event(fake_of(fid, struct fake_eq, fid), &add);
}

void fake_raise_error(struct fid_eq *fid, const struct fi_eq_err_entry *entry)
{
	add_event(fake_of(fid, struct fake_eq, fid),
		  &(struct fake_event){.is_error = true, .err = *entry});
}

static void drop_event(struct fake_eq *eq)
{
	struct fake_event *event = eq->events;

	eq->events = event->next;
	free(event);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct fake_eq *eq = fake_of(fid, struct fake_eq, fid);
	ssize_t ret;

	if (!eq->events)
		return -FI_EAGAIN;
	if (eq->events->is_error)
		return -FI_EAVAIL;
	if (eq->events->len > len)
		return -FI_ETOOSMALL;
	*event = eq->events->event;
	ret = (ssize_t) eq->events->len;
	memcpy(buf, eq->events->room, eq->events->len);
	if (!(flags & FI_PEEK))
		drop_event(eq);
	return ret;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct fake_eq *eq = fake_of(fid, struct fake_eq, fid);

	(void) flags;
	if (!eq->events || !eq->events->is_error)
		return -FI_EAGAIN;
	*buf = eq->events->err;
	drop_event(eq);
	return sizeof(*buf);
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	(void) flags;
	fake_raise(fid, event, buf, len);
	return (ssize_t) len;
}

/* Nothing arrives while somebody waits. */
static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	ssize_t ret = eq_read(fid, event, buf, len, flags);

	if (ret == -FI_EAGAIN && timeout > 0)
		usleep(timeout * 1000);
	return ret;
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
};

static int eq_close(struct fid *fid)
{
	struct fake_eq *eq = fake_of(fid, struct fake_eq, fid.fid);

	while (eq->events)
		drop_event(eq);
	eq->fake->open_objects--;
	free(eq);
	return 0;
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
};

static int fabric_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **fid,
			  void *context)
{
	struct fake_eq *eq = calloc(1, sizeof(*eq));

	(void) attr;
	if (!eq)
		return -FI_ENOMEM;
	eq->fake = fake_of(fabric, struct fake, fabric);
	eq->fake->open_objects++;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fi_ops;
	eq->fid.ops = &eq_ops;
	*fid = &eq->fid;
	return 0;
}

/* Passive endpoints */

static int pep_close(struct fid *fid)
{
	struct fid_pep *pep = fake_of(fid, struct fid_pep, fid);

	free(pep);
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void) fid, (void) flags;
	return bfid->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static struct fi_ops pep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
};

static int fabric_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **fid,
			     void *context)
{
	struct fid_pep *pep = calloc(1, sizeof(*pep));

	(void) fabric, (void) info;
	if (!pep)
		return -FI_ENOMEM;
	pep->fid.fclass = FI_CLASS_PEP;
	pep->fid.context = context;
	pep->fid.ops = &pep_fi_ops;
	*fid = pep;
	return 0;
}

/* The domain, the fabric */

static int domain_close(struct fid *fid)
{
	struct fake *fake = fake_of(fid, struct fake, domain.fid);

	if (fake->domain_is_busy)
		return -FI_EBUSY;
	fake->open_objects--;
	return 0;
}

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
};

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.cq_open = domain_cq_open,
	.endpoint = domain_ep_open,
};

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **fid,
			 void *context)
{
	struct fake *fake = fake_of(fabric, struct fake, fabric);

	fi_freeinfo(fake->domain_info);
	fake->domain_info = fi_dupinfo(info);
	fake->open_objects++;
	fake->domain = (struct fid_domain){
		.fid = {.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fi_ops},
		.ops = &domain_ops,
		.mr = &mr_ops,
	};
	*fid = &fake->domain;
	return 0;
}

static int trywait_cq(struct fake_cq *cq)
{
	uint64_t raised;
	int ret;

	pthread_mutex_lock(&cq->fake->lock);
	if (read(cq->fd, &raised, sizeof(raised)) < 0 && errno != EAGAIN)
		abort();
	ret = cq->head < cq->tail ? -FI_EAGAIN : 0;
	pthread_mutex_unlock(&cq->fake->lock);
	return ret;
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void) fabric;
	for (int i = 0; i < count; i++) {
		int ret = 0;

		if (fids[i]->fclass == FI_CLASS_CQ)
			ret = trywait_cq(fake_of(fids[i], struct fake_cq, fid.fid));
		else if (fake_of(fids[i], struct fake_eq, fid.fid)->events)
			ret = -FI_EAGAIN;
		if (ret)
			return ret;
	}
	return 0;
}

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = fabric_domain,
	.passive_ep = fabric_passive_ep,
	.eq_open = fabric_eq_open,
	.trywait = fabric_trywait,
};

void fake_init(struct fake *fake)
{
	*fake = (struct fake){
		.fabric = {.fid = {.fclass = FI_CLASS_FABRIC}, .ops = &fabric_ops},
		.room = -1,
	};
	pthread_mutex_init(&fake->lock, NULL);
}

void fake_destroy(struct fake *fake)
{
	struct fake_ep *ep;

	while ((ep = fake->eps)) {
		fake->eps = ep->next;
		free(ep);
	}
	fi_freeinfo(fake->domain_info);
	fi_freeinfo(fake->ep_info);
	for (size_t i = 0; i < fake->num_posts; i++)
		free(fake->posts[i].inlined);
	free(fake->posts);
	pthread_mutex_destroy(&fake->lock);
}
