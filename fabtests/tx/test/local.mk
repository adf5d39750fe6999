# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests of transactions; %D% is this directory

TESTS += test_tx test_tx_chain test_tx_history
check_PROGRAMS += test_tx test_tx_chain test_tx_history
test_tx_SOURCES = %D%/test_tx.c \
	fabtests/kv/kv_store.c fabtests/kv/kv_store.h \
	fabtests/rs/rs.c fabtests/rs/rs.h \
	fabtests/tx/tx.c fabtests/tx/tx.h
test_tx_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/fabtests
test_tx_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
test_tx_LDADD = $(CRITERION_LIBS) $(XXHASH_LIBS)

test_tx_chain_SOURCES = %D%/test_tx_chain.c \
	fabtests/tx/tx_chain.c fabtests/tx/tx_chain.h
test_tx_chain_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/fabtests
test_tx_chain_LDADD = $(CRITERION_LIBS)

test_tx_history_SOURCES = %D%/test_tx_history.c \
	fabtests/tx/tx_history.c fabtests/tx/tx_history.h
test_tx_history_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/fabtests
test_tx_history_LDADD = $(CRITERION_LIBS)
