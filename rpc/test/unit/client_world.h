/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client_world.h -- a client whose server is what a test says, over a libfabric without a network
 *
 * A test's own world: one a process.
 */
#ifndef CLIENT_WORLD_H
#define CLIENT_WORLD_H

#include "client.h"
#include "fuzz/net.h"

#define ENTRY 0U
#define PLAIN UINT32_MAX
#define MOST_POSTED 8

/* What the server answers, and what it has got on the last connection: messages by their types. */
extern struct rpc_welcome_message welcome, farewell;
extern uint32_t got[MOST_POSTED];
extern unsigned int num_got;
extern bool answered;                           /* the last question */
extern bool completes;                          /* what was posted, when the client waits */
extern bool writes_next;                        /* the client that comes after this one */
extern bool fenced;                             /* the last entry */
extern struct rpc_request_message hello, ready; /* the last ones */
extern size_t memory_max;

void set_up(void);
int connect_as(enum pmemrpc_transport transport, struct pmemrpc_client **client);
struct pmemrpc_client *come(enum pmemrpc_transport transport);
void lose_connection(struct pmemrpc_client *client);
void leave(struct pmemrpc_client *client);

/* reply -- the server sends such a message, without data */
int reply(struct pmemrpc_client *client, enum rpc_message_type type, uint64_t sequence);

/* check_forgotten -- that was what the last connection was for */
void check_forgotten(void);

#endif /* CLIENT_WORLD_H */
