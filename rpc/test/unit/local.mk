# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the unit tests of libpmemrpc; %D% is this directory

TESTS += test_rpc_log
check_PROGRAMS += test_rpc_log
test_rpc_log_SOURCES = \
	%D%/cut.c %D%/cut.h \
	%D%/log_client.c \
	%D%/log_server.c \
	%D%/log_world.h \
	%D%/test_rpc_commit.c \
	%D%/test_rpc_formats.c \
	%D%/test_rpc_log.c \
	%D%/test_rpc_reads.c \
	%D%/test_rpc_store.c \
	prov/pmemverbs/test/support/criterion_tsan.c
test_rpc_log_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
test_rpc_log_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
# The checks are left out on purpose there.
test_rpc_log_LDFLAGS = -Wl,--wrap=rpc_checksum,--wrap=rpc_journal_checksum
test_rpc_log_LDADD = librpc.la $(CRITERION_LIBS) $(XXHASH_LIBS)

TESTS += test_rpc_flow
check_PROGRAMS += test_rpc_flow
test_rpc_flow_SOURCES = %D%/test_rpc_flow.c prov/pmemverbs/test/support/criterion_tsan.c
test_rpc_flow_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
test_rpc_flow_LDADD = librpc.la $(CRITERION_LIBS)

TESTS += test_rpc_pmem
check_PROGRAMS += test_rpc_pmem
test_rpc_pmem_SOURCES = %D%/test_rpc_pmem.c
test_rpc_pmem_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
test_rpc_pmem_CFLAGS = $(AM_CFLAGS) $(PMEM2_CFLAGS)
test_rpc_pmem_LDFLAGS = -Wl,--wrap=fsync
test_rpc_pmem_LDADD = librpc.la $(CRITERION_LIBS)

TESTS += test_rpc_kv
check_PROGRAMS += test_rpc_kv
test_rpc_kv_SOURCES = %D%/test_rpc_kv.c rpc/programs/kv.c rpc/programs/kv.h
test_rpc_kv_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
test_rpc_kv_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
test_rpc_kv_LDADD = $(CRITERION_LIBS) $(XXHASH_LIBS)

# The library over a network that does what a test says.
rpc_net_sources = $(testcore_sources) prov/pmemverbs/test/support/criterion_tsan.c \
	rpc/fuzz/net.c rpc/fuzz/net.h rpc/fuzz/net_events.c rpc/fuzz/net_objects.h
rpc_net_wraps = -Wl,--wrap=fi_getinfo,--wrap=fi_fabric

TESTS += test_rpc_client
check_PROGRAMS += test_rpc_client
test_rpc_client_SOURCES = %D%/client_world.c %D%/client_world.h %D%/test_rpc_client.c %D%/test_rpc_reconnect.c \
	$(rpc_net_sources)
test_rpc_client_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
test_rpc_client_LDFLAGS = $(rpc_net_wraps),--wrap=rpc_now_ms,--wrap=usleep
test_rpc_client_LDADD = librpc.la $(CRITERION_LIBS) $(LIBFABRIC_LIBS)

TESTS += test_rpc_session
check_PROGRAMS += test_rpc_session
test_rpc_session_SOURCES = %D%/test_rpc_session.c %D%/test_rpc_begun.c %D%/session_world.c %D%/session_world.h \
	$(rpc_net_sources)
test_rpc_session_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
test_rpc_session_LDFLAGS = $(rpc_net_wraps),--wrap=rpc_now_ms,--wrap=rpc_pmem_open,--wrap=rpc_pmem_close
test_rpc_session_LDADD = librpc.la $(CRITERION_LIBS) $(LIBFABRIC_LIBS)
