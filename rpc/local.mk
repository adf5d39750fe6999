# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- libpmemrpc, durable remote procedure calls; %D% is this directory

include_HEADERS = %D%/pmemrpc.h
pkgconfig_DATA += %D%/pmemrpc.pc

# Its objects: tests, which reach into them, use the same.
noinst_LTLIBRARIES += librpc.la
librpc_la_SOURCES = \
	%D%/batch.c %D%/batch.h \
	%D%/cells.c %D%/cells.h \
	%D%/check.c \
	%D%/client.c %D%/client.h \
	%D%/connect.c \
	%D%/execute.c %D%/execute.h \
	%D%/flow.c \
	%D%/link.c %D%/link.h \
	%D%/peer.c %D%/peer.h \
	%D%/pmem.c %D%/pmem.h \
	%D%/pmemrpc.h \
	%D%/pool.c %D%/pool.h \
	%D%/rate.c %D%/rate.h \
	%D%/spin.c %D%/spin.h \
	%D%/ring.c %D%/ring.h \
	%D%/send.c \
	%D%/serve.c \
	%D%/server.c %D%/server.h \
	%D%/session.c \
	%D%/store.c %D%/store.h \
	%D%/throttle.c %D%/throttle.h \
	%D%/variant.c \
	%D%/wire.h \
	%D%/worker.c
librpc_la_CFLAGS = -pthread $(AM_CFLAGS) $(PMEM2_CFLAGS) $(XXHASH_CFLAGS)
librpc_la_LIBADD = $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS)

lib_LTLIBRARIES = libpmemrpc.la
libpmemrpc_la_SOURCES =
libpmemrpc_la_LDFLAGS = -version-info 0:0:0 -export-symbols-regex '^pmemrpc_'
libpmemrpc_la_LIBADD = librpc.la

# The example.
bin_PROGRAMS += %D%/fi_pmem_rpc
%C%_fi_pmem_rpc_SOURCES = %D%/fi_pmem_rpc.c
%C%_fi_pmem_rpc_CFLAGS = -pthread $(AM_CFLAGS)
%C%_fi_pmem_rpc_LDADD = libpmemrpc.la

# A client that means ill, for %D%/rpc-test.
noinst_PROGRAMS += rpc_hostile
rpc_hostile_SOURCES = %D%/rpc_hostile.c
rpc_hostile_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/%D%
rpc_hostile_LDADD = librpc.la

noinst_PROGRAMS += rpc_crowd
rpc_crowd_SOURCES = %D%/rpc_crowd.c
rpc_crowd_LDADD = libpmemrpc.la

noinst_PROGRAMS += rpc_flow
rpc_flow_SOURCES = %D%/rpc_flow.c
rpc_flow_CFLAGS = -pthread $(AM_CFLAGS)
rpc_flow_LDADD = libpmemrpc.la

# Caches that lose their contents, also for it.
noinst_LTLIBRARIES += libcaches.la
libcaches_la_SOURCES = %D%/caches.c
libcaches_la_CFLAGS = $(AM_CFLAGS) $(PMEM2_CFLAGS)
libcaches_la_LDFLAGS = -module -avoid-version -shared -rpath $(pkglibdir)
noinst_PROGRAMS += lose_caches
lose_caches_SOURCES = %D%/lose_caches.c
lose_caches_LDADD = librpc.la

EXTRA_DIST += %D%/README.md %D%/rpc-test
