# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the functional program; %D% is this directory

bin_PROGRAMS += fi_pmem_functional
fi_pmem_functional_SOURCES = \
	%D%/cases_agent.c \
	%D%/cases_agent_waits.c \
	%D%/cases_calls.c \
	%D%/cases_chain.c \
	%D%/cases_completion.c \
	%D%/cases_crowd.c \
	%D%/cases_data.c \
	%D%/cases_domain.c \
	%D%/cases_error.c \
	%D%/cases_event.c \
	%D%/cases_file.c \
	%D%/cases_flush.c \
	%D%/cases_gone.c \
	%D%/cases_hostile.c \
	%D%/cases_loss.c \
	%D%/cases_message.c \
	%D%/cases_mix.c \
	%D%/cases_order.c \
	%D%/cases_sharing.c \
	%D%/cases_stranger.c \
	%D%/cases_wait.c \
	%D%/fi_pmem_functional.c \
	%D%/functional.h \
	%D%/hostile.c %D%/hostile.h \
	%D%/hostile_hellos.c \
	%D%/initiator.c \
	%D%/links.c \
	%D%/operations.c \
	%D%/raw_peer.c %D%/raw_peer.h \
	%D%/spoil.c %D%/spoil.h \
	%D%/target.c %D%/target.h \
	%D%/target_memory.c \
	prov/pmemverbs/base/setting.h \
	prov/pmemverbs/agent/flush_message.h \
	prov/testcore/message.h
fi_pmem_functional_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/prov/pmemverbs -I$(srcdir)/prov
fi_pmem_functional_CFLAGS = $(AM_CFLAGS) $(SODIUM_CFLAGS) -pthread
fi_pmem_functional_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS) $(SODIUM_LIBS)
