# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- a key-value store on chains; %D% is this directory

# a connection, for all that is stored on chains
kv_link_sources = \
	%D%/kv.h \
	%D%/kv_chain.h \
	%D%/kv_client.h \
	%D%/kv_link.c

kv_client_sources = $(kv_link_sources) \
	%D%/kv.c \
	%D%/kv_client.c \
	%D%/kv_put.c

bin_PROGRAMS += fi_pmem_kv
fi_pmem_kv_SOURCES = $(kv_client_sources) \
	%D%/fi_pmem_kv.c \
	%D%/kv_bench.c \
	%D%/kv_layout.c \
	%D%/kv_rpc.c %D%/kv_rpc.h \
	%D%/kv_run.h \
	%D%/kv_soak.c \
	%D%/kv_store.c %D%/kv_store.h \
	%D%/kv_target.c %D%/kv_target.h \
	prov/pmemverbs/agent/flush.c prov/pmemverbs/agent/flush.h \
	rpc/bench/random.c rpc/bench/random.h
fi_pmem_kv_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/prov/pmemverbs \
	-I$(srcdir)/rpc -I$(srcdir)/rpc/lib
fi_pmem_kv_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) -pthread
fi_pmem_kv_LDADD = libcommon.la libconnection.la libpmemrpc.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS) \
	-lm

noinst_PROGRAMS += kv_race
kv_race_SOURCES = $(kv_client_sources) %D%/kv_race.c
kv_race_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
kv_race_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS) $(XXHASH_LIBS)

EXTRA_DIST += %D%/history.awk %D%/kv-test %D%/list_run.c %D%/soak.sh
