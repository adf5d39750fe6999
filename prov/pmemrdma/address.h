/* SPDX-License-Identifier: BSD-2-Clause */
/* address.h -- addresses of IPv4 and IPv6, as applications give them */
#ifndef PMR_ADDRESS_H
#define PMR_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>
#include <sys/socket.h>

union pmr_address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage room;
};

/* pmr_address_len -- 0: it is of another family */
size_t pmr_address_len(const struct sockaddr *addr);

/* pmr_address_format -- libfabric's name of its family */
uint32_t pmr_address_format(const struct sockaddr *addr);

/* pmr_address_family -- of libfabric's formats; AF_UNSPEC: any, -1: one that is not offered */
int pmr_address_family(uint32_t format);

/* pmr_address_take -- a copy of what may be one; false: it is none */
bool pmr_address_take(union pmr_address *to, const void *addr, size_t len);

bool pmr_address_is_wildcard(const union pmr_address *addr);
void pmr_address_set_port(union pmr_address *addr, uint16_t port);
uint16_t pmr_address_port(const union pmr_address *addr);

/* pmr_address_copy_out -- as fi_getname wants it: 0, or -FI_ETOOSMALL */
int pmr_address_copy_out(const struct sockaddr *addr, void *to, size_t *len);

#endif /* PMR_ADDRESS_H */
