# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- examples for libpmemrpc: one call after another, and a key-value store; %D% is this directory

bin_PROGRAMS += fi_pmem_rpc
fi_pmem_rpc_SOURCES = \
	%D%/count_client.c \
	%D%/count_server.c \
	%D%/fi_pmem_rpc.c %D%/fi_pmem_rpc.h \
	util/sync_name.h
fi_pmem_rpc_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc/lib -I$(srcdir)/util
fi_pmem_rpc_CFLAGS = -pthread $(AM_CFLAGS)
fi_pmem_rpc_LDADD = libpmemrpc.la

noinst_PROGRAMS += fi_pmem_rpc_kv
fi_pmem_rpc_kv_SOURCES = %D%/fi_pmem_rpc_kv.c %D%/kv.c %D%/kv.h
fi_pmem_rpc_kv_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc/lib
fi_pmem_rpc_kv_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
fi_pmem_rpc_kv_LDADD = libpmemrpc.la $(XXHASH_LIBS)
