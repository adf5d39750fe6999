# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the fuzzers; %D% is this directory
#
# They are libFuzzer's, not AFL++'s: it is a part of clang, runs the inputs in one process, a
# millisecond each, looks for leaks after each, and does the same again with the same seed.

fuzzers = fuzz_ack fuzz_chain fuzz_connect fuzz_hint fuzz_request fuzz_ticket
EXTRA_PROGRAMS += $(fuzzers) fuzz_seeds

# As libtesting.la, but without Criterion, which has a main function of its own.
EXTRA_LTLIBRARIES = libfuzzing.la
libfuzzing_la_SOURCES = $(testcore_sources) \
	%D%/criterion/criterion.h \
	%D%/input.h \
	%D%/peer.c %D%/peer.h \
	prov/pmemverbs/test/support/fake_core.c prov/pmemverbs/test/support/fake_core.h \
	prov/pmemverbs/test/support/fake_eq.c \
	prov/pmemverbs/test/support/fake_impl.h \
	prov/pmemverbs/test/support/fake_objects.c \
	prov/pmemverbs/test/support/pair.c prov/pmemverbs/test/support/pair.h \
	prov/pmemverbs/test/support/rig.c prov/pmemverbs/test/support/rig.h
libfuzzing_la_CPPFLAGS = $(fuzz_cppflags)
libfuzzing_la_CFLAGS = $(fuzz_cflags)

# Small memories are made, and compared, faster.
fuzz_cppflags = -I$(top_srcdir)/%D% -DPAIR_SIZE=8192 $(AM_CPPFLAGS)
# libFuzzer looks for new paths in the provider, not in what is around it.
fuzz_cflags = $(AM_CFLAGS) $(SODIUM_CFLAGS) -fno-sanitize=fuzzer-no-link
fuzz_ldflags = -fsanitize=fuzzer,address,undefined
fuzz_ldadd = libfuzzing.la libprovider.la $(LIBFABRIC_LIBS) -lpthread

fuzz_ack_SOURCES = %D%/fuzz_ack.c
fuzz_ack_CPPFLAGS = $(fuzz_cppflags)
fuzz_ack_CFLAGS = $(fuzz_cflags)
fuzz_ack_LDFLAGS = $(fuzz_ldflags)
fuzz_ack_LDADD = $(fuzz_ldadd)
fuzz_chain_SOURCES = %D%/fuzz_chain.c
fuzz_chain_CPPFLAGS = $(fuzz_cppflags)
fuzz_chain_CFLAGS = $(fuzz_cflags)
fuzz_chain_LDFLAGS = $(fuzz_ldflags)
fuzz_chain_LDADD = $(fuzz_ldadd)
fuzz_connect_SOURCES = %D%/fuzz_connect.c
fuzz_connect_CPPFLAGS = $(fuzz_cppflags)
fuzz_connect_CFLAGS = $(fuzz_cflags)
fuzz_connect_LDFLAGS = $(fuzz_ldflags)
fuzz_connect_LDADD = $(fuzz_ldadd)
fuzz_hint_SOURCES = %D%/fuzz_hint.c
fuzz_hint_CPPFLAGS = $(fuzz_cppflags)
fuzz_hint_CFLAGS = $(fuzz_cflags)
fuzz_hint_LDFLAGS = $(fuzz_ldflags)
fuzz_hint_LDADD = $(fuzz_ldadd)
fuzz_request_SOURCES = %D%/fuzz_request.c
fuzz_request_CPPFLAGS = $(fuzz_cppflags)
fuzz_request_CFLAGS = $(fuzz_cflags)
fuzz_request_LDFLAGS = $(fuzz_ldflags)
fuzz_request_LDADD = $(fuzz_ldadd)

fuzz_ticket_SOURCES = %D%/fuzz_ticket.c $(key_dirs_sources)
fuzz_ticket_CPPFLAGS = $(fuzz_cppflags)
fuzz_ticket_CFLAGS = $(fuzz_cflags)
fuzz_ticket_LDFLAGS = $(fuzz_ldflags)
fuzz_ticket_LDADD = $(fuzz_ldadd) $(SODIUM_LIBS)

fuzz_seeds_SOURCES = %D%/fuzz_seeds.c
fuzz_seeds_CPPFLAGS = $(fuzz_cppflags)
fuzz_seeds_CFLAGS = $(fuzz_cflags)
fuzz_seeds_LDADD = $(fuzz_ldadd)

fuzzers: $(EXTRA_PROGRAMS)
.PHONY: fuzzers
