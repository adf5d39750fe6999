/* SPDX-License-Identifier: BSD-2-Clause */
/* client.h -- what client.c and connect.c share */
#ifndef RPC_CLIENT_H
#define RPC_CLIENT_H

#include <endian.h>
#include <errno.h>

#include "batch.h"
#include "link.h"
#include "pmemrpc.h"
#include "spin.h"
#include "ring.h"

/* A call that has no reply yet. */
struct rpc_posted {
	enum rpc_kind kind; /* first: this is the context of its commit */
	struct pmemrpc_call *call;
	struct rpc_place place;
	size_t argument_len;
	unsigned int pieces; /* how many are posted */
	bool pending;        /* its commit was posted, and has not completed */
	bool plain;          /* it is not committed: its caller waits for its reply only */
	unsigned int covers; /* calls of that commit, if this is the last one of them */
};

/*
 * Calls that have left nothing behind at the server (unkept.h).  After a crash the server looks for
 * entries from its durable watermark on.  So an entry behind that, even one with a reply, must not
 * be overwritten while a call depends on being found: one that is committed, and has no reply.  A
 * call that needs such a place waits until there is none.  Then it is not committed, and nor are
 * those that follow, until a reply tells that the watermark has moved.  Their replies say that they
 * are durable.  That is no loss: the server moves the watermark before half of the ring is behind
 * it, so only who has more than half of its ring under way comes there.
 *
 * A path that may reorder takes committed calls only.  Then the server is told to keep them all.
 */

/* freed <= executed <= durable <= pushed <= posted, and no more than window calls between them. */
struct pmemrpc_client {
	struct pmemrpc_client_attr attr;
	char *node, *service, *provider;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	int epoll_fd;
	struct rpc_link link;
	struct rpc_buffers handshake, replies;
	struct rpc_welcome_message welcome; /* the last one, or a refusal */
	bool greeted;                       /* it has arrived */
	bool forgetting;                    /* it is what is waited for */
	bool connected;
	bool over;  /* the connection has ended, and its last messages are being read */
	bool lived; /* it was connected before */
	/* Connections, one behind the other, on which nothing came of a call. */
	unsigned int fruitless;
	int64_t tried_ms; /* when the last attempt to connect was over */
	int refused;      /* what the provider does not do on any connection to this server */
	uint64_t process; /* random: another client with this identity has another one */

	struct rpc_spin spin;

	char variant[256];
	bool in_order; /* the path keeps writes, and messages, in order */
	enum pmemrpc_flush flush;
	uint64_t by_sender, by_receiver; /* commits of connections that have ended */

	struct rpc_ring ring; /* this side's copy, with as much room behind it */
	size_t mirror_len;
	struct fid_mr *mirror_mr;
	uint64_t ring_addr, ring_mr_key;
	size_t reply_max;
	unsigned int window;
	struct rpc_posted *calls; /* by sequence % window */
	struct rpc_place next;
	uint64_t tail; /* the position up to which the ring is free again */
	uint64_t posted, pushed, durable, executed;
	struct rpc_batch batch; /* calls behind `pushed` that will be written together */
	unsigned int batch_max;
	unsigned int commits;         /* that are under way */
	uint64_t flushes, paced;      /* commits that were posted; how often the server got slow */
	unsigned int pace;            /* calls without replies that it takes; 0: the window */
	uint64_t freed;               /* this call and all before it need their places no more */
	uint64_t kept, kept_position; /* the durable watermark, as the replies have told */
	uint64_t committed;           /* the last call that is committed */
	uint64_t missed_from, missed_to; /* replies of an earlier life that will come */
	uint64_t sent_again;
	unsigned int reconnects;
	struct connection_error error;
};

/* rpc_client_poll -- how many completions were read, within that time; -FI_ENOTCONN */
int rpc_client_poll(struct pmemrpc_client *client, int timeout_ms);

/* rpc_client_durable -- this call and all before it are: their callers are told */
void rpc_client_durable(struct pmemrpc_client *client, uint64_t sequence);

/* rpc_client_unsent -- nothing of the last connection is under way, or gathered for it */
void rpc_client_unsent(struct pmemrpc_client *client);

/*
 * rpc_client_resume -- on a new connection, whose key the ring has already.  The server has
 * executed so many calls, and goes on at that position: the others were not durable, and will be
 * sent again. It is asked for the replies from `from` on.  -EUCLEAN: calls that were durable are
 * lost, or somebody else has used the ring.  In connect.c
 */
int rpc_client_resume(struct pmemrpc_client *client, uint64_t executed, uint64_t position,
		      uint64_t *from);

/* rpc_client_resumes -- what a client that comes back says of its calls in HELLO */
void rpc_client_resumes(const struct pmemrpc_client *client, struct rpc_request_message *hello);

/* rpc_client_pace -- what the server says of it */
void rpc_client_pace(struct pmemrpc_client *client, uint64_t pace);

/* rpc_client_free -- the places of calls that need them no more */
void rpc_client_free(struct pmemrpc_client *client);

/* rpc_send_entry -- into a cell, which is free; its completion means durable.  In send.c */
int rpc_send_entry(struct pmemrpc_client *client, struct rpc_posted *posted);

/*
 * rpc_variant_find -- who will make entries durable; an error if that can't be, or was asked for
 * otherwise.  When there is a connection, or, to write, when the ring is known.  In variant.c
 */
int rpc_variant_find(struct pmemrpc_client *client);

/* rpc_variant_commits -- of all connections so far; rpc_variant_end: before this one is closed */
void rpc_variant_commits(const struct pmemrpc_client *client, uint64_t *by_sender,
			 uint64_t *by_receiver);
void rpc_variant_end(struct pmemrpc_client *client);

#endif /* RPC_CLIENT_H */
