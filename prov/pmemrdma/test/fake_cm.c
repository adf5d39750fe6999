/* SPDX-License-Identifier: BSD-2-Clause */
/* fake_cm.c -- librdmacm without a device: fake_verbs.h */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_impl.h"

struct pending {
	struct pending *next;
	struct rdma_cm_event event;
	uint8_t data[256];
};

/* Events of all channels; a test has one. */
static struct pending *pending;

static int fail(const char *call)
{
	return fake_fails(call) ? -1 : 0;
}

struct ibv_context **rdma_get_devices(int *count)
{
	static struct ibv_context *list[] = {&fake_context, NULL};

	fake.references++;
	if (count)
		*count = 1;
	return fail(__func__) ? NULL : list;
}

void rdma_free_devices(struct ibv_context **list)
{
	(void) list;
	fake.references--;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel;

	if (fail(__func__))
		return NULL;
	channel = fake_zeros(sizeof(*channel));
	channel->fd = fake_eventfd();
	fake.live++;
	return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
	fake.live--;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	if (fail(__func__))
		return -1;
	*id = fake_zeros(sizeof(**id));
	(*id)->channel = channel;
	(*id)->context = context;
	(*id)->ps = ps;
	fake.id = *id;
	fake.live++;
	return 0;
}

/* lose -- nobody has a name for it any more, to ask again: it goes with the process */
static void lose(struct rdma_cm_id *id)
{
	static struct rdma_cm_id *all;

	fake.live--;
	id->srq = (struct ibv_srq *) all;
	all = id;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct pending **at = &pending, *gone;

	cr_assert_null(id->qp, "its queue pair is still there");
	if (fail(__func__)) {
		if (!id->context)
			lose(id);
		return -1;
	}
	while (*at) {
		gone = *at;
		if (gone->event.id != id && gone->event.listen_id != id) {
			at = &gone->next;
			continue;
		}
		*at = gone->next;
		/* Requests that were not read go with who listens. */
		if (gone->event.listen_id == id) {
			free(gone->event.id);
			fake.live--;
		}
		free(gone);
	}
	free(id);
	fake.live--;
	return 0;
}

/* set_local -- all addresses but the loopback's are the device's */
static void set_local(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	struct sockaddr_in *own = &id->route.addr.src_sin;

	if (addr && addr->sa_family == AF_INET)
		*own = *(const struct sockaddr_in *) addr;
	own->sin_family = AF_INET;
	if (own->sin_addr.s_addr == htonl(INADDR_LOOPBACK))
		return;
	own->sin_port = htons(4321);
	if (own->sin_addr.s_addr)
		id->verbs = &fake_context;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	if (fail(__func__))
		return -1;
	set_local(id, addr);
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dest,
		      int timeout)
{
	struct sockaddr_in usual = {.sin_family = AF_INET};

	(void) timeout;
	if (fail(__func__))
		return -1;
	inet_pton(AF_INET, FAKE_ADDR, &usual.sin_addr);
	set_local(id, src ? src : (struct sockaddr *) &usual);
	id->route.addr.dst_sin = *(struct sockaddr_in *) dest;
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (fail(__func__))
		return -1;
	id->channel = channel;
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void) id;
	(void) backlog;
	return fail(__func__);
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout)
{
	(void) timeout;
	if (fail(__func__))
		return -1;
	fake_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0);
	return 0;
}

static void note_sent(const void *data, size_t len)
{
	cr_assert_leq(len, sizeof(fake.sent));
	fake.sent_len = len;
	if (len)
		memcpy(fake.sent, data, len);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void) id;
	if (fail(__func__))
		return -1;
	fake.conn = *param;
	note_sent(param->private_data, param->private_data_len);
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return rdma_connect(id, param);
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	(void) id;
	fake.rejected = true;
	note_sent(data, len);
	return fail(__func__);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void) id;
	return fail(__func__);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	id->qp = ibv_create_qp(pd, attr);
	return id->qp ? 0 : -1;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void) id;
	(void) attr;
	*mask = IBV_QP_STATE;
	return fail(__func__);
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void) id;
	*ece = fake.peer_ece;
	return fail(__func__);
}

int rdma_establish(struct rdma_cm_id *id)
{
	cr_assert_null(id->qp, "librdmacm knows its queue pair");
	cr_assert_eq(fake.state, IBV_QPS_RTS);
	fake.established = !fail(__func__);
	return fake.established ? 0 : -1;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct pending *first = pending;
	eventfd_t one;

	if (fail(__func__))
		return -1;
	if (!first) {
		errno = EAGAIN;
		return -1;
	}
	cr_assert_eq(first->event.id->channel, channel);
	eventfd_read(channel->fd, &one);
	pending = first->next;
	/* A queue pair that it knows is ready before anybody sees the answer. */
	if (first->event.event == RDMA_CM_EVENT_CONNECT_RESPONSE && first->event.id->qp) {
		fake.state = IBV_QPS_RTS;
		first->event.event = RDMA_CM_EVENT_ESTABLISHED;
	}
	*event = &first->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	/* What was read of it after this is no more there. */
	memset(event, 0xee, sizeof(*event));
	free((char *) event - offsetof(struct pending, event));
	return 0;
}

static struct rdma_cm_event *add_event(struct rdma_cm_id *id, enum rdma_cm_event_type type,
				       const void *data, size_t len)
{
	struct pending *event = fake_zeros(sizeof(*event)), **at = &pending;

	event->event = (struct rdma_cm_event){.id = id, .event = type};
	/* That the peer's application rejects it is a reason, and no errno. */
	if (type == RDMA_CM_EVENT_REJECTED)
		event->event.status = 28;
	if (len) {
		memcpy(event->data, data, len);
		event->event.param.conn.private_data = event->data;
		event->event.param.conn.private_data_len = (uint8_t) len;
	}
	while (*at)
		at = &(*at)->next;
	*at = event;
	if (id->channel)
		eventfd_write(id->channel->fd, 1);
	return &event->event;
}

void fake_event(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *data, size_t len)
{
	add_event(id, type, data, len);
}

struct rdma_cm_id *fake_request(struct rdma_cm_id *listening, const void *data, size_t len)
{
	struct rdma_cm_id *id = fake_zeros(sizeof(*id));

	fake.live++;
	id->channel = listening->channel;
	id->context = listening->context;
	set_local(id, NULL);
	inet_pton(AF_INET, FAKE_ADDR, &id->route.addr.src_sin.sin_addr);
	id->verbs = &fake_context;
	id->route.addr.dst_sin = id->route.addr.src_sin;
	add_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, data, len)->listen_id = listening;
	return id;
}
