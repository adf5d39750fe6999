# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- a key-value store on chains; %D% is this directory

# What all have that is stored on chains, and this store's clients.
noinst_LTLIBRARIES += libkv.la
libkv_la_SOURCES = \
	%D%/kv.c %D%/kv.h \
	%D%/kv_chain.h \
	%D%/kv_client.c %D%/kv_client.h \
	%D%/kv_link.c \
	%D%/kv_put.c \
	%D%/kv_store.c %D%/kv_store.h \
	%D%/kv_target.c %D%/kv_target.h
libkv_la_CFLAGS = $(AM_CFLAGS) $(PMEM2_CFLAGS) $(XXHASH_CFLAGS)
kv_libraries = libkv.la libcommon.la libconnection.la

bin_PROGRAMS += fi_pmem_kv
fi_pmem_kv_SOURCES = \
	%D%/fi_pmem_kv.c \
	%D%/kv_bench.c \
	%D%/kv_layout.c \
	%D%/kv_rpc.c %D%/kv_rpc.h \
	%D%/kv_run.h \
	%D%/kv_soak.c
fi_pmem_kv_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
fi_pmem_kv_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) -pthread
fi_pmem_kv_LDADD = $(kv_libraries) libpmemrpc.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS) \
	-lm

noinst_PROGRAMS += kv_race
kv_race_SOURCES = %D%/kv_race.c
kv_race_LDADD = $(kv_libraries) $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS)

EXTRA_DIST += %D%/README.md %D%/history.awk %D%/kv-test %D%/list_run.c %D%/soak.sh
