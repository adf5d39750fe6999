/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h -- addresses of IPv4 and IPv6, as cores have them, and as messages name them */
#ifndef PMV_ADDRESS_H
#define PMV_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PMV_ADDRESS_TEXT 80

/* pmv_address_len -- as its family says; 0: it is of another family, or NULL */
size_t pmv_address_len(const struct sockaddr *addr);

/* pmv_address_port -- in the host's order */
uint16_t pmv_address_port(const struct sockaddr *addr);

/* pmv_address_set_port -- of an address of IPv4 or IPv6 */
void pmv_address_set_port(struct sockaddr *addr, uint16_t port);

/*
 * pmv_address_scope -- of a link-local address of IPv6: the number of the interface behind which it
 * is; 0: none is named, or it is no such address.  If it names none, it has to be told elsewhere.
 */
bool pmv_address_is_link_local(const struct sockaddr *addr);
uint32_t pmv_address_scope(const struct sockaddr *addr);

/*
 * pmv_address_is_same_host -- IPv4 in IPv6 is IPv4; false, if either is of another family, or NULL.
 * RDMA names no interface of a peer: of two link-local addresses that both name one, it has to be
 * the same.
 */
bool pmv_address_is_same_host(const struct sockaddr *one, const struct sockaddr *other);

/* Both leave the text alone, and return false, if the address is of another family, or NULL. */

/* pmv_address_host -- without the port */
bool pmv_address_host(const struct sockaddr *addr, char text[INET6_ADDRSTRLEN]);

/* pmv_address_text -- with the port, as in 192.0.2.1:9228, [2001:db8::1]:9228, [fe80::1%eth0]:9228
 */
bool pmv_address_text(const struct sockaddr *addr, char text[PMV_ADDRESS_TEXT]);

#endif /* PMV_ADDRESS_H */
