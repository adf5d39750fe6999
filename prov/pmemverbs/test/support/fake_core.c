/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_core.c -- what becomes of an operation of the fake core; fake_core.h says what it is for */
#include "fake_core.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "fake_impl.h"
#include "testcore/fid.h"

/* The peer, if there is one */

pthread_mutex_t fake_network = PTHREAD_MUTEX_INITIALIZER;

/* place -- NULL: there is no such memory, or not for that */
static char *place(struct fake *fake, const struct testcore_request *op, uint64_t access)
{
	const struct testcore_mr *mr = testcore_mr_find(&fake->mrs, op->key);

	if (!mr)
		return NULL;
	if (!(mr->access & access)) {
		fake->denied++;
		return NULL;
	}
	return testcore_mr_at(
		mr, op->addr - (fake->virt_addr ? (uintptr_t) mr->iov[0].iov_base : 0), op->len);
}

static void notify(struct fake_ep *ep, uint64_t data)
{
	if (!ep->core.rx_cq)
		return;
	pthread_mutex_lock(&ep->fake->lock);
	fake_cq_add(ep->core.rx_cq,
		    &(struct testcore_entry){
			    .ok =
				    {
					    .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
					    .data = data,
				    },
		    });
	pthread_mutex_unlock(&ep->fake->lock);
}

static void update(const struct fake_post *post, char *at)
{
	const struct testcore_request *op = &post->op;
	uint64_t old, operand, compare = 0;
	testcore_update change;

	/* No test has others carried out. */
	if (!testcore_update_of(op, &change))
		abort();
	memcpy(&old, at, sizeof(old));
	memcpy(&operand, post->inlined ? post->inlined : op->buf, sizeof(operand));
	if (op->compare)
		memcpy(&compare, op->compare, sizeof(compare));
	if (op->result)
		memcpy(op->result, &old, sizeof(old));
	if (change)
		operand = change(old, operand, compare);
	memcpy(at, &operand, sizeof(operand));
}

static void carry_out(const struct fake_post *post, struct fake_ep *peer)
{
	const struct testcore_request *op = &post->op;
	bool reads = op->call <= TESTCORE_READMSG;
	char *at = op->len ? place(peer->fake, op, reads ? FI_REMOTE_READ : FI_REMOTE_WRITE) : NULL;

	if (!at)
		return;
	if (op->what & FI_ATOMIC)
		update(post, at);
	else if (reads)
		testcore_scatter(op, at, op->len);
	else if (post->inlined)
		memcpy(at, post->inlined, op->len);
	else
		testcore_gather(op, at);
}

/* fill -- a receive, with as much of a message as it has room for */
static void fill(const struct fake_post *receive, const struct fake_post *message)
{
	size_t len = message->op.len;
	char *payload;

	if (message->inlined) {
		testcore_scatter(&receive->op, message->inlined, len);
		return;
	}
	payload = testcore_need(malloc(len + 1));
	testcore_gather(&message->op, payload);
	testcore_scatter(&receive->op, payload, len);
	free(payload);
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
		    !(receive->op.what & FI_RECV))
			continue;
		if (message->op.what & FI_MSG)
			fill(receive, message);
		fake_end(receive, 0, 0);
		used = true;
	}
	pthread_mutex_unlock(&fake->lock);
	return used;
}

static void deliver(struct fake_post *post)
{
	struct fake_ep *peer;

	if (post->delivered || (post->op.what & FI_RECV))
		return;
	pthread_mutex_lock(&fake_network);
	peer = post->ep->peer;
	if (peer && !(post->op.what & FI_MSG))
		carry_out(post, peer);
	pthread_mutex_unlock(&fake_network);
	post->delivered = peer != NULL;
	if (!peer)
		return;
	if (post->op.what & FI_MSG)
		use_receive(peer, post);
	else if ((post->op.flags & FI_REMOTE_CQ_DATA) &&
		 !(post->ep->fake->imm_receives && use_receive(peer, post)))
		notify(peer, post->op.data);
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
	pthread_mutex_lock(&fake_network);
	fake_to_ep(&one->fid)->peer = fake_to_ep(&other->fid);
	fake_to_ep(&other->fid)->peer = fake_to_ep(&one->fid);
	pthread_mutex_unlock(&fake_network);
}

/* Operations and their ends */

void fake_end(struct fake_post *post, int err, int prov_errno)
{
	bool rx = post->op.what & FI_RECV;
	struct testcore_cq *cq = rx ? post->ep->core.rx_cq : post->ep->core.tx_cq;

	if (!err)
		deliver(post);
	post->state = FAKE_ENDED;
	post->err = err;
	if (!cq || post->op.injected || (!err && !post->op.reported))
		return;
	fake_cq_add(cq, &(struct testcore_entry){
				.err = err,
				.prov_errno = prov_errno,
				.ok =
					{
						.op_context = post->op.context,
						.flags = post->op.what,
						.len = FAKE_LEN(post->op.len),
						.buf = FAKE_BUF,
						.data = FAKE_DATA,
						.tag = FAKE_TAG,
					},
			});
}

static struct fake_post *oldest(struct fake *fake, uint64_t rx)
{
	while (fake->first_open < fake->num_posts &&
	       fake->posts[fake->first_open].state != FAKE_UNDER_WAY)
		fake->first_open++;
	for (size_t i = fake->first_open; i < fake->num_posts; i++) {
		struct fake_post *post = &fake->posts[i];

		if (post->state == FAKE_UNDER_WAY && (post->op.what & FI_RECV) == rx)
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
		fake_end(post, err, prov_errno);
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
	fake_end(&fake->posts[n], err, err);
	pthread_mutex_unlock(&fake->lock);
}

size_t fake_receives(struct fake *fake)
{
	size_t count = 0;

	for (size_t i = fake->first_open; i < fake->num_posts; i++)
		count += fake->posts[i].state == FAKE_UNDER_WAY &&
			 (fake->posts[i].op.what & FI_RECV);
	return count;
}

size_t fake_under_way(struct fake *fake)
{
	size_t count = 0;

	for (size_t i = fake->first_open; i < fake->num_posts; i++)
		count += fake->posts[i].state == FAKE_UNDER_WAY &&
			 !(fake->posts[i].op.what & FI_RECV);
	return count;
}

static void append(struct fake *fake, const struct fake_post *post)
{
	if (fake->num_posts == fake->max_posts) {
		fake->max_posts = fake->max_posts ? 2 * fake->max_posts : 64;
		fake->posts =
			testcore_need(realloc(fake->posts, fake->max_posts * sizeof(*fake->posts)));
	}
	fake->posts[fake->num_posts++] = *post;
	if (fake->automatic && !(post->op.what & FI_RECV))
		fake_end(&fake->posts[fake->num_posts - 1], 0, 0);
}

static ssize_t post_tx(struct fake *fake, const struct fake_post *post)
{
	if (post->ep->closed) {
		fake->posted_to_closed++;
		return -FI_EOPBADSTATE;
	}
	if (fake->fail_in && !--fake->fail_in) {
		fake->fail_context = post->op.context;
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
static char *inlined(const struct fake_post *post)
{
	const struct testcore_request *op = &post->op;
	bool connected;
	char *copy;

	pthread_mutex_lock(&fake_network);
	connected = post->ep->peer != NULL;
	pthread_mutex_unlock(&fake_network);
	if (!connected || !op->buf || !(op->injected || (op->flags & FI_INJECT)))
		return NULL;
	copy = testcore_need(malloc(op->len + 1));
	testcore_gather(op, copy);
	return copy;
}

ssize_t fake_post_request(struct testcore_ep *core, const struct testcore_request *request)
{
	struct fake_ep *ep = testcore_of(core, struct fake_ep, core);
	struct fake *fake = ep->fake;
	struct fake_post post = {.op = *request, .ep = ep};
	ssize_t ret = 0;

	if (fake->on_post)
		fake->on_post(fake, &post, fake->on_post_arg);
	pthread_mutex_lock(&fake->lock);
	post.inlined = inlined(&post);
	if ((request->what & FI_RECV) && fake->receive_in && !--fake->receive_in)
		ret = -FI_EAGAIN;
	else if (request->what & FI_RECV)
		append(fake, &post);
	else
		ret = post_tx(fake, &post);
	if (ret)
		free(post.inlined);
	pthread_mutex_unlock(&fake->lock);
	return ret;
}
