# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- transactions by chains; %D% is this directory

noinst_LTLIBRARIES += libtx.la
libtx_la_SOURCES = \
	%D%/tx.c %D%/tx.h \
	%D%/tx_chain.c %D%/tx_chain.h \
	%D%/tx_client.c %D%/tx_client.h
libtx_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
tx_libraries = libtx.la $(rs_libraries)

bin_PROGRAMS += fi_pmem_tx
fi_pmem_tx_SOURCES = \
	%D%/fi_pmem_tx.c \
	%D%/tx_bench.c \
	%D%/tx_farm.c %D%/tx_farm.h \
	%D%/tx_farm_server.c \
	%D%/tx_run.h \
	%D%/tx_soak.c
fi_pmem_tx_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/rpc/lib
fi_pmem_tx_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) -pthread
fi_pmem_tx_LDADD = $(tx_libraries) libpmemrpc.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS) \
	-lm

noinst_PROGRAMS += tx_judge tx_race
tx_judge_SOURCES = fabtests/kv/history_lines.c fabtests/kv/history_lines.h \
	%D%/tx_history.c %D%/tx_history.h %D%/tx_judge.c
tx_race_SOURCES = %D%/tx_race.c
tx_race_LDADD = $(tx_libraries) $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS)

EXTRA_DIST += %D%/README.md %D%/tx-test
