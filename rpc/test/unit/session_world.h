/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session_world.h -- a server without a network or persistent memory, and clients that it hears
 *
 * A test's own world: one a process.
 */
#ifndef SESSION_WORLD_H
#define SESSION_WORLD_H

#include "fuzz/net.h"
#include "server.h"

#define CLIENTS 2U
#define RING 4096U
#define MOST_EPS 64
#define MOST_SESSIONS (CLIENTS + RPC_MORE_SESSIONS)

extern struct pmemrpc_server *server;
extern unsigned int threads; /* that it has */
extern unsigned int flushes;
extern unsigned int handled; /* calls, by the handler */
extern char complaint[256];  /* the last one */
extern unsigned int complaints;
extern int64_t now;
extern bool keeps;            /* the memory is there when the server has gone */
extern bool excludes;         /* the client that came last, and is served first */
extern bool first_excludes;   /* the other one */
extern bool makes_others_due; /* a call of the other one takes as long as a flush */
/* The last message of the server to each client, by the number of its endpoint. */
extern struct rpc_welcome_message heard[MOST_EPS];

void open_server_with(unsigned int pool, unsigned int silence_ms, unsigned int rings_per_peer);
void open_server(unsigned int pool);
void close_server(void);
/* serve -- until everybody has come to its thread, and was served there */
void serve(void);

/* knock -- from that address; NULL: it is not let in */
struct net_ep *knock(enum pmemrpc_transport transport, uint32_t address);
struct net_ep *come(enum pmemrpc_transport transport);
/* say -- with our versions, if it has none */
void say(struct net_ep *ep, const struct rpc_request_message *message);
void greet(struct net_ep *ep, uint8_t id);
/* come_and_call -- a client that has its ring, and a call there which nobody has told of */
struct net_ep *come_and_call(uint8_t id);

/* is_open -- by its number: who comes later may have the address of one that has gone */
bool is_open(unsigned int number);
/* is_there -- nobody has come since it was known to be there */
bool is_there(const struct net_ep *ep);
void check_welcomed(const struct net_ep *ep);
void check_refused(const struct net_ep *ep, uint32_t error);

#endif /* SESSION_WORLD_H */
