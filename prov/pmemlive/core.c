/* SPDX-License-Identifier: BSD-2-Clause */
/* core.c -- what the simulated core does with what is posted; core.h says how it behaves */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "scheduler.h"
#include "testcore/fid.h"

/* All endpoints, wherever they are. */
static struct core_domain *domains[32];
static unsigned int num_domains;

/* Entries */

static void tell(struct testcore_cq *cq, const struct testcore_request *op, int err)
{
	if (!cq || op->injected || (!err && !op->reported))
		return;
	core_cq_add(cq, &(struct testcore_entry){
				.err = err,
				.prov_errno = err,
				.ok = {.op_context = op->context, .flags = op->what},
			});
}

static void end_post(struct testcore_cq *cq, struct core_post *post, int err)
{
	tell(cq, &post->op, err);
	free(post->payload);
	free(post);
}

void core_drop_posts(struct core_posts *posts)
{
	struct core_post *post;

	while ((post = STAILQ_FIRST(posts))) {
		STAILQ_REMOVE_HEAD(posts, next);
		free(post->payload);
		free(post);
	}
}

static void end_posts(struct testcore_cq *cq, struct core_posts *posts)
{
	struct core_post *post;

	while ((post = STAILQ_FIRST(posts))) {
		STAILQ_REMOVE_HEAD(posts, next);
		end_post(cq, post, FI_ECANCELED);
	}
}

/* Messages */

static void free_message(struct core_message *message)
{
	free(message->payload);
	free(message);
}

static unsigned int drop_messages(struct core_messages *messages)
{
	struct core_message *message;
	unsigned int count = 0;

	for (; (message = STAILQ_FIRST(messages)); count++) {
		STAILQ_REMOVE_HEAD(messages, next);
		free_message(message);
	}
	return count;
}

static bool has_arrived(const struct core_message *message)
{
	return message && message->arrives_ns <= sched_now_ns;
}

static bool has_socket_room(const struct core_ep *ep)
{
	return ep->peer && !ep->peer->dead && !ep->socket.shut &&
	       ep->peer->num_in < core_rules.socket;
}

static const char *name_of(const struct core_message *message)
{
	static const char *const kinds[] = {[CORE_DONE] = "answer",
					    [CORE_ACCEPTED] = "acceptance",
					    [CORE_REFUSED] = "refusal",
					    [CORE_HANGUP] = "hangup"};

	if (message->kind != CORE_REQUEST)
		return kinds[message->kind];
	if (message->op.what & FI_ATOMIC)
		return "atomic";
	return message->op.what & FI_READ ? "read" : message->op.what & FI_MSG ? "send" : "write";
}

/* put_on_way -- to an endpoint, behind what is on its way there */
static void put_on_way(struct core_ep *to, struct core_message *message)
{
	int64_t arrives =
		sched_now_ns + sched_between(core_rules.least_delay_ns, core_rules.most_delay_ns);

	if (arrives <= to->last_arrival_ns)
		arrives = to->last_arrival_ns + 1;
	if ((to->peer || to->called_domain) && !links_reach(to))
		arrives = SCHED_NEVER;
	else
		to->last_arrival_ns = arrives;
	message->arrives_ns = arrives;
	if (to->peer)
		links_sent(to->peer, arrives);
	STAILQ_INSERT_TAIL(&to->in, message, next);
	to->num_in++;
	sched_trace("%s %zu bytes are sent, %u on their way", name_of(message), message->op.len,
		    to->num_in);
}

static bool has_out(const struct core_ep *ep)
{
	return !STAILQ_EMPTY(&ep->answers) || !STAILQ_EMPTY(&ep->out);
}

bool core_is_full(const struct core_ep *ep)
{
	return has_out(ep) && ep->peer && !has_socket_room(ep);
}

static struct core_message *next_out(struct core_ep *ep)
{
	struct core_message *message = STAILQ_FIRST(&ep->answers);

	if (message) {
		STAILQ_REMOVE_HEAD(&ep->answers, next);
		return message;
	}
	message = STAILQ_FIRST(&ep->out);
	STAILQ_REMOVE_HEAD(&ep->out, next);
	ep->num_out--;
	return message;
}

/* send_out -- as much as the socket has room for */
static void send_out(struct core_ep *ep)
{
	while (has_socket_room(ep) && has_out(ep)) {
		struct core_message *message = next_out(ep);
		struct core_post *post = message->post;

		put_on_way(ep->peer, message);
		if (message->kind != CORE_REQUEST || post->acknowledged)
			continue;
		/* It is in the socket: nobody will say more. */
		STAILQ_REMOVE(&ep->sent, post, core_post, next);
		end_post(ep->core.tx_cq, post, 0);
		message->post = NULL;
	}
	if (core_rules.sockets && core_is_full(ep))
		tcp_full(ep);
}

static void answer(struct core_ep *ep, const struct core_message *to, char *payload)
{
	struct core_message *message = testcore_need(calloc(1, sizeof(*message)));

	message->kind = CORE_DONE;
	message->post = to->post;
	message->payload = payload;
	STAILQ_INSERT_TAIL(&ep->answers, message, next);
}

/* Carrying requests out */

static char *place(const struct core_ep *ep, const struct testcore_request *op, uint64_t access)
{
	const struct testcore_mr *mr = testcore_mr_find(&ep->domain->mrs, op->key);

	if (!op->len)
		return NULL;
	if (!mr || !(mr->access & access))
		sched_fail("a peer has no right to key %#llx", (unsigned long long) op->key);
	return testcore_mr_at(mr, op->addr - (uintptr_t) mr->iov[0].iov_base, op->len);
}

static void carry_out_write(struct core_ep *ep, const struct core_message *message)
{
	const struct testcore_request *op = &message->op;
	char *at = place(ep, op, FI_REMOTE_WRITE);

	if (at)
		memcpy(at, message->payload, op->len);
	if (op->flags & FI_REMOTE_CQ_DATA)
		core_cq_add(ep->core.rx_cq,
			    &(struct testcore_entry){
				    .ok = {.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
					   .data = op->data}});
	if (message->post)
		answer(ep, message, NULL);
}

/* carry_out_atomic -- the payload: the operand, and what is compared with */
static void carry_out_atomic(struct core_ep *ep, const struct core_message *message)
{
	uint64_t *at = (uint64_t *) place(ep, &message->op, FI_REMOTE_WRITE);
	uint64_t operands[2], *old = testcore_need(malloc(sizeof(*old)));
	testcore_update update;

	if (!at || !testcore_update_of(&message->op, &update))
		sched_fail("no such atomic is known");
	memcpy(operands, message->payload, sizeof(operands));
	*old = *at;
	*at = update ? update(*old, operands[0], operands[1]) : operands[0];
	answer(ep, message, (char *) old);
}

static void carry_out_read(struct core_ep *ep, const struct core_message *message)
{
	char *payload = testcore_need(malloc(message->op.len + 1));
	const char *at = place(ep, &message->op, FI_REMOTE_READ);

	if (at)
		memcpy(payload, at, message->op.len);
	answer(ep, message, payload);
}

static struct core_posts *receives_of(struct core_ep *ep)
{
	return ep->srx ? &ep->srx->receives : &ep->receives;
}

/* receive -- false: there is nowhere to */
static bool receive(struct core_ep *ep, const struct core_message *message)
{
	struct core_posts *receives = receives_of(ep);
	struct core_post *post = STAILQ_FIRST(receives);

	if (!post)
		return false;
	STAILQ_REMOVE_HEAD(receives, next);
	ep->received++;
	testcore_scatter(&post->op, message->payload, message->op.len);
	end_post(ep->core.rx_cq, post, 0);
	if (message->post)
		answer(ep, message, NULL);
	return true;
}

static void take_answer(struct core_ep *ep, const struct core_message *message)
{
	struct core_post *post = message->post;

	STAILQ_REMOVE(&ep->sent, post, core_post, next);
	if (post->op.result)
		memcpy(post->op.result, message->payload, sizeof(uint64_t));
	else if (post->op.what & FI_READ)
		testcore_scatter(&post->op, message->payload, post->op.len);
	end_post(ep->core.tx_cq, post, 0);
}

/* handle -- false: it has to wait, and all behind it */
static bool handle(struct core_ep *ep, const struct core_message *message)
{
	if (message->kind == CORE_DONE)
		take_answer(ep, message);
	else if (message->op.what & FI_MSG)
		return receive(ep, message);
	else if (message->op.what & FI_ATOMIC)
		carry_out_atomic(ep, message);
	else if (message->op.what & FI_READ)
		carry_out_read(ep, message);
	else
		carry_out_write(ep, message);
	return true;
}

/* take_in -- one message that has arrived; false: there is none, or it has to wait */
static bool take_in(struct core_ep *ep)
{
	struct core_message *message = STAILQ_FIRST(&ep->in);

	if (ep->dead || ep->connecting || !has_arrived(message))
		return false;
	if (message->kind == CORE_HANGUP) {
		sched_trace("the connection is lost");
		core_end(ep, true);
		return false;
	}
	if (!handle(ep, message))
		return false;
	sched_trace("%s %zu bytes are taken in", name_of(message), message->op.len);
	STAILQ_REMOVE_HEAD(&ep->in, next);
	ep->heard_ns = message->arrives_ns;
	free_message(message);
	ep->num_in--;
	ep->handled++;
	if (!ep->peer || !has_out(ep->peer))
		return true;
	ep->peer->rooms++;
	/* Nothing else may happen for long. */
	if (core_rules.nic)
		send_out(ep->peer);
	return true;
}

static void move(struct core_ep *ep)
{
	if (ep->connecting)
		return;
	send_out(ep);
	while (take_in(ep))
		;
	/* The end of the stream comes behind what has arrived. */
	if (ep->socket.shut && !has_arrived(STAILQ_FIRST(&ep->in)))
		core_end(ep, true);
	if (!ep->dead)
		send_out(ep);
}

void core_move(struct core_domain *domain, const struct core_cq *cq)
{
	struct core_ep *ep;

	if (core_rules.nic)
		return;
	if (core_rules.moves_all)
		core_cm_move(domain, NULL);
	TAILQ_FOREACH(ep, &domain->eps, next)
	{
		if (core_rules.moves_all || ep->core.tx_cq == &cq->core ||
		    ep->core.rx_cq == &cq->core)
			move(ep);
	}
}

/* lacks_receive -- tcp 2.1 does not listen to the socket then, tcp 1.17 does */
static bool lacks_receive(const struct core_ep *ep)
{
	const struct core_ep *to = ep->srx ? ep->srx : ep;
	const struct core_message *message = STAILQ_FIRST(&ep->in);

	return has_arrived(message) && message->kind == CORE_REQUEST &&
	       (message->op.what & FI_MSG) && STAILQ_EMPTY(&to->receives);
}

bool core_is_ready(const struct core_ep *ep)
{
	if (ep->dead || ep->connecting)
		return false;
	return ((ep->socket.shut || has_arrived(STAILQ_FIRST(&ep->in))) &&
		!(core_rules.moves_all && lacks_receive(ep))) ||
	       (has_out(ep) && has_socket_room(ep));
}

uint64_t core_edges(const struct core_ep *ep)
{
	uint64_t edges = ep->handled + ep->rooms + ep->socket.shut;
	const struct core_message *message;

	STAILQ_FOREACH(message, &ep->in, next)
		edges += has_arrived(message);
	return edges;
}

/* Posting */

/* is_full -- or takes no more for another reason; what is under way ends that, and is heard of */
static bool is_full(const struct core_ep *ep)
{
	if (ep->num_out >= core_rules.room)
		return true;
	return (ep->num_out || !STAILQ_EMPTY(&ep->sent)) && core_rules.busy_in &&
	       sched_one_in(core_rules.busy_in);
}

/* payload_of -- what travels with it */
static char *payload_of(const struct testcore_request *request)
{
	/* Room for what an atomic compares with, too. */
	char *payload = testcore_need(calloc(1, request->len + sizeof(uint64_t)));

	testcore_gather(request, payload);
	if (request->compare)
		memcpy(payload + request->len, request->compare, sizeof(uint64_t));
	return payload;
}

static ssize_t post_tx(struct core_ep *ep, const struct testcore_request *request)
{
	struct core_message *message;
	struct core_post *post;

	if (ep->dead || ep->connecting)
		return -FI_ENOTCONN;
	if (is_full(ep))
		return -FI_EAGAIN;
	post = testcore_need(calloc(1, sizeof(*post)));
	message = testcore_need(calloc(1, sizeof(*message)));
	post->op = message->op = *request;
	post->acknowledged = core_rules.nic || (request->what & FI_READ) ||
			     (request->flags & FI_DELIVERY_COMPLETE);
	message->post = post;
	if (!(request->what & FI_READ) || (request->what & FI_ATOMIC))
		message->payload = payload_of(request);
	STAILQ_INSERT_TAIL(&ep->sent, post, next);
	STAILQ_INSERT_TAIL(&ep->out, message, next);
	ep->num_out++;
	send_out(ep);
	return 0;
}

/* move_receivers -- those that may take a receive which was posted to an endpoint, or a context */
static void move_receivers(struct core_ep *to)
{
	struct core_ep *ep;

	TAILQ_FOREACH(ep, &to->domain->eps, next)
	{
		if (ep == to || ep->srx == to)
			move(ep);
	}
}

static ssize_t post_rx(struct core_ep *ep, const struct testcore_request *request)
{
	struct core_post *post;

	if (ep->dead)
		return -FI_ENOTCONN;
	post = testcore_need(calloc(1, sizeof(*post)));
	post->op = *request;
	STAILQ_INSERT_TAIL(&ep->receives, post, next);
	/* In tcp 2.1 this takes what has waited for it, and all behind that. */
	if (core_rules.moves_all && !core_rules.nic)
		move_receivers(ep);
	return 0;
}

ssize_t core_post(struct testcore_ep *core, const struct testcore_request *request)
{
	struct core_ep *ep = testcore_of(core, struct core_ep, core);
	ssize_t ret;

	sched_step();
	ret = request->what & FI_RECV ? post_rx(ep, request) : post_tx(ep, request);
	sched_step();
	return ret;
}

/* Connections */

void core_end(struct core_ep *ep, bool tells)
{
	if (ep->dead)
		return;
	/* Edges are counted on. */
	ep->handled = core_edges(ep) - ep->rooms - ep->socket.shut;
	ep->dead = true;
	drop_messages(&ep->in);
	drop_messages(&ep->answers);
	drop_messages(&ep->out);
	ep->num_in = ep->num_out = 0;
	end_posts(ep->core.tx_cq, &ep->sent);
	end_posts(ep->core.rx_cq, &ep->receives);
	if (tells && ep->eq)
		core_eq_add(ep->eq, FI_SHUTDOWN, &ep->core.fid.fid);
}

void core_tell(struct core_ep *to, const struct core_message *message)
{
	struct core_message *copy = testcore_need(malloc(sizeof(*copy)));

	*copy = *message;
	put_on_way(to, copy);
}

void core_hang_up(struct core_ep *ep, bool drops)
{

	if (!ep || ep->dead)
		return;
	if (drops) {
		ep->handled = core_edges(ep) - ep->rooms - ep->socket.shut;
		ep->num_in -= drop_messages(&ep->in);
	}
	core_tell(ep, &(struct core_message){.kind = CORE_HANGUP});
}

void core_cut(struct fid_ep *fid, bool drops)
{
	struct core_ep *ep = core_to_ep(&fid->fid);

	core_hang_up(ep->peer, drops);
	core_hang_up(ep, drops);
}

void core_connect(struct fid_ep *one, struct fid_ep *other)
{
	struct core_ep *ends[] = {core_to_ep(&one->fid), core_to_ep(&other->fid)};

	for (int i = 0; i < 2; i++) {
		ends[i]->peer = ends[!i];
		ends[i]->called_domain = ends[!i]->domain;
		if (core_rules.sockets && !ends[i]->socket.fd)
			tcp_open(ends[i]);
	}
}

/* When messages arrive */

static int64_t next_of(const struct core_ep *ep)
{
	const struct core_message *message;

	STAILQ_FOREACH(message, &ep->in, next) {
		if (message->arrives_ns > sched_now_ns)
			return message->arrives_ns;
	}
	return SCHED_NEVER;
}

static int64_t next_ns(void)
{
	int64_t next = SCHED_NEVER;
	const struct core_ep *ep;

	for (unsigned int i = 0; i < num_domains; i++) {
		TAILQ_FOREACH(ep, &domains[i]->eps, next)
		{
			int64_t one = next_of(ep);

			next = one < next ? one : next;
		}
	}
	return next;
}

static void advance(void)
{
	struct core_ep *ep;

	if (!core_rules.nic)
		return;
	for (unsigned int i = 0; i < num_domains; i++) {
		TAILQ_FOREACH(ep, &domains[i]->eps, next)
		move(ep);
	}
}

void core_for_each(void (*call)(struct core_ep *ep))
{
	struct core_ep *ep;

	for (unsigned int i = 0; i < num_domains; i++) {
		TAILQ_FOREACH(ep, &domains[i]->eps, next)
		call(ep);
	}
}

uint64_t core_received(struct fid_ep *fid)
{
	return core_to_ep(&fid->fid)->received;
}

uint64_t core_receives(struct fid_ep *srx)
{
	const struct core_post *post;
	uint64_t count = 0;

	STAILQ_FOREACH(post, &core_to_ep(&srx->fid)->receives, next)
		count++;
	return count;
}

void core_start(void)
{
	static struct sched_clockwork network = {.next_ns = next_ns, .advance = advance};

	sched_add(&network);
}

void core_register(struct core_domain *domain)
{
	if (num_domains == sizeof(domains) / sizeof(domains[0]))
		sched_fail("there are too many processes");
	domains[num_domains++] = domain;
}

struct core_domain *core_domain_at(uint16_t port)
{
	for (unsigned int i = num_domains; i--;) {
		if (domains[i]->port == port)
			return domains[i];
	}
	return NULL;
}
