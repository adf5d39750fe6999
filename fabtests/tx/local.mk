# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- transactions by chains; %D% is this directory

tx_client_sources = $(kv_link_sources) \
	fabtests/kv/kv_store.c fabtests/kv/kv_store.h \
	fabtests/rs/rs.c fabtests/rs/rs.h \
	%D%/tx.c %D%/tx.h \
	%D%/tx_chain.c %D%/tx_chain.h \
	%D%/tx_client.c %D%/tx_client.h

bin_PROGRAMS += fi_pmem_tx
fi_pmem_tx_SOURCES = $(tx_client_sources) \
	fabtests/kv/kv_target.c fabtests/kv/kv_target.h \
	%D%/fi_pmem_tx.c \
	%D%/tx_bench.c \
	%D%/tx_farm.c %D%/tx_farm.h \
	%D%/tx_farm_server.c \
	%D%/tx_run.h \
	%D%/tx_soak.c \
	fabtests/common/turns.c fabtests/common/turns.h \
	prov/pmemverbs/agent/flush.c prov/pmemverbs/agent/flush.h \
	rpc/bench/random.c rpc/bench/random.h
fi_pmem_tx_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/prov/pmemverbs \
	-I$(srcdir)/rpc -I$(srcdir)/rpc/lib
fi_pmem_tx_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) -pthread
fi_pmem_tx_LDADD = libcommon.la libconnection.la libpmemrpc.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS) \
	-lm

noinst_PROGRAMS += tx_judge tx_race
tx_judge_SOURCES = fabtests/kv/history_lines.c fabtests/kv/history_lines.h \
	%D%/tx_history.c %D%/tx_history.h %D%/tx_judge.c
tx_race_SOURCES = $(tx_client_sources) %D%/tx_race.c
tx_race_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
tx_race_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS) $(XXHASH_LIBS)

EXTRA_DIST += %D%/README.md %D%/tx-test
