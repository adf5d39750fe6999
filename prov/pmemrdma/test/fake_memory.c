/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake_memory.c -- calls of other libraries that may fail, too: the linker puts these in their
 * place (local.mk)
 */
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "fake_impl.h"

struct fi_info;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
struct fi_info *__real_fi_dupinfo(const struct fi_info *info);
struct fi_info *__wrap_fi_dupinfo(const struct fi_info *info);
int __real_eventfd(unsigned int value, int flags);
int __wrap_eventfd(unsigned int value, int flags);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int fd, int op, int what, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int op, int what, struct epoll_event *event);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);

void *__wrap_malloc(size_t size)
{
	return fake_fails("malloc") ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fake_fails("calloc") ? NULL : __real_calloc(count, size);
}

char *__wrap_strdup(const char *text)
{
	return fake_fails("strdup") ? NULL : __real_strdup(text);
}

struct fi_info *__wrap_fi_dupinfo(const struct fi_info *info)
{
	return fake_fails("fi_dupinfo") ? NULL : __real_fi_dupinfo(info);
}

int __wrap_eventfd(unsigned int value, int flags)
{
	return fake_fails("eventfd") ? -1 : __real_eventfd(value, flags);
}

int __wrap_epoll_create1(int flags)
{
	return fake_fails("epoll_create1") ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int fd, int op, int what, struct epoll_event *event)
{
	return fake_fails("epoll_ctl") ? -1 : __real_epoll_ctl(fd, op, what, event);
}

int __wrap_fcntl(int fd, int command, ...)
{
	va_list args;
	int flags;

	va_start(args, command);
	flags = command == F_SETFL ? va_arg(args, int) : 0;
	va_end(args);
	return fake_fails("fcntl") ? -1 : __real_fcntl(fd, command, flags);
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list)
{
	return fake_fails("getaddrinfo") ? EAI_MEMORY
					 : __real_getaddrinfo(node, service, hints, list);
}
