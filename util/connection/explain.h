/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.h -- what to look at when a call of libfabric fails: its errors have many
 * causes each
 *
 * All functions write into error, or to standard error if that is NULL, and return ret.
 */
#ifndef UTIL_EXPLAIN_H
#define UTIL_EXPLAIN_H

#include <stdbool.h>
#include <sys/types.h>

struct connection_error {
	char text[1024];
};

/* explain -- the text is the caller's */
__attribute__((format(printf, 3, 4))) int explain(struct connection_error *error, int ret,
						  const char *format, ...);

/* explain_call -- "call: why" */
int explain_call(struct connection_error *error, const char *call, ssize_t ret);

/* explain_listen -- for fi_listen, and what precedes it */
int explain_listen(struct connection_error *error, const char *port, ssize_t ret);

/* explain_offer -- for fi_getinfo: is there no such host or provider, or what else? */
int explain_offer(struct connection_error *error, const char *provider, const char *host, int ret);

/* explain_memory -- for fi_mr_reg */
int explain_memory(struct connection_error *error, int ret);

/* explain_connection -- for the attempt to connect */
int explain_connection(struct connection_error *error, const char *host, const char *port, int ret);

/* provider_is_there -- does libfabric know it?  If not, that is explained. */
bool provider_is_there(struct connection_error *error, const char *provider);

#endif /* UTIL_EXPLAIN_H */
