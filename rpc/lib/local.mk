# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- libpmemrpc, durable remote procedure calls; %D% is this directory

include_HEADERS = %D%/pmemrpc.h
pkgconfig_DATA += %D%/pmemrpc.pc

# Its objects: tests, which reach into them, use the same.
noinst_LTLIBRARIES += librpc.la
librpc_la_SOURCES = \
	%D%/batch.c %D%/batch.h \
	%D%/cells.c %D%/cells.h \
	%D%/checksum.c \
	%D%/client.c %D%/client.h \
	%D%/commit.c %D%/commit.h \
	%D%/connect.c \
	%D%/execute.c %D%/execute.h \
	%D%/flow.c \
	%D%/handshake.c \
	%D%/journal.c %D%/journal.h \
	%D%/layout.c %D%/layout.h \
	%D%/link.c %D%/link.h \
	%D%/peer.c %D%/peer.h \
	%D%/pmem.c %D%/pmem.h \
	%D%/pmemrpc.h \
	%D%/pool.c %D%/pool.h \
	%D%/rate.c %D%/rate.h \
	%D%/spin.c %D%/spin.h \
	%D%/rights.c %D%/rights.h \
	%D%/ring.c %D%/ring.h \
	%D%/send.c \
	%D%/serve.c \
	%D%/server.c %D%/server.h \
	%D%/session.c \
	%D%/store.c %D%/store.h \
	%D%/throttle.c %D%/throttle.h \
	%D%/unkept.c %D%/unkept.h \
	%D%/variant.c \
	%D%/wire.h \
	%D%/worker.c \
	util/sync_name.h
librpc_la_CFLAGS = -pthread $(AM_CFLAGS) $(PMEM2_CFLAGS) $(XXHASH_CFLAGS)
librpc_la_LIBADD = libconnection.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS)

lib_LTLIBRARIES = libpmemrpc.la
libpmemrpc_la_SOURCES =
libpmemrpc_la_LDFLAGS = -version-info 0:0:0 -export-symbols-regex '^pmemrpc_'
libpmemrpc_la_LIBADD = librpc.la

EXTRA_DIST += rpc/README.md
