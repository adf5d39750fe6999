/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * design_link.h -- connections of the designs that are no library here, and frames
 *
 * A client has a ring of frames for requests and one for replies, and its server has the same
 * for it.  Frame number n of a client has the place n modulo the ring's size at both ends, and a
 * reply has the number and the place of its request.  So a place is free again when its
 * reply is there, and who waits for a frame knows where it will be.  How a frame comes to the other
 * side, and how that side learns of it, is what a design is.
 */
#ifndef BENCH_DESIGN_LINK_H
#define BENCH_DESIGN_LINK_H

#include "../../util/connection/connection.h"

#include "bench.h"

/*
 * A frame: this, then items, then 8 bytes with the number again: the end has come, and by
 * FaRM's assumption, that a write arrives from its beginning to its end, all of it.
 */
struct frame {
	uint32_t number; /* 1 or more: never what zeroed memory has */
	uint32_t len;    /* without the 8 bytes at its end */
	uint32_t count;  /* of items */
	uint32_t pad;
};

struct item {
	uint32_t what; /* operation, or status */
	uint32_t len;
	char data[]; /* padded to 8 bytes */
};

static inline size_t item_len(size_t len)
{
	return sizeof(struct item) + (len + 7) / 8 * 8;
}

/* frame_seal -- it is complete: with this number, and its end */
void frame_seal(struct frame *frame, uint32_t number);

/* frame_total -- what is sent of a frame */
static inline size_t frame_total(const struct frame *frame)
{
	return frame->len + sizeof(uint64_t);
}

/* frame_next -- the item behind this one (NULL: the first one); NULL if it is not in the frame */
struct item *frame_next(const struct frame *frame, const struct item *item);

/* What memory a link has for frames.  Both ends have the same layout. */
struct layout {
	unsigned int slots;
	unsigned int receives; /* frames in the ring that frames arrive in, if by messages */
	size_t request_len;    /* of the largest frame */
	size_t reply_len;
	size_t replies;  /* where they are, from the beginning of the area */
	size_t flags;    /* a byte for each slot, of replies */
	size_t area_len; /* a multiple of 4096 */
};

void layout_make(struct layout *layout, const struct settings *settings);

/* What a process has once: a fabric and its events. */
struct net {
	const struct settings *settings;
	struct layout layout;
	struct node node;
	struct connection_error error;
};

int net_open(struct net *net, const struct settings *settings);
void net_close(struct net *net);

/* A branch of the node and a queue: a client's, or those of a thread of the server. */
struct port {
	struct net *net;
	struct node node;
	struct fid_cq *cq;
	int fd; /* of the queue */
	char *memory;
	size_t memory_len;
	struct region region;
	struct link *links; /* the server's, by number: what an immediate names */
	unsigned int num_links;
	bool failed; /* the client's connection */
};

enum context_kind { CONTEXT_RECEIVE, CONTEXT_FETCH, CONTEXT_PLAIN };

struct context {
	enum context_kind kind;
	struct link *link;
	struct frame *frame;
};

struct link {
	struct port *port;
	struct conn conn;
	char *area;
	volatile uint8_t *flags; /* the server's, of requests: beside those of other clients */
	bool server;
	uint32_t next; /* number of the frame that arrives next */
	/* The peer's. */
	uint64_t remote_area;
	uint64_t remote_key;
	uint64_t remote_flags;
	uint32_t self; /* its number at the server */
	/* What the queue has told of. */
	struct context *receives;
	struct frame **arrived; /* a ring of layout.receives */
	uint32_t num_arrived, num_taken;
	uint32_t spent;    /* receives that have to be posted again ... */
	uint32_t posted;   /* ... in their order: so many were posted */
	uint32_t notified; /* immediates */
	struct context fetch, plain;
	bool fetching, fetched;
	size_t fetch_len;
	/* The server's list. */
	bool gone;
	struct link *next_link;
};

static inline struct frame *link_request(const struct link *link, uint32_t number)
{
	const struct layout *layout = &link->port->net->layout;

	return (struct frame *) (link->area + number % layout->slots * layout->request_len);
}

static inline struct frame *link_reply(const struct link *link, uint32_t number)
{
	const struct layout *layout = &link->port->net->layout;

	return (struct frame *) (link->area + layout->replies +
				 number % layout->slots * layout->reply_len);
}

/* Where the peer has the frame of this place here. */
static inline uint64_t link_remote(const struct link *link, const void *here)
{
	return link->remote_area + (uint64_t) ((const char *) here - link->area);
}

/* link_arrived -- the frame with that number has come to this place by a write, all of it */
bool link_arrived(const struct frame *frame, uint32_t number, size_t max);

/* port_open -- on the device of this info, for so many links; its memory is zero, and its peers can
 * reach all of it */
int port_open(struct port *port, struct net *net, struct fi_info *info, unsigned int links,
	      size_t memory_len);
void port_close(struct port *port);

/* port_poll -- take what is in the queue; > 0: something was; or an error of the connection */
int port_poll(struct port *port);

/* port_rest -- nothing was to be done: sleep until something is in the queue, or just yield */
void port_rest(struct port *port, bool sleep, int timeout_ms);

/* link_open -- an endpoint, its receives are posted; its area was not used by another one */
int link_open(struct link *link, struct port *port, struct fi_info *info, char *area);

/* link_end -- no frame comes any more; link_close when nothing is in the queue, either */
void link_end(struct link *link);
void link_close(struct link *link);

/* link_connect -- a client's; its frames go on with this number.  -FI_ECONNREFUSED: try again */
int link_connect(struct link *link, uint32_t first);

/* link_accept -- the server's, to what the client has said; flags NULL: there are none */
int link_accept(struct link *link, const struct cm_event *event, volatile uint8_t *flags);

/* Operations without a completion: a reply tells that they have succeeded. */
int link_write(struct link *link, const void *from, size_t len, uint64_t to);
int link_write_data(struct link *link, const void *from, size_t len, uint64_t to, uint64_t data);
int link_set_flag(struct link *link, uint64_t to);
int link_send(struct link *link, const struct frame *frame, bool more);
/* ... and one with: fetched becomes true. */
int link_fetch(struct link *link, void *to, size_t len, uint64_t from);

/* link_receive -- post the receives that are spent, if there are as many as that */
int link_receive(struct link *link, uint32_t at_least);

#endif /* BENCH_DESIGN_LINK_H */
